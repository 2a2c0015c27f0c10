"""From records of a campaign to figures with their times and covariates, and to the named nodes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import PurePosixPath
from types import SimpleNamespace

import numpy as np
import pytest

from tenken.archive import records as archive
from tenken.campaign import findings
from tenken.campaign.configuration import Mixed, Odd
from tenken.campaign.file import Campaign
from tenken.campaign.journal import State, Unit
from tenken.campaign.screening import Effect, Suspect
from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import Finding, Judgement
from tenken.model.result import typed
from tenken.report import campaign as report
from tests.support import kept
from tools.campaign import standin

NODES = tuple(f"n{i:03d}" for i in range(60))
CAMPAIGN = Campaign(
    "c", "standin", "gpu", NODES, 600.0, groups={"rack": {n: f"r{i // 10}" for i, n in enumerate(NODES)}}
)


def table(change, unit="GB/s"):
    """Two figures per GPU of each node; `change` alters a node's document, and gets the node's number."""
    world = standin.StandIn(NODES, gpus=2)
    found = findings.Table({})
    rng = np.random.default_rng(5)
    for at, node in enumerate(NODES):
        record = world._record("s", node, 0)
        assert record.result is not None
        document = json.loads(record.result.text)
        kept = [m for m in document["metrics"] if m["name"] in ("copy", "triad")]
        document["metrics"], document["limits"] = kept, {}
        for metric in kept:
            metric["unit"] = unit
        time = change(document, at, rng) or record.time
        for metric in kept:
            # recomputed from the samples
            for key in ("value", "best", "median", "p5", "p95"):
                metric[key] *= metric.get("factor", 1)
            metric["samples"] = [v * metric.pop("factor", 1) for v in metric["samples"][:1]]
        found.take(replace(record, result=typed(document), time=time), Unit(node))
    return found


def accused(found):
    return {one.name for one in _judged(found).not_again}


def _judged(found):
    result = findings.Findings()
    findings.judge(found, result, CAMPAIGN)
    return result


def test_what_the_room_does_meanwhile_accuses_nobody_and_a_slow_device_is_still_found():
    def warming(document, at, rng):
        for metric in document["metrics"]:
            metric["factor"] = 1 - 0.2 * (at / len(NODES)) + 0.0005 * rng.standard_normal()
            if at == 30 and metric["subject"]["gpu"] == 1:
                metric["factor"] *= 0.8
        return f"2026-01-01T{at // 6:02d}:{at % 6}0:00.000000Z"

    found = table(warming)
    assert accused(found) == {"n030 GPU 1"}
    times, explained_by = found.conditions("Check00 copy", [(n, "GPU 0") for n in NODES], 1, {})
    assert explained_by == () and (np.diff(times) > 0).all()


@pytest.mark.parametrize("own", [False, True])
def test_under_a_power_cap_the_air_of_the_rack_explains_and_a_device_s_own_heat_does_not(own):
    def hot(document, at, rng):
        of_rack = 30 + 3.0 * (at // 10)
        for gpu in document["health"]["devices"]:
            gpu["before"] = {
                **gpu["before"],
                "temperature_c": of_rack + rng.standard_normal(),
                "power_w": 75.0 + rng.random(),
            }
            if own and at == 33 and gpu["index"] == 0:
                gpu["before"]["temperature_c"] += 40
            if gpu["index"] == 0 and at in (5, 6):
                gpu["before"]["power_w" if at == 5 else "temperature_c"] = None
        for metric in document["metrics"]:
            metric["factor"] = 1 - 0.002 * (of_rack - 30) + 0.002 * rng.standard_normal()
            if own and at == 33 and metric["subject"]["gpu"] == 0:
                metric["factor"] *= 0.6

    found = table(hot, "GFLOP/s")
    _, (drawn, air) = found.conditions("Check00 copy", [(n, "GPU 0") for n in NODES], 1, CAMPAIGN.groups["rack"])
    assert np.flatnonzero(np.isnan(drawn)).tolist() == [5, 6] and len(np.unique(air)) == 6
    assert accused(found) == ({"n033 GPU 0"} if own else set())


def test_the_settings_of_a_node_and_of_a_gpu_that_are_not_those_of_the_others_are_named():
    def other(document, at, _):
        if at == 7:
            document["host"] |= {"kernel": "6.1.1", "memory_bytes": 2**39}
            document["devices"][1] |= {"vbios": "95", "pcie_generation_max": 4, "memory_bytes": 2**36}
        document["host"]["os"] = f"Linux {at % 2}"

    found = table(other)
    for at, node in enumerate(NODES):  # told again by the node's job
        told = {"operating system": f"Linux {at % 2}", "kernel": f"6.1.{int(at == 7)}", "tuned": f"{at // 59}"}
        found.take_configuration({"host": told}, Unit(node))
    found = _judged(found)
    assert [(one.name, one.item, one.value, one.majority) for one in found.odd] == [
        ("n007", "kernel", "6.1.1", "6.1.0"), ("n007", "memory", "512 GiB", "1024 GiB"),
        ("n007 GPU 1", "PCIe generation", "4", "missing"), ("n007 GPU 1", "VBIOS", "95", "96.00.61"),
        ("n007 GPU 1", "memory", "64 GiB", "140 GiB"), ("n059", "tuned", "1", "0"),
    ]  # fmt: skip
    assert [(one.item, one.counts) for one in found.mixed] == [("operating system", {"Linux 0": 30, "Linux 1": 30})]


def few(changes, nodes=NODES[:5], runs=()):
    """Two checks of five nodes; `changes`: by node and purpose, a function of the first one's record. `runs`: more."""
    world = standin.StandIn(nodes, gpus=1)
    found = findings.Table({})
    for unit in [*(Unit(node) for node in nodes), *runs]:
        record = world._record("s", unit.node, 0)
        change = changes.get((unit.node, unit.purpose))
        found.take(change(record) if change else record, unit)
        found.take(world._record("s", unit.node, 1), unit)
    result = findings.Findings(nodes=len(nodes), tested=len(nodes))
    findings.judge(found, result, replace(CAMPAIGN, nodes=nodes))
    return found, result


