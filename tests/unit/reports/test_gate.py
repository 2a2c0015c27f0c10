"""The gate on small histories: what is incomplete, what is acknowledged, and which cause is named."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tenken.cli import main
from tenken.commands import gate as command
from tenken.history import acknowledged, causes, gate, propose
from tenken.history.acknowledged import AcknowledgedError, Entry
from tenken.history.detect import Detector, Event, Settings, detect
from tenken.history.ingest import Ingested
from tenken.history.nights import History, Series
from tenken.history.record_parser import FINGERPRINT
from tenken.paths import ROOT
from tenken.report import compare, nightly, notices, sentences, trends
from tools import synthetic


def run(archive: Path, *options: str) -> tuple[int, dict[str, Any]]:
    output = archive.parent / "out"
    common = ["--archive", str(archive), "--store", str(archive.parent / "s.duckdb"), "--output", str(output)]
    code = main(["gate", *common, "--max-age", "0", *options])
    found = output / "findings.json"
    return code, json.loads(found.read_text()) if found.exists() else {}


def fill(
    archive: Path,
    nights: int,
    nodes: int = 6,
    slow: int | None = None,
    quiet: dict[int, int] | None = None,
    lost_from: int | None = None,
) -> None:
    """`quiet` nodes stop running on a night, from `lost_from` on a second metric is missing."""
    rng = random.Random(1)
    for night in range(nights):
        for node in range(nodes):
            if quiet and night >= quiet.get(node, nights):
                continue
            name = synthetic.node_name(node)
            value = 400 * rng.gauss(1, 0.004) * (0.9 if node == slow and night >= nights - 3 else 1)
            when = synthetic.FIRST + timedelta(days=night, minutes=node)
            metrics = [synthetic.metric("triad", {"host": 0}, [value])]
            if lost_from is not None and night < lost_from:
                metrics.append(synthetic.metric("copy", {"host": 0}, [value]))
            record = synthetic.record("m", name, when, "Stream", "stream", metrics, [])
            synthetic.write(archive, record, node)


def test_an_empty_archive_is_incomplete_never_fine(tmp_path: Path, capsys: Any) -> None:
    assert run(tmp_path / "none")[0] == 3
    assert "INCOMPLETE: no archive at" in capsys.readouterr().err
    (tmp_path / "perflogs").mkdir()
    code, found = run(tmp_path / "perflogs")
    assert code == 3 and "contains no values yet" in found["incomplete"][0]


def test_a_system_without_history_is_named_with_those_that_have_one(tmp_path: Path, capsys: Any) -> None:
    archive = tmp_path / "a"
    (archive / "m").mkdir(parents=True)
    assert run(archive, "--system", "x")[0] == 3
    assert f"INCOMPLETE: {archive}: no history of system 'x'; known: none" in capsys.readouterr().err
    fill(archive, 2)
    late = synthetic.FIRST + timedelta(days=9)
    metrics = [synthetic.metric("triad", {"host": 0}, [400.0])]
    for system in ("a", "z"):
        synthetic.write(archive, synthetic.record(system, "n00", late, "Stream", "stream", metrics, []), 0)
    assert run(archive, "--system", "x")[0] == 3
    assert "no history of system 'x'; known: a, m, z" in capsys.readouterr().err
    # those that began later are left out, and those after them are not
    _, found = run(archive, "--night", str((synthetic.FIRST + timedelta(days=1)).date()))
    assert [one["system"] for one in found["systems"]] == ["m"]


def test_a_history_that_is_too_short_says_the_least_count(tmp_path: Path) -> None:
    fill(tmp_path / "a", 5)
    code, found = run(tmp_path / "a")
    assert code == 3
    assert found["incomplete"] == ["m: no series was judged: each is judged from its 30th night on (available: 5)"]


def test_quiet_missing_void_old_and_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 40)
    assert run(archive)[0] == 0
    assert "the last night is 2025-10-10" in run(archive, "--max-age", "2")[1]["incomplete"][0]
    when = synthetic.FIRST + timedelta(days=40)
    metrics = [synthetic.metric("triad", {"host": 0}, [400.0])]
    for number in (0, 1, 2, 3):
        record = synthetic.record("m", synthetic.node_name(number), when, "Stream", "stream", metrics, [])
        if number == 0:
            record["verdict"] = "INVALID"
        if number == 1:
            record = json.loads(json.dumps(record))
            record["document"]["metrics"][0]["unit"] = "GiB/s"
            record["judged"][record["document"]["metrics"][0]["id"]]["unit"] = "GiB/s"
        synthetic.write(archive, record, number)
    bad = archive / "m" / "gpu" / "2025-10-11" / "x" / "x.json"
    bad.parent.mkdir()
    bad.write_text("{")
    code, found = run(archive)
    assert code == 3
    text = "\n".join(found["incomplete"])
    assert "m: 3 nodes (n01, n04, n05): silent since 2025-10-11 (3 series): repair it, or retire it" in text
    assert "1 of 6 series ran under invalid conditions, on n00" in text
    assert "1 values were refused" in text and "unit is 'GiB/s'" in text
    assert "1 new files or lines cannot be read, the first: m/gpu/2025-10-11/x/x.json" in text
    assert found["systems"][0]["findings"] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [([], {"m", "z"}), (["--system", "m"], {"m"}), (["--night", "2025-09-06"], {"x", "z"}),
     (["--night", "2025-09-05"], set())],
)  # fmt: skip
def test_values_refused_on_the_last_night_of_a_system_are_told(
    tmp_path: Path, options: list[str], told: set[str]
) -> None:
    """On the last of m's seven nights and of z's six, and on the last but one of x; each ends before noon."""
    archive = tmp_path / "a"
    for system, nights, wrong in (("m", 7, 6), ("x", 7, 5), ("z", 6, 5)):
        for night, node in itertools.product(range(nights), range(2)):
            metric = synthetic.metric("triad", {"host": 0}, [400.0])
            metric["unit"] = "GiB/s" if (night, node) == (wrong, 0) else "GB/s"
            when = synthetic.FIRST + timedelta(days=night, hours=17, minutes=59)
            record = synthetic.record(system, synthetic.node_name(node), when, "Stream", "stream", [metric], [])
            synthetic.write(archive, record, node)
    lines = run(archive, *options)[1]["incomplete"]
    assert {line.partition(":")[0] for line in lines if "1 values were refused, the last on 2025-09-0" in line} == told


def test_a_node_whose_first_night_is_invalid_has_run(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 2)
    when, metrics = synthetic.FIRST + timedelta(days=1), [synthetic.metric("triad", {"host": 0}, [400.0])]
    record = synthetic.record("m", "n09", when, "Stream", "stream", metrics, [])
    synthetic.write(archive, record | {"verdict": "INVALID"}, 9)
    _, found = run(archive)
    assert any("invalid conditions, on n09" in line for line in found["incomplete"])
    assert "has not run" not in (archive.parent / "out" / "summary.md").read_text() + json.dumps(found)


def test_a_silent_node_stays_red_until_a_person_retires_it(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 60, quiet={3: 35})
    for night in (36, 40, 59):
        code, found = run(archive, "--night", str((synthetic.FIRST + timedelta(days=night)).date()))
        assert code == 3
    text = "\n".join(found["incomplete"])
    assert "node n03: silent since 2025-10-06 (1 series): repair it, or retire it" in text
    file = tmp_path / "acknowledged.yaml"
    for name in ("n03", "N03.site.org"):
        file.write_text(f"retired:\n  - {{system: m, node: {name}, reason: sent back, owner: me}}\n")
        assert run(archive, "--acknowledged", str(file))[0] == 0


def test_a_lost_metric_is_told(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 50, lost_from=40)
    code, found = run(archive)
    (line,) = found["incomplete"]
    assert code == 3 and line.startswith(
        "m: Stream copy: missing on 6 nodes (n00, n01, n02, n03, n04 and 1 more) since 2025-10-11 (6 series)"
    )


def test_an_acknowledgement_ends(tmp_path: Path) -> None:
    h = history()
    shift = causes.Finding("step", "series", "x", True, 5, 5, -0.05, -0.05, -0.05, 9.0, 0.0, [1], 1)
    entry = Entry("m", "known", "me", night=h.nights[5], size=-0.05, until=h.nights[-1])
    assert entry.covers(h, shift)
    assert not replace(entry, until=h.nights[-2]).covers(h, shift)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retired:\n  - {system: m, reason: x, owner: y}\n", "needs node, gpu, peer, leaf, program, check, metric"),
        ("retired:\n  - {system: m, node: n1, owner: y}\n", "reason is missing"),
        ("retire: []\n", "allowed: `acknowledged`, `retired`, `rebased`"),
        ("rebased:\n  - {system: m, reason: x, owner: y}\n", "from is None; allowed: a date"),
    ],
)
def test_a_wrong_retirement_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(AcknowledgedError, match=said):
        acknowledged.read_all(file)


def test_a_slow_node_is_named_and_a_spike_is_not(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 90, nodes=8, slow=4)
    code, found = run(archive)
    (finding,) = found["systems"][0]["findings"]
    assert code == 1 and finding["what"] == "node n04" and finding["kind"] in ("step", "drift")
    assert "no environment change on n04" in finding["text"]
    code, found = run(archive, "--night", "2025-11-27")
    assert code == 0 and found["systems"][0]["findings"] == []


def test_a_history_of_which_little_is_judged_is_no_pass(tmp_path: Path) -> None:
    """One of eight checks per night: the values count, not the nights, and a PASS covers half of the series."""
    archive = tmp_path / "a"
    rng = random.Random(2)
    for night in range(88):
        for node in {night % 8, 0}:
            when = synthetic.FIRST + timedelta(days=night, minutes=node)
            metrics = [synthetic.metric("triad", {"host": 0}, [400 * rng.gauss(1, 0.004)])]
            name = synthetic.node_name(node)
            synthetic.write(archive, synthetic.record("m", name, when, f"Stream{node}", "stream", metrics, []), node)
    code, found = run(archive)
    assert code == 3 and any("only 1 of 8 series judged" in one for one in found["incomplete"])


def test_every_event_that_is_open_is_told() -> None:
    """An event of the detector has moved a level: without a finding it would never be reported."""
    rng = np.random.default_rng(3)
    h = history(nodes=40, nights=120)
    values = 400 * np.exp(rng.normal(0, 0.01, (40, 120)))
    values[:30, 80:] *= 0.9
    values[35, 90:] *= 0.97
    h = replace(h, values=values, fingerprints=np.zeros((40, 120), int), invalid=np.zeros((40, 120), bool))
    found = detect(values, np.ones(40, bool), Settings())
    told = {row for finding in causes.findings(h, found) for row in finding.rows}
    assert {event.series for event in found.events} <= told and set(range(30)) <= told


def test_a_loss_that_was_noise_is_withdrawn_once_and_in_every_form() -> None:
    """The scatter of one node triples on night 100, and its first three values are low by chance."""
    values = 400 * np.exp(np.random.default_rng(9).normal(0, 0.01, (4, 150)))
    values[0, 100:] = 400 * (values[0, 100:] / 400) ** 3
    values[0, 100:103] = [370, 368, 372]
    forms, kinds, detector, gone = {}, {}, Detector(np.ones(4, bool)), 200
    for night in range(150):
        detector.advance(values[:, night])
        if 101 <= night <= gone + 1 or night in (gone + 9, 149):  # each takes as long as 150 nights
            h = history(nodes=4, nights=night + 1)
            h = replace(h, values=values[:, : night + 1])
            one = gate.system(h, detector.findings(), Settings())
            forms[night] = gate.Gate(Path("a"), [one], Ingested(), 30)
            kinds[night] = sorted(f.kind for f in forms[night].alarms)
            gone = min(gone, night) if kinds[night] == ["noisy"] else gone
    told = min(night for night, found in kinds.items() if found == ["step"])
    assert told <= 103 < gone <= 115 and all(kinds[night] == ["noisy"] for night in kinds if night >= gone)
    said = f"withdrawn on {forms[gone].systems[0].night}: the values scatter more than before, and no level moved"
    for form in (notices.markdown, notices.text, lambda g: str(nightly._since_yesterday(g, nightly._shown(g)))):
        assert [night for night in range(gone - 1, gone + 2) if said in form(forms[night])] == [gone], "once"
    assert all(said in sentences.sentence(forms[gone].systems[0].history, f) for f in withdrawn(forms[gone + 9]))
    assert [f["withdrawn"] for f in notices.as_json(forms[149])["systems"][0]["findings"]].count(True) == 1
    assert 'type="noisy"' in notices.junit(forms[gone]) and 'type="step"' not in notices.junit(forms[gone])
    (finding,) = withdrawn(forms[gone])
    entry = Entry("m", "known", "me", night=forms[gone].systems[0].history.nights[finding.night], size=finding.size)
    assert not entry.covers(forms[gone].systems[0].history, forms[gone].alarms[0]), "the noise is a finding of its own"


def withdrawn(judged: gate.Gate) -> list[causes.Finding]:
    return [f for f in judged.systems[0].findings if f.withdrawn]


def test_a_withdrawn_loss_is_neither_intermittent_nor_part_of_another() -> None:
    h = history(nodes=4, nights=60)
    step = Event(0, "step", True, 40, 42, -0.05, -0.06, -0.04, 9.0, 1e-4, 50)
    events = (step, replace(step, change_night=52, found_night=53, recovered_night=55))
    found = detect(h.values, h.higher)
    for gone, kinds in ((False, ["flapping"]), (True, ["step", "step"])):
        some = replace(found, events=tuple(replace(e, withdrawn=gone) for e in events))
        assert [f.kind for f in causes.findings(h, some) if 0 in f.rows] == kinds
    others = (replace(step, withdrawn=True), *(replace(step, series=n, recovered_night=None) for n in (1, 2, 3)))
    found = replace(found, events=others)
    assert [(f.withdrawn, len(f.rows)) for f in causes.findings(h, found)] == [(False, 3), (True, 1)]


def test_a_chance_loss_before_a_loss_of_all_is_not_intermittent() -> None:
    h = history(nodes=4, nights=60)
    before = Event(0, "step", True, 40, 42, -0.05, -0.06, -0.04, 9.0, 1e-4, 46)
    now = [replace(before, series=n, change_night=55, found_night=57, recovered_night=None) for n in range(4)]
    for others, kinds in ((now, ["step", "step"]), (now[:1], ["flapping"])):
        some = replace(detect(h.values, h.higher), events=(before, *others))
        assert sorted(f.kind for f in causes.findings(h, some)) == kinds


def test_a_store_that_cannot_be_read_is_incomplete(tmp_path: Path, capsys: Any) -> None:
    fill(tmp_path / "a", 2)
    (tmp_path / "s.duckdb").write_bytes(b"x" * 10000)
    assert run(tmp_path / "a")[0] == 3
    assert "tenken gate: INCOMPLETE:" in capsys.readouterr().err


# ---- attribution -----------------------------------------------------------------------------------------


def history(nodes: int = 4, nights: int = 10) -> History:
    series = [
        Series(n, "m", "gpu", "cuda", "Stream", "stream", 1, "{}", "triad", "", "host", f"n{n}", "", "", "host", "GB/s",
               "higher", "median")
        for n in range(nodes)
    ]  # fmt: skip
    first = date(2025, 9, 1)
    dates = [first + timedelta(days=n) for n in range(nights)]
    marks = np.zeros((nodes, nights), int)
    environments = {
        0: ("580.1", "13.0", "6.1", "a", "c", "r", "g", "u", "o"),
        1: ("580.2", "13.0", "6.1", "a", "c", "r", "g", "u", "o"),
        2: ("580.2", "13.0", "6.2", "a", "c", "r", "g", "u", "o"),
    }
    shape = (nodes, nights)
    return History("m", series, dates, np.full(shape, 1.0), marks, np.zeros(shape, bool), environments)


def test_a_change_on_what_moved_is_the_cause_with_every_field_that_changed() -> None:
    h = history()
    h.fingerprints[:2, 5:] = 2
    found = causes.causes(h, [0, 1], 6)
    assert [(c.field, c.before, c.after, c.nodes) for c in found] == [
        ("driver", "580.1", "580.2", ("n0", "n1")), ("kernel", "6.1", "6.2", ("n0", "n1"))
    ]  # fmt: skip
    assert [c.field for c in found] == [f for f in FINGERPRINT if f in ("driver", "kernel")]


def test_the_latest_changes_of_an_environment_are_shown_in_their_order() -> None:
    """Between the nights on which it ran, whatever was in between; an unknown value is no change."""
    h = history()
    h.environments[3] = ("", *h.environments[2][1:])
    h.fingerprints[0] = [0, 1, 2, -1, 1, 0, 0, 3, 0, 2]
    every = [
        (1, "driver 580.2"), (2, "kernel 6.2"), (4, "kernel 6.1"), (5, "driver 580.1"), (7, "kernel 6.2"),
        (8, "kernel 6.1"), (9, "driver 580.2, kernel 6.2"),
    ]  # fmt: skip
    assert [trends.fingerprint_changes(h, 0, most) for most in (9, 4, 1)] == [every, every[-4:], every[-1:]]
    assert trends.fingerprint_changes(h, 1) == []


@pytest.mark.parametrize(("rows", "night"), [([0], 6), ([0, 1], 9), ([0, 2], 6)])
def test_a_change_elsewhere_or_at_another_time_is_not(rows: list[int], night: int) -> None:
    h = history()
    h.fingerprints[:2, 5:] = 1
    if rows == [0]:
        h.fingerprints[:, 5:] = 1  # all had the change, one moved
    assert causes.causes(h, rows, night) == []


def test_one_program_slower_on_a_node_at_all_sizes_is_one_finding() -> None:
    """Falling bandwidths and rising latencies; the other programs of the node are stable."""
    rng = np.random.default_rng(4)
    h = history(nodes=48, nights=110)
    series = []
    for row, one in enumerate(h.series):
        node, what = row // 24, row % 24
        direction = "higher" if what % 2 else "lower"
        program = "mpi_p2p" if what < 12 else "stream"
        series.append(
            replace(one, node=f"n{node}", program=program, check=program, metric=f"m{what}", direction=direction)
        )
    values = 400 * np.exp(rng.normal(0, 0.005, (48, 110)))
    for row in range(12):
        values[row, 100:] *= 0.95 if series[row].direction == "higher" else 1.05
    zeros = np.zeros((48, 110), int)
    h = replace(h, series=series, values=values, fingerprints=zeros, invalid=zeros.astype(bool))
    found = detect(values, h.higher)
    (finding,) = [f for f in causes.findings(h, found) if f.alarming]
    assert finding.rows == list(range(12)) and finding.what == "node n0"
    assert "12 metrics" in sentences.sentence(h, finding) and " worse " in sentences.sentence(h, finding)


def test_a_driver_that_slows_all_sizes_is_one_row_of_the_mail(tmp_path: Path) -> None:
    """Two benchmarks of six metrics on four nodes: one loses 5 %; the printed entry silences it."""
    archive, rng = tmp_path / "a", random.Random(7)
    for night in range(44):
        for node in range(4):
            name, new = synthetic.node_name(node), night >= 40
            gpus = synthetic.devices(name, 1, synthetic.DRIVERS[new])
            for number, check in enumerate(("Memcopy", "Stream")):
                when = synthetic.FIRST + timedelta(days=night, minutes=node, seconds=number)
                loss = 0.95 if new and check == "Memcopy" else 1
                metrics = [
                    synthetic.metric(f"m{n}", {"gpu": 0}, [(1 + n) * 400 * rng.gauss(1, 0.004) * loss])
                    for n in range(6)
                ]
                record = synthetic.record("m", name, when, check, check.lower(), metrics, gpus)
                synthetic.write(archive, record, 2 * node + number)
    code, found = run(archive)
    (finding,) = [f for f in found["systems"][0]["findings"] if f["alarming"]]
    assert code == 1 and (finding["label"], len(finding["members"])) == ("check", 24)
    assert [(c["field"], len(c["nodes"])) for c in finding["causes"]] == [("driver", 4)]
    (row,) = [line for line in (tmp_path / "out" / "summary.md").read_text().splitlines() if line.startswith("| step")]
    assert row.startswith("| step: Memcopy on partition gpu: 6 metrics (24 series) | ")
    (tmp_path / "k.yaml").write_text(
        f"acknowledged:\n  - {{system: m, kind: step, night: {finding['night']}, size: {finding['size'] - 0.01}, "
        "check: Memcopy, reason: x, owner: me}\n"
    )
    code, found = run(archive, "--acknowledged", str(tmp_path / "k.yaml"))
    assert code == 0 and not [f for f in found["systems"][0]["findings"] if f["alarming"]]


# ---- acknowledged ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {system: m, night: 2025-09-01, owner: x}", "reason is missing"),
        ("- {system: m, night: 2025-09-01, reason: x}", "owner is missing"),
        ("- {system: m, reason: x, owner: x}", "needs `night`"),
        ("- {system: m, night: soon, reason: x, owner: x}", "allowed: a date like 2026-11-21"),
        ("- {system: m, size: big, reason: x, owner: x}", "allowed: a relative change like -0.05"),
        ("- {system: m, nihgt: 1, reason: x, owner: x}", "unknown key 'nihgt'; allowed: system, reason"),
        ("- x", "not a mapping"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"# who\nacknowledged:\n  {text}\n")
    with pytest.raises(AcknowledgedError) as caught:
        acknowledged.read_all(file)
    assert str(caught.value).startswith(f"{file}:3: ") and said in str(caught.value)


def test_an_entry_is_silent_until_it_moves_again() -> None:
    h = history()
    entry = Entry("m", "known", "me", night=h.nights[5], size=-0.05, node="n1")

    def shift(night: int, size: float, row: int = 1) -> causes.Finding:
        return causes.Finding("step", "series", "x", True, night, night, size, size, size, 9.0, 0.0, [row], 1)

    assert entry.covers(h, shift(6, -0.05))
    assert not entry.covers(h, shift(9, -0.05)), "another night"
    assert not entry.covers(h, shift(5, -0.09)), "moved on"
    assert not entry.covers(h, shift(5, -0.05, row=2)), "another node"


def test_a_planned_change_is_the_new_level_and_nothing_else(tmp_path: Path, capsys: Any) -> None:
    archive, file = tmp_path / "a", tmp_path / "acknowledged.yaml"
    file.write_text("# of the site\nacknowledged: []\n")
    fill(archive, 90, nodes=8, slow=4)
    code, found = run(archive, "--acknowledged", str(file))
    (moved,) = found["systems"][0]["findings"]
    assert code == 1 and moved["kind"] == "step"
    night = moved["night"]

    def rebase(start: str, *options: str) -> int:
        common = ["--system", "m", "--from", start, "--why", "power limit 600 W", "--owner", "me"]
        return main(["gate", "rebase", *common, "--acknowledged", str(file), *options])

    before = (date.fromisoformat(night) - timedelta(days=9)).isoformat()
    assert rebase(before) == 0, "another night does not silence it"
    assert rebase(night, "--node", "n01") == 0, "nor does another node"
    assert run(archive, "--acknowledged", str(file))[0] == 1
    capsys.readouterr()
    assert rebase(night) == 0
    assert capsys.readouterr().out == f"{file}: m is rebased from {night} on; commit it\n"
    code, found = run(archive, "--acknowledged", str(file))
    (moved,) = found["systems"][0]["findings"]
    assert code == 0 and moved["acknowledged"] == f"planned change from {night}: power limit 600 W (me)"
    assert file.read_text().startswith("# of the site\n"), "the file's comments stay"
    assert len(acknowledged.read_all(file).rebased) == 3


def test_a_rebase_that_cannot_be_written_leaves_the_file(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    assert (
        main(["gate", "rebase", "--system", "m", "--from", "2026-01-01", "--why", " ", "--acknowledged", str(file)])
        == 2
    )
    assert "--why is empty" in capsys.readouterr().err and not file.exists()
    words = ["gate", "rebase", "--system", "m", "--from", "2026-01-01", "--why", "x", "--acknowledged", "/proc/a.yaml"]
    assert main(words) == 2 and "cannot write" in capsys.readouterr().err
    users: dict[str, str] = {}
    monkeypatch.setattr(command.getpass, "getuser", lambda: users["of this uid"])
    assert main(words) == 2 and "--owner is needed" in capsys.readouterr().err


@pytest.mark.parametrize(("verdict", "status"), [(0, 3), (1, 1), (3, 3)])
def test_a_gate_that_cannot_be_written_is_incomplete_and_a_regression_stays_one(
    verdict: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(command, "judge", lambda arguments: SimpleNamespace(exit_code=verdict))
    monkeypatch.setattr(notices, "text", lambda gate: "told")
    written: list[Path] = []
    monkeypatch.setattr(notices, "write_all", lambda gate, target: written.append(target))
    assert main(["gate"]) == verdict and written == [ROOT / "output" / "gate"]
    assert capsys.readouterr().out == f"told\n\nPage: {ROOT}/output/gate/nightly.html\n"

    def full(gate: Any, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notices, "write_all", full)
    assert main(["gate", "--output", str(tmp_path)]) == status
    said = capsys.readouterr()
    assert said.out == "told\n" and said.err == f"tenken gate: cannot write to {tmp_path}: No space left on device\n"


@pytest.mark.parametrize("lacks", ["--system", "--from", "--why"])
def test_a_rebase_needs_a_system_a_night_and_a_reason(lacks: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(acknowledged, "FILE", tmp_path / "usual.yaml")
    monkeypatch.setattr(command.getpass, "getuser", lambda: "me")
    words = {"--system": "m", "--from": "2026-01-01", "--why": "x"}
    given = [word for key, value in words.items() for word in (key, value)]
    with pytest.raises(SystemExit):
        main(["gate", "rebase", *[w for k, v in words.items() if k != lacks for w in (k, v)]])
    assert not (tmp_path / "usual.yaml").exists()
    assert main(["gate", "rebase", *given, "--gpu", "3", "--metric", "t"]) == 0
    (one,) = acknowledged.read_all(tmp_path / "usual.yaml").rebased
    assert one == acknowledged.Rebase("m", "x", "me", date(2026, 1, 1), gpu="3", metric="t")


# ---- compare and propose ---------------------------------------------------------------------------------


def test_the_interval_of_a_ratio_holds_what_it_says() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(400):
        shift, low, high = compare.shift_interval(rng.normal(0, 1, 12), rng.normal(0.3, 1, 10))
        assert low <= shift <= high
        inside += low <= 0.3 <= high
    assert 0.93 < inside / 400 < 0.98


@pytest.mark.parametrize(("low", "high", "answer"), [
    (0.985, 1.015, "same"), (0.984, 1.0, "undecided"), (1.0, 1.016, "undecided"), (1.001, 1.016, "faster"),
    (1.001, 1.014, "same"), (1.2, 1.3, "faster"), (0.984, 0.999, "slower"), (0.7, 0.8, "slower"),
    (0.5, float("inf"), "undecided"), (float("nan"), 1.3, "undecided"), (1.2, float("nan"), "undecided"),
    (float("-inf"), 0.9, "undecided"), (float("nan"), float("nan"), "undecided"),
])  # fmt: skip
def test_an_answer_by_the_interval_of_a_ratio(low: float, high: float, answer: str) -> None:
    """All of it within 1.5 %: the same; all of it on one side of 1 and not within: decided."""
    other = {"faster": "slower", "slower": "faster"}.get(answer, answer)
    assert (compare.answer(low, high, True, 0.015), compare.answer(low, high, False, 0.015)) == (answer, other)


def test_bad_sides_are_refused(tmp_path: Path, capsys: Any) -> None:
    fill(tmp_path / "a", 2)
    common = ["--archive", str(tmp_path / "a"), "--store", str(tmp_path / "s.duckdb")]
    for a, said in (
        ("colour=red", "allowed keys: system"),
        ("night=soon", "expected a night like"),
        ("system=none", "side A (system=none) has no valid values"),
    ):
        assert main(["compare", a, "system=m", *common]) == 2
        assert said in capsys.readouterr().err
    assert main(["compare", "night=2025-09-01", "night=2025-09-02", *common]) in (0, 1)


def test_propose_renews_what_is_there_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "title: x\nreferences:\n  # published\n  - metric: stream.copy\n    subject: host\n    partition: gpu\n"
        "    value: 1  # why\n  - metric: stream.triad\n    subject: host\n    partition: gpu\n    environ: [cuda]\n"
        "    value: 300\nnotes: []\n"
    )
    when = datetime(2025, 9, 1).date()
    one = propose.Proposal("stream", "triad", "host", "gpu", "cuda", {}, "GB/s", "median", "higher", 400.0, 0.02, 60,
                           0.004, when, when, "580.1")  # fmt: skip
    diff = propose.patch(file, [one])
    assert "-    value: 300" in diff and "+    value: 400.0" in diff and "# why" not in diff.split("@@")[2][:0]
    assert not [line for line in diff.splitlines() if line.startswith("-") and "copy" in line]
    assert " notes: []" in diff


def fill_a_day(archive: Path, system: str, runs: int, spread: float = 0.004, day: int = 0) -> None:
    """This many runs of two nodes, an hour apart."""
    rng = random.Random(2)
    for number in range(runs):
        for node in range(2):
            when = synthetic.FIRST + timedelta(days=day, hours=number, minutes=node)
            metrics = [synthetic.metric("triad", {"host": 0}, [400 * rng.gauss(1, spread)])]
            record = synthetic.record(system, synthetic.node_name(node), when, "Stream", "stream", metrics, [])
            synthetic.write(archive, record, 2 * number + node + 100 * day)


def proposed(archive: Path, system: str, *options: str) -> int:
    return main(["propose", system, "--archive", str(archive), "--store", str(archive.parent / "s.duckdb"), *options])


def test_runs_of_one_day_make_provisional_references(tmp_path: Path, capsys: Any) -> None:
    fill_a_day(tmp_path / "a", "local", 4)
    when, metrics = synthetic.FIRST + timedelta(hours=9), [synthetic.metric("triad", {"host": 0}, [900.0])]
    wrong = synthetic.record("local", synthetic.node_name(0), when, "Stream", "stream", metrics, [], verdict="INVALID")
    synthetic.write(tmp_path / "a", wrong, 999)
    assert proposed(tmp_path / "a", "local") == 0
    out, err = capsys.readouterr()
    assert "provisional: true" in out and "count: 8" in out and "8 runs of 20" in out, out
    assert "until 5 nights replace it" in out and "tenken systems new NAME --scheduler local" in err
    file = tmp_path / "m.yaml"
    file.write_text("title: x\n")
    assert proposed(tmp_path / "a", "local", "--file", str(file)) == 0
    assert "+    provisional: true" in capsys.readouterr().out


@pytest.mark.parametrize(("runs", "spread", "said"), [
    (2, 0.004, "a provisional one needs 3 runs of one day, there are 2"), (6, 0.5, "runs of a day spread by"),
])  # fmt: skip
def test_too_few_or_scattered_runs_make_none(runs: int, spread: float, said: str, tmp_path: Path, capsys: Any) -> None:
    fill_a_day(tmp_path / "a", "local", runs, spread)
    file = tmp_path / "m.yaml"
    file.write_text("title: x\n")
    for words in ([], ["--file", str(file)]):
        assert proposed(tmp_path / "a", "local", *words) == 3
        found = capsys.readouterr()
        assert said in found.err and "+" not in found.out
    assert proposed(tmp_path / "a", "other", "--file", str(file)) == 3
    assert "no history of system 'other'" in capsys.readouterr().err


def test_nights_replace_what_is_provisional(tmp_path: Path, capsys: Any) -> None:
    for day in range(6):
        fill_a_day(tmp_path / "a", "m", 3, day=day)
    file = tmp_path / "m.yaml"
    file.write_text("title: x\n")
    assert proposed(tmp_path / "a", "m", "--file", str(file)) == 0
    out = capsys.readouterr().out
    assert "provisional" not in out and "+  - metric: stream.triad" in out


def test_alarms_come_first_and_of_these_the_new_ones() -> None:
    """Ten nights; a finding is new on the last one, and stands after three."""
    told = {"old": (True, 6, None), "over": (False, 3, 6), "known": (False, 9, None), "recent": (True, 7, None),
            "new": (True, 9, None), "just over": (False, 3, 7)}  # fmt: skip
    findings: Any = [
        SimpleNamespace(name=name, alarming=a, found=f, recovered=1, ended=r) for name, (a, f, r) in told.items()
    ]
    history: Any = SimpleNamespace(nights=list(range(10)))
    judged: Any = gate.Judged(history, history, findings)
    assert [one.name for one in judged.in_order()] == ["new", "recent", "old", "known", "over", "just over"]
    assert {one.name for one in judged.alarms} == {"old", "recent", "new"}
    assert {one.name for one in findings if judged.is_new(one)} == {"new", "known"}
    assert {one.name for one in findings if judged.is_standing(one)} == {"old"}
    assert {one.name for one in findings if judged.is_past(one)} == {"over"}


def test_each_finding_has_the_word_of_its_state_and_notes_and_alarms_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their weight: an alarm, withdrawn, acknowledged, an improvement, what is over."""
    said = {"sentence": lambda history, one: one.name, "standing": lambda history, one: f"{one.name} for long",
            "was_withdrawn": lambda history, one: one.name == "gone",
            "power_sentence": lambda one, least: f"power from {least}"}  # fmt: skip
    for name, function in said.items():
        monkeypatch.setattr(notices.sentences, name, function)
    monkeypatch.setattr(notices.acknowledged, "snippet", lambda history, one: f"snippet of {one.name}")

    def one(name: str, alarming: bool = False, withdrawn: bool = False, known: str = "", worse: bool = True) -> Any:
        return SimpleNamespace(name=name, alarming=alarming, withdrawn=withdrawn, acknowledged=known, worse=worse)

    findings = [one("a", True), one("b", True), one("gone"), one("c", withdrawn=True, known="x"), one("d", known="why"),
                one("e", worse=False), one("f")]  # fmt: skip
    history = SimpleNamespace(system="m", nights=[1], series=[1, 2, 3])
    judged = SimpleNamespace(
        history=history, night="2026-03-01", states={"ran": 2, "missing": 1}, notes=["a note"],
        in_order=lambda: findings, is_standing=lambda one: one.name == "a", is_new=lambda one: one.name == "b",
    )  # fmt: skip
    made: Any = SimpleNamespace(archive="/a", ingested=SimpleNamespace(text="t"), systems=[judged], judged_from=20,
                                incomplete=["no night"], headline="FAIL", exit_code=1)  # fmt: skip
    assert notices.text(made).splitlines() == [
        "Archive /a: t", "",
        "m, night of 2026-03-01: 3 series over 1 night; 1 missing, 2 ran (a series is judged from its 20th night on)",
        "FAIL: a for long", "FAIL NEW: b", "withdrawn: c", "    acknowledged: x", "known: d",
        "    acknowledged: why", "better: e", "over: f", "Note: a note", "power from 20", "",
        "To accept one, add to reports/acknowledged.yaml:", "snippet of a", "snippet of b", "INCOMPLETE: no night", "",
        "Gate: FAIL, 2 findings, exit status 1",
    ]  # fmt: skip


