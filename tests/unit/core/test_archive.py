"""The archive loses and damages nothing: not by a kill, a full disk or two concurrent runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.archive import seal, verify
from tenken.errors import ArchiveError
from tenken.model.judgement import JudgedMetric, Judgement, Limit
from tenken.model.record import Job, Record
from tenken.model.result import validate
from tenken.paths import ROOT
from tenken.report import session
from tests.support.documents import gpu_document
from tools import kills

NO_LIMIT = Limit(None, unknown="a virtual machine tells no memory clock")


def record(session="20261121T000000Z-abcdef", **changes):
    result = validate(gpu_document(), "result.json")
    judged = {
        m.id: JudgedMetric("RECORDED", m.value, m.unit, m.direction, m.statistic, None, NO_LIMIT, None, (None, None))
        for m in result.metrics
    }
    found = Record(
        session=session, time="2026-11-21T01:02:03.000004Z", system="miyabi", partition="gpu", environ="cuda",
        check="StreamCuda %x=1", base_check="StreamCuda", parameters={"x": 1}, mode="quick", program="stream",
        program_version=1, subjects=("gpu",), nodes=("nid001",), job=Job("slurm", "17", "COMPLETED", 0),
        judgement=Judgement("PASS", judged=judged), result=result,
    )  # fmt: skip
    return replace(found, **changes)


def test_a_record_comes_back_as_it_went_in(tmp_path):
    path = archive.write(record(), tmp_path)
    assert path.relative_to(tmp_path).parts[:4] == ("miyabi", "gpu", "2026-11-21", "StreamCuda_x=1")
    (read,) = archive.records(tmp_path, session="20261121T000000Z-abcdef", system="miyabi")
    assert read.check == "StreamCuda %x=1"
    assert read.result is not None and set(read.result.limits) == set(record().result.limits)
    # the limits of a record are those that its values were judged by
    assert replace(read, path=Path(), result=replace(read.result, limits=record().result.limits)) == record()
    assert list(archive.records(tmp_path, session="other")) == []


def test_equal_runs_never_overwrite_each_other(tmp_path):
    assert len({archive.write(record(), tmp_path) for _ in range(50)}) == 50
    assert len(list(archive.records(tmp_path))) == 50


def test_an_infinite_number_does_not_enter(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        archive.write(record(parameters={"x": float("inf")}), tmp_path)
    assert not list(tmp_path.rglob("*.json"))


def test_damaged_files_are_listed_and_skipped(tmp_path):
    good = archive.write(record(), tmp_path)
    good.with_name("010203-a-truncated.json").write_text(good.read_text()[:500])
    good.with_name("010203-a-other.json").write_text('{"record": "something-else"}')
    damaged: list[archive.Damaged] = []
    assert len(list(archive.records(tmp_path, damaged=damaged))) == 1
    assert sorted(d.path.name for d in damaged) == ["010203-a-other.json", "010203-a-truncated.json"]


def test_a_record_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    real = {name: getattr(os, name) for name in ("fsync", "rename")}

    def fsync(descriptor):
        where = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append(("fsync", where.name if where.is_dir() else where.name[:5], where.is_file() and where.read_text()))
        real["fsync"](descriptor)

    def rename(source, target):
        done.append(("rename", Path(target).name, Path(target).exists()))
        real["rename"](source, target)

    monkeypatch.setattr(archive.os, "fsync", fsync)
    monkeypatch.setattr(archive.os, "rename", rename)
    archive.write_file(tmp_path / "inner" / "a.json", "whole")
    assert done == [("fsync", ".tmp-", "whole"), ("rename", "a.json", False), ("fsync", "inner", False)]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["a.json"]


def test_only_records_are_read(tmp_path):
    good = archive.write(record(), tmp_path)
    other = archive.write(record(session="20261120T000000Z-123456", system="h200"), tmp_path)
    assert good.name.startswith("010203-20261121T000000Z-abcdef-") and good.suffix == ".json"
    for name in (".tmp-x.json", ".hidden.json"):
        good.with_name(name).write_text("{")
    archive.write_file(archive.session_folder(tmp_path, "s") / "a" / "b" / "plan.json", "{}")
    good.with_suffix(".txt").write_text("{")
    damaged: list[archive.Damaged] = []
    assert {r.path for r in archive.records(tmp_path, damaged=damaged)} == {good, other} and damaged == []
    assert [r.path for r in archive.records(tmp_path, system="h200")] == [other]
    assert [r.path for r in archive.records(tmp_path, session="20261121T000000Z-abcdef")] == [good]
    assert list(archive.paths(tmp_path, "no such")) == []
    archive.check_writable(tmp_path)
    assert not list((tmp_path / archive.SESSIONS).glob(".*"))


def test_a_file_that_cannot_be_read_is_one_line_with_its_name(tmp_path):
    path = archive.write(record(), tmp_path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ArchiveError, match=rf"^{re.escape(str(path))}: .*UTF-8"):
        archive.read(path)
    with pytest.raises(ArchiveError, match=r"no\.json: .*[Nn]o such file"):
        archive.read(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("StreamCuda %x=1", "StreamCuda_x=1"),
        ("a/../b", "a_.._b"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("été+1-2_3.4=5", "t_+1-2_3.4=5"),
        ("x" * 200, "x" * 120),
    ],
)
def test_names_of_folders_lead_nowhere_else(text, name):
    assert archive.safe_name(text) == name


def test_sessions_that_begin_at_once_have_two_names():
    names = {archive.new_session() for _ in range(20)}
    assert len(names) == 20 and all(re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", name) for name in names)


def test_a_read_only_archive_is_one_clear_line(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(archive.os, "rename", refuse)
    with pytest.raises(ArchiveError, match="cannot write to the archive: Read-only file system"):
        archive.check_writable(tmp_path)
    with pytest.raises(ArchiveError, match="cannot write to the archive"):
        archive.write(record(), tmp_path)
    (left,) = (p for p in tmp_path.rglob("*") if p.is_file())
    assert left.name == seal.MANIFEST and "StreamCuda" not in left.read_text()


def test_a_full_disk_leaves_no_half_file():
    """/dev/full cannot contain a folder, so a file-size limit of the process replaces the full disk."""
    code = """
