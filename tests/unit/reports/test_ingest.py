"""The store: what is ingested, what is refused, and the effect of a second pass, a second process or a kill."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken import history as reports
from tenken.cli import main
from tenken.history import nights
from tenken.history import record_parser as reading
from tenken.history.ingest import _SHOWN, Ingested, NoArchive, ingest
from tenken.history.store import VERSION, StoreError, locked, open_store
from tenken.model.subject import Subject
from tenken.paths import ROOT
from tools import synthetic

NOW = datetime(2025, 11, 1)


def take(archive: Path, store: Path, **options: Any) -> Ingested:
    with open_store(store, archive) as opened:
        return ingest(opened, archive, **{"now": NOW, **options})


def rows(archive: Path, store: Path, query: str) -> list[tuple[Any, ...]]:
    with open_store(store, archive) as opened:
        return opened.rows(query)


def entry(day: int, node: str = "n00", value: float = 100.0, **changes: Any) -> dict[str, Any]:
    when = datetime(2025, 9, day, 18)
    metrics = [synthetic.metric("triad", {"gpu": g}, [value + g, value + g + 1, value + g + 2]) for g in (0, 1)]
    record = synthetic.record("m", node, when, "Stream", "stream", metrics, synthetic.devices(node))
    if str(changes.get("time", "noon")) != "noon":
        record["document"].update(started=changes["time"], finished=changes["time"])
    return {**record, **changes}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    root = tmp_path / "perflogs"
    for day in range(1, 6):
        synthetic.write(root, entry(day), day)
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.duckdb"


def test_a_row_has_all_that_the_archive_knows(archive: Path, store: Path) -> None:
    frame = reports.history(archive, store, metric="triad")
    assert len(frame) == 10
    row = frame.iloc[1]
    assert (row.system, row.partition, row.environ, row.check, row.program) == ("m", "gpu", "cuda", "Stream", "stream")
    assert (row.node, row.place, row.gpu) == ("n00", "GPU 1", "1")
    assert (row.value, row.unit, row.direction, row.statistic) == (102.0, "GB/s", "higher", "median")
    assert (row.driver, row.cuda, row.kernel) == ("580.95.05", "13.0", "6.12.0")
    assert row.firmware == "1.4, VBIOS 96.00.CF.00.01"
    assert row.clocks == "memory 3201 MHz, SM 1980 MHz"
    assert reports.samples(row, archive) == [101.0, 102.0, 103.0]
    assert len(reports.history(archive, store, place=["GPU 0"], fresh=False)) == 5
    with pytest.raises(ValueError, match="no column 'metrik'; allowed: time, night"):
        reports.history(archive, store, metrik="triad")


def test_a_second_pass_reads_nothing_again(archive: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = time.time() - 60
    for path in [*archive.rglob("*"), archive]:
        os.utime(path, (old, old))
    assert take(archive, store).records == 5
    read: list[str] = []
    true = reading.record
    monkeypatch.setattr(reading, "record", lambda text, *more: read.append(text) or true(text, *more))
    again = take(archive, store)
    assert (again.records, again.folders, read) == (0, 0, [])
    synthetic.write(archive, entry(6), 6)
    assert take(archive, store).records == 1 and len(read) == 1


def test_dates_long_gone_are_left_alone_unless_asked(archive: Path, store: Path) -> None:
    late = synthetic.write(archive, entry(1, session="s2", time="2025-10-25T18:00:00Z"), 7)
    old = time.time() - 60
    for path in archive.rglob("*"):
        os.utime(path, (old, old))
    take(archive, store)
    first = next(archive.glob("m/gpu/2025-09-01/*"))
    (first / "late.json").write_text(json.dumps(entry(1, node="n07")))
    os.utime(first.parent, (old, old))
    assert take(archive, store).records == 0
    assert take(archive, store, every=True).records == 1
    assert late.exists()


@pytest.mark.parametrize(("documents", "lines"), [(1, 1), (2, 3), (5, 4), (6, 9)])
def test_what_is_read_in_parts_is_read_once(
    documents: int, lines: int, archive: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenken.history.ingest.BATCH", documents)
    monkeypatch.setattr("tenken.history.ingest.LINES", lines)  # of about 150 bytes
    synthetic.write(archive, entry(3) | {"job_id": "other", "system": "n"}, 9)
    (archive / "m" / "gpu" / "Lone.log").write_text(OURS + "".join(ours(day) for day in (1, 2, 3, 4)))
    found = take(archive, store)
    assert (found.records, found.points, found.lines, found.bad) == (6, 16, 4, [])
    assert rows(archive, store, "SELECT count(*), count(DISTINCT name) FROM files") == [(6, 6)]
    again = take(archive, store, every=True)
    assert (again.records, again.points, again.lines) == (0, 0, 0)


def test_a_duplicated_run_counts_once(archive: Path, store: Path) -> None:
    one = next(archive.rglob("*.json"))
    one.with_name("copy.json").write_bytes(one.read_bytes())
    found = take(archive, store)
    assert (found.records, found.duplicates, found.bad) == (5, 1, [])
    one.with_name("later.json").write_bytes(one.read_bytes())
    found = take(archive, store)
    assert (found.records, found.duplicates, found.bad) == (0, 1, [])
    assert rows(archive, store, "SELECT count(*) FROM points") == [(10,)]
    assert rows(archive, store, "SELECT count(*) FROM runs") == [(5,)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps(entry(7))[:300], "truncated or not JSON"),
        (json.dumps({**entry(7), "record": "tenken-record/9"}), "not a tenken-record/3 file but 'tenken-record/9'"),
        (json.dumps(entry(7, time="1970-01-01T00:00:00Z")), "a clock was not set"),
        (json.dumps(entry(7, time="2031-01-01T00:00:00Z")), "in the future"),
        (json.dumps(entry(7, time="2025-08-01T00:00:00Z")), "a clock jumped"),
        (json.dumps({**entry(7), "time": "noon"}), "time 'noon' is invalid"),
        (json.dumps({**entry(7), "session": "20251399T250000Z-4f2a"}), "an impossible time in its name"),
        (
            json.dumps({**entry(7), "document": {"schema": "tenken-result/2"}}),
            "misshapen: result: top level: Object missing required field",
        ),
    ],
)
def test_bad_files_are_listed_and_stop_nothing(archive: Path, store: Path, text: str, reason: str) -> None:
    path = archive / "m" / "gpu" / "2025-09-03" / "Bad" / "x.json"
    path.parent.mkdir()
    path.write_text(text)
    found = take(archive, store)
    assert found.records == 5
    assert [file for file, _ in found.bad] == ["m/gpu/2025-09-03/Bad/x.json"]
    assert reason in found.bad[0][1]
    again = take(archive, store)
    assert (again.bad, again.known_bad) == ([], 1)
    path.write_text(json.dumps(entry(7)))
    assert take(archive, store).records == 1
    assert rows(archive, store, "SELECT count(*) FROM files WHERE status = 'bad'") == [(0,)]


@pytest.mark.parametrize("count", [0, -5, 2**31, 2**40, 2**63, 10**19])
def test_a_count_that_no_run_has_is_refused_and_stops_nothing(archive: Path, store: Path, count: int) -> None:
    """Without its samples a value's count cannot be compared with them, and the store has a column of 32 bits."""
    changed = entry(6)
    changed["document"]["metrics"][0].update(samples=[], count=count)
    synthetic.write(archive, changed, 6)
    found = take(archive, store)
    assert (found.records, found.points, found.refused, found.bad) == (6, 11, 1, [])
    assert rows(archive, store, "SELECT id, reason FROM refused") == [
        ("triad.gpu0", f"count is {count}; allowed: 1 to 2147483647")
    ]


