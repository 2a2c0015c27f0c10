"""Counters of ports in fake trees of /sys, and the judgement of their changes. Widths, words and meanings by hand."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tenken import counters
from tenken.counters import AFTER, BEFORE, IDLE, Change, changes_of
from tenken.judge import verdict
from tenken.model.judgement import Judgement

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


def test_data_is_counted_in_words_of_four_bytes_and_less_what_flows_at_rest(tmp_path: Path) -> None:
    quiet = between(tmp_path, {"port_xmit_data": 1000}, {"port_xmit_data": 2000}, {"port_xmit_data": 1000})
    assert quiet.traffic["sent_bytes"] == 4000 and quiet.faults() == [] and quiet.unknown() == []
    # 10 words in the second before: 100 of those in the 10 s are others'
    busy = between(tmp_path, {"port_xmit_data": 1000}, {"port_xmit_data": 2000}, {"port_xmit_data": 990})
    assert busy.traffic["sent_bytes"] == 4 * 900


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
        # congestion names no node
        ({}, {"port_xmit_discards": 500, "port_xmit_wait": 10**9}, [], []),
        # 4e12 bits in 10 s at 400 Gbit/s: 4 symbols are 1e-12, 5 are above
        ({}, {"symbol_error": 4}, [], []),
        ({}, {"symbol_error": 5}, ["symbol_error 5 (symbols that no error correction mended), a bit"], []),
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
    assert all(f.message.startswith("n7: port mlx5_0/1: ") for f in judged.findings)
    assert len(judged.findings) == len(unknown[:1]) + len(faults[:1])
    # a record keeps the data needed to judge it again
    kept = counters.read({"ports": [replace(change, node="n7").as_json()]})
    assert verdict.extended(honest, [*verdict.of_ports(kept)]) == judged


def test_ports_that_no_rank_could_read_are_said(tmp_path: Path) -> None:
    """The job script's own line, run without a python3."""
    from types import SimpleNamespace
    from typing import Any

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
            "net/eth0/statistics/tx_bytes": 70, "net/eth0/statistics/rx_bytes": 0,
            "cxi/cxi0/device/port/link": 1, "cxi/cxi0/device/port/speed": "BS_200G",
            "cxi/cxi0/device/telemetry/hni_pcs_uncorrected_cw": f"{words}@100.5",
            "cxi/cxi0/device/telemetry/hni_sts_tx_ok_octets": f"{octets}@100.5",
        }  # fmt: skip
        return tree(tmp_path, {f"sys/class/{name}": value for name, value in files.items()})

    lines = [*at(BEFORE, put(0, 3, 10), 100.0), *at(AFTER, put(2, 4, 510), 110.0)]
    cxi, ethernet = changes_of(lines)
    assert (cxi.kind, cxi.gbit_s, cxi.traffic["sent_bytes"]) == ("cxi", 200, 500)
    assert cxi.faults() == ["hni_pcs_uncorrected_cw 1 (code words that error correction could not mend)"]
    assert (ethernet.gbit_s, ethernet.traffic["sent_bytes"]) == (25, 0)
    assert ethernet.faults() == ["rx_crc_errors 2 (frames with a wrong checksum)"]
    assert "tx_carrier_errors" in ethernet.unknown() and cxi.bit_error_rate is None


def test_one_rank_of_a_node_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    mlx5(tmp_path)
    assert counters.main(["line", BEFORE, str(tmp_path)]) == 0 and "TENKEN-PORT when=before" in capsys.readouterr().out
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert counters.main(["line", BEFORE, str(tmp_path)]) == 0 and capsys.readouterr().out == ""
    assert counters.main(["lines"]) == 2
