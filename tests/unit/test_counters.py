"""Counters of ports in fake trees of /sys, and the judgement of their changes. Widths, words and meanings by hand."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from tenken import counters
from tenken.counters import AFTER, BEFORE, IDLE, Change, changes_of
from tenken.judge import verdict
from tenken.model.judgement import Judgement
from tenken.node import verdict as node

MLX = "sys/class/infiniband/mlx5_0/ports/1"


def tree(root: Path, files: dict[str, object]) -> Path:
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return root


def mlx5(root: Path, **counted: int) -> Path:
    """A port of NDR as the driver mlx5 shows it; `port_xmit_data=...` and so on."""
    files: dict[str, object] = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    zeros = dict.fromkeys([*counters.SATURATING, "port_xmit_data", "port_rcv_data", "port_xmit_wait"], 0)
    files |= {f"counters/{name}": value for name, value in {**zeros, **counted}.items() if value >= 0}
    files |= {"hw_counters/local_ack_timeout_err": 0, "hw_counters/roce_adp_retrans": 0}
    for name in {f"counters/{name}" for name, value in counted.items() if value < 0}:
        (root / MLX / name).unlink(missing_ok=True)
    return tree(root, {f"{MLX}/{name}": value for name, value in files.items()})


def test_an_efa_is_silent_unless_it_resends(tmp_path: Path) -> None:
    """Of the classic counters it has none, which is not unknown."""
    efa = "sys/class/infiniband/rdmap79s0"
    port = {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Unknown"}
    lines = []
    for when, moment, sent, again in ((BEFORE, 1.0, 50, 0), (AFTER, 11.0, 10**9 + 50, 3)):
        port |= {"hw_counters/tx_bytes": sent, "hw_counters/rx_bytes": 7, "hw_counters/retrans_pkts": again}
        files = {f"{efa}/device/vendor": "0x1d0f", **{f"{efa}/ports/1/{name}": value for name, value in port.items()}}
        lines += at(when, tree(tmp_path, files), moment)
    (found,) = changes_of(lines)
    assert (found.kind, found.gbit_s, found.traffic) == ("efa", 100.0, {"sent_bytes": 10**9, "received_bytes": 0})
    assert (found.errors, found.optics, [*verdict.of_ports([found])]) == ({"hw.retrans_pkts": 3}, {}, [])
    assert counters.paths([found], {found.node: (1e9, 1.0)}) == []
    assert counters.below([found], "efa", 1, 100.0) == []


def at(when: str, root: Path, moment: float) -> list[str]:
    return [re.sub(r" time=\S+", f" time={moment}", line) for line in counters.lines(when, root)]


def between(
    tmp_path: Path, before: dict[str, int], after: dict[str, int], idle: dict[str, int] | None = None
) -> Change:
    """The change of the port over 10 s, after 1 s of rest."""
    lines = [*at(IDLE, mlx5(tmp_path, **(before if idle is None else idle)), 99.0)]
    lines += [*at(BEFORE, mlx5(tmp_path, **before), 100.0), *at(AFTER, mlx5(tmp_path, **after), 110.0)]
    (found,) = changes_of(["other output", *lines])
    return found


#: Where each counter begins in the attribute PortCounters, in bits (drivers/infiniband/core/sysfs.c of Linux), and the
#: reserved bits before the next one.
PORT_COUNTERS = {
    "symbol_error": 32, "link_error_recovery": 48, "link_downed": 56, "port_rcv_errors": 64,
    "port_rcv_remote_physical_errors": 80, "port_rcv_switch_relay_errors": 96, "port_xmit_discards": 112,
    "port_xmit_constraint_errors": 128, "port_rcv_constraint_errors": 136, "local_link_integrity_errors": 152,
    "excessive_buffer_overrun_errors": 156, "VL15_dropped": 176, "port_xmit_data": 192,
}  # fmt: skip
RESERVED = {"port_rcv_constraint_errors": 8, "excessive_buffer_overrun_errors": 16}


def test_a_counter_is_as_wide_as_its_place_in_the_packet() -> None:
    places = list(PORT_COUNTERS.items())
    width = {name: end - begin - RESERVED.get(name, 0) for (name, begin), (_, end) in pairwise(places)}
    assert width == counters.SATURATING
    for name, bits in width.items():
        assert counters.value(name, 2**bits - 1) is None
        assert [counters.value(name, read) for read in (2**bits - 2, 2**bits)] == [2**bits - 2, 2**bits]


#: Counters for which one error names the port; for symbols, a bit error rate does. Others rise on a healthy fabric too.
NAMED = {
    "link_error_recovery", "link_downed", "port_rcv_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "hw.rx_icrc_encapsulated", "hw.link_downed", "rx_crc_errors", "rx_frame_errors",
    "tx_carrier_errors", "carrier_down_count", "hni_pcs_uncorrected_cw",
}  # fmt: skip


@pytest.mark.parametrize("name", counters.COUNTERS)
def test_one_error_names_a_port_or_none_does(name: str) -> None:
    """The check of a node counts with the same meaning."""
    risen = Change("n", "p", "infiniband", 400.0, 1.0, {name: 1}, {})
    assert bool(risen.faults()) == (name in NAMED or name == "symbol_error")
    assert name in NAMED or name not in node._PORT_FLAPS
    assert name not in NAMED or name not in node._PORT_NOTED


def test_data_is_counted_in_words_of_four_bytes_and_less_what_flows_at_rest(tmp_path: Path) -> None:
    after = {"port_xmit_data": 2000, "port_rcv_data": 1500, "port_xmit_wait": 7}
    quiet = between(tmp_path, {"port_xmit_data": 1000}, after, {"port_xmit_data": 1000})
    assert quiet.traffic == {"sent_bytes": 4000, "received_bytes": 6000, "wait_ticks": 7}
    assert quiet.faults() == [] and quiet.unknown() == []
    # a register of 32 bits that has reached its end counts nothing more
    full = between(tmp_path, {"port_xmit_wait": 2**32 - 1}, {"port_xmit_data": 9, "port_xmit_wait": 2**32 - 1}, {})
    assert full.traffic == {"sent_bytes": 36, "received_bytes": 0, "wait_ticks": None}
    # 10 words in the second before: 100 of those in the 10 s are others'
    busy = between(tmp_path, {"port_xmit_data": 1000}, {"port_xmit_data": 2000}, {"port_xmit_data": 990})
    assert busy.traffic["sent_bytes"] == 4 * 900


@pytest.mark.parametrize("read", [counters.changes_of, counters.since])
def test_readings_count_by_their_time_in_whatever_order_they_are_found(read: Any) -> None:
    """Outputs of several jobs are read by the names of their files."""

    def line(when: str, time: int, down: int, sent: int) -> str:
        return (
            f"TENKEN-PORT when={when} node=n port=p kind=infiniband gbit_s=400 time={time} e.link_downed={down} "
            f"t.sent_bytes={sent}"
        )

    lines = [line("before", 100, 1, 5), line("after", 160, 2, 9), line("before", 200, 2, 9), line("after", 260, 7, 30)]
    if read is counters.changes_of:
        lines = lines[:2]
    expected = read(lines)
    assert len(expected) == 1 and expected[0].errors["link_downed"] == (1 if len(lines) == 2 else 6)
    for order in permutations(lines):
        assert read(order) == expected


@pytest.mark.parametrize(
    ("before", "after", "faults", "unknown"),
    [
        ({"link_downed": 1}, {"link_downed": 2}, ["link_downed 1 (times that the link went down)"], []),
        ({"local_link_integrity_errors": 3}, {"local_link_integrity_errors": 14}, ["local_link_integrity_"], []),
        # 4 bits, 8 bits and 16 bits at their maximum; a larger value comes from a wider register
        ({}, {"local_link_integrity_errors": 15}, [], ["local_link_integrity_errors"]),
        ({}, {"link_error_recovery": 255}, [], ["link_error_recovery"]),
        ({}, {"port_rcv_errors": 65535}, [], ["port_rcv_errors"]),
        ({}, {"port_rcv_errors": 255}, ["port_rcv_errors 255"], []),
        # saturated before and after: it may have risen
        ({"link_downed": 255}, {"link_downed": 255}, [], ["link_downed"]),
        # reset in between; missing
        ({"link_downed": 7}, {"link_downed": 2}, [], ["link_downed"]),
        ({}, {"link_downed": -1}, [], ["link_downed"]),
        # both
        ({}, {"link_downed": -1, "port_rcv_errors": 255}, ["port_rcv_errors 255"], ["link_downed"]),
        # congestion names no node
        ({}, {"port_xmit_discards": 500, "port_xmit_wait": 10**9}, [], []),
        # 4e12 bits in 10 s at 400 Gbit/s: 4 symbols are 1e-12, 5 are above
        ({}, {"symbol_error": 4}, [], []),
        ({}, {"symbol_error": 5}, ["symbol_error 5 (symbols that error correction did not repair), a bit"], []),
    ],
)  # fmt: skip
def test_errors_name_the_port(
    tmp_path: Path, before: dict[str, int], after: dict[str, int], faults: list[str], unknown: list[str]
) -> None:
    change = between(tmp_path, before, {**before, **after})
    assert [said.startswith(start) for said, start in zip(change.faults(), faults, strict=True)] == [True] * len(faults)
    assert change.unknown() == unknown
    honest = Judgement("PASS", ())
    judged = verdict.extended(honest, [*verdict.of_ports([replace(change, node="n7")])])
    assert judged.verdict == ("FAIL" if faults else "PASS")
    named = [f.message for f in judged.findings if "mlxlink" not in f.message]
    assert all(one.startswith("n7: port mlx5_0/1: ") for one in named)
    assert len(named) == len(unknown[:1]) + len(faults[:1])
    # a record keeps the data needed to judge it again
    kept = counters.read({"ports": [replace(change, node="n7").as_json()]})
    assert verdict.extended(honest, [*verdict.of_ports(kept)]) == judged


@pytest.mark.parametrize(("errors", "gbit_s", "seconds", "rate"), [
    (4, 400.0, 10.0, 1e-12), (None, 400.0, 10.0, None), (4, None, 10.0, None),
    # readings whose times cannot be read, and a clock that was set back
    (4, 400.0, 0.0, None), (4, 400.0, -1.0, None),
])  # fmt: skip
def test_a_bit_error_rate_is_of_the_bits_in_that_time(
    errors: int | None, gbit_s: float | None, seconds: float, rate: float | None
) -> None:
    change = Change("n", "p", "infiniband", gbit_s, seconds, {"symbol_error": errors}, {})
    assert change.bit_error_rate == (rate and pytest.approx(rate))


def test_ports_that_no_rank_could_read_are_said(tmp_path: Path) -> None:
    """The job script's own line, run without a python3."""
    from types import SimpleNamespace

    from tenken.reframe import links

    launcher = SimpleNamespace(run_command=lambda job: "")
    check: Any = SimpleNamespace(
        job=SimpleNamespace(launcher=launcher), num_tasks=2, num_tasks_per_node=1, prerun_cmds=[], postrun_cmds=[]
    )
    links.read_ports(check)
    script = "\n".join([*check.prerun_cmds, *check.postrun_cmds]).replace("sleep 1", ":")
    run = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [f"{counters.UNREAD} {when}" for when in (IDLE, BEFORE, AFTER)]
    assert list(changes_of(run.stdout.splitlines())) == []
    (lost,) = verdict.of_ports([], unread=True)
    assert "not read" in lost.message and not [*verdict.of_ports([])]


