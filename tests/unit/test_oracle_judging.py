"""The judgement with bounds computed by hand: passing values are just inside, failing ones just outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tenken.judge.verdict import extended, unrequested, waived
from tenken.model.judgement import Finding
from tenken.reframe.reference import reframe_reference
from tests.support.catalogue import make_program
from tests.support.documents import around, gpu_document, health_sample, host_document, metric, spoiled
from tests.support.judging import Expectation
from tests.support.judging import reference as Bounds
from tests.unit.core.test_verdict import Limit, judged, verdict

STREAM = make_program("stream")
#: The limit of gpu_document().
LIMIT = 4814.3
LAUNCHES = make_program(
    "daxpy", "daxpy", unit="us", direction="lower", floor={"host": 0.5}, max_spread={"host": None}, min_count=1,
    data_sheet=None, per=("host",),
)  # fmt: skip
HOST = Expectation(subjects=("host",))


def apart(m: Mapping[str, Any]) -> float:
    """A spread for each metric: no two have the same samples."""
    return 0.002 + 1e-6 * sum(map(ord, m["id"]))


def triad(value: float, spread: float = 1e-9) -> dict[str, Any]:
    """A GPU whose triad has this median; the other kernels are unchanged."""
    raw = gpu_document()
    for i, one in enumerate(raw["metrics"]):
        if one["name"] == "triad":
            raw["metrics"][i] = metric("triad", one["subject"], around(value, spread=spread))
    return raw


def time(value: float, limit: float | None = 10.0) -> dict[str, Any]:
    """A host program with one time in us and a minimum time."""
    raw = host_document("daxpy")
    raw["metrics"] = [metric("daxpy", {"host": 0}, [value] * 3, unit="us", direction="lower")]
    known = {"value": limit, "unit": "us", "basis": "by hand"}
    raw["limits"] = {"daxpy.host": known if limit else {"unknown": "nobody tells"}}
    return raw


def of(raw: dict[str, Any], **more: Any) -> Any:
    return judged(raw, **more)


@pytest.mark.parametrize(("share", "expected"), [(1.0, "PASS"), (1.0199, "PASS"), (1.0201, "FAIL"), (1.9, "FAIL")])
def test_a_rate_passes_up_to_1_02_of_its_limit(share: float, expected: str) -> None:
    found = of(triad(share * LIMIT))
    assert found.verdict == expected, found.message()
    assert [f.metric for f in found.findings] == ([] if expected == "PASS" else ["triad.gpu0"])


@pytest.mark.parametrize(("share", "expected"), [(0.801, "PASS"), (0.799, "FAIL"), (0.4, "FAIL")])
def test_a_rate_passes_from_its_floor_on(share: float, expected: str) -> None:
    """The floor of a GPU's kernels is 0.8."""
    found = of(triad(share * LIMIT))
    assert found.verdict == expected, found.message()
    if expected == "FAIL":
        assert found.findings[0].miss == pytest.approx(1 - share / 0.8)


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [(10.0, "PASS"), (10 / 1.019, "PASS"), (10 / 1.021, "FAIL"), (19.9, "PASS"), (20.1, "FAIL"), (5.0, "FAIL")],
)
def test_a_time_lies_between_its_limit_and_its_floor(microseconds: float, expected: str) -> None:
    """Not below 10 us over 1.02; at an efficiency of 0.5 it may be twice as long."""
    assert of(time(microseconds), program=LAUNCHES, expect=HOST).verdict == expected


def test_efficiency_is_the_part_of_the_limit_that_was_reached() -> None:
    judged = of(triad(0.9 * LIMIT)).judged["triad.gpu0"]
    assert judged.efficiency == pytest.approx(0.9) and judged.criterion.kind == "floor"
    found = of(time(12.5), program=LAUNCHES, expect=HOST)
    assert found.judged["daxpy.host"].efficiency == pytest.approx(0.8)


