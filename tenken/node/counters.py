"""Counters of network ports and PCIe devices from sysfs, and what changed between two readings.

A counter that is missing, was reset in between, or stands at its maximum is unknown (None), never 0. The classic
counters of InfiniBand ports stop at their maximum (InfiniBand Architecture Specification 1.4, 16.1.3.5, PortCounters),
and many drivers read them from wider registers; so a value counts as saturated only at exactly the largest value of
its width. All others are 64 bits wide and wrap, which no port does within a node's life.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Bits of the counters that stop at their maximum: PortCounters of the InfiniBand specification.
SATURATING = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
}
#: InfiniBand and RoCE: names in `hw_counters` that say that something went wrong (linux, Documentation and drivers).
#: Without traffic classes and drops that congestion makes on a healthy fabric.
HARDWARE = (
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "resp_cqe_error",
    "req_remote_access_errors",
    "roce_adp_retrans",
    "rx_icrc_encapsulated",
    "link_downed",
)
#: Ethernet: files of /sys/class/net/X/statistics that a cable or transceiver raises.
ETHERNET = ("rx_crc_errors", "rx_frame_errors", "rx_length_errors", "tx_carrier_errors", "tx_aborted_errors")
#: Slingshot: files of /sys/class/cxi/cxiN/device/telemetry; each reads `value@seconds.nanoseconds`.
CXI = (
    "hni_pcs_uncorrected_cw",
    "hni_llr_tx_replay_event",
    "hni_llr_rx_replay_event",
)
#: Files of a PCIe device whose last line is the total of its errors.
AER = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}

Counters = dict[str, "int | None"]


@dataclass(frozen=True)
class Port:
    """One port of a network adapter."""

    name: str
    """`mlx5_0/1`, `eth0`, `cxi0`."""
    kind: str
    """infiniband, roce, ethernet or cxi."""
    up: bool | None
    gbit_s: float | None
    """Rate of the link as negotiated."""
    counters: Counters = field(default_factory=dict)


def text(file: Path) -> str | None:
    """A small file of /proc or /sys; None where it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(1 << 20).decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return None


def number(file: Path) -> int | None:
    """A file that holds one whole number; None for all else."""
    content = text(file)
    try:
        return int((content or "").split("@")[0], 0)
    except ValueError:
        return None


def names(folder: Path) -> list[str]:
    """What a folder holds, sorted; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def value(name: str, read: int | None) -> int | None:
    """A reading, None where it stands at the end of its width: how many more there were, nobody knows."""
    bits = SATURATING.get(name.rpartition(".")[2])
    return None if read is None or read < 0 or (bits is not None and read == 2**bits - 1) else read


def change(before: int | None, after: int | None) -> int | None:
    """By how much a counter rose between two readings; None where one is unknown, or it was reset in between."""
    return None if before is None or after is None or after < before else after - before


def changes(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> Counters:
    """The same for all counters of `after`; one that is new is unknown."""
    return {name: change(before.get(name), read) for name, read in after.items()}


def ports(root: Path = Path("/")) -> list[Port]:
    """All ports of the node but for loopback and virtual interfaces, by kind and name."""
    return [*_rdma(root), *_ethernet(root), *_cxi(root)]


def _rdma(root: Path) -> list[Port]:
    found = []
    top = root / "sys/class/infiniband"
    for device in names(top):
        for port in names(top / device / "ports"):
            at = top / device / "ports" / port
            state = text(at / "state")
            rate = (text(at / "rate") or "").split()
            counters: Counters = {n: value(n, number(at / "counters" / n)) for n in SATURATING}
            present = set(names(at / "hw_counters"))
            counters |= {f"hw.{n}": number(at / "hw_counters" / n) for n in HARDWARE if n in present}
            kind = "infiniband" if text(at / "link_layer") != "Ethernet" else "roce"
            found.append(Port(f"{device}/{port}", kind, _active(state), _rate(rate[0] if rate else None), counters))
    return found


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
        # type 1: Ethernet; without a device behind it, it is a bridge, a tunnel, one half of a pair
        if text(top / name / "type") != "1" or not (top / name / "device").exists():
            continue
        counters: Counters = {n: number(top / name / "statistics" / n) for n in ETHERNET}
        counters["carrier_down_count"] = number(top / name / "carrier_down_count")
        state = text(top / name / "operstate")
        up = None if state in (None, "unknown") else state == "up"
        found.append(Port(name, "ethernet", up, _rate(text(top / name / "speed"), 1e-3), counters))
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
        found.append(Port(name, "cxi", None if state is None else state in ("1", "up"), gbit, counters))
    return found


def aer(bus: str, root: Path = Path("/")) -> Counters:
    """PCIe errors (Advanced Error Reporting) of a device by severity; unknown where the kernel has no AER."""
    result: Counters = {}
    for severity, total in AER.items():
        lines = dict(
            line.rsplit(None, 1)
            for line in (text(root / "sys/bus/pci/devices" / bus / f"aer_dev_{severity}") or "").splitlines()
            if len(line.split()) == 2
        )
        result[severity] = int(lines[total]) if lines.get(total, "").isdigit() else None
    return result
