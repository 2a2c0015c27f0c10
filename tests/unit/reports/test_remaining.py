"""What an acceptance still needs, when it ends early, and the command that runs it all."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenken.archive import records as archive
from tenken.commands import acceptance as command
from tenken.commands.acceptance import RunError
from tenken.machines import loader
from tenken.model.record import RECORD, parse
from tenken.report import remaining
from tenken.report.contracts import Machine, Offered
from tests.unit.reports import test_acceptance as runs
from tests.unit.reports.test_acceptance import CONTRACT, RUNS, contract_of, stream

OFFERED = (
    Offered("StreamCuda", "StreamCuda", "stream"), Offered("StreamHost", "StreamHost", "stream"),
    Offered("Hpl %size=full", "Hpl", "hpl"), Offered("HplBetweenNodes", "HplBetweenNodes", "hpl", 2),
)  # fmt: skip
SIX = CONTRACT.replace("repetitions: 5\n", "")


def after(tmp_path, values, text=SIX, **changes):
    """The decision after runs of these values on two GPUs."""
    return runs.answer(tmp_path, [stream(i, {0: v, 1: v}, **changes) for i, v in enumerate(values)], text)


@pytest.mark.parametrize(
    ("values", "needs", "lost"),
    [
        (RUNS[:3], {"M1": 3}, False),
        ((*RUNS, 4364), {}, False),
        # the interval of six runs is from the lowest to the highest: a remaining run may still meet the bound
        ([3000] * 5, {"M1": 1}, False),
        ([3000] * 6, {}, True),
    ],
)
def test_it_ends_early_only_where_no_run_that_is_left_could_change_it(tmp_path, values, needs, lost):
    found = after(tmp_path, values)
    assert remaining.open_clauses(found) == needs
    assert bool(list(remaining.lost(found))) is lost


def wants(name, program="p", **changes):
    said = {"hours": None, "nodes": None, "check": None, "metric": "m", "subject": "gpu", "at": {}, "repetitions": 3}
    return SimpleNamespace(id=name, program=program, **(said | {"retests": None} | changes))


A = Offered("A %n=1", "A", "p", modes=("quick", "acceptance"), lasting="seconds", subjects=("gpu",), metrics=("m",))
OTHER = Offered("A2", "A2", "p", modes=("quick",), metrics=("x", "y"), subjects=("host",))
B = Offered("B", "B", "p2", nodes=4, modes=("acceptance",), sized="num")
C = Offered("C", "C", "q", modes=("long",), lasting="secs")
DURING_A, DURING_B = (wants(f"during {check}", "bmc", at={"during": check}) for check in "AB")


@pytest.mark.parametrize(("clause", "mode", "found"), [
    (wants("1"), "acceptance", [A]), (wants("1"), "quick", [A]), (wants("1"), "long", [A]), (wants("1"), "", [A]),
    (wants("1", metric="x", subject="host"), "quick", [OTHER]), (wants("1", metric="z"), "quick", [A, OTHER]),
    (wants("1", metric="z"), "acceptance", [A]), (wants("1", check="A2"), "", [OTHER]),
    (wants("1", check="A"), "", [A]), (wants("1", check="A %n=1"), "", [A]),
    (wants("1", "p2"), "", []), (wants("1", "p2", nodes=1), "", []),
    (wants("1", "p2", nodes=2), "", [B]), (wants("1", nodes=2), "", []), (wants("1", nodes=1), "", [A]),
    (DURING_A, "", [A]), (DURING_B, "", [B]), (DURING_B, "quick", [B]),
])  # fmt: skip
def test_which_checks_measure_a_clause(clause, mode, found):
    assert remaining.checks_of(clause, (A, OTHER, B, C), mode) == found


def test_a_round_is_one_session_for_each_length_number_of_nodes_and_mode():
    """A longer run of a check counts for shorter clauses too, and for others that it happened to measure."""
    clauses = [wants("short"), wants("long", hours=2), wants("q", "q"), wants("four", "p2", nodes=4), DURING_B]
    found = remaining._batches(clauses, (A, OTHER, B, C), "acceptance", {"q": {A.name}})
    assert [(one.names, one.nodes, one.hours, one.mode, one.variables, set(one.clauses)) for one in found] == [
        (("C",), None, None, "long", {}, {"q"}),
        (("B",), 4, None, "acceptance", {"B.num": "4"}, {"four", "during B"}),
        (("A %n=1",), None, 2, "acceptance", {"A.seconds": "7200"}, {"short", "long", "q"}),
    ]
    assert [one.words for one in found] == ["", " over 4 nodes together", " of 2 h"]
    assert found[2].patterns == ["^A%n=1$"]


@pytest.mark.parametrize(("changes", "due"), [
    ({}, 13), ({"stability": "MET"}, None), ({"first": ""}, None), ({"wanted": {"M": 1}}, None), ({"rule": None}, None),
])  # fmt: skip
def test_one_more_round_is_due_when_only_stability_is_open(monkeypatch, changes, due):
    said = {"stability": "INCONCLUSIVE", "first": "2026-11-21T01:00:00Z", "rule": SimpleNamespace(hours=12)} | changes
    monkeypatch.setattr(remaining, "open_clauses", lambda _: said.get("wanted", {}))
    found = SimpleNamespace(stability=said["stability"], first=said["first"])
    found.contract = SimpleNamespace(stability=said["rule"])
    expected = None if due is None else datetime(2026, 11, 21, due, tzinfo=timezone.utc)
    assert remaining.stability_due(found) == expected


def test_each_node_lacks_what_its_worst_part_lacks_and_a_gpu_without_a_successor_all(monkeypatch):
    def part(node, uuid, runs, void=0):
        return SimpleNamespace(part=SimpleNamespace(node=node, uuid=uuid), values=[0] * runs, invalid=[0] * void)

    parts = [part("a.site", "1", 2), part("a", "2", 1), part("b", "3", 3), part("c", "4", 1, void=3), part("d", "5", 3),
             part("e", "6", 2)]  # fmt: skip
    before = [part("b", "7", 3), part("d", "8", 3)]
    one = SimpleNamespace(clause=wants("M"), check="C", parts=parts, before=before)
    replaced = [SimpleNamespace(uuid=old, by=new) for old, new in (("7", "70"), ("70", "3"), ("8", "9"))]
    contract = SimpleNamespace(clauses=[one.clause, wants("other"), wants("done")], replaced=replaced)
    found = SimpleNamespace(contract=contract, requirements=[one])
    monkeypatch.setattr(remaining, "open_clauses", lambda _: {"M": 3, "other": 9})
    batch = remaining.Batch(("C",), clauses=frozenset({"M", "done"}))
    assert remaining.lacking(found, batch, ["a", "b", "c", "d.site", "e", "f"]) == {"a": 2, "d.site": 3, "e": 1, "f": 3}


def test_of_a_median_the_majority_decides_before_the_last_run(tmp_path):
    text = SIX.replace("target: 4000", "target: 4000, rule: value")
    assert list(remaining.lost(after(tmp_path, [3000] * 4, text)))
    (tmp_path / "b").mkdir()
    assert not list(remaining.lost(after(tmp_path / "b", [3000] * 3, text)))


def test_a_wrong_result_rejects_at_once(tmp_path):
    wrong = runs.builder.finding("FAIL", "nid001", "nid001: elements differ")
    found = runs.answer(tmp_path, [stream(0, {0: 4400, 1: 4400}, verdict="FAIL", findings=[wrong])], SIX)
    assert list(remaining.lost(found)) == ["1 runs with a wrong or missing result"]


def test_invalid_runs_are_measured_again_as_often_as_agreed(tmp_path):
    void = runs.builder.finding("INVALID", "nid001", "nid001: shared")
    good = [stream(i, {0: v, 1: v}) for i, v in enumerate(RUNS)]
    bad = [stream(10 + i, {0: 4300.0 + i, 1: 4300.0 + i}, verdict="INVALID", findings=[void]) for i in range(3)]
    assert remaining.open_clauses(runs.answer(tmp_path, [*good, *bad[:2]], SIX)) == {"M1": 1}
    (tmp_path / "b").mkdir()
    assert remaining.open_clauses(runs.answer(tmp_path / "b", [*good, *bad], SIX)) == {}


def test_after_repair_the_clauses_of_the_new_gpu_alone_are_open(tmp_path):
    text = (
        runs.REPAIRED.replace("repetitions: 5\n", "")
        + """\