def reference(low: float | None, high: float | None, statistic: str = "median", unit: str = "GB/s") -> Any:
    bounds = Bounds(4000, low, high, unit, statistic, "by hand")
    return lambda one: bounds if one.name == "triad" else None


@pytest.mark.parametrize(
    ("value", "expected"), [(3801, "PASS"), (3799, "FAIL"), (4199, "PASS"), (4201, "FAIL"), (3700, "FAIL")]
)
def test_a_reference_bounds_from_both_sides(value: float, expected: str) -> None:
    assert of(triad(value), reference=reference(3800, 4200)).verdict == expected


def test_where_there_is_a_reference_the_floor_does_not_count() -> None:
    """3500 GB/s are 0.73 of the limit."""
    assert of(triad(3500)).verdict == "FAIL"
    assert of(triad(3500), reference=reference(3400, None)).verdict == "PASS"
    assert "(reference 4000 GB/s, by hand)" in of(triad(3300), reference=reference(3400, None)).message()


def test_the_ceiling_counts_beside_a_reference() -> None:
    assert of(triad(1.03 * LIMIT), reference=reference(3400, None)).verdict == "FAIL"


def test_a_reference_of_the_best_is_held_against_the_best() -> None:
    """Samples from 3960 to 4040: the median is 4000, the best 4040."""
    wide = triad(4000, spread=0.01)
    assert of(wide, reference=reference(4030, None, "best")).verdict == "PASS"
    assert of(wide, reference=reference(4030, None)).verdict == "FAIL"


def test_a_reference_of_another_unit_fails() -> None:
    found = of(triad(4000), reference=reference(3.8, 4.2, unit="TB/s"))
    assert found.verdict == "FAIL" and "its reference in TB/s" in found.message()


@pytest.mark.parametrize(("status", "exit_status"), [("ok", 1), ("ok", 139), ("waived", 0)])
def test_an_exit_status_that_contradicts_the_document_fails(status: str, exit_status: int) -> None:
    raw = gpu_document()
    if status == "waived":
        raw.update(status="waived", reason="needs two GPUs: 1 GPU is here", metrics=[], limits={})
    found = of(raw, status=exit_status)
    assert found.verdict == "FAIL" and f"exited with {exit_status} although the status of its result" in found.message()


@pytest.mark.parametrize(
    ("error", "passed", "expected"),
    [(1e-12, True, "PASS"), (1.1e-12, True, "FAIL"), (None, True, "FAIL"), (0.0, False, "FAIL"), (1.0, True, "FAIL")],
)
def test_an_error_above_its_tolerance_fails_whatever_the_program_says(
    error: float | None, passed: bool, expected: str
) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["verification"]["checks"][0].update(error=error, tolerance=1e-12, passed=passed)

    assert of(spoiled(gpu_document(), change)).verdict == expected


def worst(**values: Any) -> dict[str, Any]:
    return spoiled(gpu_document(), lambda d: d["health"]["devices"][0].update(worst=health_sample(**values)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"reasons": ["hw_slowdown"]}, "INVALID"),
        ({"reasons": ["sw_power_cap"]}, "PASS"),
        ({"reasons": ["gpu_idle", "applications_clocks_setting"]}, "PASS"),
        ({"memory_clock_mhz": 3201 * 0.985}, "PASS"),
        ({"memory_clock_mhz": 3201 * 0.905}, "PASS"),
        ({"memory_clock_mhz": 3201 * 0.895}, "INVALID"),
        ({"memory_clock_mhz": 3201 * 0.6}, "INVALID"),
        ({"other_processes": 0}, "PASS"),
        ({"other_processes": 1}, "INVALID"),
        ({"pcie_width": 8}, "PASS"),  # nothing of STREAM crosses it
        ({"pcie_generation": 4}, "PASS"),
    ],
)
def test_conditions_that_void_a_measurement(values: dict[str, Any], expected: str) -> None:
    assert of(worst(**values)).verdict == expected