@pytest.mark.parametrize("version", [0, 2**31, 10**19, "2", True, None, 2.0])
def test_a_version_that_no_program_has_is_refused_and_stops_nothing(archive: Path, store: Path, version: Any) -> None:
    folder = next(archive.glob("m/gpu/2025-09-03/*"))
    when = {"time": "2025-09-03T18:00:00Z", "session": "s", "check": "Stream", "verdict": "FAIL", "findings": []}
    bad = {**entry(3), **V2, **when, "record": "tenken-record/2", "program_version": version}
    (folder / "x.json").write_text(json.dumps(bad))
    found = take(archive, store)
    assert (found.records, len(found.bad)) == (5, 1)
    assert "program_version" in found.bad[0][1] and "misshapen: " in found.bad[0][1]


def test_parameters_that_are_equal_but_not_the_same_are_different_conditions(archive: Path, store: Path) -> None:
    """1, 1.0 and true are equal, also as keys of a cache."""
    for day, value in enumerate((True, 1, 1.0, True, 1), start=6):
        synthetic.write(archive, stream(day, brand_new_option=value), day)
    take(archive, store)
    marks = rows(archive, store, "SELECT options, count(*) FROM history GROUP BY options ORDER BY options")
    found = [(json.loads(text).get("brand_new_option"), count) for text, count in marks]
    assert sorted(map(repr, found)) == ["(1, 4)", "(1.0, 2)", "(None, 10)", "(True, 4)"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BIGINT", [1, None, -(2**63), 2**63 - 1]),
        ("INTEGER", [1, None, 2**31 - 1]),
        ("DOUBLE", [1.5, None, 5e-324, -1.7976931348623157e308, float("inf")]),
        ("DOUBLE", [2, 2.5]),
        ("BOOLEAN", [True, None, False]),
        ("VARCHAR", ["a", None, "", "点検 ' \\", "x" * 100_000]),
        ("TIMESTAMP", [datetime(2025, 9, 1, 3, 4, 5, 678901), datetime(1969, 12, 31, 23, 59, 59, 1)]),
    ],
)
@pytest.mark.parametrize("none", [False, True])
def test_rows_are_stored_as_they_are(kind: str, values: list[Any], none: bool, archive: Path, store: Path) -> None:
    """Columns are converted at once, another way if one has a None."""
    kept = [value for value in values if none or value is not None]
    with open_store(store, archive) as opened:
        opened.connection.execute(f"CREATE TEMP TABLE one (number INTEGER, value {kind})")
        opened.insert("one", list(enumerate(kept)))
        assert [row[0] for row in opened.rows("SELECT value FROM one ORDER BY number")] == kept


def test_a_history_is_what_the_store_has_by_night(tmp_path: Path, store: Path) -> None:
    """Two nodes and three nights: on the second one of them did not run, and one of two runs of the other one is void,
    as is its run on the third."""
    archive = tmp_path / "perflogs"
    for day, node, value, more in (
        (1, "n00", 100.0, {}), (1, "n01", 200.0, {}), (2, "n00", 110.0, {}), (3, "n00", 120.0, {"verdict": "INVALID"}),
        (2, "n00", 115.0, {"verdict": "INVALID", "session": "20250902T190000Z-b"}), (3, "n01", 220.0, {}),
        (3, "n01", 240.0, {"session": "20250903T190000Z-b", "time": "2025-09-03T19:00:00Z"}),
    ):  # fmt: skip
        made = entry(day, node, value, **more)
        for device in made["document"]["devices"] if "time" in more else ():
            device["driver"] = "590.1"
        synthetic.write(archive, made, int(value))
    synthetic.write(archive, entry(1) | {"system": "other"}, 1)
    take(archive, store)
    with open_store(store, archive) as opened:
        assert nights.systems(opened) == ["m", "other"]
        found = nights.load(opened, "m")
        early = nights.load(opened, "m", datetime(2025, 9, 2).date())
        assert nights.load(opened, "m", datetime(2025, 8, 2).date()).nights == []
    assert [(one.node, one.gpu, one.where) for one in found.series] == [
        ("n00", "0", "n00 GPU 0"), ("n00", "1", "n00 GPU 1"), ("n01", "0", "n01 GPU 0"), ("n01", "1", "n01 GPU 1"),
    ]  # fmt: skip
    assert [f"{night:%m-%d}" for night in found.nights] == ["09-01", "09-02", "09-03"]
    none = float("nan")
    # the median of three samples, and of the night's runs
    values = [[101, 111, none], [102, 112, none], [201, none, 231], [202, none, 232]]
    assert np.array_equal(found.values, values, equal_nan=True)
    assert found.invalid.tolist() == [[False, True, True]] * 2 + [[False] * 3] * 2
    assert (found.fingerprints >= 0).tolist() == [[True] * 3] * 2 + [[True, False, True]] * 2
    assert (found.fingerprints[2:, 1] == -1).all() and found.fingerprint(2, 1) == {}
    # of the night's last run
    assert found.fingerprint(2, 2)["driver"] == "590.1"
    assert found.fingerprint(0, 0)["driver"] and set(found.fingerprint(0, 0)) == set(reading.FINGERPRINT)
    assert found.errors is not None and np.array_equal(np.isnan(found.errors), np.isnan(found.values))
    assert (early.values.shape, len(early.nights)) == ((4, 2), 2)
    host = replace(found.series[0], node="", place="host")
    assert (host.where, replace(host, node="n1").where, replace(host, place="").where) == ("any node", "n1", "any node")