def test_errors_at_rest_are_said(tmp_path: Path) -> None:
    change = between(tmp_path, {"port_rcv_errors": 5}, {"port_rcv_errors": 9}, {"port_rcv_errors": 1})
    assert change.faults() == ["port_rcv_errors 4 (packets received with errors), at rest too"]


def test_ethernet_and_slingshot(tmp_path: Path) -> None:
    def put(crc: int, words: int, octets: int) -> Path:
        files: dict[str, object] = {
            "net/eth0/type": 1, "net/eth0/operstate": "up", "net/eth0/speed": 25000, "net/eth0/device/x": "",
            "net/eth0/carrier_down_count": 1, "net/eth0/statistics/rx_crc_errors": crc,
            "net/eth0/statistics/tx_bytes": 70, "net/eth0/statistics/rx_bytes": octets,
            "cxi/cxi0/device/port/link": 1, "cxi/cxi0/device/port/speed": "BS_200G",
            "cxi/cxi0/device/telemetry/hni_pcs_uncorrected_cw": f"{words}@100.5",
            "cxi/cxi0/device/telemetry/hni_sts_tx_ok_octets": f"{octets}@100.5",
            "cxi/cxi0/device/telemetry/hni_sts_rx_ok_octets": f"{2 * octets}@100.5",
        }  # fmt: skip
        return tree(tmp_path, {f"sys/class/{name}": value for name, value in files.items()})

    lines = [*at(BEFORE, put(0, 3, 10), 100.0), *at(AFTER, put(2, 4, 510), 110.0)]
    cxi, ethernet = changes_of(lines)
    assert (cxi.kind, cxi.gbit_s, cxi.traffic["sent_bytes"]) == ("cxi", 200, 500)
    assert (cxi.traffic["received_bytes"], ethernet.traffic["received_bytes"]) == (1000, 500)
    assert cxi.faults() == ["hni_pcs_uncorrected_cw 1 (code words that error correction could not repair)"]
    assert (ethernet.gbit_s, ethernet.traffic["sent_bytes"]) == (25, 0)
    assert ethernet.faults() == ["rx_crc_errors 2 (frames with a wrong checksum)"]
    assert "tx_carrier_errors" in ethernet.unknown() and cxi.bit_error_rate is None