def test_a_run_that_is_void_is_no_regression() -> None:
    raw = triad(0.5 * LIMIT)
    raw["health"]["devices"][0].update(worst=health_sample(reasons=["hw_thermal_slowdown"]))
    assert of(raw).verdict == "INVALID"


@pytest.mark.parametrize(("count", "expected"), [(100, "PASS"), (99, "INVALID"), (50, "INVALID")])
def test_as_many_samples_as_the_metric_needs(count: int, expected: str) -> None:
    raw = gpu_document()
    raw["metrics"] = [
        metric(m["name"], m["subject"], around(m["median"], count if m["name"] == "triad" else 100, apart(m)))
        for m in raw["metrics"]
    ]
    found = of(raw)
    assert found.verdict == expected
    assert (f"has {count} samples; at least 100" in found.message()) is (expected == "INVALID")


@pytest.mark.parametrize(("spread", "expected"), [(0.045, "PASS"), (0.056, "INVALID"), (0.15, "INVALID")])
def test_a_spread_of_5_percent_is_the_most_of_a_gpu(spread: float, expected: str) -> None:
    """Median 4000 and best 4000 (1 + spread): they differ by spread / (1 + spread)."""
    found = of(triad(4000, spread=spread))
    assert found.verdict == expected and ("varies too much" in found.message()) is (expected == "INVALID")


def test_the_spread_is_a_part_of_the_best() -> None:
    """4182 to 4400 is 4.95 % of the best, though 5.1 % of p95, which is 4300; 4178 is 5.05 % away."""
    samples = [4182.0] * 60 + [4300.0] * 39 + [4400.0]
    raw = gpu_document()
    raw["metrics"] = [
        metric(m["name"], m["subject"], samples if m["name"] == "triad" else around(m["median"], spread=apart(m)))
        for m in raw["metrics"]
    ]
    assert of(raw).verdict == "PASS"
    worse = [4178.0] * 60 + [4300.0] * 39 + [4400.0]
    raw["metrics"] = [
        metric(m["name"], m["subject"], worse if m["name"] == "triad" else around(m["median"], spread=apart(m)))
        for m in raw["metrics"]
    ]
    assert of(raw).verdict == "INVALID"


SIBLINGS = make_program(
    "stream", siblings=0.04, floor={"host": None, "gpu": 0.5}, max_spread={"host": None, "gpu": 0.1}
)


def fleet(factor: float, spread: float = 0.002) -> dict[str, Any]:
    """Four equal GPUs, except that the third's triad is `factor` times the others'."""
    raw = gpu_document(gpus=4)
    raw["metrics"] = [
        metric(m["name"], m["subject"], around(4000 * factor, spread=spread + apart(m) / 1e3))
        if m["id"] == "triad.gpu2"
        else metric(m["name"], m["subject"], around(4000, spread=apart(m)))
        for m in raw["metrics"]
    ]
    return raw


@pytest.mark.parametrize(
    ("factor", "spread", "expected"),
    [(0.97, 0.002, "PASS"), (0.95, 0.002, "FAIL"), (0.6, 0.002, "FAIL"), (0.95, 0.02, "PASS"), (0.92, 0.02, "FAIL")],
)
def test_a_gpu_stays_behind_its_siblings_by_4_percent_or_three_times_its_scatter(
    factor: float, spread: float, expected: str
) -> None:
    """A scatter of 2 % (1.96 % of the best) excuses 5.9 %."""
    found = judged(fleet(factor, spread), SIBLINGS, Expectation(subjects=("gpu",), gpus=4))
    assert found.verdict == expected, found.message()
    assert {f.metric for f in found.findings} == (set() if expected == "PASS" else {"triad.gpu2"})
    assert found.judged["triad.gpu2"].verdict == expected
    says = "nid001 GPU 2: triad.gpu2 = 3800 GB/s is 5.0 % behind the other GPUs of the node (median 4000 GB/s); at most"
    assert (factor, spread) != (0.95, 0.002) or says in found.message()