# a clause that the old GPU had no part in
"""
    )
    text = text.replace(
        "punch_list:",
        '  - {id: H1, metric: stream.triad, subject: host, target: 1, unit: GB/s, source: "o"}\npunch_list:',
    )
    old = [runs.with_gpu_1(i, 3000.0 + i, "GPU-old") for i in range(6)]
    host = [
        runs.builder.record(
            "StreamHost", runs.builder.document("stream", [runs.builder.metric("triad", {"host": 0}, [200.0 + i] * 3)],
            started=f"2026-11-22T{i:02d}:00:01Z"), session="S1", time=f"2026-11-22T{i:02d}:00:10Z",
        )
        for i in range(6)
    ]  # fmt: skip
    assert remaining.open_clauses(runs.answer(tmp_path, [*old, *host], text)) == {"M1": 6}
    (tmp_path / "b").mkdir()
    new = [runs.with_gpu_1(i, 4300.0 + i, "GPU-new") for i in range(10, 14)]
    assert remaining.open_clauses(runs.answer(tmp_path / "b", [*old, *host, *new], text)) == {"M1": 2}


def test_a_round_has_the_checks_of_the_open_clauses_each_by_its_full_name(tmp_path):
    more = """\
  - {id: H1, metric: hpl.hpl, subject: gpu, target: 40, unit: TFLOP/s, source: "offer"}
  - {id: H2, metric: hpl.hpl, subject: ranks, nodes: 64, target: 20000, unit: TFLOP/s, source: "offer"}