def test_one_rank_of_a_node_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    mlx5(tmp_path)
    assert counters.main(["line", BEFORE, str(tmp_path)]) == 0 and "TENKEN-PORT when=before" in capsys.readouterr().out
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert counters.main(["line", BEFORE, str(tmp_path)]) == 0 and capsys.readouterr().out == ""
    assert counters.main(["lines"]) == 2


#: As printed by MFT 4.3x: an optical module, a passive cable, and a passive cable of an adapter that prints zeros.
MODULE = """
Module Info
-----------
Temperature [C]                    : {temperature} [-5..75]
Voltage [mV]                       : 3261.2 [2970..3630]
Rx Power Current [dBm]             : 1.886,1.989,{rx},1.976 [-10.41..6]
Tx Power Current [dBm]             : 1.562,1.427,1.559,1.761 [-8.508..5]
Identifier                         : OSFP

Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]        : 25074.8
Effective Physical Errors          : 0
Effective Physical BER             : {ber}
Raw Physical Errors Per Lane       : 12,0,7,0
Raw Physical BER                   : 3E-9
"""
COPPER = """
Temperature [C]                    : {}
Rx Power Current [dBm]             : {}
Effective Physical BER             : 15E-255
Raw Physical BER                   : 15E-255
"""


@pytest.mark.parametrize(
    ("output", "keys", "faults"),
    [
        (MODULE.format(temperature=54, rx=2.281, ber="15E-255"), 7, []),
        (MODULE.format(temperature=76, rx=2.281, ber="15E-255"), 7, ["Temperature [C] 76[-5..75]: outside"]),
        (MODULE.format(temperature=54, rx=-40, ber="15E-255"), 7, ["Rx Power Current [dBm] 1.886,1.989,-40,1.976"]),
        (MODULE.format(temperature=54, rx=2.281, ber="2E-12"), 7, ["an effective bit error rate of 2.0e-12"]),
        (MODULE.format(temperature=54, rx=2.281, ber="1E-12"), 7, []),
        (COPPER.format("N/A", "N/A"), 2, []),
        (COPPER.format("0 [0..0]", "0,0,0,0 [0..0]"), 2, []),
        ("-E- Device is not supported\n", 0, []),
    ],
)
def test_optics_by_mlxlink(output: str, keys: int, faults: list[str]) -> None:
    seen = counters.optics_of(output)
    assert len(seen) == keys
    found = replace(port("a", "mlx5_0/1", 0), optics=seen).faults()
    assert len(found) == len(faults) and all(one.startswith(said) for one, said in zip(found, faults, strict=True))


