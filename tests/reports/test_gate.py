"""The gate on small histories: what is incomplete, what is acknowledged, what is put down to which cause."""

from __future__ import annotations

import json
import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import acknowledged, causes, compare, propose, synthetic
from reports.acknowledged import AcknowledgedError, Entry
from reports.nights import History, Series
from reports.reading import FINGERPRINT
from tenken.cli import main


def run(archive: Path, *options: str) -> tuple[int, dict[str, Any]]:
    output = archive.parent / "out"
    common = ["--archive", str(archive), "--store", str(archive.parent / "s.duckdb"), "--output", str(output)]
    code = main(["gate", *common, "--max-age", "0", *options])
    found = output / "findings.json"
    return code, json.loads(found.read_text()) if found.exists() else {}


def fill(archive: Path, nights: int, nodes: int = 6, slow: int | None = None) -> None:
    rng = random.Random(1)
    for night in range(nights):
        for node in range(nodes):
            name = synthetic.node_name(node)
            value = 400 * rng.gauss(1, 0.004) * (0.9 if node == slow and night >= nights - 3 else 1)
            when = synthetic.FIRST + timedelta(days=night, minutes=node)
            metrics = [synthetic.metric("triad", {"host": 0}, [value])]
            record = synthetic.record("m", name, when, "Stream", "stream", metrics, [])
            synthetic.write(archive, record, node)


def test_an_empty_archive_is_incomplete_never_fine(tmp_path: Path, capsys: Any) -> None:
    assert run(tmp_path / "none")[0] == 3
    assert "INCOMPLETE: no archive at" in capsys.readouterr().err
    (tmp_path / "perflogs").mkdir()
    code, found = run(tmp_path / "perflogs")
    assert code == 3 and "holds no values yet" in found["incomplete"][0]


def test_a_history_that_is_too_short_says_the_least_count(tmp_path: Path) -> None:
    fill(tmp_path / "a", 5)
    code, found = run(tmp_path / "a")
    assert code == 3
    assert found["incomplete"] == [
        "m: no series has 20 nights of baseline yet, which is after 30 nights (there are 5): nothing was judged"
    ]


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
        synthetic.write(archive, record, number)
    bad = archive / "m" / "gpu" / "2025-10-11" / "x" / "x.json"
    bad.parent.mkdir()
    bad.write_text("{")
    code, found = run(archive)
    assert code == 3
    text = "\n".join(found["incomplete"])
    assert "3 of 6 series did not run last night, on n01, n04, n05" in text
    assert "1 of 6 series ran under conditions that void it, on n00" in text
    assert "1 values were refused" in text and "unit is 'GiB/s'" in text
    assert "1 new files or lines cannot be read, the first: m/gpu/2025-10-11/x/x.json" in text
    assert found["systems"][0]["findings"] == []


def test_a_slow_node_is_named_and_a_spike_is_not(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    fill(archive, 90, nodes=8, slow=4)
    code, found = run(archive)
    (finding,) = found["systems"][0]["findings"]
    assert code == 1 and finding["what"] == "node n04" and finding["kind"] in ("step", "drift")
    assert "nothing changed beside it on n04" in finding["text"]
    code, found = run(archive, "--night", "2025-11-27")
    assert code == 0 and found["systems"][0]["findings"] == []


def test_a_store_that_cannot_be_read_is_incomplete(tmp_path: Path, capsys: Any) -> None:
    fill(tmp_path / "a", 2)
    (tmp_path / "s.duckdb").write_bytes(b"x" * 10000)
    assert run(tmp_path / "a")[0] == 3
    assert "tenken gate: INCOMPLETE:" in capsys.readouterr().err


# ---- attribution -----------------------------------------------------------------------------------------


def history(nodes: int = 4, nights: int = 10) -> History:
    series = [
        Series(n, "m", "gpu", "cuda", "Stream", "stream", "{}", "triad", "", "host", f"n{n}", "", "", "host", "GB/s",
               "higher", "median")
        for n in range(nodes)
    ]  # fmt: skip
    first = date(2025, 9, 1)
    dates = [first + timedelta(days=n) for n in range(nights)]
    marks = np.zeros((nodes, nights), int)
    environments = {
        0: ("580.1", "13.0", "6.1", "a", "c", "r", "g"),
        1: ("580.2", "13.0", "6.1", "a", "c", "r", "g"),
        2: ("580.2", "13.0", "6.2", "a", "c", "r", "g"),
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


@pytest.mark.parametrize(("rows", "night"), [([0], 6), ([0, 1], 9), ([0, 2], 6)])
def test_a_change_elsewhere_or_at_another_time_is_not(rows: list[int], night: int) -> None:
    h = history()
    h.fingerprints[:2, 5:] = 1
    if rows == [0]:
        h.fingerprints[:, 5:] = 1  # all saw it, one moved
    assert causes.causes(h, rows, night) == []


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
        acknowledged.read(file)
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


# ---- compare and propose ---------------------------------------------------------------------------------


def test_the_interval_of_a_ratio_holds_what_it_says() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(400):
        shift, low, high = compare.shift_interval(rng.normal(0, 1, 12), rng.normal(0.3, 1, 10))
        assert low <= shift <= high
        inside += low <= 0.3 <= high
    assert 0.93 < inside / 400 < 0.98


@pytest.mark.parametrize(
    ("low", "high", "higher", "said"),
    [
        (0.995, 1.005, True, "same"),
        (1.02, 1.04, True, "faster"),
        (1.02, 1.04, False, "slower"),
        (0.9, 0.98, True, "slower"),
        (0.9, 0.98, False, "faster"),
        (0.9, 1.1, True, "cannot tell"),
        (float("nan"), float("nan"), True, "cannot tell"),
    ],
)
def test_answers(low: float, high: float, higher: bool, said: str) -> None:
    assert compare.answer(low, high, higher, 0.01) == said


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
