"""References with a value for each point of a sweep: read, refused, made from kept sessions, and worth having."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from tenken.machines import between, facts, loader
from tenken.machines.errors import SystemFileError
from tenken.model.catalogue import load_catalogue
from tenken.model.verdicts import FAIL, PASS
from tenken.paths import ROOT, SYSTEMS
from tests.support import kept
from tools import criteria, references

POINTS = """
  - metric: transfer.htod_sweep
    subject: gpu
    partition: gpu
    parameters: {way: pinned}
    lower: -0.1
    unit: GB/s
    statistic: median
    date: "2026-11-22"
    source: own runs
    points:
      - {at: {bytes: 4096}, value: 1.5}
      - {at: {bytes: 8192}, value: 3}
"""


def load(tmp_path, text):
    head = (SYSTEMS / "h200.yaml").read_text().partition("\nreferences:")[0]
    (tmp_path / "h200.yaml").write_text(f"{head}\nreferences:{text}")
    return loader.load_file(tmp_path / "h200.yaml", cache_folder=None)


def test_a_point_is_a_reference_of_its_own(tmp_path):
    system = load(tmp_path, POINTS)
    assert [(dict(r.parameters), r.value) for r in system.references] == [
        ({"way": "pinned", "bytes": 4096}, 1.5),
        ({"way": "pinned", "bytes": 8192}, 3),
    ]
    found = loader.references(
        system, "gpu", "transfer", metric="htod_sweep", parameters={"way": "pinned", "bytes": 8192}
    )
    assert [r.value for r in found] == [3]
    assert not loader.references(system, "gpu", "transfer", metric="htod_sweep", parameters={"way": "x", "bytes": 8192})


def test_coordinates_stand_under_at_whether_one_or_many(tmp_path):
    one = POINTS.partition("    points:")[0]
    at = one.replace("    lower:", "    at: {bytes: 8192}\n    value: 3\n    lower:")
    (found,) = load(tmp_path, at).references
    assert found == load(tmp_path, POINTS).references[1]
    kinds = POINTS.replace("parameters: {way: pinned}", "at: {kinds: pinned}")
    assert [dict(one.parameters) for one in load(tmp_path, kinds).references] == [
        {"kinds": "pinned", "bytes": 4096}, {"kinds": "pinned", "bytes": 8192},
    ]  # fmt: skip
    with pytest.raises(SystemFileError, match=r"is at 'byts'; did you mean 'bytes'\?"):
        load(tmp_path, at.replace("bytes:", "byts:"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    points:", "    value: 2\n    points:", "must have one of 'value', 'range' and 'points'"),
        ("{bytes: 8192}", "{bytes: 4096}", "point 2 of reference 1 (transfer.htod_sweep) is there before"),
        ("{bytes: 8192}", "{way: pinned}", "point 2 of reference 1 (transfer.htod_sweep) names 'way'"),
        ("value: 3}", "value: -3}", "must be more than 0"),
        ("{bytes: 8192}", "{byte: 8192}", "reference 1 (transfer.htod_sweep) is at 'byte'; did you mean 'bytes'?"),
        ("    points:", "    at: {way: pinned}\n    points:", "'at' of reference 1 (transfer.htod_sweep) names 'way'"),
        ("value: 3}", "valeu: 3}", "did you mean 'value'?"),
    ],
)
def test_wrong_points_are_refused(tmp_path, old, new, said):
    assert old in POINTS
    with pytest.raises(SystemFileError) as error:
        load(tmp_path, POINTS.replace(old, new))
    assert said in str(error.value)


def seen(session, value, size=None):
    key = ("stream", "triad", "gpu", "gpu", "cuda", json.dumps({} if size is None else {"bytes": size}))
    return key, references.Seen(session, "2026-11-22T00:00:00Z", "580", value, "GB/s", "higher", "median")


def gathered(*values):
    found = {}
    for key, one in values:
        found.setdefault(key, []).append(one)
    return found


def test_a_point_needs_two_sessions_that_agree():
    def tolerances(*values):
        return [head[-2] for head in references.points(gathered(*(seen(*one) for one in values)), Counter())]

    assert tolerances(("a", 100.0), ("b", 104.0)) == [0.1]
    assert tolerances(("a", 100.0), ("b", 118.0)) == [0.25]
    assert tolerances(("a", 100.0), ("b", 140.0)) == []
    assert tolerances(("a", 100.0), ("a", 100.0)) == []


@pytest.mark.parametrize(("at_8192", "curve"), [(1.33, "bytes"), (1.0, "")])
def test_points_are_a_curve_unless_a_kept_value_between_them_misses_it(at_8192, curve):
    """Latency 4 us and 4 GB/s: 4096 B at 0.81, 8192 B at 1.35, 16384 B at 2.02 GB/s."""
    ends = [seen(session, value, size) for session in "ab" for size, value in ((4096, 0.8138), (16384, 2.0237))]
    values = gathered(*ends, seen("a", at_8192, 8192))
    good = references.points(values, Counter())
    assert len(good) == 1
    text = "\n".join(references.fragment(good, values))
    assert ("between: bytes" in text) == bool(curve)


CURVE = """
  - metric: transfer.htod_sweep
    subject: gpu
    partition: gpu
    lower: -0.1
    unit: GB/s
    statistic: median
    date: "2026-11-22"
    source: own runs
    between: bytes
    points:
      - {at: {bytes: 4000}, value: 0.8}
      - {at: {bytes: 16000}, value: 2}
