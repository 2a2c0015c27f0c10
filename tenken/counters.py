"""Counters of network ports and PCIe devices from sysfs, and their changes between two readings. The whole suite uses
this module, which needs the standard library alone.

    python3 counters.py line WHEN      one line TENKEN-PORT per port of this node, by one of the node's ranks

A counter that is missing, was reset in between, or is at its maximum is unknown (None), never 0. The classic counters
of InfiniBand ports stop at their maximum (InfiniBand Architecture Specification 1.4, 16.1.3.5, PortCounters), but many
drivers read them from wider registers. A value therefore counts as saturated only at exactly the largest value of its
width, those of traffic at that of 32 bits. All others are 64 bits wide; they would wrap, but not within a node's life.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

#: What a rise means: FAULT: each is a fault of cable, transceiver, port or firmware; BER: uncorrected bits, a fault
#: above MAX_BER; NOTED: congestion and retransmissions, which a healthy fabric has too.
FAULT, BER, NOTED = "fault", "ber", "noted"
#: Maximum bit error rate of every link (InfiniBand Architecture Specification, volume 2).
MAX_BER = 1e-12
#: Share by which the bytes of the ports may differ from those of the messages, and the most that headers,
#: acknowledgements and the end of a packet add to a message.
PATH, HEADER_BYTES = 0.10, 256
#: Key of the changes in the facts of a record's job.
FACT = "ports"


@dataclass(frozen=True)
class Counter:
    """An error counter: its folder, its width in bits if it stops at its maximum (None: 64 bits, which wrap), what a
    rise means, and what it counts."""

    source: str
    bits: int | None
    rise: str
    meaning: str


#: InfiniBand, RoCE and EFA: `counters`, then `hw_counters` (linux, Documentation/ABI/stable/sysfs-class-infiniband and
#: drivers); Ethernet: `statistics`; Slingshot: `telemetry`, each file of which reads `value@seconds.nanoseconds`.
COUNTERS: Mapping[str, Counter] = {
    "symbol_error": Counter("counters", 16, BER, "symbols that error correction did not repair"),
    "link_error_recovery": Counter("counters", 8, FAULT, "times that the link retrained by itself"),
    "link_downed": Counter("counters", 8, FAULT, "times that the link went down"),
    "port_rcv_errors": Counter("counters", 16, FAULT, "packets received with errors"),
    "port_rcv_remote_physical_errors": Counter("counters", 16, NOTED, "packets that an upstream switch marked bad"),
    "port_rcv_switch_relay_errors": Counter("counters", 16, NOTED, "packets that a switch could not forward"),
    "port_xmit_discards": Counter("counters", 16, NOTED, "packets dropped because of congestion or a down link"),
    "port_xmit_constraint_errors": Counter("counters", 8, NOTED, "packets not sent because of a partition or filter"),
    "port_rcv_constraint_errors": Counter("counters", 8, NOTED, "packets refused because of a partition or filter"),
    "local_link_integrity_errors": Counter("counters", 4, FAULT, "errors of the link above its threshold"),
    "excessive_buffer_overrun_errors": Counter("counters", 4, FAULT, "flow control that failed repeatedly"),
    "VL15_dropped": Counter("counters", 16, NOTED, "management packets dropped"),
    "hw.local_ack_timeout_err": Counter("hw_counters", None, NOTED, "acknowledgements that did not come in time"),
    "hw.rnr_nak_retry_err": Counter("hw_counters", None, NOTED, "receivers not ready"),
    "hw.req_cqe_error": Counter("hw_counters", None, NOTED, "requests completed with an error"),
    "hw.resp_cqe_error": Counter("hw_counters", None, NOTED, "responses completed with an error"),
    "hw.req_remote_access_errors": Counter("hw_counters", None, NOTED, "requests refused by the other end"),
    "hw.roce_adp_retrans": Counter("hw_counters", None, NOTED, "adaptive retransmissions"),
    "hw.rx_icrc_encapsulated": Counter("hw_counters", None, FAULT, "RoCE packets with a wrong checksum"),
    "hw.link_downed": Counter("hw_counters", None, FAULT, "times that the link went down"),
    "hw.retrans_pkts": Counter("hw_counters", None, NOTED, "packets sent again"),
    "hw.unresponsive_remote_events": Counter("hw_counters", None, NOTED, "connections whose other end did not answer"),
    "hw.impaired_remote_conn_events": Counter("hw_counters", None, NOTED, "connections whose rate was limited"),
    "rx_crc_errors": Counter("statistics", None, FAULT, "frames with a wrong checksum"),
    "rx_frame_errors": Counter("statistics", None, FAULT, "frames out of alignment"),
    "rx_length_errors": Counter("statistics", None, NOTED, "frames of a wrong length"),
    "tx_carrier_errors": Counter("statistics", None, FAULT, "frames not sent for lack of a carrier"),
    "tx_aborted_errors": Counter("statistics", None, NOTED, "frames given up"),
    "carrier_down_count": Counter("", None, FAULT, "times that the link went down"),
    "hni_pcs_uncorrected_cw": Counter("telemetry", None, FAULT, "code words that error correction could not repair"),
    "hni_llr_tx_replay_event": Counter("telemetry", None, NOTED, "resent by the link"),
    "hni_llr_rx_replay_event": Counter("telemetry", None, NOTED, "requested again from the other end"),
}  # fmt: skip
#: Bits of the counters that stop at their maximum.
SATURATING = {name: one.bits for name, one in COUNTERS.items() if one.bits is not None}
HARDWARE = tuple(name[3:] for name, one in COUNTERS.items() if one.source == "hw_counters")
ETHERNET = tuple(name for name, one in COUNTERS.items() if one.source == "statistics")
CXI = tuple(name for name, one in COUNTERS.items() if one.source == "telemetry")
#: Traffic of a port: files by name, with the factor to the unit of the name.
TRAFFIC = {
    "infiniband": {
        "sent_bytes": ("counters/port_xmit_data", 4),
        "received_bytes": ("counters/port_rcv_data", 4),
        # ticks with data but without credit; their length depends on the adapter
        "wait_ticks": ("counters/port_xmit_wait", 1),
    },
    "efa": {"sent_bytes": ("hw_counters/tx_bytes", 1), "received_bytes": ("hw_counters/rx_bytes", 1)},
    "ethernet": {"sent_bytes": ("statistics/tx_bytes", 1), "received_bytes": ("statistics/rx_bytes", 1)},
    "cxi": {
        "sent_bytes": ("telemetry/hni_sts_tx_ok_octets", 1),
        "received_bytes": ("telemetry/hni_sts_rx_ok_octets", 1),
        "corrected_words": ("telemetry/hni_pcs_corrected_cw", 1),
    },
}
#: Where PortXmitWait stops, and traffic on adapters without the extended counters: the largest value of 32 bits.
_FULL = 2**32 - 1
#: Files of a PCIe device whose last line is the total of its errors.
AER = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}
#: Drivers of PCI devices that are handed to a guest (KVM, Xen), as they begin. The virtual functions of a GPU have
#: NVIDIA's own driver instead.
GUESTS = ("vfio", "pci-stub", "pciback")

#: PCI vendor of the Elastic Fabric Adapter. The kernel names none of the two link layers for it.
AMAZON = "0x1d0f"

Counters = dict[str, "int | None"]


@dataclass(frozen=True)
class Port:
    """One port of a network adapter."""

    name: str
    """`mlx5_0/1`, `eth0`, `cxi0`."""
    kind: str
    """infiniband, roce, efa, ethernet or cxi."""
    up: bool | None
    gbit_s: float | None
    """Rate of the link as negotiated."""
    counters: Counters = field(default_factory=dict)
    """Errors, by the names of COUNTERS."""
    traffic: Counters = field(default_factory=dict)
    """By the names of TRAFFIC."""


def text(file: Path) -> str | None:
    """A small file of /proc or /sys; None if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(1 << 20).decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return None