def values_of_gpus(*values: float, direction: str = "higher") -> Any:
    """A judged run whose GPUs have these medians, and may be 4 % behind the others."""
    raw = gpu_document(gpus=len(values))
    unit = "GB/s" if direction == "higher" else "us"
    raw["metrics"] = [
        metric("triad", {"gpu": gpu}, around(value, spread=1e-9 * (gpu + 1)), unit=unit, direction=direction)
        for gpu, value in enumerate(values)
    ]
    raw["limits"] = {m["id"]: {"unknown": "nobody tells"} for m in raw["metrics"]}
    program = make_program("stream", "triad", siblings=0.04, unit=unit, direction=direction, floor={"gpu": None})
    return judged(raw, program, Expectation(subjects=("gpu",), gpus=len(values)))


@pytest.mark.parametrize(
    ("values", "behind"),
    [
        ((4000, 3850), set()),
        ((4000, 3830), {1}),  # 4.25 % behind the other one; the GPU itself does not count among them
        ((4000, 3600, 3660), {1}),  # behind the median of 4000 and 3600 by 3.7 %
        ((4000, 3600, 3640), {1, 2}),
        ((4000,), set()),
    ],
)
def test_a_gpu_is_held_against_the_median_of_the_others(values: tuple[float, ...], behind: set[int]) -> None:
    found = values_of_gpus(*values)
    assert {f.subject.first for f in found.findings} == behind
    assert all(any(f.bound == pytest.approx(b) for b in (4000, 3830, 3820, 3800)) for f in found.findings)


@pytest.mark.parametrize(("slowest", "behind"), [(10.39, set()), (10.41, {2}), (20.0, {2}), (5.0, set())])
def test_of_times_the_longest_is_behind(slowest: float, behind: set[int]) -> None:
    found = values_of_gpus(10.0, 10.0, slowest, 10.0, direction="lower")
    assert {f.subject.first for f in found.findings} == behind


def test_a_bound_of_0_may_be_missed() -> None:
    found = of(time(0.5, limit=None), program=LAUNCHES, expect=HOST, reference=lambda _: Bounds(
        0.0, None, 0.0, "us", "median", "by hand"))  # fmt: skip
    (finding,) = found.findings
    assert (found.verdict, finding.bound, finding.miss, finding.value) == ("FAIL", 0.0, None, 0.5)


@pytest.mark.parametrize(
    ("low", "high", "lower", "upper"),
    [(3600.0, None, -0.1, None), (None, 4400.0, None, 0.1), (3600.0, 4400.0, -0.1, 0.1), (None, None, None, None)],
)
def test_reframe_gets_the_bounds_that_there_are(
    low: float | None, high: float | None, lower: float | None, upper: float | None
) -> None:
    raw = triad(4000)
    raw["limits"] = {key: {"unknown": "nobody tells"} for key in raw["limits"]}
    found = of(raw, reference=reference(low, high)).judged["triad.gpu0"]
    assert reframe_reference(found) == pytest.approx(
        (4000, lower, upper, "GB/s") if lower or upper else (0, None, None, "GB/s")
    )


def test_where_the_program_knows_no_limit_the_data_sheet_has_one() -> None:
    raw = gpu_document()
    raw["limits"] = {key: {"unknown": "the GPU does not report"} for key in raw["limits"]}
    sheet = Expectation(subjects=("gpu",), gpus=1, limits={("memory", "gpu"): Limit(4000.0, "GB/s", "data sheet: x")})
    found = judged(raw, expect=sheet)
    # 4395 GB/s of triad are beyond 1.02 x 4000
    assert found.verdict == "FAIL" and "triad.gpu0" in {f.metric for f in found.findings}
    # if the device reports somewhat more, that is the ceiling, and noted
    reported = judged(gpu_document(), expect=sheet)
    assert reported.verdict == "PASS" and reported.judged["triad.gpu0"].limit.value == 4000
    (note,) = (f for f in reported.findings if f.kind == "note")
    assert "the limit is 4000 GB/s by data sheet: x, 4814.3 GB/s by attribute: " in note.message
    # not if it reports another device's
    far = Expectation(subjects=("gpu",), gpus=1, limits={("memory", "gpu"): Limit(3500.0, "GB/s", "data sheet: x")})
    assert judged(gpu_document(), expect=far).verdict == "FAIL"