def test_a_unit_that_changed_is_refused_not_mixed(archive: Path, store: Path) -> None:
    changed = entry(6)
    changed["document"]["metrics"][0]["unit"] = changed["judged"]["triad.gpu0"]["unit"] = "GiB/s"
    synthetic.write(archive, changed, 6)
    found = take(archive, store)
    assert found.refused == 1
    reasons = rows(archive, store, "SELECT id, reason FROM refused ORDER BY id")
    assert reasons[0][0] == "triad.gpu0" and "unit is 'GiB/s' where the series has 'GB/s'" in reasons[0][1]
    assert rows(archive, store, "SELECT DISTINCT unit FROM history") == [("GB/s",)]


def test_a_unit_that_changed_in_a_log_is_refused_once(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    other = [ours(day).replace("|GB/s|", "|MB/s|") for day in (2, 3)]
    log.write_text(OURS + ours(1) + other[0])
    take(archive, store)
    log.write_text(OURS + ours(1) + other[0] + other[1])
    assert take(archive, store).points == 0
    query = "SELECT id, reason FROM refused ORDER BY time"
    said = "unit is 'MB/s' where the series has 'GB/s'"
    assert [(name, said in why) for name, why in rows(archive, store, query)] == [("triad.host", True)] * 2
    (archive / "m" / "gpu" / "Copy.log").write_text(log.read_text())
    take(archive, store)
    assert len(rows(archive, store, query)) == 2


def test_a_series_belongs_to_the_slot_and_another_card_is_a_mark(archive: Path, store: Path) -> None:
    changed = entry(6)
    for device in changed["document"]["devices"]:
        device["uuid"] = device["uuid"][:-4] + "beef"
    synthetic.write(archive, changed, 6)
    synthetic.write(archive, entry(7, nodes=["rack1-n00"]), 7)
    take(archive, store)
    assert rows(archive, store, "SELECT node, count(*) FROM series GROUP BY node ORDER BY node") == [
        ("n00", 2), ("rack1-n00", 2)
    ]  # fmt: skip
    cards = rows(archive, store, "SELECT count(DISTINCT device) FROM history WHERE node = 'n00' GROUP BY series")
    assert cards == [(2,), (2,)]


def test_a_host_is_one_node_however_it_is_spelled(archive: Path, store: Path) -> None:
    for day, name in enumerate(("n00.site.org", "N00", "N00.Site.ORG"), 6):
        synthetic.write(archive, entry(day, nodes=[name]), day)
    unnamed = entry(9, nodes=[])
    unnamed["document"]["host"]["name"] = "N00.site.org"
    synthetic.write(archive, unnamed, 9)
    synthetic.write(archive, entry(10, nodes=["10.1.2.3"]), 10)
    take(archive, store)
    assert rows(archive, store, "SELECT node, count(*) FROM history GROUP BY node ORDER BY node") == [
        ("10.1.2.3", 2), ("n00", 18)
    ]  # fmt: skip


#: What a record of this version has in addition to, or instead of, those of version 1.
V2 = {
    "program_version": 2, "request": None, "result_error": None, "result_text": "", "subjects": ["gpu"],
    "job": {"scheduler": "slurm", "id": "6", "state": "COMPLETED", "exit_code": 0, "facts": {}}, "judged": {},
    "result": None,
}  # fmt: skip


def stream(day: int, **parameters: object) -> dict[str, Any]:
    """A run of stream whose result names further parameters."""
    changed = entry(day)
    changed["document"]["parameters"].update(parameters)
    return changed


@pytest.mark.parametrize(
    ("parameters", "series"),
    [
        ({"brand_new_option": "default"}, 2),
        ({"warmup_seconds": 5}, 2),
        ({"patience_seconds": 300}, 2),
        ({"array_bytes": 2**32}, 4),
        ({"at_once": True}, 4),
    ],
)
def test_only_what_makes_another_quantity_makes_another_series(archive, store, parameters, series) -> None:
    synthetic.write(archive, stream(6, **parameters), 6)
    take(archive, store)
    assert rows(archive, store, "SELECT count(*) FROM series") == [(series,)]
    marks = rows(archive, store, "SELECT count(DISTINCT options) FROM history")
    assert marks == [(2 if series == 2 else 1,)], "a changed condition is a mark on the series"


def test_a_raised_version_begins_a_series_that_names_its_predecessor(archive: Path, store: Path) -> None:
    synthetic.write(
        archive, {**entry(6), "record": "tenken-record/2", "verdict": "FAIL", **V2, "result": entry(6)["document"]}, 6
    )
    take(archive, store)
    found = rows(archive, store, "SELECT version, count(*) FROM series GROUP BY version ORDER BY version")
    assert found == [(1, 2), (2, 2)]
    named = rows(archive, store, "SELECT version, predecessor IS NULL FROM series_with_predecessor ORDER BY ALL")
    assert named == [(1, True), (1, True), (2, False), (2, False)]


def test_a_renamed_metric_and_a_renamed_option_go_on(archive: Path, store: Path, monkeypatch) -> None:
    stream_ = reading.program("stream")
    triad = replace(stream_.metrics["triad"], name="triad_new", was=("triad",))
    renamed = replace(
        stream_,
        metrics={"triad_new": triad},
        identity={"size_bytes": None},
        was={"size_bytes": ("array_bytes",)},
    )
    monkeypatch.setattr(reading, "program", lambda name: renamed)
    reading.known_program.cache_clear()
    changed = stream(6)
    document = changed["document"]
    document["parameters"]["size_bytes"] = document["parameters"].pop("array_bytes")
    for metric in document["metrics"]:
        metric["name"], metric["id"] = "triad_new", metric["id"].replace("triad.", "triad_new.")
    document["limits"] = {m["id"]: {"unknown": "synthetic"} for m in document["metrics"]}
    changed["judged"], changed["verdict"] = {}, "FAIL"
    synthetic.write(archive, changed, 6)
    take(archive, store)
    reading.known_program.cache_clear()
    assert rows(archive, store, "SELECT metric, count(*) FROM series GROUP BY metric") == [("triad_new", 2)]


def test_invalid_and_unverified_runs_are_kept_but_not_valid(archive: Path, store: Path) -> None:
    synthetic.write(archive, entry(6, verdict="INVALID"), 6)
    wrong = entry(7, verdict="FAIL")
    wrong["document"]["verification"]["passed"] = False
    synthetic.write(archive, wrong, 7)
    slow = entry(8, verdict="FAIL")
    synthetic.write(archive, slow, 8)
    take(archive, store)
    assert rows(archive, store, "SELECT run_verdict, valid, count(*) FROM history GROUP BY ALL ORDER BY ALL") == [
        ("FAIL", False, 2), ("FAIL", True, 2), ("INVALID", False, 2), ("PASS", True, 10)
    ]  # fmt: skip


# ---- performance logs ------------------------------------------------------------------------------------

OURS = (
    "result|job_completion_time|system|partition|environ|display_name|jobid|job_nodelist|tenken_session|tenken_verdict|"
    "perf_var|perf_value|perf_unit|perf_ref|perf_lower_thres|perf_upper_thres|fail_phase\n"
)
WIDE = "job_completion_time,version,display_name,system,partition,environ,jobid,nodelist,result,copy_value,copy_unit,\n"


def ours(day: int, name: str = "triad.host", value: str = "100", verdict: str = "PASS", session: str = "s") -> str:
    when = f"2025-09-{day:02d}T18:00:00+00:00"
    return f"pass|{when}|m|gpu|cuda|Lone|1|n00|{session}|{verdict}|{name}|{value}|GB/s|0|null|null|null\n"


def test_logs_are_read_on_from_where_they_were_left(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    log.write_text(OURS + ours(1) + ours(2) + "pass|2025-09-03T18:0")
    found = take(archive, store)
    assert (found.lines, found.bad) == (2, [])
    log.write_text(OURS + ours(1) + ours(2) + ours(3, verdict="INVALID"))
    assert take(archive, store).lines == 1
    assert take(archive, store).lines == 0
    assert rows(archive, store, "SELECT valid, count(*) FROM history WHERE kind = 'host' GROUP BY 1 ORDER BY 1") == [
        (False, 1), (True, 2)
    ]  # fmt: skip


def test_a_log_whose_columns_changed_is_moved_and_both_are_read_once(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    log.write_text(OURS + ours(1) + ours(2))
    take(archive, store)
    log.rename(log.with_name("Lone.log.h0"))
    log.write_text(OURS.replace("|fail_phase", "") + ours(3).rsplit("|", 1)[0] + "\n")
    found = take(archive, store)
    assert (found.lines, found.points, found.bad) == (1, 1, [])
    (archive / "m" / "gpu" / "Copy.log").write_text(OURS + ours(1))
    assert take(archive, store).points == 0


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        (OURS + ours(1) + ours(2) + ours(3), 1),
        # another log in the same file, which is longer or shorter
        (OURS + ours(4) + ours(5) + ours(6), 3),
        (OURS + ours(4), 1),
        (OURS.replace("jobid", "jobname") + ours(4) + ours(5) + ours(6), 3),
        (OURS + ours(1), 1),
    ],
)
def test_a_log_that_was_written_anew_is_read_from_its_beginning(
    changed: str, lines: int, archive: Path, store: Path
) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    log.write_text(OURS + ours(1) + ours(2))
    take(archive, store)
    log.write_text(changed)
    assert take(archive, store).lines == lines
    known = "SELECT count(DISTINCT time) FROM history WHERE \"check\" = 'Lone'"
    assert rows(archive, store, known) == [(2 + sum(f"-{day:02d}T" in changed for day in (3, 4, 5, 6)),)]


def test_rotated_logs_are_read_before_the_newer_one(archive: Path, store: Path) -> None:
    """The unit of the oldest value is that of its series."""
    for name, day, unit in (("Lone.log", 3, "B/s"), ("Lone.log.h10", 2, "GB/s"), ("Lone.log.h9", 1, "GB/s")):
        (archive / "m" / "gpu" / name).write_text(OURS + ours(day).replace("GB/s", unit))
    assert take(archive, store).refused == 1
    assert rows(archive, store, "SELECT unit, count(*) FROM history WHERE \"check\" = 'Lone' GROUP BY 1") == [
        ("GB/s", 2)
    ]


def test_a_log_without_a_place_has_that_of_its_folder(archive: Path, store: Path) -> None:
    text = "job_completion_time|perf_var|perf_value|perf_unit\n2025-09-01T18:00:00|latency|1.5|us\n"
    for place in ("", "site/", "site/cpu/", ".hidden/", "site/.hidden/"):
        (archive / place).mkdir(parents=True, exist_ok=True)
        (archive / place / f"L{len(place)}.log").write_text(text)
    (archive / "site" / "L.log.tmp").write_text(text)
    take(archive, store)
    query = "SELECT \"check\", system, partition FROM history WHERE metric = 'latency' ORDER BY 1"
    assert rows(archive, store, query) == [("L0", "", ""), ("L5", "site", ""), ("L9", "site", "cpu")]


LINE = "{time}|Osu|{nodes}|{name}|{value}|us|{low}|{high}\n"
PLAIN = "{clock}|name|nodelist|perf_var|perf_value|perf_unit|perf_lower_thres|perf_upper_thres\n"


@pytest.mark.parametrize(
    ("clock", "given", "row"),
    [
        ("", {}, ("2025-09-01 18:00:00", "Osu", "n1", "latency", "", 1.5, "lower")),
        ("", {"time": "2025-09-01T20:00:00+02:00"}, ("2025-09-01 18:00:00", "Osu", "n1", "latency", "", 1.5, "lower")),
        ("_unix", {"time": "1756749600"}, ("2025-09-01 18:00:00", "Osu", "n1", "latency", "", 1.5, "lower")),
        ("_unix", {"time": "1756749600.5"}, ("2025-09-01 18:00:00.5", "Osu", "n1", "latency", "", 1.5, "lower")),
        ("_unix", {}, "line 2: time '2025-09-01T18:00:00' is invalid"),
        ("", {"time": "1756749600"}, "line 2: time '1756749600' is invalid"),
        ("_unix", {"time": "9" * 60}, f"line 2: time '{'9' * 40}' is invalid"),
        ("", {"nodes": "N1.site.org"}, ("2025-09-01 18:00:00", "Osu", "n1", "latency", "", 1.5, "lower")),
        ("", {"nodes": "n1,n2"}, ("2025-09-01 18:00:00", "Osu", "several nodes", "latency", "", 1.5, "lower")),
        ("", {"nodes": "n[1-2]"}, ("2025-09-01 18:00:00", "Osu", "several nodes", "latency", "", 1.5, "lower")),
        ("", {"nodes": "null"}, ("2025-09-01 18:00:00", "Osu", "", "latency", "", 1.5, "lower")),
        # another suite's names of metrics are not taken apart
        ("", {"name": "a.gpu0.n=1"}, ("2025-09-01 18:00:00", "Osu", "n1", "a.gpu0.n=1", "", 1.5, "lower")),
        ("", {"low": "1"}, ("2025-09-01 18:00:00", "Osu", "n1", "latency", "", 1.5, "higher")),
        ("", {"value": "inf"}, "line 2: value inf of latency is not finite"),
        ("", {"value": "None"}, None), ("", {"value": ""}, None), ("", {"name": "null"}, None),
    ],
)  # fmt: skip
def test_a_line_of_another_suite(clock: str, given: dict[str, str], row: Any, tmp_path: Path, store: Path) -> None:
    usual = {"time": "2025-09-01T18:00:00", "nodes": "n1", "name": "latency", "value": "1.5", "low": "", "high": ""}
    (tmp_path / "a" / "m").mkdir(parents=True)
    log = tmp_path / "a" / "m" / "Osu.log"
    log.write_text(PLAIN.format(clock=f"job_completion_time{clock}") + LINE.format(**{**usual, **given}))
    found = take(tmp_path / "a", store)
    assert [why for _, why in found.bad] == ([row] if isinstance(row, str) else [])
    query = 'SELECT time::VARCHAR, "check", node, metric, coordinates, value, direction FROM history'
    assert rows(tmp_path / "a", store, query) == ([row] if isinstance(row, tuple) else [])


def test_a_name_of_our_own_has_its_subject_and_coordinates(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    names = ("triad.host", "triad.gpu1", "peer.gpu0-gpu1.bytes=4096.ratio=0.5", "y", "x.ranks")
    log.write_text(OURS + "".join(ours(1, name=name) for name in names))
    take(archive, store)
    query = "SELECT metric, coordinates, kind, gpu, peer, place FROM history WHERE \"check\" = 'Lone' ORDER BY id"
    assert rows(archive, store, query) == [
        ("peer", '{"bytes":"4096","ratio":"0.5"}', "pair", "0", "1", "GPU 0 → 1"),
        ("triad", "", "gpu", "1", "", "GPU 1"), ("triad", "", "host", "", "", "host"),
        ("x", "", "host", "", "", "ranks"), ("y", "", "host", "", "", "host"),
    ]  # fmt: skip


def test_a_run_without_a_result_is_a_run_without_values(archive: Path, store: Path) -> None:
    lost = {"verdict": "FAIL", "document": None, "document_error": "it wrote no result", "judged": {}}
    synthetic.write(archive, entry(6, **lost), 6)
    found = take(archive, store)
    assert (found.records, found.points, found.bad) == (6, 10, [])
    query = "SELECT verdict, reason, program FROM runs WHERE time > '2025-09-06'"
    assert rows(archive, store, query) == [("FAIL", "it wrote no result", "stream")]


def test_each_device_has_a_fingerprint_of_its_own() -> None:
    devices = (
        (0, "580.1", "13.0", "96.1", 3201, 1980, "GPU-a"), (2, "580.1", "13.0", "96.2", 3201, None, "GPU-b"),
        (3, None, None, None, None, None, "GPU-c"),
    )  # fmt: skip
    of_each, whole = reading._of_devices("6.12", "1.4", "v1", "GNU 13", "{}", devices)
    host = ("6.12", "v1", "GNU 13")
    told = {0: ("580.1", "13.0", "1.4, VBIOS 96.1", "memory 3201 MHz, SM 1980 MHz", "GPU-a"),
            2: ("580.1", "13.0", "1.4, VBIOS 96.2", "memory 3201 MHz", "GPU-b"),
            3: ("", "", "1.4", "", "GPU-c")}  # fmt: skip
    every = ("580.1", "13.0", "1.4, VBIOS 96.1/96.2", "memory 3201 MHz, SM 1980 MHz", "GPU-a/GPU-b/GPU-c")

    def of(driver: str, cuda: str, firmware: str, clocks: str, uuid: str) -> tuple[str, ...]:
        kernel, revision, compiler = host
        return (driver, cuda, kernel, firmware, clocks, revision, compiler, uuid, "{}")

    assert of_each == {index: of(*one) for index, one in told.items()} and whole == of(*every)
    assert reading._of_devices("6.12", "", "v1", "GNU 13", "", ())[1] == (
        "",
        "",
        "6.12",
        "",
        "",
        "v1",
        "GNU 13",
        "",
        "",
    )


@pytest.mark.parametrize(("wrong", "listed"), [(_SHOWN, _SHOWN), (_SHOWN + 5, _SHOWN + 1)])
def test_many_lines_that_cannot_be_read_are_counted(wrong: int, listed: int, archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    log.write_text(OURS + "".join(ours(1, value="x") for _ in range(wrong)) + ours(2))
    found = take(archive, store)
    assert len(found.bad) == listed and (found.known_bad, found.lines) == (wrong, wrong + 1)
    assert found.bad[0] == ("m/gpu/Lone.log", "line 2: value 'x' of triad.host is not a number")
    assert (found.bad[-1][1] == "and 5 more lines") == (wrong > _SHOWN)
    log.write_text(log.read_text() + ours(3, value="y"))
    assert (take(archive, store).known_bad, take(archive, store).known_bad) == (wrong + 1, wrong + 1)
    assert gc.isenabled()


def test_a_line_that_was_cut_short_is_waited_for_and_in_a_rotated_log_it_is_told(archive: Path, store: Path) -> None:
    folder = archive / "m" / "gpu"
    (folder / "Lone.log").write_text(OURS + ours(1) + "pass|2025-09-02")
    (folder / "Lone.log.h0").write_text(OURS + ours(3) + ours(4) + "pass|2025-09-05")
    (folder / "none.log").mkdir()
    found = take(archive, store)
    assert (found.bad, found.lines, found.known_bad) == ([("m/gpu/Lone.log.h0", "line 4: truncated")], 3, 1)
    again = take(archive, store)
    assert (again.bad, again.lines, again.known_bad) == ([], 0, 1)


def test_lines_that_cannot_be_read_stay_known_when_their_log_is_moved(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Lone.log"
    log.write_text(OURS + ours(1) + ours(2, value="x") + ours(3, value="y"))
    assert take(archive, store).known_bad == 2
    log.rename(log.with_name("Lone.log.h0"))
    log.write_text(OURS + ours(4, value="z"))
    found = take(archive, store)
    assert (found.known_bad, found.lines, len(found.bad)) == (3, 1, 1)
    query = "SELECT path, line, bad, reason FROM logs ORDER BY 1"
    assert [row[1:3] for row in rows(archive, store, query)] == [(2, 1), (4, 2)]
    assert all("is not a number" in row[3] for row in rows(archive, store, query))
    (archive / "m" / "gpu" / "Lone.log.h0").write_text(OURS + ours(1))
    assert take(archive, store).known_bad == 1, "written anew, without them"


def test_what_was_ingested_is_one_line() -> None:
    assert Ingested(2, 3, 4, seconds=0.25).text == "2 records, 4 log lines, 3 new values in 0.2 s"
    every = Ingested(1, 2, 3, 4, bad=[("a", "b")], known_bad=5, refused=6, seconds=1.0)
    assert every.text == (
        "1 records, 3 log lines, 2 new values, 4 duplicates, 5 files or lines that cannot be read, "
        "6 values refused in 1.0 s"
    )


def test_a_run_that_is_there_as_a_record_is_not_counted_from_the_log(archive: Path, store: Path) -> None:
    log = archive / "m" / "gpu" / "Stream.log"
    record = entry(1)
    line = (
        f"pass|2025-09-01T18:00:01|m|gpu|cuda|{record['check']}|1|n00|{{}}|PASS|triad.gpu0|101|GB/s|0|null|null|null\n"
    )
    log.write_text(OURS + line.format(record["session"]) + line.format("20250909T180000Z-5eed00"))
    take(archive, store)
    assert rows(archive, store, "SELECT count(*) FROM runs WHERE kind = 'perflog'") == [(1,)]
    late = entry(9)
    late["check"] = record["check"]
    synthetic.write(archive, late, 9)
    take(archive, store)
    assert rows(archive, store, "SELECT count(*) FROM runs WHERE kind = 'perflog'") == [(0,)]
    assert rows(archive, store, "SELECT count(*) FROM points") == [(12,)]


def test_plain_suites_with_other_columns(tmp_path: Path, store: Path) -> None:
    archive = tmp_path / "plain"
    (archive / "site" / "cpu").mkdir(parents=True)
    (archive / "site" / "cpu" / "Osu.log").write_text(
        WIDE
        + "2025-09-01T18:00:00,4.10,Osu %n=2,site,cpu,gnu,7,n[1-2],pass,12.5,MB/s\n"
        + "2025-09-02T18:00:00,4.10,Osu %n=2,site,cpu,gnu,8,n[1-2],pass,null,MB/s\n"
        + "2025-09-03T18:00:00,4.10,Osu %n=2,site,cpu,gnu,9,n[1-2],pass,x,MB/s\n"
        + "2025-09-04T18:00:00,4.10,Osu %n=2,site\n"
    )
    (archive / "site" / "cpu" / "Latency.log").write_text(
        "job_completion_time|perf_var|perf_value|perf_unit\n2025-09-01T18:00:00|latency|1.5|us\n"
    )
    (archive / "site" / "cpu" / "Build.log").write_text("result|job_completion_time\npass|2025-09-01T18:00:00\n")
    (archive / "site" / "cpu" / "None.log").write_text("a|b\n1|2\n")
    found = take(archive, store)
    assert sorted(found.bad) == [
        ("site/cpu/None.log", "header has no job_completion_time: 'a|b'"),
        ("site/cpu/Osu.log", "line 4: value 'x' of copy is not a number"),
        ("site/cpu/Osu.log", "line 5: 4 columns where the header has 11"),
    ]
    query = 'SELECT "check", parameters, metric, node, value, unit, direction FROM history ORDER BY 1'
    assert rows(archive, store, query) == [
        ("Latency", "", "latency", "", 1.5, "us", "lower"),
        ("Osu", "%n=2", "copy", "several nodes", 12.5, "MB/s", "higher"),
    ]


# ---- the store as a file ---------------------------------------------------------------------------------


def test_a_store_from_a_newer_version_is_refused(archive: Path, store: Path, capsys: Any) -> None:
    take(archive, store)
    with open_store(store, archive) as opened:
        opened.connection.execute(f"UPDATE meta SET value = '{VERSION + 1}' WHERE key = 'version'")
    with pytest.raises(StoreError, match="written by a newer tenken"):
        take(archive, store)
    assert main(["ingest", "--archive", str(archive), "--store", str(store)]) == 2
    assert "update tenken" in capsys.readouterr().err


def test_a_store_of_an_older_version_is_made_again(archive: Path, store: Path) -> None:
    take(archive, store)
    before = rows(archive, store, "SELECT * FROM points ORDER BY ALL")
    with open_store(store, archive) as opened:
        opened.connection.execute(f"UPDATE meta SET value = '{VERSION - 1}' WHERE key = 'version'")
        opened.connection.execute("DROP TABLE points")
        opened.connection.execute("CREATE TABLE points (other INTEGER)")
    assert take(archive, store).records == 5 and rows(archive, store, "SELECT * FROM points ORDER BY ALL") == before
    assert rows(archive, store, "SELECT value FROM meta WHERE key = 'version'") == [(str(VERSION),)]


def test_a_store_that_another_holds_is_waited_for_and_then_told(archive: Path, store: Path) -> None:
    with locked(store):
        begun = time.monotonic()
        with pytest.raises(StoreError, match="another process has held the store for 0 s"), locked(store, 0.3):
            pass
        assert 0.3 <= time.monotonic() - begun < 5
    with locked(store, 0.3):
        pass
    file = next(archive.rglob("*.json"))
    with pytest.raises(StoreError, match="cannot write the store: File exists"), locked(file / "x"):
        pass


def test_bad_files_and_no_archive_are_the_exit_status(archive: Path, tmp_path: Path, capsys: Any) -> None:
    here = ["ingest", "--archive", str(archive), "--store", str(tmp_path / "s.duckdb")]
    assert main(here) == 0
    folder = next(archive.rglob("*.json")).parent
    for number in range(_SHOWN + 2):
        (folder / f"{number + 900:06d}-x.json").write_text("{")
    assert main(here) == 3
    said = capsys.readouterr().out
    assert said.count("BAD: ") == _SHOWN and "... and 2 more; the store's table `files` has them all" in said
    assert main(["ingest", "--archive", str(tmp_path / "none"), "--store", str(tmp_path / "t.duckdb")]) == 3
    assert "tenken ingest: " in capsys.readouterr().out
    assert main([*here, "--export", str(tmp_path / "h.csv")]) == 0, "they have been told"
    assert "Exported 10 values to " in capsys.readouterr().out


def test_a_store_belongs_to_one_archive(archive: Path, store: Path, tmp_path: Path) -> None:
    take(archive, store)
    with pytest.raises(StoreError, match="is the store of"):
        take(tmp_path, store)
    with pytest.raises(NoArchive, match="no archive at"):
        reports.history(tmp_path / "none", store)


def test_a_damaged_store_says_so(archive: Path, store: Path) -> None:
    store.write_bytes(b"x" * 10000)
    with pytest.raises(StoreError, match=str(store)):
        take(archive, store)


@pytest.mark.parametrize("room", [0, 100, 8192])
def test_a_store_that_a_full_disk_cut_short_is_removed(archive: Path, store: Path, room: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(StoreError, match=str(store)):
            take(archive, store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    take(archive, store)


def test_export(archive: Path, store: Path, tmp_path: Path) -> None:
    import pandas

    take(archive, store)
    with open_store(store, archive) as opened:
        assert opened.export(tmp_path / "h.csv") == 10
        assert opened.export(tmp_path / "h.parquet") == 10
        assert opened.rows(f"SELECT count(*), min(value) FROM '{tmp_path / 'h.parquet'}'") == [(10, 101.0)]
        with pytest.raises(StoreError, match=r"allowed: \.parquet, \.csv"):
            opened.export(tmp_path / "h.xls")
    assert len(pandas.read_csv(tmp_path / "h.csv")) == 10


def _process(archive: Path, store: Path, before: str = "") -> subprocess.Popen[str]:
    code = f"import sys; {before}\nfrom tenken.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "ingest", "--archive", str(archive), "--store", str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _many(archive: Path, count: int) -> None:
    for number in range(count):
        when = datetime(2025, 9, 1, 18) + timedelta(days=number % 20, seconds=number)
        synthetic.write(archive, entry(1, session="s", time=f"{when:%Y-%m-%dT%H:%M:%SZ}"), number + 100)


def test_two_at_once_and_a_kill(archive: Path, store: Path) -> None:
    _many(archive, 400)
    killed = _process(archive, store, "import tenken.history.ingest as i; i.BATCH = 20")
    end = time.monotonic() + 60
    while not store.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    both = [_process(archive, store) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    assert rows(archive, store, "SELECT count(*), count(DISTINCT run) FROM points") == [(810, 405)]
    assert rows(archive, store, "SELECT count(*), count(DISTINCT run) FROM runs") == [(405, 405)]


def test_a_full_disk_is_one_line_and_costs_nothing(archive: Path, store: Path) -> None:
    take(archive, store)
    _many(archive, 300)
    full = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536,) * 2)"
    )
    process = _process(archive, store, full)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.startswith(f"tenken: {store}") and err.count("\n") == 1
    assert take(archive, store).records == 300


REFRAME3 = (
    "2025-09-0{}T03:00:00|reframe 3.12.0|stream_test on daint:gpu using PrgEnv-gnu|jobid={}|num_tasks=1|"
    "triad={}|ref=25000.0 (l=-0.05, u=null)|MB/s\n"
)


def test_a_log_of_reframe_3_says_how_to_bring_it_in_and_that_brings_it_in(tmp_path: Path) -> None:
    archive, store = tmp_path / "a", tmp_path / "s.duckdb"
    (archive / "daint" / "gpu").mkdir(parents=True)
    old, new = tmp_path / "OLD.log", archive / "daint" / "gpu" / "stream_test.log"
    old.write_text("".join(REFRAME3.format(day, 10 + day, 24000.5 + day) for day in (1, 2, 3)))
    new.write_text(old.read_text())
    ((file, reason),) = take(archive, store).bad
    assert file == "daint/gpu/stream_test.log" and "logs of ReFrame 3" in reason
    documented = (ROOT / "docs" / "history.md").read_text().split("## Logs of ReFrame 3")[1].split("```sh\n")[1]
    command = documented.split("```")[0].replace("OLD.log", str(old))
    new.unlink()
    command = command.replace("perflogs/SYSTEM/PARTITION/CHECK.log", str(new))
    subprocess.run(["sh", "-c", command], check=True)
    found = take(archive, store)
    assert not found.bad and (found.lines, found.points) == (3, 3)
    query = 'SELECT system, partition, environ, "check", metric, unit, value FROM history ORDER BY time'
    told = rows(archive, store, query)
    assert told[0] == ("daint", "gpu", "PrgEnv-gnu", "stream_test", "triad", "MB/s", 24001.5) and len(told) == 3


@pytest.mark.parametrize(
    ("value", "count", "said"),
    [
        (1.0, 1, ""), (1.0, 0, "count is 0; allowed: 1 to"), (1.0, reading.MAX_INTEGER, ""),
        (1.0, reading.MAX_INTEGER + 1, "allowed: 1 to"), (float("nan"), 1, "value nan is not a finite number"),
        (float("-inf"), 1, "value -inf is not"),
    ],
)  # fmt: skip
def test_what_does_not_fit_its_column_is_no_row(value: float, count: int, said: str) -> None:
    one: Any = SimpleNamespace(value=value, count=count)
    found = reading._refused(one)
    assert said in found and bool(found) == bool(said)


SESSION = "20250901T180000Z-5eed00"


@pytest.mark.parametrize(
    ("text", "session", "found"),
    [
        ("2025-09-01T18:00:00Z", SESSION, "2025-09-01 18:00:00"), ("2025-09-01T18:00:00", "", "2025-09-01 18:00:00"),
        ("2025-09-01T18:00:00+09:00", "mine", "2025-09-01 09:00:00"),
        # a day ahead of this machine's clock, from 2010, an hour before to 14 days after its session began
        ("2025-09-21T12:00:00Z", "", "2025-09-21 12:00:00"), ("2025-09-21T12:00:01Z", "", "in the future"),
        ("2010-01-01T00:00:00", "", "2010-01-01 00:00:00"), ("2009-12-31T23:59:59", "", "is before 2010"),
        ("2025-09-01T17:00:00", SESSION, "2025-09-01 17:00:00"), ("2025-09-01T16:59:59", SESSION, "a clock jumped"),
        ("2025-09-15T18:00:00", SESSION, "2025-09-15 18:00:00"), ("2025-09-15T18:00:01", SESSION, "a clock jumped"),
    ],
)  # fmt: skip
def test_a_time_is_held_against_the_clock_and_its_session(text: str, session: str, found: str) -> None:
    def read() -> str:
        time = reading.moment(text, datetime(2025, 9, 20, 12))
        reading._hold_against_session(time, session)
        return str(time)

    if found.startswith("20"):
        assert read() == found
    else:
        with pytest.raises(reading.Unreadable, match=found):
            read()


@pytest.mark.parametrize(
    ("unit", "low", "high", "direction"),
    [
        ("GB/s", "", "", "higher"), ("us", "", "", "lower"), ("s", "-0.1", "", "higher"), ("GB/s", "", "0.1", "lower"),
        ("s", "-0.1", "0.1", "lower"), ("GB/s", "-0.1", "0.1", "higher"), ("J/run", "", "", "lower"),
        ("steps", "", "", "higher"), ("", "", "", "higher"),
    ],
)  # fmt: skip
def test_the_direction_of_a_plain_value_is_that_of_its_one_bound_or_its_unit(
    unit: str, low: str, high: str, direction: str
) -> None:
    assert reading._direction(unit, low, high) == direction


@pytest.mark.parametrize(
    ("subject", "slot"),
    [
        (Subject("gpu", 1), ("gpu", "GPU 1", "1", "", ("of 1",))),
        (Subject("gpu", 3), ("gpu", "GPU 3", "3", "", ("all",))),
        (Subject("pair", 1, 0), ("pair", "GPU 1 → 0", "1", "0", ("of 1",))),
        (Subject("host"), ("host", "host", "", "", ("all",))),
        (Subject("ranks", 2), ("2 ranks", "2 ranks", "", "", ("all",))),
    ],
)  # fmt: skip
def test_a_series_names_its_place_and_the_fingerprint_of_its_gpu(subject: Subject, slot: Any) -> None:
    assert reading._slot(subject, {1: ("of 1",), 2: ("of 2",)}, ("all",)) == slot


@pytest.mark.parametrize(
    ("ends", "said"),
    [("|\n", ""), ("| |\n", ""), ("|x\n", "18 columns where the header has 17"), ("", "")],
    ids=["one empty column", "two", "one more", "none"],
)
def test_empty_columns_at_the_end_of_a_line_are_none(ends: str, said: str, archive: Path, store: Path) -> None:
    (archive / "m" / "gpu" / "Lone.log").write_text(OURS + ours(1).rstrip("\n") + (ends or "\n"))
    found = take(archive, store)
    assert [why for _, why in found.bad] == ([f"line 2: {said}"] if said else [])
    assert rows(archive, store, "SELECT count(*) FROM history WHERE \"check\" = 'Lone'") == [(not said,)]


@pytest.mark.parametrize(
    ("result", "verdict", "phase", "valid"),
    [
        ("pass", "PASS", "null", True), ("fail", "FAIL", "performance", True), ("fail", "null", "performance", True),
        ("fail", "null", "null", True), ("fail", "null", "sanity", False), ("fail", "FAIL", "sanity", True),
        ("fail", "INVALID", "sanity", False), ("pass", "INVALID", "null", False), ("p", "null", "null", True),
    ],
)  # fmt: skip
def test_a_value_of_a_run_that_failed_before_it_does_not_count(
    result: str, verdict: str, phase: str, valid: bool, archive: Path, store: Path
) -> None:
    plain = verdict == "null"  # a log of another suite has no verdict
    line = ours(1, verdict=verdict).replace("pass|", f"{result}|", 1).replace("|null\n", f"|{phase}\n")
    header = OURS.replace("tenken_session|tenken_verdict", "a|b") if plain else OURS
    (archive / "m" / "gpu" / "Lone.log").write_text(header + line)
    take(archive, store)
    assert rows(archive, store, "SELECT valid FROM history WHERE \"check\" = 'Lone'") == [(valid,)]