def invalid(record):
    why = Finding("INVALID", f"{record.nodes[0]}: throttled")
    return replace(record, judgement=Judgement("INVALID", (why,), ()))


def renamed(record):
    """As from a node whose best setting is a different one."""
    assert record.result is not None
    return replace(record, result=typed(json.loads(record.result.text.replace('"dot', '"other_dot'))))


def test_a_node_whose_measurement_was_void_is_measured_again_and_reported_for_it_only_then():
    one = NODES[1]
    table_, result = few({(one, "round"): invalid})
    assert result.bad_nodes() == {one: ["Check00: no valid measurement in 1 run: throttled"]}
    chosen = findings.suspects(table_, CAMPAIGN)
    assert chosen.checks == {one: ("Check00",)} and chosen.void, "its repetition is the first that is compared"
    _, result = few({(one, "round"): invalid}, runs=[Unit(one, "retest", 1)])
    assert not result.bad_nodes()
    _, result = few({(one, "round"): invalid, (one, "retest"): invalid}, runs=[Unit(one, "retest", 1)])
    assert result.bad_nodes() == {one: ["Check00: no valid measurement in 2 runs: throttled"]}


def test_a_void_measurement_is_repeated_once_and_what_it_then_shows_is_repeated_too():
    one, slow = NODES[1], NODES[3]
    table_, _ = few({(one, "round"): invalid, (one, "retest"): invalid}, runs=[Unit(one, "retest", 1)])
    assert findings.suspects(table_, CAMPAIGN).checks == {}, "void again: it is reported, not repeated without end"

    def slower(record):
        assert record.result is not None
        raw = json.loads(record.result.text)
        for metric in raw["metrics"]:
            metric["value"] *= 0.5
            metric["samples"] = [0.5 * sample for sample in metric["samples"]]
        return replace(record, result=typed(raw))

    first = {(slow, "round"): invalid, (slow, "retest"): slower}
    table_, result = few(first, nodes=NODES[:12], runs=[Unit(slow, "retest", 1)])
    assert result.unrepeated and not result.named
    chosen = findings.suspects(table_, CAMPAIGN)
    assert chosen.checks == {slow: ("Check00",)} and not chosen.void
    table_, result = few(first, nodes=NODES[:12], runs=[Unit(slow, "retest", 1), Unit(slow, "retest", 2)])
    assert result.named and not result.unrepeated and findings.suspects(table_, CAMPAIGN).checks == {}