def test_optics_are_read_by_root_after_the_command_and_waived_by_name(tmp_path: Path, monkeypatch) -> None:
    tool = tmp_path / "bin/mlxlink"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\n[ "$*" = "-d mlx5_0 -p 1 -m -c" ] && echo "Raw Physical BER  : 3E-9"\n')
    tool.chmod(0o755)
    root = mlx5(tmp_path / "root")
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    monkeypatch.setattr(counters.os, "geteuid", lambda: 0)
    assert "o.raw_ber=3E-9" in counters.lines(AFTER, root)[0] and " o." not in counters.lines(BEFORE, root)[0]
    monkeypatch.setattr(counters.os, "geteuid", lambda: 1000)
    lines = [*at(BEFORE, root, 1.0), *at(AFTER, root, 2.0)]
    said = [one.message for one in verdict.of_ports(changes_of(lines))]
    assert any("optics and corrected errors of" in one and "mlxlink requires root" in one for one in said)


def port(node: str, name: str, sent: int | None, kind: str = "infiniband") -> Change:
    return Change(node, name, kind, 400.0, 10.0, {}, {"sent_bytes": sent})


GB = 10**9


@pytest.mark.parametrize(
    ("links", "devices", "wrong", "said"),
    [
        # 10 GB in 1,000 messages
        ([port("a", "mlx5_0/1", 10 * GB)], "", None, ""),
        ([port("a", "mlx5_0/1", 9 * GB + 1)], "", None, ""),
        ([port("a", "mlx5_0/1", 11 * GB)], "", None, ""),
        ([port("a", "mlx5_0/1", 4 * GB), port("a", "mlx5_1/1", 6 * GB)], "", None, ""),
        # staged through Ethernet: the adapters of the fabric saw only a part
        ([port("a", "mlx5_0/1", GB), port("a", "eth0", 9 * GB, "ethernet")], "", True, "the rest took another path"),
        # without any adapter for RDMA, Ethernet is the path
        ([port("a", "eth0", 10 * GB, "ethernet")], "", None, ""),
        # others' traffic, ports that count nothing, a counter that was reset: nothing is proven
        ([port("a", "mlx5_0/1", 12 * GB)], "", False, "other traffic hides the path"),
        ([port("a", "mlx5_0/1", 0)], "", False, "count no bytes"),
        ([port("a", "mlx5_0/1", None)], "", False, "count no bytes"),
        ([port("a", "mlx5_0/1", GB), port("a", "mlx5_1/1", None)], "", False, "count no bytes"),
        ([], "", False, "count no bytes"),
        # the chosen rail, and another one
        ([port("a", "mlx5_0/1", 0), port("a", "mlx5_3/1", 10 * GB)], "mlx5_3:1", None, ""),
        ([port("a", "mlx5_0/1", 0), port("a", "mlx5_3/1", 10 * GB)], "mlx5_3", None, ""),
        ([port("a", "mlx5_0/1", 10 * GB), port("a", "mlx5_3/1", 0)], "mlx5_3:1", True, "carried 0 GB; mlx5_0/1 10 GB"),
        ([port("a", "mlx5_0/1", 5 * GB), port("a", "mlx5_3/1", 5 * GB)], "mlx5_0:1,mlx5_3:1", None, ""),
        ([port("a", "mlx5_0/1", 10 * GB)], "all", None, ""),
    ],
)
def test_bytes_of_messages_against_those_of_the_ports(
    links: list[Change], devices: str, wrong: bool | None, said: str
) -> None:
    found = counters.paths(links, {"a": (10.0 * GB, 1000.0)}, devices)
    assert [(one.node, one.wrong) for one in found] == ([] if wrong is None else [("a", wrong)])
    assert all(said in one.text for one in found)


