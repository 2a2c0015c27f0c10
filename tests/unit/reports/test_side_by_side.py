"""Rows of a page with a quantity by this suite and by a third-party program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tenken.archive import packed
from tenken.model import catalogue
from tenken.model.catalogue import load_catalogue
from tenken.model.verdicts import INVALID, PASS, RECORDED
from tenken.parsers import nvbandwidth
from tenken.report import side_by_side
from tenken.report.rows import Row, rows_of
from tenken.report.session import load
from tests.support import kept

#: Figures that checks declare.
DECLARED = {
    "nvbandwidth": (*nvbandwidth.HOST_TESTS, *nvbandwidth.PAIR_TESTS),
    "stream_site": ("copy", "scale", "add", "triad"),
}


def row(metric_id: str, subject: str, value: float, direction: str = "higher", unit: str = "GB/s", **at: Any) -> Row:
    return Row(
        id=metric_id, name=metric_id, title=metric_id, group="", plot="bars", subject=subject, ends=None, at=at,
        unit=unit, direction=direction, statistic="median", value=value, best=None, median=None, p5=None, p95=None,
        count=1, samples=[], verdict=PASS,
    )  # fmt: skip


def compared(
    *cases: tuple[str, bool, list[Row]], verdict: str = PASS, version: str = "", **parameters: Any
) -> list[side_by_side.Beside]:
    """The result for cases given as (program, whether it is third-party, rows)."""
    made, rows = [], {}
    for program, foreign, some in cases:
        case: Any = SimpleNamespace(
            result=SimpleNamespace(program=program, parameters=parameters, version=version),
            base_check="Theirs" if foreign else "Ours",
            record=SimpleNamespace(request=SimpleNamespace(foreign=foreign)), verdict=RECORDED if foreign else verdict,
        )  # fmt: skip
        made.append(case)
        rows[id(case)] = some
    session: Any = SimpleNamespace(tests=made)
    return side_by_side.found(session, rows)


def test_the_worst_pair_counts_and_a_factor() -> None:
    ours = ("p2p", False, [row("peer", "GPU 0 → 1", 392.0), row("peer", "GPU 1 → 0", 380.0)])
    theirs = ("nvbandwidth", True, [row("device_to_device_memcpy_read_ce", "host", 400.0)])
    (only,) = compared(ours, theirs)
    assert (only.ours, only.theirs, only.our_check, only.their_check, only.ratio) == (
        380.0,
        400.0,
        "Ours",
        "Theirs",
        0.95,
    )
    halved = compared(
        ("memcopy", False, [row("memcpy", "GPU 0", 3000.0)]),
        ("nvbandwidth", True, [row("device_local_copy", "host", 1500.0)]),
    )
    assert halved[0].ratio == 1.0


def test_of_many_sizes_three_are_shown_and_lower_is_better_where_it_is() -> None:
    ours = [row("latency", "2 ranks", 2.0 * n, "lower", "us", bytes=n, buffers="host") for n in (1, 4, 16, 64)]
    theirs = [
        row("osu_latency", "2 ranks", 1.0 * n, "lower", "us", bytes=n, buffers="host") for n in (2, 4, 16, 64, 256)
    ]
    theirs.append(row("osu_latency", "2 ranks", 9.0, "lower", "us", bytes=1, buffers="device"))
    theirs.append(row("osu_latency", "4 ranks", 9.0, "lower", "us", bytes=1, buffers="host"))
    found = compared(("mpi_p2p", False, ours), ("mpi_p2p", True, theirs))
    assert [(one.ours, one.theirs, one.ratio) for one in found] == [
        (8.0, 4.0, 0.5),
        (32.0, 16.0, 0.5),
        (128.0, 64.0, 0.5),
    ]
    assert found[0].at.endswith("2 ranks")


def test_equal_sizes_may_be_parameters_in_words() -> None:
    ours = ("hpl", False, [row("hpl", "host", 0.4, unit="TFLOP/s", n=4096)])
    theirs = ("hpl", True, [row("hpl", "1 ranks", 0.5, unit="TFLOP/s")])
    on_host = {"backend": "host", "version": "HPLinpack 2.3"}
    assert [one.ratio for one in compared(ours, theirs, n="4096", **on_host)] == [0.8]
    assert compared(ours, theirs, n="8192", **on_host) == compared(ours, theirs, **on_host) == []


#: For the six pairs of programs: rows of ours and of theirs, and the version that theirs states.
PAIRS: dict[str, tuple[str, str, Row, str, Row, str]] = {
    "triad": ("stream", "host", row("triad", "host", 250.0), "stream_site", row("triad", "host", 260.0), "5.10"),
    "copies": ("p2p", "cuda", row("peer", "GPU 0 → 1", 392.0), "nvbandwidth",
               row("device_to_device_memcpy_read_ce", "host", 395.0), "0.8"),
    "messages": ("mpi_p2p", "", row("bandwidth", "2 ranks", 24.0, bytes=4194304, buffers="host"), "mpi_p2p",
                 row("osu_bandwidth", "2 ranks", 23.9, bytes=4194304, buffers="host"), "OSU Micro-Benchmarks 7.4"),
    "collectives": ("nccl", "", row("all_reduce_fp32", "2 ranks", 290.0, bytes=1 << 30), "nccl",
                    row("perf_all_reduce", "2 ranks", 289.0, bytes=1 << 30, place="out"), "nccl-tests 2.17.1"),
    "hpcg on GPUs": ("hpcg", "cuda", row("rating", "GPU 0", 655.0, nx=256), "hpcg",
                     row("rating", "1 ranks", 480.0, nx=256), "NVIDIA's HPCG 3.1"),
    "hpcg on a host": ("hpcg", "host", row("rating", "4 ranks", 13.0, nx=104), "hpcg",
                       row("rating", "4 ranks", 12.5, nx=104), "HPCG 3.1"),
    "hpl on GPUs": ("hpl", "cuda", row("hpl", "2 ranks", 100.0, n=131072), "hpl", row("hpl", "2 ranks", 98.0, n=131072),
                    "HPL-NVIDIA 24.3.0"),
    "hpl on a host": ("hpl", "host", row("hpl", "host", 1.1, n=8192), "hpl", row("hpl", "32 ranks", 1.0, n=8192),
                      "HPCC 1.5.0, HPLinpack 2.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_each_pair_of_programs_has_a_row_with_its_ratio(name: str) -> None:
    program, backend, ours, other, theirs, version = PAIRS[name]
    cases = (program, False, [ours]), (other, True, [theirs])
    found = compared(*cases, backend=backend, version=version)
    assert [one.ratio for one in found] == [ours.value / theirs.value] and found[0].differs  # type: ignore[operator]
    # GPUs are not compared with a host
    if backend and "copies" not in name:
        elsewhere = {"host": "cuda", "cuda": "host"}[backend]
        assert compared(*cases, backend=elsewhere, version=version) == []


@pytest.mark.parametrize("change", ["invalid", "unit", "alone"])
def test_nothing_is_compared_that_is_not_comparable(change: str) -> None:
    ours = ("p2p", False, [row("peer", "GPU 0 → 1", 392.0, unit="us" if change == "unit" else "GB/s")])
    theirs = ("nvbandwidth", True, [row("device_to_device_memcpy_read_ce", "host", 400.0)])
    assert (
        compared(ours, *([] if change == "alone" else [theirs]), verdict=INVALID if change == "invalid" else PASS) == []
    )


def test_kept_session_of_two_h100_reaches_what_the_field_reaches() -> None:
    (name,) = {r.session for r in kept._of(kept.FIELD) if r.base_check == "P2P"}
    session = load(packed.folder_of(kept.FIELD), name)
    assert {case.verdict for case in session.tests} <= {PASS, RECORDED}
    rows = {id(case): rows_of(case, load_catalogue()) for case in session.tests}
    found = {(one.title, one.at): one.ratio for one in side_by_side.found(session, rows)}
    copies = [ratio for (title, _), ratio in found.items() if title in ("Peer copy", "Bidirectional")]
    assert len(copies) == 2 and min(copies) >= 0.99
    largest = [ratio for (title, at), ratio in found.items() if "GiB" in at]
    assert len(largest) >= 2 and min(largest) >= 0.97


def test_every_metric_of_the_file_exists_and_says_what_differs() -> None:
    for pair in side_by_side.pairs():
        assert pair["differs"]
        program, metric = pair["ours"].split(".")
        assert catalogue.program(program).metric_named(metric), pair["ours"]
        program, metric = pair["theirs"].split(".")
        declared = DECLARED.get(program)
        assert metric in declared if declared else catalogue.program(program).metric_named(metric), pair["theirs"]