def test_what_is_void_on_most_nodes_is_reported_of_the_check_and_accepts_none_of_them():
    table_, result = few({(node, "round"): invalid for node in NODES[:3]})
    assert findings.suspects(table_, CAMPAIGN).checks == {} and result.bad_nodes() == {}
    assert result.common == ["Check00: no valid measurement on 3 of 5 nodes: throttled"]
    assert result.not_in_order() == set(NODES[:3]) and result.share() == findings.lower_share(2, 5, 0.95)


def test_another_best_setting_is_no_missing_value_and_no_value_of_a_check_is():
    _, result = few({(NODES[2], "round"): renamed})
    assert result.missing == []
    _, result = few({(NODES[2], "round"): lambda record: replace(record, result=None)})
    assert result.missing == ["n002 GPU 0: no value of Check00; 4 of 5 devices have one"]
    assert list(result.bad_nodes()) == ["n002"]


@pytest.mark.parametrize(("first", "second", "told"), [(0.3, 0.3, "named"), (0.3, 1.0, "not_again"), (1.0, 0.3, "")])
def test_a_figure_of_the_second_run_stands_for_that_of_a_void_first_one(first, second, told):
    one, nodes, result = NODES[1], NODES[:12], findings.Findings(nodes=12, tested=12)
    found = findings.Table({})
    for unit in [*map(Unit, nodes), Unit(one, "retest", 1), Unit(one, "retest", 2)]:
        rate = 1.0 if unit.purpose == "round" else first if unit.number == 1 else second
        record = standin.StandIn(nodes, gpus=1, factor=lambda *_, rate=rate: rate)._record("s", unit.node, 0)
        found.take(invalid(record) if unit == Unit(one) else record, unit)
    findings.judge(found, result, replace(CAMPAIGN, nodes=nodes))
    suspects = {"named": {s.name for s in result.named}, "not_again": {s.name for s in result.not_again}}
    assert suspects == {"named": set(), "not_again": set()} | ({told: {f"{one} GPU 0"}} if told else {})


@pytest.mark.parametrize(
    ("metric", "spread"),
    [("triad", findings.MEMORY), ("gemm", findings.POWER), ("htod_pinned", findings.OTHER), ("dtod", findings.MEMORY)],
)
def test_how_far_healthy_devices_spread_follows_from_what_limits_a_figure(metric, spread):
    """A link has a data sheet as well, and is no memory."""
    table = findings.Table(load_catalogue())
    for record in kept.two_clean():
        table.take(record, Unit("n1"))
    assert {many for name, many in table.spread.items() if name.split()[1].partition(".")[0] == metric} == {spread}


def test_what_explains_a_figure_is_the_mean_of_its_rounds_and_its_time_their_median():
    table = findings.Table({})
    table.check["x"], table.spread["x"] = "c", findings.POWER
    for number, (time, watts, degrees) in enumerate([(10.0, 50.0, 30.0), (20.0, 60.0, 40.0)], start=1):
        when = ("c", "n1", ("round", number))
        table.times[when], table.before[when] = time, {"GPU 0": (watts, degrees)}
    times, (idle, air) = table.conditions("x", [("n1", "GPU 0")], 2, {})
    assert (list(times), list(idle), list(air)) == ([15.0], [55.0], [35.0])


@pytest.mark.parametrize("again", [False, True])
def test_who_is_slow_in_general_is_named_or_waits_for_a_second_run(monkeypatch, again):
    named, once = (Suspect("node", node, "in all checks", 0.1, 0.05, (at,)) for at, node in enumerate(NODES[:2]))
    monkeypatch.setattr(findings.screening, "slow_in_general", lambda *_: ([named], [once]))
    _, result = few({}, runs=[Unit(NODES[1], "retest", 1)] if again else [])
    assert (result.named, result.not_again, result.unrepeated) == ([named], [once], [] if again else [once])