@pytest.mark.parametrize(("claimed", "reason", "expected", "says"), [
    ("peer", "no peer access: cudaDeviceCanAccessPeer is 0", "FAIL", "claims 'peer'"),
    ("managed", "no peer access: cudaDeviceCanAccessPeer is 0", "WAIVED", ""),
    ("", "no peer access: cudaDeviceCanAccessPeer is 0", "WAIVED", ""),
    ("", "did not feel like it", "FAIL", "is not a known reason; allowed: no peer access"),
])  # fmt: skip
def test_a_waiver_has_a_known_reason_that_the_machine_does_not_deny(
    claimed: str, reason: str, expected: str, says: str
) -> None:
    raw = gpu_document()
    raw.update(status="waived", reason=reason, metrics=[], limits={})
    found = judged(raw, expect=Expectation(subjects=("gpu",), capabilities=frozenset(claimed.split())))
    assert found.verdict == expected and says in found.message()


@pytest.mark.parametrize(("ran", "expected"), [(1, "FAIL"), (2, "PASS"), (3, "FAIL")])
def test_as_many_ranks_as_were_asked_for(ran: int, expected: str) -> None:
    raw = spoiled(gpu_document(), lambda d: d["placement"].update(ranks=ran))
    assert of(raw, expect=Expectation(subjects=("gpu",), gpus=1, ranks=2)).verdict == expected


@pytest.mark.parametrize(("gpus", "expected"), [(None, "WAIVED"), (1, "WAIVED"), (2, "FAIL"), (4, "FAIL")])
def test_a_node_with_two_gpus_lacks_none(gpus: int | None, expected: str) -> None:
    raw = gpu_document()
    raw.update(status="waived", reason="needs two GPUs: 1 GPU is here", metrics=[], limits={})
    assert judged(raw, expect=Expectation(subjects=("gpu",), gpus=gpus)).verdict == expected


@pytest.mark.parametrize(
    ("token", "told", "expected"),
    [("a", "a", "PASS"), ("a", "b", "FAIL"), ("a", None, "FAIL"), (None, None, "PASS"), (None, "b", "PASS")],
)
def test_a_result_repeats_the_token_of_its_attempt(token: str | None, told: str | None, expected: str) -> None:
    found = judged(
        gpu_document() | ({"token": told} if told else {}), expect=Expectation(subjects=("gpu",), gpus=1, token=token)
    )
    assert found.verdict == expected
    says = f"nid001: the result's token is {repr(told) if told else 'none'}; this attempt's is 'a'"
    assert found.message().startswith(says if expected == "FAIL" else "")


@pytest.mark.parametrize(("size", "expected"), [(1 << 20, "PASS"), (1 << 21, "FAIL")])
def test_each_point_that_was_asked_for_must_come(size: int, expected: str) -> None:
    raw = gpu_document()
    triad = next(m for m in raw["metrics"] if m["name"] == "triad")
    raw["metrics"].append(metric("triad", {"gpu": 0}, around(triad["median"], spread=3e-3), at={"bytes": 1 << 20}))
    raw["limits"]["triad.gpu0.bytes=1048576"] = raw["limits"]["triad.gpu0"]
    expect = Expectation(subjects=("gpu",), gpus=1, points=(("triad", "gpu", {"bytes": size}),))
    assert judged(raw, expect=expect).verdict == expected


BOTH = make_program("pairs", "peer", "usual", floor={}, max_spread={}, min_count=1, per=("host", "pair"))