MARKDOWN = """\
# Tenken gate: HEAD

## h\\|1, night of 2026-03-02

| finding | since | size | what changed with it |
|---|---|---|---|
| step: p \\<m\\> | 2026-03-01 | -5.0 % | driver 1 to 2, kernel 6 to 7 |
| noisy: n1: members | 2026-03-02 | scatter x 1.5 | nothing |

- s for long

- k said

power h|1 20

## q, night of 2026-03-02

No regression.

power q 20

## r, night of 2026-03-02

Nothing new.

- s for long

power r 20

## Incomplete

- no \\<night\\>
"""
PROMETHEUS = """\
# HELP tenken_gate_exit_status 0 no regression, 1 a regression, 3 incomplete or invalid
# TYPE tenken_gate_exit_status gauge
tenken_gate_exit_status 1
# HELP tenken_gate_incomplete reasons for which the answer is incomplete
# TYPE tenken_gate_incomplete gauge
tenken_gate_incomplete 1
# HELP tenken_gate_series series by state on the last night
# TYPE tenken_gate_series gauge
tenken_gate_series{system="h|1",state="missing"} 2
tenken_gate_series{system="h|1",state="ran"} 1
# HELP tenken_gate_findings open findings that are not acknowledged
# TYPE tenken_gate_findings gauge
tenken_gate_findings{system="h|1",kind="step"} 2
tenken_gate_findings{system="h|1",kind="drift"} 0
tenken_gate_findings{system="h|1",kind="flapping"} 0
tenken_gate_findings{system="h|1",kind="noisy"} 1
tenken_gate_findings{system="h|1",kind="outlier"} 0
# HELP tenken_gate_last_night_days the last night, as days since 0001-01-01 plus 1
# TYPE tenken_gate_last_night_days gauge
tenken_gate_last_night_days{system="h|1"} 739677
# HELP tenken_metric_value value of the last night
# TYPE tenken_metric_value gauge
tenken_metric_value{LABELS0} 2.5
# HELP tenken_metric_level baseline of the series
# TYPE tenken_metric_level gauge
tenken_metric_level{LABELS0} 2.0
tenken_metric_level{LABELS2} 1.0
"""