def test_suspect_nodes_are_run_again_before_void_ones_and_four_of_a_group_stand_for_it(monkeypatch):
    """In this order, since a limit cuts the end. A suspicion of no single figure needs all checks."""
    devices = [(node, f"GPU {gpu}") for node in NODES[:6] for gpu in range(2)]
    table_ = findings.Table({})
    table_.values = {"gpu": {"C1 m": {device: {} for device in reversed(devices)}}, "host": {"C0 m": {}}}
    table_.check = {"C1 m": "C1", "C0 m": "C0"}
    void = {node: ["void"] for node in (NODES[8], NODES[7], NODES[2])}
    table_.invalid = {"C3": void, "C2": void}

    def judge(_, found, __):
        found.unrepeated = [
            Suspect("rack", "r0", "C1 m", 0.1, 0.05, tuple(range(2, 12))),
            Suspect("node", "n001", "all", 0.1, 0.05, ()),
            Suspect("device", "n005 GPU 1", "C0 m", 0.1, 0.05, (11,)),
        ]
        found.invalid = void

    monkeypatch.setattr(findings, "judge", judge)
    chosen = findings.suspects(table_, CAMPAIGN)
    assert chosen.void and list(chosen.checks.items()) == [
        ("n001", ()), ("n005", ("C0",)), ("n002", ("C1", "C2", "C3")), ("n003", ("C1",)), ("n004", ("C1",)),
        ("n007", ("C2", "C3")), ("n008", ("C2", "C3")),
    ]  # fmt: skip


def gathered(state, root, record, unit, token):
    name = archive.folder_of(record, PurePosixPath()) / f"000000-s-{token}.json"
    archive.write_file(root / name, record.text())
    state.take({"event": "intent", "token": token, "unit": unit.id, "attempt": 1, "time": 1.0})
    state.take({"event": "gathered", "token": token, "session": "s", "records": [str(name)], "seconds": 900.0})


def test_what_counts_of_a_node_that_was_repaired_and_why_another_has_no_result(tmp_path):
    """Of the first node only what came after its last repair; all runs count as runs."""
    nodes, state = NODES[:5], State()
    world = standin.StandIn(nodes, gpus=1)
    repairs = [Unit(nodes[0], "repair", number) for number in (1, 2)]
    for at, unit in enumerate([Unit(nodes[0]), *repairs, Unit(nodes[1])]):
        if unit.purpose == "repair":
            state.take({"event": "phase", "units": [unit.id]})
        low = Judgement("FAIL", (Finding("FAIL", f"low {at}"),) if at < 3 else ())
        gathered(state, tmp_path, replace(world._record("s", unit.node, 0), judgement=low), unit, f"{at:08x}")
    state.take({"event": "gathered", "token": "00000003", "session": "t", "records": ["none.json"], "seconds": 1800.0})
    never = "never entered the queue"
    for node, why in ((2, "killed"), (2, "left no file"), (3, "already been"), (3, "lost"), (4, never)):
        token = f"{node} {why}"
        state.take({"event": "intent", "token": token, "unit": Unit(nodes[node]).id, "attempt": 1, "time": 1.0})
        state.take({"event": "ended", "token": token, "why": why})
    table_, found = findings.read(state, tmp_path, replace(CAMPAIGN, nodes=nodes))
    (of_figure, *_) = table_.values["gpu"].values()
    assert list(of_figure[nodes[0], "GPU 0"]) == [("round", 1), ("repair", 2)]
    assert found.failed == {nodes[0]: ["Check00: low 2"]}
    assert (found.verdicts, found.sessions, found.node_hours) == ({"FAIL": 3}, ["s", "t"], 1.25)
    assert len(found.damaged) == 1 and found.tested == 2
    assert found.lost == {nodes[2]: "left no file", nodes[3]: "lost", nodes[4]: never}
    assert found.unstarted == {nodes[4]}


@pytest.mark.parametrize("broken", [3, 1])
def test_a_check_that_left_nothing_on_most_nodes_is_no_finding_of_each_of_them(tmp_path, broken):
    nodes, state, world = NODES[:4], State(), standin.StandIn(NODES[:4], gpus=1)
    why = Finding("FAIL", "not run, because a dependency failed: the build failed")
    for at, node in enumerate(nodes):
        record = world._record("s", node, 0)
        if at < broken:
            record = replace(record, result=None, judgement=Judgement("FAIL", (why,), ()))
        gathered(state, tmp_path, record, Unit(node), f"{at:08x}")
    table_, result = findings.read(state, tmp_path, replace(CAMPAIGN, nodes=nodes))
    findings.judge(table_, result, replace(CAMPAIGN, nodes=nodes))
    assert not result.damaged
    assert result.not_in_order() == set(nodes[:broken])
    assert set(result.bad_nodes()) == (set() if broken == 3 else {nodes[0]})
    head = "Check00: failed without a result on 3 of 4 nodes: not run, because a dependency failed: the build failed"
    assert result.common == ([head] if broken == 3 else [])