def number(file: Path) -> int | None:
    """A file with one whole number; None for everything else."""
    content = text(file)
    try:
        return int((content or "").split("@")[0], 0)
    except ValueError:
        return None


def names(folder: Path) -> list[str]:
    """The contents of a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def value(name: str, read: int | None) -> int | None:
    """A reading; None at the maximum of its width, since the true number is unknown."""
    bits = SATURATING.get(name.rpartition(".")[2])
    return None if read is None or read < 0 or (bits is not None and read == 2**bits - 1) else read


def change(before: int | None, after: int | None) -> int | None:
    """The increase of a counter between two readings; None if one is unknown, or it was reset in between."""
    return None if before is None or after is None or after < before else after - before


def changes(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> Counters:
    """The same for all counters of `after`; a new one is unknown."""
    return {name: change(before.get(name), read) for name, read in after.items()}


def ports(root: Path = Path("/")) -> list[Port]:
    """All ports of the node except loopback and virtual interfaces, by kind and name."""
    return [*_rdma(root), *_ethernet(root), *_cxi(root)]


def _rdma(root: Path) -> list[Port]:
    found = []
    top = root / "sys/class/infiniband"
    for device in names(top):
        for port in names(top / device / "ports"):
            at = top / device / "ports" / port
            state = text(at / "state")
            rate = (text(at / "rate") or "").split()
            kind = "efa" if text(top / device / "device/vendor") == AMAZON else "infiniband"
            kind = "roce" if text(at / "link_layer") == "Ethernet" else kind
            # an EFA has none of the classic counters
            classic = () if kind == "efa" else SATURATING
            counters: Counters = {n: value(n, number(at / "counters" / n)) for n in classic}
            present = set(names(at / "hw_counters"))
            counters |= {f"hw.{n}": number(at / "hw_counters" / n) for n in HARDWARE if n in present}
            found.append(
                Port(
                    f"{device}/{port}",
                    kind,
                    _active(state),
                    _rate(rate[0] if rate else None),
                    counters,
                    _traffic("efa" if kind == "efa" else "infiniband", at),
                )
            )
    return found


def _traffic(kind: str, at: Path) -> Counters:
    read = {name: (number(at / file), factor) for name, (file, factor) in TRAFFIC[kind].items()}
    return {name: None if value is None or value == _FULL else value * factor for name, (value, factor) in read.items()}


def _active(state: str | None) -> bool | None:
    """From `4: ACTIVE`."""
    return None if not state or not state[0].isdigit() else state.startswith("4:")


def _rate(words: str | None, unit: float = 1.0) -> float | None:
    try:
        rate = float(words or "") * unit
    except ValueError:
        return None
    return rate if rate > 0 else None


def _ethernet(root: Path) -> list[Port]:
    found = []
    top = root / "sys/class/net"
    for name in names(top):
        # type 1: Ethernet; without a device behind it, it is a bridge, a tunnel or one end of a veth pair
        if text(top / name / "type") != "1" or not (top / name / "device").exists():
            continue
        counters: Counters = {n: number(top / name / "statistics" / n) for n in ETHERNET}
        counters["carrier_down_count"] = number(top / name / "carrier_down_count")
        state = text(top / name / "operstate")
        up = None if state in (None, "unknown") else state == "up"
        found.append(
            Port(
                name,
                "ethernet",
                up,
                _rate(text(top / name / "speed"), 1e-3),
                counters,
                _traffic("ethernet", top / name),
            )
        )
    return found


def _cxi(root: Path) -> list[Port]:
    found = []
    top = root / "sys/class/cxi"
    for name in names(top):
        at = top / name / "device"
        state = text(at / "port/link")
        speed = (text(at / "port/speed") or "").split("_")  # BS_200G
        gbit = _rate(speed[1].rstrip("G")) if len(speed) > 1 else None
        counters: Counters = {n: number(at / "telemetry" / n) for n in CXI}
        found.append(
            Port(name, "cxi", None if state is None else state in ("1", "up"), gbit, counters, _traffic("cxi", at))
        )
    return found


def aer(bus: str, root: Path = Path("/")) -> Counters:
    """PCIe errors (Advanced Error Reporting) of a device by severity; unknown if the kernel has no AER."""
    result: Counters = {}
    for severity, total in AER.items():
        lines = dict(
            line.rsplit(None, 1)
            for line in (text(root / "sys/bus/pci/devices" / bus / f"aer_dev_{severity}") or "").splitlines()
            if len(line.split()) == 2
        )
        result[severity] = int(lines[total]) if lines.get(total, "").isdigit() else None
    return result


# ---- optics and error correction ---------------------------------------------------------------------------------

#: What mlxlink -m -c (NVIDIA's MFT) prints, by the name kept. A value may be followed by its module's own limits, `54
#: [-5..75]`, and there may be one for each lane. Error rates are since the counters were last cleared; 15E-255 means
#: none.
OPTICS = {
    "effective_ber": "Effective Physical BER", "effective_errors": "Effective Physical Errors",
    "raw_ber": "Raw Physical BER", "raw_errors": "Raw Physical Errors Per Lane",
    "temperature_c": "Temperature [C]", "rx_dbm": "Rx Power Current [dBm]", "tx_dbm": "Tx Power Current [dBm]",
}  # fmt: skip
#: Seconds of mlxlink for all ports of a node.
_OPTICS_S = 20.0
_MODULE = ("temperature_c", "rx_dbm", "tx_dbm")


def optics_of(output: str) -> dict[str, str]:
    """The values of OPTICS in the output of mlxlink, without spaces. Left out: N/A, and 0 with limits of 0 (a passive
    cable)."""
    printed = {}
    for line in output.splitlines():
        name, _, said = re.sub(r"\x1b\[[0-9;]*m", "", line).partition(" : ")
        printed[name.strip()] = "".join(said.split())
    found = {name: printed[text] for name, text in OPTICS.items() if printed.get(text, "N/A") not in ("", "N/A")}
    return {name: said for name, said in found.items() if not said.endswith("[0..0]")}


def read_optics(names: Iterable[str]) -> tuple[dict[str, dict[str, str]], str]:
    """By port (`mlx5_0/1`): what mlxlink shows of its optics and error rates, or `why` it does not; or why nothing was
    read."""
    tool = shutil.which("mlxlink", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin")
    if tool is None:
        return {}, "mlxlink is not installed"
    if os.geteuid():
        return {}, "mlxlink requires root"
    running = {}
    for name in names:
        device, _, port = name.partition("/")
        running[name] = subprocess.Popen(
            [tool, "-d", device, "-p", port or "1", "-m", "-c"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, text=True, errors="replace",
        )  # fmt: skip
    found, until = {}, time.monotonic() + _OPTICS_S
    for name, process in running.items():
        try:
            output, _ = process.communicate(timeout=max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            found[name] = {"why": f"mlxlink_gave_no_answer_within_{_OPTICS_S:g}_s"}
            continue
        if said := optics_of(output):
            found[name] = said
    return found, "" if found else "mlxlink shows none"


def _numbers_of(said: str) -> tuple[list[float], tuple[float, float] | None]:
    """Values by lane, and the module's limits."""
    values, _, limits = said.partition("[")
    try:
        low, _, high = limits.rstrip("]").partition("..")
        return [float(one) for one in values.split(",")], (float(low), float(high)) if limits else None
    except ValueError:
        return [], None