import resource, signal, sys, pathlib
sys.dont_write_bytecode = True  # a module that it compiles would be cut short too, for every later test
from tenken.archive import records as archive
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    archive.write(__import__("tests.unit.core.test_archive", fromlist=["record"]).record(result_text="x" * 50000),
                  pathlib.Path(sys.argv[1]))
except archive.ArchiveError as error:
    print(error)
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, folder], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert "cannot write to the archive: File too large" in done.stdout
        assert not [p for p in Path(folder).rglob("*") if p.is_file()]


def test_kill_9_two_hundred_times_loses_and_damages_nothing(tmp_path):
    """Two writers at once are killed at random moments. What they announced as written must exist and be complete;
    missing records would be reported."""
    outcome = kills.kill(tmp_path, 200, seed=9)
    assert (outcome.kills, outcome.lost, outcome.damaged) == (200, (), ())
    assert outcome.read >= outcome.announced >= 100, "in every second round each has announced one"
    # the next session finds the file that a kill left unnamed, and nothing else differs
    late = {note.partition(":")[0] for note in verify.check(tmp_path).notes}
    archive.begin_session(tmp_path, "20261122T000000Z-abcdef", [])
    found = verify.check(tmp_path)
    assert (found.faults, found.unsealed, found.notes) == ([], [], []) and found.sealed == outcome.read + len(late)


def test_sessions_are_ordered_by_time(tmp_path):
    for name in ("20261121T000000Z-ff", "20261120T235959Z-00"):
        archive.write_file(archive.session_folder(tmp_path, name) / "plan.json", json.dumps({}))
    assert archive.last_session(tmp_path) == "20261121T000000Z-ff"
    assert archive.last_session(tmp_path / "none") is None
    # another machine was measured since
    record = tmp_path / "local" / "node" / "2026-11-20" / "Daxpy" / "235959-20261120T235959Z-00-0000aaaa.json"
    archive.write_file(record, "{}")
    assert archive.last_session(tmp_path, "local") == "20261120T235959Z-00"
    assert archive.last_session(tmp_path, "v100") is None