REPORT = """\
Campaign c: standin
8 of 16 nodes are not in order

In short
  14 of 16 nodes tested, 8 not in order; records: 2 FAIL, 3 PASS
  1.23 node hours; sessions: s, t
  with 95 % confidence at least 1.3 % of such units (rack) are in order

Units (rack): 1 of 4 in order
  r1: l of 2 nodes
  r2: h of 2 nodes
  r3: n of 1 nodes

Reported, each confirmed by a second, independent run
  node b: C m is 9.52 % worse than the fleet after subtracting group effects; healthy ones stay within 4.88 %

Checks that could not judge the majority of nodes: check, build or environment
  C: failed

Criteria missed
  g: C: low
  g: D: low
  h: C: low

No valid measurement
  h: C: void

Hardware faults reported by BMCs
  b: fan

BMCs that could not be read
  i: refused
  j: timeout

Configured differently from the majority
  e: driver is 1; 90.0 % have 2

Two or more configurations, no node reported
  kernel differs within the fleet: 4 x 2, 3 x 1

Nodes without a result
  k: killed
  l: never

Missing figures
  f: no value

Suspects not confirmed by a second run, or without one
  device d GPU 1: C m was 9.52 % worse (limit 4.88 %)

Closed after repair
  p

Damaged records
  x.json

Spread between healthy devices (figure: devices, median, relative standard deviation)
  C m (gpu): 8, 4000.1, 1.23 %

Group effects (spread between groups)
  leaf on triad: 2.00 %, worst b (+3.00 %)

To take out of service (nothing was executed)
  b <b: C m 9.5 % worse than the fleet>
  e <e: driver is 1; 90.0 % have 2>
  f <f: no value>
  g <C: low>
  k <no result: killed>
  h <rack r2: C: low>
  a <rack r2: h: C: low>

After repair
  tenken campaign retest c a,b,e,f,g,h,k
"""
WELL = """\
Campaign c: Hall
All 2 nodes are in order

In short
  2 of 2 nodes tested, 0 not in order; records: none
  0.00 node hours; sessions: none
  with 95 % confidence at least 22.4 % of such nodes are in order

Reported, each confirmed by a second, independent run
  none

Configured differently from the majority
  none

Nodes without a result
  no node
"""


def test_a_report_tells_everything_in_its_order_and_little_of_a_fleet_in_order():
    def suspect(kind, name):
        return Suspect(kind, name, "C m", 0.1, 0.05, (0,))

    nodes = tuple("abcdefghijklmnop")
    racks = {node: node for node in nodes} | {"h": "r2", "a": "r2", "l": "r1", "c": "r1", "n": "r3", "o": "r4"}
    found = findings.Findings(
        named=[suspect("node", "b")], not_again=[suspect("device", "d GPU 1")], odd=[Odd("e", "driver", "1", "2", 0.9)],
        mixed=[Mixed("kernel", {"1": 3, "2": 4})], missing=["f: no value"], invalid={"h": ["C: void"]},
        failed={"h": ["C: low"], "g": ["C: low", "D: low"]}, hardware={"b": ["fan"]}, common=["C: failed"],
        unread={"j": "timeout", "i": "refused"}, lost={"l": "never", "k": "killed"}, unstarted={"l"}, unjudged={"n"},
        closed=["p"], damaged=["x.json"], spreads={"C m (gpu)": (8, 4000.06, 0.0123)}, sessions=["s", "t"],
        effects=[Effect("leaf", "triad", {"a": -0.01, "b": 0.03, "c": 0.0}, 0.02)], verdicts=Counter(PASS=3, FAIL=2),
        units={"r2": ["h", "a"], "r1": ["l", "c"], "r3": ["n"], "r4": ["o"]}, tested=14, nodes=16, node_hours=1.234,
    )  # fmt: skip
    campaign = replace(CAMPAIGN, nodes=nodes, unit="rack", groups={"rack": racks})
    assert report.text(found, campaign, lambda node, why: f"{node} <{why}>") == REPORT
    well = findings.Findings(tested=2, nodes=2)
    assert report.text(well, replace(CAMPAIGN, title="Hall"), lambda node, _: node) == WELL
    well.units = {"r1": ["a", "b"]}
    assert "Units (None): 1 of 1 in order\n  all\n" in report.text(well, CAMPAIGN, lambda node, _: node)