# ---- readings of a job: before and after a measurement -------------------------------------------------------------

#: When a job reads: at rest; before its command, so that the difference is the idle baseline; and after it.
IDLE, BEFORE, AFTER = "idle", "before", "after"
_MARK = "TENKEN-PORT"
#: Printed by a job script if no rank could read them.
UNREAD = "TENKEN-PORTS-UNREAD"
#: The number of a rank among those of its node, by launcher.
_LOCAL_RANK = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID")


def lines(when: str, root: Path = Path("/")) -> list[str]:
    """One line in the job's output for each port that is not known to be down; `?` is unknown."""
    found = []
    up = [port for port in ports(root) if port.up is not False]
    fibres = [port.name for port in up if port.kind in ("infiniband", "roce")]
    optics, why = read_optics(fibres) if fibres and when == AFTER else ({}, "")
    for port in up:
        numbers = {**{f"e.{n}": v for n, v in port.counters.items()}, **{f"t.{n}": v for n, v in port.traffic.items()}}
        words = " ".join(f"{name}={'?' if value is None else value}" for name, value in numbers.items())
        if port.name in fibres and when == AFTER:
            seen = optics.get(port.name) or {"why": why.replace(" ", "_") or "mlxlink_shows_none"}
            words += "".join(f" o.{name}={said}" for name, said in seen.items())
        rate = "?" if port.gbit_s is None else f"{port.gbit_s:g}"
        found.append(
            f"{_MARK} when={when} node={os.uname().nodename} port={port.name} kind={port.kind} gbit_s={rate} "
            f"time={time.time():.3f} {words}"
        )
    return found