def of_both(*subjects: dict[str, int], asked: tuple[str, ...] = ("host",), names: Any = ("peer", "usual")) -> Any:
    """A run with each metric of BOTH for each of these subjects."""
    raw = host_document("pairs")
    raw["metrics"] = [metric(name, subject, [4.0] * 3) for name in names for subject in subjects]
    raw["limits"] = {m["id"]: {"unknown": "nobody tells"} for m in raw["metrics"]}
    return judged(raw, BOTH, Expectation(subjects=asked))


def test_each_kind_that_was_asked_for_must_come() -> None:
    host, pair = {"host": 0}, {"from": 0, "to": 1}
    assert of_both(host).verdict == of_both(host, pair).verdict == "RECORDED"
    assert of_both(pair, host, asked=("host", "pair")).verdict == "RECORDED"
    assert of_both(pair).message() == "nid001: metric peer of host is missing; nid001: metric usual of host is missing"
    assert of_both(host, asked=("host", "pair")).message().startswith("nid001: metric peer of pair is missing")
    assert of_both(host, names=("peer",)).message() == "nid001: metric usual of host is missing"


def test_a_result_without_any_metric_fails_whatever_was_asked_for() -> None:
    raw = host_document("daxpy")
    raw.update(metrics=[], limits={})
    found = judged(raw, LAUNCHES, Expectation(subjects=("host",), metrics=()))
    assert (found.verdict, found.message()) == ("FAIL", "nid001: the result contains no metric")


@pytest.mark.parametrize("key", ["value", "best", "median", "p5", "p95", "samples"])
def test_no_number_is_infinite(key: str) -> None:
    raw = triad(4000)
    one = next(m for m in raw["metrics"] if m["name"] == "triad")
    one[key] = [*one[key][:-1], float("inf")] if key == "samples" else float("inf")
    found = of(raw)
    assert found.verdict == "FAIL" and "contains inf, which is not finite" in found.message()


@pytest.mark.parametrize("integrated", [False, True])
def test_what_a_gpu_does_not_tell_is_noted(integrated: bool) -> None:
    """A GPU that shares the host's memory reports little about itself: that is not a note either."""

    def change(raw: dict[str, Any]) -> None:
        raw["devices"][0]["integrated"] = integrated
        device = raw["health"]["devices"][0]
        device.update(worst=health_sample(other_processes=None, memory_clock_mhz=None))
        del device["worst"]["reasons"]

    found = of(spoiled(gpu_document(), change))
    assert found.verdict == "PASS", found.message()
    said = "health during the timed part does not report memory_clock_mhz, reasons, other_processes"
    assert any(said in f.message for f in found.findings if f.kind == "note") == (not integrated)


@pytest.mark.parametrize(
    ("said", "asked", "expected"),
    [
        ("none", None, "PASS"),
        ("", None, "PASS"),
        (None, None, "PASS"),
        ("element", None, "FAIL"),
        ("slow", "slow", "PASS"),
        ("slow", "element", "FAIL"),
    ],
)
def test_a_fault_that_nobody_asked_to_inject_fails(said: str | None, asked: str | None, expected: str) -> None:
    raw = spoiled(gpu_document(), lambda d: d["parameters"].update(inject_fault=said))
    more = {} if asked is None else {"inject_fault": asked}
    found = of(raw, expect=Expectation(subjects=("gpu",), gpus=1, parameters=more))
    assert found.verdict == expected and ("inject_fault" in found.message()) == (expected == "FAIL")