def test_headers_of_small_messages_are_no_other_traffic() -> None:
    # 10^6 messages of 8 B: 8 MB, and 100 B each of headers
    assert not counters.paths([port("a", "mlx5_0/1", 108 * 10**6)], {"a": (8e6, 1e6)})
    assert counters.paths([port("a", "mlx5_0/1", 300 * 10**6)], {"a": (8e6, 1e6)})


def test_what_a_result_states_of_its_bytes() -> None:
    path = {"sent_bytes.n1.site": 5.0, "sent_messages.n1.site": 2, "sent_bytes.n2": 7, "sent_bytes.n3": "x", "nodes": 2}
    assert counters.sent(path) == {"n1.site": (5.0, 2.0)}


def test_other_traffic_and_other_rails_are_told_in_gigabytes() -> None:
    def ports(**bytes_sent: float) -> list[Change]:
        return [
            Change("n1", name, "infiniband", 400.0, 1.0, {}, {"sent_bytes": int(size)})
            for name, size in bytes_sent.items()
        ]

    sent = {"n1": (100e9, 1000.0)}
    (rest,) = counters.paths(ports(a=70e9), sent)
    assert (rest.wrong, rest.text) == (True, "100 GB sent, its ports carried 70 GB: the rest took another path")
    (hidden,) = counters.paths(ports(a=150e9), sent)
    assert (hidden.wrong, hidden.text) == (False, "100 GB sent, its ports carried 150 GB: other traffic hides the path")
    (other,) = counters.paths(ports(a=60e9, b=40e9, c=0), sent, "a")
    assert (other.wrong, other.text) == (True, "rail a was chosen; it carried 60 GB; a 60 GB, b 40 GB")
    assert counters.paths(ports(a=100e9), sent, "a") == counters.paths(ports(a=60e9, b=40e9), sent, "all") == []
    (none,) = counters.paths(ports(a=0), sent)
    assert (none.wrong, none.text) == (False, "the path is not known: its ports count no bytes")