@dataclass(frozen=True)
class Change:
    """Counts of a port while a command ran, minus those at rest over the same time (`traffic`); None: unknown. `idle`:
    errors that already rose at rest."""

    node: str
    port: str
    kind: str
    gbit_s: float | None
    seconds: float
    errors: Counters
    traffic: Counters
    idle: Counters = field(default_factory=dict)
    #: By the names of OPTICS as mlxlink prints them; or `why`, the reason for their absence.
    optics: Mapping[str, str] = field(default_factory=dict)

    @property
    def bit_error_rate(self) -> float | None:
        """Effective bit error rate, after error correction: symbol errors over the bits that the link carried in this
        time, including idle patterns. None: unknown. Repaired errors are not included."""
        errors = self.errors.get("symbol_error")
        if errors is None or self.gbit_s is None or self.seconds <= 0:
            return None
        return errors / (self.gbit_s * 1e9 * self.seconds)

    def faults(self) -> list[str]:
        """Errors that name this port: `link_downed 2 (times that the link went down)`."""
        found = []
        for name, rise in self.errors.items():
            known = COUNTERS.get(name)
            if not rise or known is None or known.rise == NOTED:
                continue
            said = f"{name} {rise} ({known.meaning})"
            if known.rise == BER:
                rate = self.bit_error_rate
                if rate is not None and rate <= MAX_BER:
                    continue
                said += "" if rate is None else f", a bit error rate of {rate:.1e}, allowed {MAX_BER:g}"
            found.append(said + (", at rest too" if self.idle.get(name) else ""))
        effective = max(_numbers_of(self.optics.get("effective_ber", ""))[0], default=0.0)
        if effective > MAX_BER:
            found.append(f"an effective bit error rate of {effective:.1e} since it was cleared, allowed {MAX_BER:g}")
        for name in _MODULE:
            values, limits = _numbers_of(self.optics.get(name, ""))
            if limits and any(not limits[0] <= one <= limits[1] for one in values):
                found.append(f"{OPTICS[name]} {self.optics[name]}: outside of the module's limits")
        return found

    def unknown(self) -> list[str]:
        """Counters that exist but say nothing: saturated, or reset in between."""
        return sorted(name for name, rise in self.errors.items() if rise is None and COUNTERS[name].rise != NOTED)

    def as_json(self) -> dict[str, object]:
        """Leaves out errors that did not rise."""
        return {**vars(self), "errors": {name: rise for name, rise in self.errors.items() if rise != 0}}