def test_a_night_word_by_word_in_each_form_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three series one is too slow, one noisier and missing, one void."""

    def finding(name: str, alarming: bool, rows: list[int], **changes: Any) -> Any:
        said = {"kind": "step", "label": "measure", "what": "p <m>", "worse": True, "acknowledged": "", "night": 0,
                "found": 1, "recovered": None, "withdrawn": False, "size": -0.05, "low": -0.06, "high": -0.04,
                "evidence": 9.0, "p_value": 0.1, "times": 1, "of": 2, "causes": []}  # fmt: skip
        return SimpleNamespace(**said | {"name": name, "alarming": alarming, "rows": rows} | changes)

    changed = [SimpleNamespace(field=field, before=a, after=b, nodes=("n0",), text=f"{field} {a} to {b}")
               for field, a, b in (("driver", "1", "2"), ("kernel", "6", "7"))]  # fmt: skip
    slow = finding("a", True, [0], causes=changed, found=5)
    noisy = finding("b", True, [1], kind="noisy", label="node", what="n1", night=1, size=0.5, recovered=7)
    stands, known = finding("s", True, []), finding("k", False, [2], acknowledged="yes")
    shown = [slow, noisy, stands, known, finding("past", False, []), finding("gone", False, [])]
    monkeypatch.setattr(notices.sentences, "sentence", lambda _, f: f"{f.name} said")
    monkeypatch.setattr(notices.sentences, "standing", lambda _, f: f"{f.name} for long")
    monkeypatch.setattr(notices.sentences, "members", lambda _, f: ["mem", "bers"])
    monkeypatch.setattr(notices.sentences, "was_withdrawn", lambda _, f: f.name == "gone")
    monkeypatch.setattr(notices.sentences, "power_sentence", lambda one, least: f"power {one.history.system} {least}")
    series = [
        SimpleNamespace(check="C", program="p", metric="m", coordinates="n=1", parameters="", partition="gpu",
                        environ="cuda", unit="GB/s",
                        node=f"n{at}", place="GPU 0", gpu="U\\0" * (at == 0), peer="n9" * (at == 1),
                        measure="p m", where=f"n{at} GPU 0")
        for at in range(3)
    ]  # fmt: skip
    nights = [date(2026, 3, 1), date(2026, 3, 2)]
    values, nan = np.array([[1, 2.5], [1, np.nan], [1, np.nan]]), np.nan
    level = SimpleNamespace(level=[2.0, nan, 1.0], band=([1.9, nan, 0.9], [2.1, nan, 1.1]), nights=np.array([5, 1, 5]),
                            state=[SimpleNamespace(value=word) for word in ("judged", "new", "judged")])  # fmt: skip
    one = SimpleNamespace(
        history=SimpleNamespace(system="h|1", nights=nights, series=series, values=values), found=level,
        in_order=lambda: shown, findings=[slow, noisy], alarms=[slow, noisy, stands], missing=[1], void=[2],
        states={"ran": 1, "missing": 2}, power={0.01: (3.0, math.inf)}, notes=["note"], night=nights[1],
        is_standing=lambda f: f.name == "s", is_past=lambda f: f.name == "past",
    )  # fmt: skip
    made: Any = SimpleNamespace(
        headline="HEAD", systems=[one], judged_from=20, incomplete=["no <night>"], exit_code=1, verdict="FAIL",
        archive="/a", ingested=SimpleNamespace(bad=[("f", "why")]),
    )  # fmt: skip

    labels = {
        f"LABELS{at}": f'system="h|1",partition="gpu",environ="cuda",check="C",metric="m",at="n=1",parameters="",'
        f'node="n{at}",place="GPU 0",gpu="{gpu}",unit="GB/s"' for at, gpu in ((0, "U\\\\0"), (2, ""))
    }  # fmt: skip
    expected = PROMETHEUS
    for name, text in labels.items():
        expected = expected.replace(name, text)
    assert notices.prometheus(made) == expected

    told = notices.as_json(made)
    (system,) = told.pop("systems")
    assert told == {"schema": "tenken-findings/1", "verdict": "FAIL", "exit_code": 1, "archive": "/a",
                    "least_nights": 20,
                    "incomplete": ["no <night>"], "bad_files": [{"file": "f", "reason": "why"}]}  # fmt: skip
    first, second = system.pop("findings")
    assert system == {"system": "h|1", "night": "2026-03-02", "nights": 2, "series": 3,
                      "states": {"ran": 1, "missing": 2},
                      "power": {"0.01": {"half": 3.0, "most": None}}, "notes": ["note"]}  # fmt: skip
    assert (first["found"], first["recovered"], first["acknowledged"]) == ("2026-03-02", None, None)
    assert (second["night"], second["recovered"], second["kind"]) == ("2026-03-02", "2026-03-02", "noisy")
    assert first["causes"][0] == {"field": "driver", "from": "1", "to": "2", "nodes": ["n0"]} and not second["causes"]
    assert [(m["node"], m["gpu"], m["peer"]) for f in (first, second) for m in f["members"]] == [
        ("n0", "U\\0", None), ("n1", None, "n9"),
    ]  # fmt: skip

    root = ElementTree.fromstring(notices.junit(made))
    suites = [{k: s.get(k) for k in ("name", "tests", "failures", "errors", "skipped", "timestamp")} for s in root]
    assert [list(one.values()) for one in suites] == [
        ["h|1", "3", "2", "0", "1", "2026-03-02T12:00:00"], ["incomplete", "1", "0", "1", None, None],
    ]  # fmt: skip
    cases = [
        (c.get("classname"), c.get("name"), c[-1].tag, c[-1].get("message"), c[-1].get("type"))
        for c in root.iter("testcase")
    ]
    assert cases == [
        ("h|1.gpu.C", "p m n0 GPU 0", "failure", "a said", "step"),
        ("h|1.gpu.C", "p m n1 GPU 0", "failure", "b said", "noisy"),
        ("h|1.gpu.C", "p m n2 GPU 0", "skipped", "ran under invalid conditions", None),
        ("tenken.gate", "no <night>", "error", "no <night>", None),
    ]  # fmt: skip
    assert [[f"{p.get('name')} {p.get('value')}" for p in c] for c in root.iter("properties")] == [
        ["value 2.5", "level 2.0", "band_low 1.9", "band_high 2.1", "unit GB/s", "nights 5", "state judged"],
        ["unit GB/s", "nights 1", "state new"],
        ["level 1.0", "band_low 0.9", "band_high 1.1", "unit GB/s", "nights 5", "state judged"],
    ]  # fmt: skip

    made.systems += [
        SimpleNamespace(**{**vars(one), "history": SimpleNamespace(system=name, nights=nights), "alarms": alarms,
                           "in_order": lambda alarms=alarms: alarms})
        for name, alarms in (("q", []), ("r", [stands]))
    ]  # fmt: skip
    assert notices.markdown(made) == MARKDOWN


@pytest.mark.parametrize(("night", "near"), [(2, False), (3, True), (5, True), (7, True), (8, False)])
def test_a_change_is_near_within_two_nights(night: int, near: bool) -> None:
    h = history()
    h.fingerprints[0, 5:] = 1
    assert causes.changes(h, 0, night) == ({("driver", "580.1", "580.2")} if near else set())


@pytest.mark.parametrize(("changed", "cause"), [(5, True), (4, True), (3, False)])
def test_four_of_five_that_moved_must_have_the_change(changed: int, cause: bool) -> None:
    h = history(nodes=5)
    h.fingerprints[:changed, 5:] = 1
    assert [c.field for c in causes.causes(h, range(5), 6)] == (["driver"] if cause else [])


def test_an_end_is_dated_and_known_on_the_night_of_the_judgement() -> None:
    """A small loss that is over: the evidence for its end takes nights, in which it is still open."""
    rng = np.random.default_rng(1)
    values = 100 * np.exp(rng.normal(0, 0.01, (40, 105)))
    values[:, 50:75] *= 0.975
    detector, before, late = Detector(np.ones(40, bool)), {}, 0
    for night in range(values.shape[1]):
        detector.advance(values[:, night])
        now = {(e.series, e.kind, e.found_night): e for e in detector.findings().events}
        for name, event in now.items():
            if event.recovered_night is not None and (name not in before or before[name].recovered_night is None):
                assert event.ended_night == night
                late += night - event.recovered_night > 2
        before = now
    assert late > 3


@pytest.mark.parametrize(("withdrawn", "word"), [(False, "Back"), (True, "Withdrawn")])
def test_the_page_tells_an_end_once_on_the_night_on_which_it_is_known(
    withdrawn: bool, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "MAX_PLOTS", 0)
    h = history(nodes=4, nights=60)
    for ended in range(56, 60):
        event = Event(
            0, "step", True, 40, 42, -0.05, -0.06, -0.04, 9.0, 1e-4, ended if withdrawn else 52, withdrawn, ended
        )
        found = replace(detect(h.values, h.higher), events=(event,))
        one = gate.Judged(h, found, causes.findings(h, found))
        form = gate.Gate(Path("a"), [one], Ingested(), 30)
        told = [text.split(":")[0] for _, text, _ in nightly._since_yesterday(form, nightly._shown(form))]
        assert told == [word] * (ended == 59)
        listed = "back since" in notices.markdown(form) or "withdrawn on" in notices.markdown(form)
        assert listed == (ended == 59 if withdrawn else ended > 56)