@pytest.mark.parametrize(("changes", "told"), [
    ({"tested": 0}, ("FAIL", "Nothing ran: none of 2 nodes has a result")),
    ({"unjudged": {"a"}, "damaged": ["x"]}, ("FAIL", "1 of 2 nodes are not in order")),
    ({"damaged": ["x"]}, ("INVALID", "All 2 nodes are in order, but 1 records are damaged")),
    ({}, ("PASS", "All 2 nodes are in order")),
])  # fmt: skip
def test_the_verdict_of_a_campaign(changes, told):
    found = findings.Findings(**{"tested": 2, "nodes": 2, **changes})
    assert report.sentence(found) == told
    badge = "OK" if told[0] == "PASS" else told[0]
    page = report.page(found, CAMPAIGN, lambda node, _: node)
    assert f'<header class="{told[0]}">' in page and f'<span class="badge {told[0]}">{badge}</span>' in page


def test_fifty_lines_of_a_section_are_shown_and_commands_are_code():
    found = findings.Findings(tested=99, nodes=99, common=[f"<{at}>" for at in range(51)], closed=["x"] * 50)
    found.failed = {"a": ["C: low"]}
    page = report.page(found, CAMPAIGN, lambda node, why: f"drain {node} {why}")
    assert "<li>&lt;49&gt;</li></ul><details><summary>1 more</summary><ul><li>&lt;50&gt;</li></ul>" in page
    assert page.count("<details>") == 1
    assert "<li><code>drain a C: low</code></li>" in page and "<li><code>tenken campaign retest c a</code></li>" in page
    live = report.live(CAMPAIGN, "line <1>", {"b": "runs", "a": "waits", "c": "done", "d": "runs"})
    assert "<p>line &lt;1&gt;</p><p>1 done, 2 runs, 1 waits</p>" in live
    assert "<ul><li>a: waits</li><li>b: runs</li><li>d: runs</li></ul>" in live


@pytest.mark.parametrize(("reason", "cut"), [("1234567890a", "1234567890a"), ("1234567890ab", "123 ... 0ab")])
def test_a_reason_that_is_too_long_is_cut_in_its_middle(reason, cut):
    assert report.within(reason, 11) == cut


@pytest.mark.parametrize(
    ("bad", "tested", "most"), [(2, 2, False), (2, 3, True), (3, 5, True), (2, 4, False), (5, 9, False), (6, 10, True)]
)
def test_three_of_five_nodes_are_most_of_them(bad: int, tested: int, most: bool) -> None:
    """And two nodes are none. The most frequent reason is told, and on how many if these are not all."""
    whys = {node: ["b", "a"] if at == 0 and bad > 2 else ["a", "b"] for at, node in enumerate(NODES[:bad])}
    table_, found = SimpleNamespace(nodes=set(NODES[:tested])), findings.Findings()
    assert findings._of_most("C", whys, "failed", table_, found) is most  # type: ignore[arg-type]
    often = f"; on {bad - 1} of them" if bad > 2 else ""
    assert found.common == ([f"C: failed on {bad} of {tested} nodes{often}: a"] if most else [])
    assert found.unjudged == (set(NODES[:bad]) if most else set())


@pytest.mark.parametrize(("there", "of", "told"), [(2, 2, []), (1, 2, []), (3, 5, [3, 4]), (2, 4, []), (2, 3, [2])])
def test_what_most_have_and_one_lacks(there: int, of: int, told: list[int]) -> None:
    """A GPU, a value of a check, and the configuration that the node's job reads."""
    whole = [(node, "GPU 0") for node in NODES[:of]]
    devices = sorted([*whole, *((node, "GPU 1") for node in NODES[:there])])
    table_ = SimpleNamespace(check={"C m": "C"}, invalid={}, valid={}, settings={}, values={})
    found = list(findings._absent(devices, {"C m": dict.fromkeys(devices)}, "gpu", table_))  # type: ignore[arg-type]
    assert found == [f"{NODES[at]} GPU 1: no value; {there} of {of} nodes have them" for at in told]
    found = list(findings._absent(whole, {"C m": dict.fromkeys(whole[:there])}, "gpu", table_))  # type: ignore[arg-type]
    assert found == [f"{NODES[at]} GPU 0: no value of C; {there} of {of} devices have one" for at in told]
    table_.values = {"gpu": {"C m": dict.fromkeys(whole)}}
    table_.settings = {"host read": {(node, ""): {} for node in [*NODES[:there], "other"]}}
    found = list(findings._untold(table_))  # type: ignore[arg-type]
    assert found == [f"{NODES[at]}: did not report its configuration; {there} of {of} nodes did" for at in told]