def changes_of(text: Iterable[str]) -> list[Change]:
    """The changes of each port between the lines of `before` and `after` in a job's output."""
    read: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for line in text:
        words = line.split()
        if not words or words[0] != _MARK:
            continue
        pairs = dict(word.partition("=")[::2] for word in words[1:])
        if {"when", "node", "port", "kind", "time"} <= set(pairs):
            read.setdefault((pairs["node"], pairs["port"]), {})[pairs["when"]] = pairs
    found = []
    for (node, port), at in sorted(read.items()):
        if BEFORE not in at or AFTER not in at:
            continue
        rest = (_numbers(at[IDLE]), _numbers(at[BEFORE])) if IDLE in at else None
        before, after = _numbers(at[BEFORE]), _numbers(at[AFTER])
        seconds = _time(at[AFTER]) - _time(at[BEFORE])
        idle = changes(*rest) if rest else {}
        quiet = _time(at[BEFORE]) - _time(at[IDLE]) if rest else 0.0
        rise = changes(before, after)
        errors = {n[2:]: v for n, v in rise.items() if n.startswith("e.") and n[2:] in COUNTERS and n in before}
        traffic = {
            n[2:]: None if v is None else max(0, v - round((idle.get(n) or 0) * seconds / quiet)) if quiet > 0 else v
            for n, v in rise.items() if n.startswith("t.")
        }  # fmt: skip
        rate = at[AFTER].get("gbit_s", "?")
        found.append(
            Change(
                node, port, at[AFTER]["kind"], _rate(None if rate == "?" else rate), seconds, errors, traffic,
                {n[2:]: v for n, v in idle.items() if n.startswith("e.") and v},
                {n[2:]: said for n, said in at[AFTER].items() if n.startswith("o.")},
            )
        )  # fmt: skip
    return found