"""
    found = runs.answer(tmp_path, [], SIX + more)
    assert remaining.batches(found, OFFERED) == [
        remaining.Batch(("StreamCuda", "StreamHost", "Hpl %size=full")), remaining.Batch(("HplBetweenNodes",), 64),
    ]  # fmt: skip
    assert remaining.Batch(("Hpl %size=full",)).patterns == ["^Hpl%size=full$"]
    assert "open: M1 (6 more), H1 (6 more), H2 (6 more)" in remaining.progress(found)


# ---- the command -----------------------------------------------------------------------------------------


class Site:
    """A machine whose sessions are records with the next of these values."""

    def __init__(self, monkeypatch, tmp_path, values):
        self.values, self.ran, self.root = list(values), [], tmp_path / "archive"
        system = loader.load("h200").expand({}, strict=False)
        monkeypatch.setenv("TENKEN_ARCHIVE", str(self.root))
        monkeypatch.setattr(command.contract, "checked", lambda *_, **__: Machine(system, OFFERED[:1]))
        monkeypatch.setattr(command, "_of_nodes", lambda *_: [])
        monkeypatch.setattr(command, "session", self.session)
        (tmp_path / "deal.yaml").write_text(SIX)
        self.arguments = [
            "acceptance",
            "run",
            str(tmp_path / "deal.yaml"),
            "--output",
            str(tmp_path / "out"),
            "--no-pdf",
        ]

    def session(self, system, mode, checks, batch, name):
        value = self.values.pop(0)
        if value is None:
            raise RunError("stopped; the same command continues")
        self.ran.append((mode, batch.names))
        record = stream(len(self.ran), {0: value, 1: value}, session=name)
        runs.builder.write_session(self.root, [record], [runs.builder.testcase("StreamCuda")], name=name)

    def run(self, *more):
        parser = argparse.ArgumentParser()
        command.register(parser.add_subparsers())
        given = parser.parse_args([*self.arguments, *more])
        return given.func(given)


def test_six_rounds_are_accepted_and_the_report_is_written(monkeypatch, tmp_path, capsys):
    site = Site(monkeypatch, tmp_path, [*RUNS, 4364.0, 1.0])
    assert site.run("--plan") == 0 and not site.ran
    assert site.run() == 0
    assert site.ran == [("acceptance", ("StreamCuda",))] * 6
    said = capsys.readouterr().out
    assert "6 rounds of 1 checks: StreamCuda" in said and "round 3: 0 of 1 clauses have all their runs" in said
    assert "ACCEPTED: deal, 6 records of 6 sessions" in said and (tmp_path / "out" / "report.html").is_file()


def test_one_gpu_that_is_slow_in_some_runs_is_not_accepted(monkeypatch, tmp_path, capsys):
    site = Site(monkeypatch, tmp_path, [4360.0, 3000, 4361, 3000, 4362, 4363])
    assert site.run() == 3 and len(site.ran) == 6
    assert "the interval contains the bound" in capsys.readouterr().out


def host(run, session):
    doc = runs.builder.document("stream", [runs.builder.metric("triad", {"host": 0}, [200.0 + run] * 3)],
                                started=f"2026-11-22T{run:02d}:30:01Z")  # fmt: skip
    return runs.builder.record("StreamHost", doc, session=session, time=f"2026-11-22T{run:02d}:30:10Z")


def test_from_the_slow_gpu_to_the_report_with_its_successor(monkeypatch, tmp_path, capsys):
    """REJECTED, with a text for the vendor; the contract names the exchange; the new GPU alone is measured, for its
    clause alone; ACCEPTED, the punch-list item closed, both GPUs in the report."""
    site = Site(monkeypatch, tmp_path, [])
    checks = tuple(replace(one, subjects=(kind,)) for one, kind in zip(OFFERED, ("gpu", "host"), strict=False))
    system = loader.load("h200").expand({}, strict=False)
    monkeypatch.setattr(command.contract, "checked", lambda *_, **__: Machine(system, checks))
    now = {"value": 3000.0, "uuid": "GPU-old"}

    def session(system, mode, folder, batch, name):
        site.ran.append(batch.names)
        number = len(site.ran)
        made = [host(number, name)] if "StreamHost" in batch.names else []
        if "StreamCuda" in batch.names:
            made.append(runs.with_gpu_1(number, now["value"] + number, now["uuid"], session=name))
        runs.builder.write_session(site.root, made, name=name)

    monkeypatch.setattr(command, "session", session)
    clause = '  - {id: H1, metric: stream.triad, subject: host, target: 100, unit: GB/s, source: "o"}\n'
    deal = tmp_path / "deal.yaml"
    deal.write_text(SIX + clause)
    assert site.run() == 1 and site.ran == [("StreamCuda", "StreamHost")] * 6
    out = tmp_path / "out"
    (text,) = (file.read_text() for file in (out / "evidence").glob("*.txt"))
    assert "GPU-old" in text and "M1 stream.triad" in text
    before = out / "report.html"
    assert "REJECTED" in before.read_text()

    deal.write_text(runs.REPAIRED.replace("repetitions: 5\n", "").replace("punch_list:", f"{clause}punch_list:"))
    now.update(value=4300.0, uuid="GPU-new")
    capsys.readouterr()
    assert site.run("--plan") == 0
    assert "open: M1 (6 more)" in (said := capsys.readouterr().out) and "StreamHost" not in said
    assert site.run() == 0 and site.ran[6:] == [("StreamCuda",)] * 6
    report = before.read_text()
    assert "GPU-old" in report and "GPU-new" in report and "P1" in report and "RMA 4711" in report
    answer = json.loads((out / "acceptance.json").read_text())
    assert answer["statement"] == "ACCEPTED" and answer["repaired"] == ["P1"]
    assert [file.name for file in (out / "evidence").glob("*.txt")] == ["01-GPU-old.txt"], "for its return"


def test_a_killed_one_goes_on_where_it_stopped(monkeypatch, tmp_path):
    site = Site(monkeypatch, tmp_path, [*RUNS[:2], None, *RUNS[2:], 4364.0])
    with pytest.raises(RunError, match="the same command continues"):
        site.run()
    assert site.run() == 0 and len(site.ran) == 6
    assert len(json.loads((tmp_path / "out" / "run.json").read_text())["sessions"]) == 7


def test_a_contract_that_was_changed_since_is_refused(monkeypatch, tmp_path):
    site = Site(monkeypatch, tmp_path, [4360.0, None])
    with pytest.raises(RunError):
        site.run()
    (tmp_path / "deal.yaml").write_text(SIX.replace("4000", "3000"))
    with pytest.raises(RunError, match="clauses of 'deal' were changed since its first session"):
        site.run()


def test_the_time_ends_it_with_what_is_open(monkeypatch, tmp_path, capsys):
    """Rounds of half an hour: in an hour there is time for two."""
    site = Site(monkeypatch, tmp_path, RUNS)
    now = [0.0]

    def session(*given):
        now[0] += 1800
        site.session(*given)

    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(command, "session", session)
    assert site.run("--hours", "1") == 3
    said = capsys.readouterr().out
    assert len(site.ran) == 2 and "the time limit is reached" in said
    assert [line.rpartition("; ")[2] for line in said.splitlines() if line.startswith("round ")] == [
        "about 150 min left", "about 120 min left",
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "early"), [("value", True), ("interval", False)])
def test_the_end_after_the_last_run_is_not_called_early(monkeypatch, tmp_path, capsys, rule, early):
    site = Site(monkeypatch, tmp_path, [3000.0] * 6)
    (tmp_path / "deal.yaml").write_text(SIX.replace("target: 4000", f"target: 4000, rule: {rule}"))
    site.run()
    assert (len(site.ran) < 6) == early == ("ends early" in capsys.readouterr().out)


def test_what_measures_nothing_is_given_up_after_two_rounds(monkeypatch, tmp_path, capsys):
    site = Site(monkeypatch, tmp_path, [])
    monkeypatch.setattr(command, "session", lambda *_: site.ran.append(_))
    site.run()
    assert len(site.ran) == 2 and "is not measured again" in capsys.readouterr().out


class Cluster:
    """Campaigns whose nodes leave records: `values` by node and GPU, a list is used up round by round."""

    def __init__(self, monkeypatch, tmp_path, values, text=SIX):
        monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path / "campaigns"))
        (tmp_path / "deal.yaml").write_text(text.replace("system: h200", "system: alps"))
        self.file, self.root, self.values, self.ran = tmp_path / "deal.yaml", tmp_path / "archive", values, []
        self.state = command.State(tmp_path / "run.json", "")
        monkeypatch.setattr(command, "run_campaign", self.campaign)
        self.runs = 0

    def campaign(self, name, state):
        from tenken.campaign import file

        one = file.load(name)
        if any(known.startswith(f"{name}-r") for known in state.sessions):
            return
        self.ran.append((name, one.rounds, one.nodes, one.names))
        for number in range(one.rounds):
            session, records = f"{name}-r{number}", []
            for node in one.nodes:
                self.runs += 1
                value, uuid, verdict = self.values(node, self.runs)
                if value is None:
                    continue
                findings = [] if verdict == "PASS" else [runs.builder.finding(verdict, node, f"{node}: shared")]
                record = stream(self.runs % 24, {0: value}, session=session, node=node, gpus=(0,), verdict=verdict,
                                findings=findings, system="alps")  # fmt: skip
                record["document"]["devices"][0]["uuid"] = uuid
                records.append(record)
            runs.builder.write_session(self.root, records, name=session)
            state.sessions.append(session)

    def run(self):
        agreed = runs.contracts.load(str(self.file), runs.load_catalogue(), ["alps"])
        return command.campaigns(agreed, OFFERED[:1], "acceptance", ["nid[001-003]"], self.state, self.root)


def test_of_a_cluster_the_single_nodes_are_a_campaign_of_as_many_rounds(monkeypatch, tmp_path):
    site = Cluster(monkeypatch, tmp_path, lambda node, run: (4300.0 + run, f"GPU-{node}", "PASS"))
    assert site.run().statement == "ACCEPTED"
    assert site.ran == [("acceptance-deal", 6, ("nid001", "nid002", "nid003"), ("^StreamCuda$",))]


def test_what_nodes_lack_is_a_campaign_of_these_nodes_alone(monkeypatch, tmp_path):
    """nid002's first run is INVALID, and nid003 leaves nothing: it is tried once more, and then given up."""

    def values(node, run):
        verdict = "INVALID" if run == 2 else "PASS"
        return (None if node == "nid003" else 4300.0 + run), f"GPU-{node}", verdict

    site = Cluster(monkeypatch, tmp_path, values)
    found = site.run()
    assert [(name, nodes) for name, _, nodes, _ in site.ran][:2] == [
        ("acceptance-deal", ("nid001", "nid002", "nid003")), ("acceptance-deal-2", ("nid002", "nid003")),
    ]  # fmt: skip
    assert {part.part.node: len(part.values) for part in found.requirements[0].parts}["nid001"] == 6
    assert len(site.ran) <= 3