def test_errors_of_pcie_are_their_totals(tmp_path: Path) -> None:
    place = "sys/bus/pci/devices/0000:19:00.0"
    totals = list(counters.AER.items())
    (first, word), *others = totals
    root = tree(tmp_path, {f"{place}/aer_dev_{first}": f"RxErr 3\nBadTLP 4\n{word} 7\nthree words here"})
    assert counters.aer("0000:19:00.0", root) == {first: 7, **{severity: None for severity, _ in others}}


def test_an_error_without_a_meaning_names_no_port() -> None:
    one = Change("n1", "p", "infiniband", 400.0, 10.0, {"unheard_of": 5, "link_downed": 2, "symbol_error": None}, {})
    (said,) = one.faults()
    assert said.startswith("link_downed 2 (") and one.unknown() == ["symbol_error"]


@pytest.mark.parametrize(("carried", "on_a", "says"), [
    (900, 900, ""), (899, 899, "took another path"), (1100, 1100, ""), (1126, 1126, "hides the path"), (1125, 1125, ""),
    (1000, 900, ""), (1000, 899, "rail a was chosen"),
])  # fmt: skip
def test_ports_and_messages_may_differ_by_a_tenth_and_by_headers(carried: int, on_a: int, says: str) -> None:
    """1,000 GB in 97,656,250 messages, whose headers are 25 GB at most."""
    ports = [Change("n1", name, "infiniband", 400.0, 1.0, {}, {"sent_bytes": size * 10**9})
             for name, size in (("a", on_a), ("b", carried - on_a))]  # fmt: skip
    found = counters.paths(ports, {"n1": (1e12, 97_656_250.0)}, "a")
    assert [says in one.text for one in found] == ([True] if says else [])