def since(text: Iterable[str]) -> list[Change]:
    """The changes of each port over several jobs, from the first reading before a command to the last one after. A
    counter that was lower in between was reset: unknown."""
    read: dict[tuple[str, str], list[tuple[float, dict[str, str]]]] = {}
    for line in text:
        words = line.split()
        pairs = dict(word.partition("=")[::2] for word in words[1:]) if words[:1] == [_MARK] else {}
        if {"node", "port", "kind", "time"} <= set(pairs) and pairs.get("when") in (BEFORE, AFTER):
            read.setdefault((pairs["node"], pairs["port"]), []).append((_time(pairs), pairs))
    found = []
    for (node, port), readings in sorted(read.items()):
        readings.sort(key=lambda one: one[0])
        numbers = [_numbers(pairs) for _, pairs in readings]
        total: Counters = dict.fromkeys(numbers[0], 0)
        for before, after in pairwise(numbers):
            for name, rise in changes(before, after).items():
                known = total.get(name)
                total[name] = None if rise is None or known is None else known + rise
        (first, _), (last, pairs) = readings[0], readings[-1]
        errors = {n[2:]: v for n, v in total.items() if n.startswith("e.") and n[2:] in COUNTERS}
        traffic = {n[2:]: v for n, v in total.items() if n.startswith("t.")}
        rate = pairs.get("gbit_s", "?")
        gbit_s = _rate(None if rate == "?" else rate)
        if len(readings) > 1:
            found.append(Change(node, port, pairs["kind"], gbit_s, last - first, errors, traffic))
    return found


def read(facts: Mapping[str, object]) -> list[Change]:
    """The changes stored in the facts of a record's job; what Change.as_json() did not write is left out."""
    found, kept = [], facts.get(FACT)
    for one in kept if isinstance(kept, list) else []:
        with contextlib.suppress(TypeError):
            found.append(Change(**one))
    return found


def below(changes: Iterable[Change], kind: str, rails: int | None, gbit_s: float | None) -> list[str]:
    """Nodes with fewer ports, or slower ones, than the system file's fabric; ports of unknown rate do not count as
    slower."""
    found: list[str] = []
    seen: dict[str, set[str]] = {}
    for one in changes:
        if one.kind != kind:
            continue
        new = one.port not in seen.setdefault(one.node, set())
        seen[one.node].add(one.port)
        if new and gbit_s and one.gbit_s is not None and one.gbit_s < gbit_s:
            found.append(f"{one.node}: port {one.port}: {one.gbit_s:g} Gbit/s, the system file states {gbit_s:g}")
    for node, up in seen.items():
        if rails is not None and len(up) < rails:
            found.append(f"{node}: {len(up)} ports are up ({', '.join(sorted(up))}), the system file states {rails}")
    return found