def test_programs_that_cannot_be_built_reject_no_machine(monkeypatch, tmp_path):
    """Nothing ran: INCONCLUSIVE, and no second campaign fails in the same way. Once repaired, the command continues."""
    site = Cluster(monkeypatch, tmp_path, lambda node, run: (4300.0 + run, f"GPU-{node}", "PASS"))
    good, why = site.campaign, "not run, because a dependency failed: the build failed with exit status 1"

    def broken(name, state):
        site.ran.append(name)
        record = stream(1, {0: 1.0}, session=name, node="nid001", gpus=(0,), verdict="FAIL", system="alps",
                        findings=[runs.builder.finding("FAIL", "nid001", why)])  # fmt: skip
        runs.builder.write_session(site.root, [], name=name)
        kept = parse(json.dumps(record), tmp_path / "x.json")
        archive.write(replace(kept, version=RECORD, result=None, request=None, result_error=why), site.root)
        state.sessions.append(name)

    monkeypatch.setattr(command, "run_campaign", broken)
    found = site.run()
    assert found.statement == "INCONCLUSIVE" and len(site.ran) == 1 and len(found.invalid) == 1, found.reasons
    monkeypatch.setattr(
        command, "run_campaign", lambda name, state: None if name == "acceptance-deal" else good(name, state)
    )
    assert site.run().statement == "ACCEPTED"