@pytest.mark.parametrize(
    ("invalid", "valid", "told"),
    [(set(), set(), True), ({NODES[4]}, set(), False), ({NODES[4]}, {NODES[4]}, True), ({NODES[3]}, set(), True)],
)
def test_a_void_check_is_not_a_missing_value_too(invalid: set[str], valid: set[str], told: bool) -> None:
    devices = [(node, "") for node in NODES[:5]]
    table_ = SimpleNamespace(check={"C m": "C"}, invalid={"C": dict.fromkeys(invalid)}, valid={"C": valid})
    found = list(findings._absent(devices, {"C m": dict.fromkeys(devices[:4])}, "host", table_))  # type: ignore[arg-type]
    assert found == ([f"{NODES[4]}: no value of C; 4 of 5 devices have one"] if told else [])


@pytest.mark.parametrize(
    ("values", "median"),
    [((3.0,), 3.0), ((4.0, 2.0), 3.0), ((9.0, 1.0, 2.0), 2.0), ((9.0, math.nan, 1.0, 2.0, 4.0), 3.0)],
)
def test_the_median_of_what_is_there(values: tuple[float, ...], median: float) -> None:
    assert findings._median(values) == median and math.isnan(findings._median([math.nan]))


@pytest.mark.parametrize(("good", "of"), [(60, 60), (59, 60), (30, 60), (1, 60), (139, 200), (2, 2)])
def test_the_share_in_order_is_not_improbable_at_its_bound(good: int, of: int) -> None:
    """As many good ones or more have a chance of 5 % there: by the sum of all cases."""
    share = findings.lower_share(good, of, 0.95)
    chance = sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(good, of + 1))
    assert chance == pytest.approx(0.05, rel=0.05 if of - good > 60 else 1e-6)
    assert findings.lower_share(0, of, 0.95) == findings.lower_share(0, 0, 0.95) == 0


def test_every_reason_to_take_a_node_out_and_none_more() -> None:
    def suspect(kind: str, name: str) -> Suspect:
        return Suspect(kind, name, "C m", 0.1, 0.05, (0,))

    found = findings.Findings(
        named=[suspect("device", "a GPU 1"), suspect("node", "b"), suspect("rack", "c")],
        not_again=[suspect("node", "d")], odd=[Odd("e GPU 0", "driver", "1", "2", 0.9)], missing=["f: no value"],
        failed={"g": ["C: low"]}, invalid={"h": ["C: void"]}, hardware={"i": ["fan"]}, unread={"j": "timeout"},
        lost={"k": "killed", "l": "never", "a": "killed", "m": "never"}, unjudged={"n"}, unstarted={"l", "a", "m"},
        units={"r1": ["a", "z"], "r2": ["y"], "r3": ["n"]}, nodes=20,
    )  # fmt: skip
    found.hardware["m"] = ["fan"]
    assert found.bad_nodes() == {
        "a": ["a GPU 1: C m 9.5 % worse than the fleet", "no result: killed"],
        "b": ["b: C m 9.5 % worse than the fleet"],
        "e": ["e GPU 0: driver is 1; 90.0 % have 2"],
        "f": ["f: no value"], "g": ["C: low"], "h": ["C: void"], "i": ["fan"], "m": ["fan", "no result: never"],
        "k": ["no result: killed"], "l": ["no result: never"],
    }  # fmt: skip
    assert set(found.to_exclude()) == set(found.bad_nodes()) - {"l"}
    assert found.not_in_order() == set(found.bad_nodes()) | {"n"} and found.bad_units() == {"r1": ["a"], "r3": ["n"]}
    assert found.share() == findings.lower_share(1, 3, 0.95)
    assert replace(found, units={}).share() == findings.lower_share(20 - 11, 20, 0.95)


def test_runs_before_the_last_repair_do_not_count() -> None:
    phases = [["a round 1", "b round 1"], ["a repair 1", "a repair 2", "b repair 1"], ["a repair 3", "a repair 4"]]
    units = [[Unit(*(int(w) if w.isdigit() else w for w in text.split())).id for text in some] for some in phases]
    state = SimpleNamespace(phases=[{"units": some} for some in units])
    assert findings.last_repairs(state) == {"a": 3, "b": 1}  # type: ignore[arg-type]