@dataclass(frozen=True)
class Carried:
    """What a node's ports show about the path of its messages; `wrong`: the messages took another path than chosen or
    stated."""

    node: str
    wrong: bool
    text: str


def sent(path: Mapping[str, object]) -> dict[str, tuple[float, float]]:
    """Bytes and messages that each node sent, as a result states them: `sent_bytes.NODE`, `sent_messages.NODE`."""
    found = {}
    for key, size in path.items():
        name, _, node = key.partition(".")
        messages = path.get(f"sent_messages.{node}")
        if name == "sent_bytes" and isinstance(size, (int, float)) and isinstance(messages, (int, float)):
            found[node] = float(size), float(messages)
    return found


def paths(changes: Iterable[Change], sent: Mapping[str, tuple[float, float]], devices: str = "") -> list[Carried]:
    """Compares the bytes that the ports of each node sent with those of its messages. `sent`: bytes and messages by
    node, only of exchanges whose bytes do not depend on a library's algorithm; `devices`: the rails chosen, as for
    UCX_NET_DEVICES.

    RDMA ports count if a node has any, otherwise Ethernet. Ports prove nothing if they count nothing at all (virtual
    functions), or more than the messages (other traffic, retransmissions).
    """
    found: list[Carried] = []
    chosen = {word.strip().replace(":", "/") for word in devices.split(",") if word.strip() and word.strip() != "all"}
    by_node: dict[str, list[Change]] = {}
    for one in changes:
        by_node.setdefault(one.node, []).append(one)
    for node, (size, messages) in sorted(sent.items()):
        mine = by_node.get(node, [])
        used = [one for one in mine if one.kind != "ethernet"] or mine
        counts = {one.port: one.traffic.get("sent_bytes") for one in used}
        known = {port: count for port, count in counts.items() if count is not None}
        total = sum(known.values())
        said = f"{size / 1e9:.4g} GB sent, its ports carried {total / 1e9:.4g} GB"
        if len(known) < len(counts) or not total:
            found.append(Carried(node, False, "the path is not known: its ports count no bytes"))
            continue
        if total < (1 - PATH) * size:
            found.append(Carried(node, True, f"{said}: the rest took another path"))
        elif total > (1 + PATH) * size + HEADER_BYTES * messages:
            found.append(Carried(node, False, f"{said}: other traffic hides the path"))
        on = sum(count for port, count in known.items() if port in chosen or port.partition("/")[0] in chosen)
        if chosen and on < (1 - PATH) * total:
            other = ", ".join(f"{port} {count / 1e9:.4g} GB" for port, count in known.items() if count > PATH * total)
            found.append(Carried(node, True, f"rail {devices} was chosen; it carried {on / 1e9:.4g} GB; {other}"))
    return found


def _numbers(pairs: Mapping[str, str]) -> Counters:
    return {n: int(v) if v.isdigit() else None for n, v in pairs.items() if n[:2] in ("e.", "t.")}


def _time(pairs: Mapping[str, str]) -> float:
    try:
        return float(pairs["time"])
    except ValueError:
        return 0.0


def main(words: list[str]) -> int:
    if words[:1] != ["line"] or words[1:2] not in ([IDLE], [BEFORE], [AFTER]):
        sys.stderr.write(f"usage: counters.py line {IDLE}|{BEFORE}|{AFTER} [ROOT]\n")
        return 2
    if any(os.environ.get(name, "0") != "0" for name in _LOCAL_RANK):
        return 0  # another rank of this node reads them and writes all lines at once, since the launcher mixes the
    # lines of nodes
    sys.stdout.write("".join(f"{line}\n" for line in lines(words[1], Path(*words[2:3] or "/"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