def test_after_repair_the_node_of_the_new_gpu_alone_is_measured(monkeypatch, tmp_path):
    now = {"nid002": (3000.0, "GPU-old")}

    def values(node, run):
        value, uuid = now.get(node, (4300.0, f"GPU-{node}"))
        return value + run, uuid, "PASS"

    site = Cluster(monkeypatch, tmp_path, values)
    assert site.run().statement == "REJECTED"
    site.file.write_text(runs.REPAIRED.replace("repetitions: 5\n", "").replace("system: h200", "system: alps"))
    now["nid002"] = (4300.0, "GPU-new")
    found = site.run()
    assert (found.statement, found.repaired) == ("ACCEPTED", ["P1"]), found.reasons
    assert site.ran[1:] == [("acceptance-deal-2", 6, ("nid002",), ("^StreamCuda$",))]


def test_for_stability_one_more_round_is_run_when_its_hours_have_passed(monkeypatch, tmp_path):
    text = SIX + "stability: {hours: 72, least: 0.9}\n"
    good = [stream(i, {0: 4360 + i, 1: 4360 + i}) for i in range(6)]
    found = runs.answer(tmp_path, good, text)
    due = remaining.stability_due(found)
    assert f"{due:%Y-%m-%d %H:%M}" == "2026-11-24 00:00" and found.statement == "INCONCLUSIVE"
    assert remaining.next_round(found, OFFERED[:1], "", due - timedelta(minutes=1)) == []
    assert [one.names for one in remaining.next_round(found, OFFERED[:1], "", due)] == [("StreamCuda",)]
    (tmp_path / "b").mkdir()
    later = stream(1, {0: 4300, 1: 4300}, session="S2")
    later["time"] = later["time"].replace("-21T", "-24T")
    done = runs.answer(tmp_path / "b", [*good, later], text)
    assert (done.statement, remaining.stability_due(done)) == ("ACCEPTED", None), done.reasons