"""


def curve_at(tmp_path, size):
    found = between.reference(load(tmp_path, CURVE).references, {"bytes": size})
    return None if found is None else found.value


def test_between_two_points_holds_latency_and_bandwidth(tmp_path):
    # 5 us at 4000 B and 8 us at 16000 B: 4 us and 4 GB/s
    assert curve_at(tmp_path, 8000) == pytest.approx(8000 / 6e3)
    # a smaller message takes no longer, a larger one is no slower
    assert curve_at(tmp_path, 1000) == pytest.approx(1000 / 5e3)
    assert curve_at(tmp_path, 64000) == pytest.approx(2)
    assert curve_at(tmp_path, "large") is None and curve_at(tmp_path, True) is None


def test_a_curve_says_what_it_is_and_keeps_the_wider_tolerance(tmp_path):
    known = list(load(tmp_path, CURVE).references)
    known[1] = replace(known[1], lower=-0.2)
    found = between.reference(known, {"bytes": 8000})
    assert found.lower == -0.2 and "latency and bandwidth between 4000 and 16000 bytes" in found.source
    assert between.reference([replace(one, between=None) for one in known], {"bytes": 8000}) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("between: bytes", "between: size", "must name a coordinate that two points or more have"),
        ("{bytes: 4000}", "{bytes: -4000}", "must name a coordinate that two points or more have"),
        ("htod_sweep", "overhead", "unknown metric"),
    ],
)
def test_a_wrong_curve_is_refused(tmp_path, old, new, said):
    with pytest.raises(SystemFileError) as error:
        load(tmp_path, CURVE.replace(old, new))
    assert said in str(error.value)


def test_a_reference_of_ranks_holds_for_so_many_alone():
    system = loader.load("h200").expand({}, strict=False)
    machine = facts.facts(system, system.partitions["gpu"], system.environments["cuda"])
    record = next(r for r in kept.all_records() if r.program == "nccl" and r.result is not None)
    metric = next(m for m in record.result.metrics if m.name == "sendrecv" and m.at["bytes"] == 2**28)
    assert machine.criterion(record.result, metric) is not None
    eight = replace(metric, subject=replace(metric.subject, first=8))
    assert machine.criterion(record.result, eight) is None


@pytest.mark.parametrize(
    ("program", "name", "kind", "why"),
    [
        ("transpose", "total", "gpu", "CPU"),
        ("snapshot_io", "read", "gpu", "storage"),
        ("hpl", "residual", "gpu", "accuracy"),
        ("stream", "triad", "host", "host"),
        ("stream", "triad", "gpu", ""),
        ("transpose", "kernel", "gpu", ""),
    ],
)
def test_what_belongs_to_a_lent_host_is_no_reference(program, name, kind, why):
    record = next(r for r in kept.all_records() if r.program == "stream" and r.result and r.result.metrics)
    metric = record.result.metrics[0]
    said = references.refusal(program, replace(metric, name=name, subject=replace(metric.subject, kind=kind)))
    assert why in said and bool(said) == bool(why)


@pytest.fixture(scope="module")
def judged():
    """Every value of the twelve kept sessions with its criterion on the described machine."""
    return criteria.held(loader.load("h200").expand({}, strict=False), kept.all_records())


@pytest.fixture(scope="module")
def made():
    """What the command in the system file makes of its evidence."""
    text = (SYSTEMS / "h200.yaml").read_text()
    told = text.partition("# python -m tools.references h200 ")[2].partition("\nreferences:")[0].replace("#", "")
    system = loader.load("h200").expand({}, strict=False)
    return references.made(system, [str(ROOT / one) for one in told.split()])


def test_the_file_holds_what_the_kept_sessions_give(made):
    text = (SYSTEMS / "h200.yaml").read_text()
    assert "\n".join(made[0]) + "\n" == "references:" + text.partition("\nreferences:")[2]


def test_no_kept_value_misses_its_criterion(judged):
    assert not [one.metric.id for one in judged if one.judged.verdict == FAIL]


def test_a_third_of_the_kept_values_has_a_criterion_that_a_loss_of_30_percent_misses(judged):
    held = [one for one in judged if one.judged.criterion is not None]
    counting = [one for one in held if one.counts]
    assert len(counting) >= 0.34 * len(judged)
    described = dict(criteria.classes(judged))[criteria.DESCRIBED]
    assert sum(one.counts for one in described) >= 0.67 * len(described)
    # floors of 40 to 70 % of a limit that is reached to the full do not count, nor pairs too few to prove a loss
    assert len(counting) >= 0.95 * len(held)


def test_every_value_is_of_one_class_and_each_class_but_one_is_a_reason(judged):
    by = dict(criteria.classes(judged))
    assert sum(map(len, by.values())) == len(judged)
    assert {"of the storage", "of the host's CPU", "accuracy"} < set(by)
    assert not any(references.refusal(one.record.program, one.metric) for one in by[criteria.DESCRIBED])


def test_a_comparison_within_a_run_counts_where_a_loss_of_30_percent_fails(judged):
    ratios = [one for one in judged if one.metric.name.endswith(("over_asis", "over_best"))]
    counting = [one for one in ratios if one.counts]
    assert len(counting) >= 60 and {one.judged.criterion.kind for one in counting} == {"floor"}
    assert all(one.metric.count >= 15 for one in counting)
    few = [one for one in ratios if one.metric.count < 15]
    assert few and all(one.judged.criterion is None for one in few)


def test_a_criterion_that_a_loss_of_30_percent_meets_does_not_count(judged):
    one = next(one for one in judged if one.counts)
    assert not replace(one, worse=PASS).counts
    assert not replace(one, judged=replace(one.judged, criterion=None)).counts


def test_what_has_no_criterion_is_listed_with_the_reason(judged, made):
    lines = criteria.table(judged, made[1])
    assert (ROOT / "docs" / "criteria.md").read_text().partition("<!-- made -->\n")[2] == "\n".join(lines) + "\n"
    lines = lines[lines.index("| metric | without | of | why |") :]
    without = sum(int(line.split("|")[2]) for line in lines[2:])
    assert without == sum(not one.counts for one in judged)
    assert all(line.split("|")[4].strip() for line in lines[2:])


def test_every_program_has_its_key_metrics():
    for program in load_catalogue().values():
        assert 1 <= len(program.key) <= 12, program.name