@pytest.mark.parametrize("unit", ["GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s", "1"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_rate_is_above_0(unit: str, value: float) -> None:
    """Also a ratio, unless its metric states that it may be 0 or below."""
    raw = host_document("daxpy")
    raw["metrics"] = [metric("daxpy", {"host": 0}, [value] * 3, unit=unit)]
    program = make_program("daxpy", "daxpy", unit=unit, floor={"host": None}, max_spread={"host": None}, min_count=1)
    found = of(raw, program=program, expect=HOST)
    assert found.verdict == "FAIL"
    assert found.message().endswith("it must be above 0")


def test_what_was_not_run_is_waived_for_a_known_reason_alone() -> None:
    found = waived("needs two GPUs: the partition has 1", "nid001")
    assert (found.verdict, found.findings[0].node) == ("WAIVED", "nid001")
    assert found.message() == "nid001: needs two GPUs: the partition has 1"
    with pytest.raises(ValueError, match="is not a valid reason for a waiver; allowed: no peer access"):
        waived("did not feel like it: today", "nid001")


def test_what_is_found_of_the_job_makes_a_verdict_worse_and_never_better() -> None:
    bad, void = (Finding(verdict, "of the job") for verdict in ("FAIL", "INVALID"))
    good = of(gpu_document())
    assert extended(good, []) is good
    assert extended(good, [void]).verdict == "INVALID"
    assert extended(good, [void, bad]).verdict == "FAIL"
    assert extended(of(triad(0.5 * LIMIT)), [void]).verdict == "FAIL"
    skipped = waived("library missing: x", "n")
    assert extended(skipped, [bad]).verdict == "WAIVED"
    assert extended(skipped, [bad]).findings == (*skipped.findings, bad)


def test_a_value_without_a_criterion_is_recorded_and_one_with_makes_a_pass() -> None:
    bare = make_program("stream", floor={"host": None, "gpu": None})
    found = judged(gpu_document(), bare)
    assert found.verdict == "RECORDED" and {one.verdict for one in found.judged.values()} == {"RECORDED"}
    one = judged(gpu_document(), bare, reference=reference(4000, None))
    assert one.verdict == "PASS" and one.judged["copy.gpu0"].verdict == "RECORDED"
    assert judged(gpu_document(), bare, reference=reference(4400, None)).verdict == "FAIL"


def test_without_its_request_a_result_is_recorded_at_most() -> None:
    assert unrequested(of(gpu_document())).verdict == "RECORDED"
    assert unrequested(of(triad(0.5 * LIMIT))).verdict == "FAIL"


@pytest.mark.parametrize(
    ("of_several", "expected"),
    [
        (["PASS", "FAIL", "INVALID", "WAIVED"], "FAIL"),
        (["PASS", "INVALID", "WAIVED"], "INVALID"),
        (["PASS", "WAIVED"], "PASS"),
        (["PASS", "RECORDED", "WAIVED"], "RECORDED"),
        (["RECORDED", "INVALID", "PASS"], "INVALID"),
        (["PASS", "MARVELLOUS"], "FAIL"),
        (["WAIVED"], "WAIVED"),
        ([], "FAIL"),
    ],
)
def test_the_order_of_verdicts(of_several: list[str], expected: str) -> None:
    for order in (of_several, of_several[::-1]):
        assert verdict.worst(order) == expected


@pytest.mark.parametrize(
    ("unit", "value", "count", "clock", "expected"),
    [
        ("ms", 0.008864, 5, "device", "PASS"),  # measured on an H200, in steps of 32 ns
        ("us", 8.864, 19, "device", "PASS"),
        ("us", 8.864, 20, "device", "INVALID"),
        ("us", 50.1, 5, "device", "INVALID"),
        ("us", 8.864, 5, "host", "INVALID"),
        ("GB/s", 8.864, 5, "device", "INVALID"),
    ],
)
def test_few_equal_times_of_a_short_kernel_may_be(
    unit: str, value: float, count: int, clock: str, expected: str
) -> None:
    declared = make_program("stream", unit=unit, direction="lower", floor={}, max_spread={}, min_count=5)
    raw = gpu_document()
    raw["metrics"] = [
        {**metric(m["name"], m["subject"], [value] * count, unit=unit, direction="lower"), "clock": clock}
        for m in raw["metrics"]
    ]
    raw["limits"] = {m["id"]: {"unknown": "none"} for m in raw["metrics"]}
    found = of(raw, program=declared)
    assert found.verdict in ("PASS", "RECORDED") if expected == "PASS" else found.verdict == expected, found.message()