def test_a_check_that_measured_a_clause_without_having_to_needs_its_runs_too(tmp_path):
    """StreamHost must report the host alone; once it reported a GPU, it has a requirement of its own."""
    offered = (
        Offered("StreamCuda", "StreamCuda", "stream", subjects=("gpu",)),
        Offered("StreamHost", "StreamHost", "stream", subjects=("host",)),
    )
    assert [one.names for one in remaining.batches(runs.answer(tmp_path, [], SIX), offered)] == [("StreamCuda",)]
    (tmp_path / "b").mkdir()
    other = {**stream(0, {0: 4400, 1: 4400}), "check": "StreamHost", "base_check": "StreamHost"}
    found = runs.answer(tmp_path / "b", [other], SIX)
    assert [one.names for one in remaining.batches(found, offered)] == [("StreamCuda", "StreamHost")]


def test_a_burn_in_is_a_campaign_of_its_own_of_its_hours_with_the_bmcs(monkeypatch, tmp_path):
    from tenken.campaign import file, nodejob
    from tenken.campaign.journal import Unit

    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path / "campaigns"))
    text = SIX.replace("system: h200", 'system: alps\nredfish: {address: "https://{node}-bmc"}') + (
        "  - {id: B1, metric: burn.clean, subject: gpu, hours: 0.5, target: 1800, unit: s, source: o, rule: value,\n"
        "     repetitions: 1}\n"
    )
    (tmp_path / "deal.yaml").write_text(text)
    agreed = runs.contracts.load(str(tmp_path / "deal.yaml"), runs.load_catalogue(), ["alps"])
    burn = Offered("BurnNode", "BurnNode", "burn", 1, ("burn-in",), "burn_seconds", "")
    found = command.decided(agreed, tmp_path / "none", [])
    _, batch = remaining.batches(found, (*OFFERED[:2], burn), "acceptance")
    lacking = remaining.lacking(found, batch, ["nid001", "nid002"])
    state = command.State(tmp_path / "run.json", "", campaigns=["acceptance-deal"])
    folders = (Path("checks"), Path("examples/foreign"))
    written = file.load(command.campaign_file(agreed, batch, {**lacking, "nid002": 2}, state, folders))
    assert (written.name, written.rounds, written.mode, written.seconds, written.bmc) == (
        "acceptance-deal-2", 2, "burn-in", 60.0 * 75, "https://{node}-bmc",
    )  # fmt: skip
    job = "\n".join(nodejob.commands(written, Unit("nid001", "round", 1), "t", tmp_path, tmp_path, "b", 0, tmp_path))
    assert "--mode burn-in -S BurnNode.burn_seconds=1800" in job
    assert "-c checks -c examples/foreign" in job


@pytest.mark.parametrize(
    ("name", "before", "campaign"),
    [
        ("deal", 0, "acceptance-deal"), ("deal", 1, "acceptance-deal-2"), ("a b/c", 0, "acceptance-a_b_c"),
        ("x" * 50, 0, "acceptance-" + "x" * 29), ("x" * 50, 1, "acceptance-" + "x" * 27 + "-2"),
        ("x" * 50, 99, "acceptance-" + "x" * 25 + "-100"),
    ],
)  # fmt: skip
def test_the_campaigns_of_an_acceptance_are_numbered_in_forty_letters(name, before, campaign, monkeypatch, tmp_path):
    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path / "campaigns"))
    agreed = replace(contract_of(tmp_path, SIX), name=name)
    state = command.State(tmp_path / "run.json", "", campaigns=["x"] * before)
    batch = remaining.Batch(("StreamCuda",))
    assert command.campaign_file(agreed, batch, {"n1": 2}, state) == campaign and len(campaign) <= 40
    kept = tmp_path / "campaigns" / f"{campaign}.yaml"
    kept.write_text("edited by a site")
    command.campaign_file(agreed, batch, {"n1": 3}, state)
    assert kept.read_text() == "edited by a site"


def test_the_nodes_of_a_cluster_must_be_known(tmp_path):
    alps = loader.load("alps").expand({}, strict=False)
    agreed = contract_of(tmp_path, SIX)
    with pytest.raises(RunError, match="the nodes of h200 are not known: --nodes"):
        command._of_nodes(alps, None, agreed)
    assert command._of_nodes(alps, "nid[001-004]", agreed) == ["nid[001-004]"]
    delivered = tuple(SimpleNamespace(node=node) for node in ("n3", "n1", "", "n2", "n1", None))
    assert command._of_nodes(alps, None, replace(agreed, delivered=delivered)) == ["n1", "n2", "n3"]
    here = loader.load("h200").expand({}, strict=False)
    assert command._of_nodes(here, None, agreed) == []
    both = replace(alps, partitions={**here.partitions, **alps.partitions})
    assert command._of_nodes(both, "nid001", agreed) == ["nid001"]


