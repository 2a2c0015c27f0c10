"""References with a value for each point of a sweep: read, refused, made from kept sessions, and worth having."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tenken.judge.criteria import hold
from tenken.machines import loader
from tenken.machines.errors import SystemFileError
from tenken.machines.facts import facts
from tenken.model.catalogue import load_catalogue
from tenken.model.verdicts import FAIL, PASS
from tenken.paths import SYSTEMS
from tests.support import kept
from tools import references

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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    points:", "    value: 2\n    points:", "must have one of 'value', 'range' and 'points'"),
        ("{bytes: 8192}", "{bytes: 4096}", "point 2 of reference 1 (transfer.htod_sweep) is there before"),
        ("{bytes: 8192}", "{way: pinned}", "point 2 of reference 1 (transfer.htod_sweep) names 'way'"),
        ("value: 3}", "value: -3}", "must be more than 0"),
        ("value: 3}", "valeu: 3}", "did you mean 'value'?"),
    ],
)
def test_wrong_points_are_refused(tmp_path, old, new, said):
    assert old in POINTS
    with pytest.raises(SystemFileError) as error:
        load(tmp_path, POINTS.replace(old, new))
    assert said in str(error.value)


def test_a_point_needs_two_sessions_that_agree():
    key = ("stream", "triad", "gpu", "gpu", "cuda", "{}")

    def seen(session, value):
        return (session, "2026-11-22T00:00:00Z", "580", value, "GB/s", "higher", "median")

    def tolerances(*values):
        return [head[-2] for head in references.points({key: [seen(s, v) for s, v in values]}, Counter())]

    assert tolerances(("a", 100.0), ("b", 104.0)) == [0.1]
    assert tolerances(("a", 100.0), ("b", 118.0)) == [0.25]
    assert tolerances(("a", 100.0), ("b", 140.0)) == []
    assert tolerances(("a", 100.0), ("a", 100.0)) == []


@pytest.fixture(scope="module")
def judged():
    """Every value of the twelve kept sessions with its criterion on the described machine."""
    system = loader.load("h200").expand({}, strict=False)
    machines = {}
    found = []
    for record in kept.all_records():
        if record.result is None:
            continue
        place = (record.partition, record.environ)
        if place not in machines:
            machines[place] = facts(system, system.partitions[place[0]], system.environments[place[1]])
        program = load_catalogue()[record.result.program]
        for metric in record.result.metrics:
            declared = program.metric_named(metric.name)
            known = machines[place].criterion(record.result, metric)
            one, _ = hold(record.result, metric, declared, machines[place].limits, known)
            found.append((record, metric, declared, machines[place], one))
    return found


def test_the_file_holds_what_the_kept_sessions_give():
    values, refused = references.collected([*kept.all_records(), *kept.first_runs()], dict(load_catalogue()))
    lines = references.fragment(references.points(values, refused))
    text = (SYSTEMS / "h200.yaml").read_text()
    assert "\n".join(lines) + "\n" == "references:" + text.partition("\nreferences:")[2]


def test_a_fifth_of_the_kept_values_has_a_criterion_that_a_loss_of_30_percent_misses(judged):
    held = [(r, m, d, machine, one) for r, m, d, machine, one in judged if one.criterion is not None]
    assert len(held) >= 0.21 * len(judged)
    counting = 0
    for record, metric, declared, machine, one in held:
        factor = 0.7 if metric.direction == "higher" else 1 / 0.7
        worse = {k: factor * getattr(metric, k) for k in ("value", "best", "median", "p5", "p95")}
        slow = replace(metric, samples=tuple(factor * s for s in metric.samples), **worse)
        known = machine.criterion(record.result, slow)
        again, _ = hold(record.result, slow, declared, machine.limits, known)
        counting += (one.verdict, again.verdict) == (PASS, FAIL)
    # floors of 40 to 70 % of a limit that is reached to the full do not count
    assert counting >= 0.95 * len(held), (counting, len(held))


def test_every_program_has_its_key_metrics():
    for program in load_catalogue().values():
        assert 1 <= len(program.key) <= 12, program.name
