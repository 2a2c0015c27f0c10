"""What the judge says of a result where no fault of hardware brings it about, and its small functions at both sides of
their bounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken import counters
from tenken.judge import bounds, verdict
from tenken.model import pages
from tests.support import honest
from tests.support.planted import Fault, put, seen, without
from tests.unit.judge.test_planted import of_metric

SAID = [
    Fault("stream", "an option is missing", "array_bytes is missing; requested: '4Gi'",
          without("parameters.array_bytes")),
    Fault("stream", "a default is missing", "its default is 'none'", without("parameters.inject_fault")),
    Fault("memcopy", "a coordinate", "has the coordinates what; expected none", of_metric("memcpy", at={"what": 1})),
    Fault("daxpy", "another host", "daxpy.host is of host 1; allowed: 0", of_metric("daxpy", subject={"host": 1})),
    Fault("transfer", "a host", "reported for host; expected gpu", of_metric("htod_sweep", subject={"host": 0})),
    Fault("stream", "no GPU", "metric copy is missing: the result lists no GPU", put("devices", [])),
]  # fmt: skip


@pytest.mark.parametrize("fault", SAID, ids=[fault.id for fault in SAID])
def test_a_result_that_is_not_what_was_asked_for_is_named(fault: Fault) -> None:
    seen(fault.judged(), fault.says, fault.id)


def test_a_claimed_capability_that_a_gpu_lacks_is_named() -> None:
    run, raw = honest.run("access_patterns"), honest.run("access_patterns").raw()
    put("devices.0.concurrent_managed_access", False)(raw)
    assert run.judged(raw).verdict == run.verdict
    claimed = replace(run.machine, capabilities=frozenset({"managed"}))
    seen(run.judged(raw, machine=claimed), "concurrent_managed_access false; the system file claims managed")


@pytest.mark.parametrize(
    ("names", "nodes", "wrong"), [(["a", "b"], 2, False), (["a", "b"], 1, True), (["a", "a"], 1, False)]
)
def test_as_many_nodes_as_requested(names: list[str], nodes: int, wrong: bool) -> None:
    run, raw = honest.run("hpcg_ranks"), honest.run("hpcg_ranks").raw()
    put("placement.nodes", names)(raw)
    found = run.judged(raw, request=replace(run.request, nodes=nodes), job=None)
    assert any(f"names {len(set(names))} nodes; requested: {nodes}" in f.message for f in found.findings) is wrong


def test_a_judge_that_fails_passes_nothing() -> None:
    run = honest.run("daxpy")
    found = run.judged(run.raw(), machine=None)
    assert found.verdict == "FAIL" and "cannot be judged: AttributeError" in found.findings[0].message


@pytest.mark.parametrize(("wrong", "expected"), [(True, ("FAIL", "path")), (False, ("RECORDED", "note"))])
def test_messages_that_took_another_way(
    wrong: bool, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SimpleNamespace(node="n1", text="half of the bytes left by mlx5_1", wrong=wrong)
    monkeypatch.setattr(counters, "paths", lambda *of: [one])
    (found,) = verdict.of_path(SimpleNamespace(path={}), ())  # type: ignore[arg-type]
    assert (found.verdict, found.kind) == expected and found.message == "n1: half of the bytes left by mlx5_1"


def entry(*clocks: float | None) -> Any:
    return SimpleNamespace(
        **dict(zip(("before", "worst", "after"), (SimpleNamespace(sm_clock_mhz=c) for c in clocks), strict=True))
    )


@pytest.mark.parametrize(
    ("clocks", "found"),
    [
        ((1000, 1000, 1000), 1000),
        ((1000, 981, 1000), 981),  # within 2 %
        ((1000, 979, 1000), None),
        ((1000, 1000, 0), None),
        ((1000, None, 1000), None),
        ((1959, 1959, 1959), None),  # 0.98 of the maximum and more: not locked
        ((1955, 1955, 1955), 1955),
        ((601, 601, 601), 601),  # 0.3 of it and less: idle
        ((598, 598, 598), None),
    ],
)
def test_a_locked_clock(clocks: tuple[float | None, ...], found: float | None) -> None:
    assert bounds.locked(entry(*clocks), SimpleNamespace(sm_clock_max_mhz=1995)) == found  # type: ignore[arg-type]


def test_no_gpu_reads_pages_on_the_host_faster_than_its_link_there_and_back() -> None:
    """PCIe Gen4 x16: 31.5 GB/s, each byte read and written, and a fifth."""
    ended = "device 100 % -> host 100 %, device 0 %"
    device = SimpleNamespace(pageable_uses_host_page_tables=False, pcie_generation_max=4, pcie_width_max=16)
    path = {"pages.x.source": ended, "pages.x.destination": ended}
    run: Any = SimpleNamespace(result=SimpleNamespace(path=path, device=lambda index: device))
    one: Any = SimpleNamespace(subject=SimpleNamespace(first=0))
    none, most = pages.pages_of(run, one, "x") or (0, 0)
    assert none is None and most == pytest.approx(1.2 * 2 * 31.508, rel=1e-4)
    for field in ("pcie_generation_max", "pcie_width_max"):
        kept = getattr(device, field)
        setattr(device, field, None)
        assert pages.pages_of(run, one, "x") is None
        setattr(device, field, kept)
    device.pageable_uses_host_page_tables = True
    assert pages.pages_of(run, one, "x") is None
    device.pageable_uses_host_page_tables = False
    path["pages.x.source"] = "host 100 % -> host 99 %, device 1 %"
    assert pages.pages_of(run, one, "x") is None