# -- the sessions and campaigns that it starts --

BATCH = SimpleNamespace(patterns=["^A$", "^B$"], variables={"B.burn_seconds": "60"})


class Child:
    """A session of ReFrame: signals to this process while it runs, and its exit status."""

    def __init__(self, status: int = 0, *signals: int) -> None:
        self.status, self.signals, self.sent = status, signals, []

    def wait(self) -> int:
        for number in self.signals:
            signal.raise_signal(number)
        return self.status

    def send_signal(self, number: int) -> None:
        self.sent.append(number)


@pytest.mark.parametrize(("status", "signals", "stopped"), [
    (0, [], False), (1, [], False), (-signal.SIGKILL, [], False), (-signal.SIGINT, [], True),
    (-signal.SIGTERM, [], True), (0, [signal.SIGINT], True), (1, [signal.SIGTERM], True),
    (1, [signal.SIGHUP, signal.SIGTERM], True),
])  # fmt: skip
def test_a_signal_reaches_the_session_and_ends_the_acceptance(status, signals, stopped):
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    child = Child(status, *signals)
    assert command.wait(child) is stopped
    assert child.sent == [signal.SIGTERM] * len(signals)
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_session_runs_what_its_batch_names_under_its_name(monkeypatch):
    started = []
    monkeypatch.setattr(command.contract, "with_mpi", lambda words: words)
    monkeypatch.setattr(command.subprocess, "Popen", lambda words, **given: started.append((words, given)) or Child())
    command.session("h200", "burn-in", [Path("checks"), Path("own")], BATCH, "S7")
    ((words, given),) = started
    pairs = [*itertools.pairwise(words)]
    for pair in (("--system", "h200"), ("--mode", "burn-in"), ("-n", "^A$"), ("-n", "^B$"), ("-c", "own"),
                 ("-S", "B.burn_seconds=60")):  # fmt: skip
        assert pair in pairs, pair
    assert "-r" in words and given["env"]["TENKEN_SESSION"] == "S7"


@pytest.mark.parametrize(("child", "says"), [
    (Child(-signal.SIGINT), "stopped; the same command continues"), (OSError(2, "No such file"), ": No such file$"),
])  # fmt: skip
def test_a_session_that_is_stopped_or_cannot_start_ends_the_acceptance(monkeypatch, child, says):
    def start(*_, **__):
        if isinstance(child, OSError):
            raise child
        return child

    monkeypatch.setattr(command.contract, "with_mpi", lambda words: words)
    monkeypatch.setattr(command.subprocess, "Popen", start)
    with pytest.raises(RunError, match=says):
        command.session("h200", "acceptance", [], BATCH, "S7")


@pytest.mark.parametrize(("begun", "status", "action"), [(False, 0, "run"), (True, 1, "resume"), (True, 2, "resume")])
def test_a_campaign_is_run_or_resumed_and_its_sessions_count_once(monkeypatch, tmp_path, begun, status, action):
    from tenken.campaign import journal
    from tenken.commands import campaign

    asked = []

    def register(subparsers):
        one = subparsers.add_parser("campaign")
        one.add_argument("words", nargs="*")
        one.set_defaults(func=lambda given: asked.append(given.words) or status)

    gathered = [{"session": "S1"}, None, {"session": "S3"}, {"session": "S2"}]
    attempts = {number: SimpleNamespace(gathered=one) for number, one in enumerate(gathered)}
    monkeypatch.setattr(journal, "read", lambda _: SimpleNamespace(begun=begun, attempts=attempts))
    monkeypatch.setattr(campaign, "register", register)
    state = command.State(tmp_path / "run.json", "digest", ["S3"])
    if status == 2:
        with pytest.raises(RunError, match="campaign c1 cannot continue"):
            command.run_campaign("c1", state)
    else:
        command.run_campaign("c1", state)
        assert json.loads((tmp_path / "run.json").read_text())["sessions"] == ["S3", "S1", "S2"]
    assert asked == [[action, "c1"]]