@pytest.mark.parametrize(
    ("session", "begun", "last"),
    [
        # a session without a time in its name is as old as its first note
        ("my run", ["2026-11-21T12:00:00Z"], "my_run"),
        ("my run", ["2026-11-20T12:00:00Z"], "20261121T000000Z-ff"),
        ("my run", ["2026-11-22T00:00:00Z", "2026-11-20T12:00:00Z"], "20261121T000000Z-ff"),
        ("a", ["2026-11-21T12:00:00Z"], "a"),
        # without a note, as its folder
        ("my run", [], "my_run"),
        ("20261122T000000Z-drill0a", ["2026-11-22T00:00:00Z"], "20261121T000000Z-ff"),
        ("20261120T000000Z-aa", ["2026-11-23T00:00:00Z"], "20261121T000000Z-ff"),
    ],
)
def test_the_last_session_is_the_one_that_began_last(tmp_path, session, begun, last):
    for name in ("20261121T000000Z-ff", "20261119T000000Z-ff"):
        archive.write_file(archive.session_folder(tmp_path, name) / "plan.json", "{}")
    folder = archive.session_folder(tmp_path, session)
    archive.write_file(folder / "plan.json", "{}")
    for number, time in enumerate(begun):
        note = folder / f"{archive.BEGUN}{number}.json"
        archive.write_file(note, "{}")
        at = datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
        os.utime(note, (at, at))
    at = datetime(2026, 11, 30, tzinfo=timezone.utc).timestamp()
    os.utime(folder, (at, at))
    (tmp_path / archive.SESSIONS / "zzz").write_text("not a session")
    assert archive.last_session(tmp_path) == last


def test_the_last_session_of_a_system_has_a_record_of_it(tmp_path):
    """Its name may be part of another one's."""
    archive.write(record(session="my-20261121T000000Z-ff", system="a"), tmp_path)
    archive.write(record(session="20261121T000000Z-ff", system="b"), tmp_path)
    folder = archive.session_folder(tmp_path, "my-20261121T000000Z-ff")
    os.utime(folder, (0, 0))
    found = [archive.last_session(tmp_path, system) for system in ("a", "b", "c", None)]
    assert found == ["my-20261121T000000Z-ff", "20261121T000000Z-ff", None, "20261121T000000Z-ff"]
    assert [session.records_of(tmp_path, name) for name in ("20261121T000000Z-ff", "last", "ff", "none")] == [
        1,
        1,
        0,
        0,
    ]
    assert session.records_of(tmp_path / "none", "last") == 0


def test_a_session_has_its_own_records_and_no_others(tmp_path):
    """Its name may be part of another one, or be written as another one in names of files."""
    sessions = ("a", "b-a", "a-b", "x/y", "x_y")
    there = {name: archive.write(record(session=name), tmp_path) for name in sessions}
    for name in sessions:
        damaged: list[archive.Damaged] = []
        assert [one.path for one in archive.records(tmp_path, name, damaged=damaged)] == [there[name]]
        assert damaged == []
    there["b-a"].write_text("{")
    there["a"].with_name("copy-a-b.json").write_text("{")
    found = {}
    for name in (*sessions, None):
        damaged = []
        list(archive.records(tmp_path, name, damaged=damaged))
        found[name] = sorted(one.path.name for one in damaged)
    lost, copy = there["b-a"].name, "copy-a-b.json"
    assert found == {"a": [copy], "b-a": [lost], "a-b": [copy], "x/y": [], "x_y": [], None: sorted([lost, copy])}


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("x/gpu/2026-11-21/C/010203-s-00000000.json", "system is 'm'; its place in the archive has 'x'"),
        ("m/x/2026-11-21/C/010203-s-00000000.json", "partition is 'gpu'; its place in the archive has 'x'"),
        (
            "m/gpu/2026-11-22/C/010203-s-00000000.json",
            "time is '2026-11-21'; its place in the archive has '2026-11-22'",
        ),
        ("m/gpu/2026-11-21/D/010203-s-00000000.json", "check is 'C'; its place in the archive has 'D'"),
        ("m/gpu/2026-11-21/C/010204-s-00000000.json", "time is '010203'; its place in the archive has '010204'"),
        ("m/gpu/2026-11-21/C/010203-t-00000000.json", "session is 's'; its place in the archive has 't'"),
        ("m/gpu/2026-11-21/C/010203-s-00000000.json", ""),
        # not a name that the suite gives
        ("x/x/x/x/000001-session1.json", ""),
    ],
)
def test_a_record_that_was_moved_is_not_believed(tmp_path, place, field):
    text = record("s", system="m", check="C").text()
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(text)
    damaged: list[archive.Damaged] = []
    found = list(archive.records(tmp_path, damaged=damaged))
    assert len(found) == (not field)
    assert [one.reason for one in damaged] == [f"{tmp_path / place}: cannot be believed: {field}"] * bool(field)