def test_a_state_that_cannot_be_read_is_not_begun_again_by_itself(monkeypatch, tmp_path):
    site = Site(monkeypatch, tmp_path, RUNS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text('{"contract_sha256": "x"}')
    with pytest.raises(RunError, match=r"run\.json cannot be read .*: remove it to begin again"):
        site.run()
    assert not site.ran


def test_without_time_for_a_session_there_is_nothing_to_report(monkeypatch, tmp_path):
    site = Site(monkeypatch, tmp_path, RUNS)
    with pytest.raises(RunError, match="no session was run"):
        site.run("--hours", "0")
    assert not (tmp_path / "out" / "report.html").exists()


def test_nodes_of_a_cluster_are_measured_by_campaigns_before_sessions_over_several(monkeypatch, tmp_path, capsys):
    site = Site(monkeypatch, tmp_path, [])
    order = []
    due = datetime(2026, 11, 28, 7, 30, tzinfo=timezone.utc)

    def campaigns(agreed, offered, mode, nodes, state, root, checks):
        order.append(("campaigns", nodes))
        site.values = [*RUNS]
        for number in range(len(RUNS)):
            state.sessions.append(f"S{number}")
            site.session("", mode, checks, SimpleNamespace(names=()), f"S{number}")
        return command.decided(agreed, root, state.sessions)

    def rounds(agreed, found, offered, mode, checks, state, until, root, cluster):
        order.append(("rounds", cluster))
        return found

    monkeypatch.setattr(command, "_of_nodes", lambda *_: ["n[1-2]"])
    monkeypatch.setattr(command, "campaigns", campaigns)
    monkeypatch.setattr(command, "rounds", rounds)
    monkeypatch.setattr(command.remaining, "stability_due", lambda _: due)
    assert site.run() == command.accept.EXIT_CODES["INCONCLUSIVE"]
    assert order == [("campaigns", ["n[1-2]"]), ("rounds", True)]
    assert "one more round from 2026-11-28 07:30 UTC on, by the same command" in capsys.readouterr().out


@pytest.mark.parametrize("of_power", [True, False])
def test_the_bmcs_are_read_while_it_runs_if_a_clause_needs_their_power(monkeypatch, tmp_path, of_power):
    seen = []

    class Watch:
        def __init__(self, nodes, bmc, readings, said):
            seen.append((list(nodes()), bmc, readings))

        def __enter__(self):
            seen.append("begun")

        def __exit__(self, *_):
            seen.append("ended")

    monkeypatch.setattr(command.power, "Watch", Watch)
    monkeypatch.setattr(command.redfish, "connector", lambda *given: given)
    clause = SimpleNamespace(program=command.power.PROGRAM if of_power else "stream")
    agreed = SimpleNamespace(clauses=[clause], redfish={"address": "https://{node}-bmc", "ca": "ca.pem"})
    with command.watched(agreed, ["n[1-2]", "m1"], tmp_path / "out" / "readings"):
        seen.append("inside")
    assert seen == ([
        (["n1", "n2", "m1"], ("https://{node}-bmc", Path("ca.pem"), True), tmp_path / "out" / "readings"),
        "begun", "inside", "ended",
    ] if of_power else ["inside"])  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "why", "said"),
    [
        ((), "", "PDF: {}/report.pdf"),
        ((), "no browser", "No PDF: no browser"),
        (("--no-pdf",), "", "PDF: {}/report.pdf"),
    ],
)
def test_the_report_is_written_with_a_pdf_unless_none_is_wanted(monkeypatch, tmp_path, capsys, asked, why, said):
    site = Site(monkeypatch, tmp_path, [*RUNS, 4364.0])
    site.arguments.remove("--no-pdf")
    wanted, out = [], tmp_path / "out"
    write = command.accept.write

    def written(*given):
        wanted.append(given[-1])
        found, tar, _ = write(*given[:-1], False)
        return found, tar, why

    monkeypatch.setattr(command.accept, "write", written)
    assert site.run(*asked) == 0 and wanted == [not asked]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:-1] == [f"Report: {out}/report.html", said.format(out)] and lines[-1].startswith(
        f"All files: {out}"
    )


@pytest.mark.parametrize(
    ("clauses", "most"),
    [
        ([(5, None)], 5 + remaining.RETESTS),
        ([(5, 0)], 5),
        ([(5, 1), (7, 0), (2, 2)], 7),
        ([(1, 4), (4, 0)], 5),
    ],
)
def test_rounds_are_as_many_as_the_clause_with_most_repetitions_and_retests_may_need(
    monkeypatch, tmp_path, clauses, most
):
    """Each round leaves one more record, but the clauses stay open."""
    agreed = SimpleNamespace(system="h200", clauses=[SimpleNamespace(repetitions=n, retests=r) for n, r in clauses])
    ran = []
    batch = SimpleNamespace(nodes=None, hours=0, mode="")
    for name, what in (("lost", lambda found: []), ("next_round", lambda *of: [batch]), ("progress", lambda found: "p"),
                       ("open_clauses", lambda found: {"M1": 100 - len(ran)})):  # fmt: skip
        monkeypatch.setattr(command.remaining, name, what)
    monkeypatch.setattr(command, "session", lambda *of: ran.append(of))
    monkeypatch.setattr(command, "decided", lambda *of: None)
    monkeypatch.setattr(command.power, "archived", lambda *of: None)
    state = command.State(tmp_path / "run.json", "digest")
    command.rounds(agreed, None, (), "quick", (), state, float("inf"), tmp_path)
    assert len(ran) == most == len(state.sessions)
