"""What killed sessions left: records that a full archive did not take, and jobs that ended without their session."""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.archive import records
from tenken.model import verdicts
from tenken.model.judgement import Judgement
from tenken.model.machine import Machine
from tenken.model.record import Job
from tenken.model.request import Request
from tenken.reframe import orphans
from tenken.reframe.schedulers import ledger
from tests.support.documents import host_document
from tests.unit.core.test_archive import record
from tests.unit.judge.test_healthy import kept_runs
from tests.unit.reframe.test_digests import TOKEN, digest, job


def test_a_kept_record_outlives_an_archive_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, root = tmp_path / "stage", tmp_path / "archive"
    folder = stage / "job"
    folder.mkdir(parents=True)
    record = kept_runs()["Daxpy"]
    assert orphans.keep(record, folder).startswith("; saved as")
    saved = (folder / orphans.KEPT).read_text()

    def full(*of: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as one:
        one.setattr(records, "write", full)
        assert list(orphans.adopt(stage, root)) == []
    assert (folder / orphans.KEPT).read_text() == saved
    assert [line.rpartition(", ")[2] for line in orphans.adopt(stage, root)] == ["archived"]
    assert not (folder / orphans.KEPT).exists() and len(list(root.rglob("*.json"))) >= 1
    # killed between archiving and removing: once
    (folder / orphans.KEPT).write_text(saved)
    assert [line.rpartition(": ")[2] for line in orphans.adopt(stage, root)] == ["already archived"]


def entry(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "job_id": "17", "session": "night", "case": "Daxpy", "token": TOKEN, "scheduler": "slurm", "cancel": "scancel",
        "stdout": "job.out", "pid": 0, "host": socket.gethostname(), "submitted": 1_700_000_000.0, **changes,
    }  # fmt: skip


def left(stage: Path, name: str = "job", own: bool = False, **changes: Any) -> Path:
    """The stage folder of a job that ended after its session: its case, its output and its result."""
    folder = stage / name
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({**host_document("daxpy"), "token": TOKEN}))
    job(folder, outputs=["result.json"])
    case = replace(
        record(), session="night", check="Daxpy", nodes=("n9",), judgement=orphans.nothing_yet(), result=None,
        request=Request(TOKEN, "daxpy", "Daxpy", ("host",)), job=Job("slurm", None, None, None, {}),
    )  # fmt: skip
    orphans.leave({
        "record": case.text(), "stdout": "job.out", "stderr": "job.err", "uses_mpi": False, "may_run_again": True,
        "own_judgement": own,
    }, folder)  # fmt: skip
    (folder / ledger.FILE).write_text(json.dumps(entry(folder, **changes)))
    return folder


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def named(*names: str) -> Any:
        asked.append(names)
        return SimpleNamespace(facts=Machine)

    monkeypatch.setattr(orphans, "Machine", SimpleNamespace(named=named))
    return asked


def read(folder: Path) -> ledger.Entry:
    found = ledger.read(folder / ledger.FILE)
    assert found is not None
    return found


def test_a_job_that_ended_without_its_session_is_judged_and_archived_once(tmp_path: Path, machines: list[Any]) -> None:
    stage, root = tmp_path / "stage", tmp_path / "archive"
    folder = left(stage)
    before = time.time()
    (line,) = orphans.adopt(stage, root)
    assert not (folder / ledger.FILE).exists() and list(orphans.adopt(stage, root)) == []
    (path,) = records.paths(root)
    found = records.read(path)
    node = found.nodes[0]
    assert line == f"Daxpy on {node} of session night: {found.verdict}, archived"
    assert machines == [(found.system, found.partition, found.environ)]
    assert node != "n9", "as the job printed, not as it was asked for"
    assert found.result is not None and found.result.program == "daxpy" and found.result_error is None
    assert found.job.id == "17" and found.job.exit_code == 0 and found.job.scheduler == "slurm"
    assert found.job.state is not None and found.job.state.startswith("COMPLETED")
    facts = found.job.facts
    assert facts["adopted"] is True and facts["may_run_again"] is True
    assert facts["sha256"] == {"result.json": digest((folder / "result.json").read_text())}
    ended = datetime.strptime(found.time, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
    assert before - 60 < ended < time.time() + 1, "the time of its end mark"
    (folder / ledger.FILE).write_text(json.dumps(entry(folder)))
    assert list(orphans.adopt(stage, root)) == [f"Daxpy on {node} of session night: already archived"]
    assert not (folder / ledger.FILE).exists() and len(list(records.paths(root))) == 1
    other = left(stage, "other", session="other")
    text = (other / orphans.CASE).read_text().replace(TOKEN, "t2")
    (other / orphans.CASE).write_text(text)
    for name in ("job.out", "result.json", ledger.FILE):
        (other / name).write_text((other / name).read_text().replace(TOKEN, "t2"))
    assert [one.rpartition(", ")[2] for one in orphans.adopt(stage, root)] == ["archived"], "another token"
    assert len(list(records.paths(root))) == 2


def test_an_end_mark_without_a_time_is_that_of_the_submission(tmp_path: Path) -> None:
    folder = left(tmp_path)
    end = f"TENKEN-END token={TOKEN} status=0 nodes=n1 node=n1 time=\n"
    output = (folder / "job.out").read_text()
    (folder / "job.out").write_text(output[: output.index("TENKEN-END")] + end)
    found = orphans.judged(read(folder))
    assert found is not None and found.time == "2023-11-14T22:13:20.000000Z"


def test_a_job_without_an_end_mark_stays_where_it_is(tmp_path: Path) -> None:
    folder = left(tmp_path / "stage")
    output = (folder / "job.out").read_text()
    (folder / "job.out").write_text(output[: output.index("TENKEN-END")])
    assert orphans.judged(read(folder)) is None
    assert list(orphans.adopt(tmp_path / "stage", tmp_path / "archive")) == []
    assert (folder / ledger.FILE).exists() and list(records.paths(tmp_path / "archive")) == []


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"pid": "lives"}])
def test_a_job_whose_session_may_live_is_left_to_it(tmp_path: Path, changes: Any) -> None:
    if changes.get("pid"):
        child = subprocess.Popen([sys.executable, "-c", "input()", "reframe"], stdin=subprocess.PIPE)
        changes = {"pid": child.pid}
    folder = left(tmp_path / "stage", **changes)
    try:
        assert read(folder).session_lives is (None if "host" in changes else True)
        assert list(orphans.adopt(tmp_path / "stage", tmp_path / "archive")) == []
        assert (folder / ledger.FILE).exists()
    finally:
        if "pid" in changes:
            child.communicate(b"\n")
    after = list(orphans.adopt(tmp_path / "stage", tmp_path / "archive"))
    assert len(after) == ("pid" in changes)


def test_a_job_of_another_attempt_cannot_be_adopted_and_is_told(tmp_path: Path) -> None:
    folder = left(tmp_path / "stage", token="t2", job_id="18")
    nameless = replace(record(), request=None)
    case = json.loads((folder / orphans.CASE).read_text())
    other = left(tmp_path / "stage", "other", job_id="19")
    (other / orphans.CASE).write_text(json.dumps({**case, "record": nameless.text()}))
    line, second = orphans.adopt(tmp_path / "stage", tmp_path / "archive")
    assert second == line.replace("18", "19")
    assert line == f"job 18 of Daxpy: its result cannot be adopted: {orphans.CASE} belongs to another attempt"
    assert (folder / ledger.FILE).exists() and list(records.paths(tmp_path / "archive")) == []


def test_what_another_session_is_adopting_is_left_to_it(tmp_path: Path) -> None:
    folder = left(tmp_path / "stage")
    orphans.keep(record(), folder)
    beside = left(tmp_path / "stage", "z")
    with (folder / ledger.FILE).open() as one, (folder / orphans.KEPT).open() as other:
        for stream in (one, other):
            fcntl.flock(stream, fcntl.LOCK_EX)
        assert len(list(orphans.adopt(tmp_path / "stage", tmp_path / "archive"))) == 1
        assert (folder / ledger.FILE).exists() and not (beside / ledger.FILE).exists()
    assert len(list(orphans.adopt(tmp_path / "stage", tmp_path / "archive"))) == 2
    gone = tmp_path / "gone"
    gone.write_text("")
    with orphans._alone(gone) as mine:
        assert mine
    with gone.open():
        holder = orphans._alone(gone)
        gone.unlink()
        with pytest.raises(FileNotFoundError):
            holder.__enter__()


@pytest.mark.parametrize(("own", "good", "expected"), [
    (False, True, "PASS"), (True, True, "INVALID"), (True, False, "FAIL"), (False, False, "FAIL"),
])  # fmt: skip
def test_a_check_with_its_own_judgement_is_not_judged_by_its_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool, good: bool, expected: str
) -> None:
    judgement = Judgement(verdicts.PASS, (), ()) if good else orphans.nothing_yet()
    monkeypatch.setattr(orphans.Outcome, "judgement", lambda *of: (judgement, None, None, ""))
    found = orphans.judged(read(left(tmp_path, own=own)))
    assert found is not None and found.verdict == expected
    said = "Daxpy cannot be judged from its result alone, and its session had ended: run it again"
    assert (said in found.judgement.message()) == (expected == "INVALID")
    if expected == "INVALID":
        assert [one.node for one in found.judgement.findings] == list(found.nodes)


def test_a_full_archive_and_a_full_stage_folder_lose_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert orphans.keep(record(), tmp_path) == f"; saved as {tmp_path / orphans.KEPT} and archived by the next session"
    (tmp_path / "file").touch()
    assert orphans.keep(record(), tmp_path / "file") == "; it is lost"
    assert orphans.nothing_yet().verdict == "FAIL"
    assert "the session ended before its job" in orphans.nothing_yet().message()


@pytest.mark.parametrize(("prefix", "session", "expected"), [
    ("/s/stage/night", "night", "/s/stage"), ("/s/stage", "night", "/s/stage"),
    ("/s/stage/night", None, "/s/stage/night"),
])  # fmt: skip
def test_the_stage_folder_of_all_sessions(
    monkeypatch: pytest.MonkeyPatch, prefix: str, session: Any, expected: str
) -> None:
    monkeypatch.setattr(orphans.runtime, "runtime", lambda: SimpleNamespace(stage_prefix=prefix))
    monkeypatch.delenv("TENKEN_SESSION", raising=False)
    if session:
        monkeypatch.setenv("TENKEN_SESSION", session)
    assert str(orphans.stage_of_sessions()) == expected


@pytest.mark.parametrize("dry", [False, True])
def test_a_session_begins_with_what_earlier_ones_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    class Plain:
        def runall(self, testcases: Any, *arguments: Any, **options: Any) -> Any:
            return [*arguments, options]

    monkeypatch.setattr(orphans, "Runner", Plain)
    monkeypatch.setattr(orphans, "stage_of_sessions", lambda: tmp_path / "stage")
    monkeypatch.setattr(orphans, "archive_root", lambda: tmp_path / "archive")
    left(tmp_path / "stage", "ended")
    for name in ("a", "b"):
        (left(tmp_path / "stage", name) / "job.out").unlink()
    left(tmp_path / "stage", "elsewhere", host="elsewhere")
    orphans.register()
    cases = [SimpleNamespace(check=SimpleNamespace(is_dry_run=lambda: dry))]
    assert Plain().runall(cases, 1, two=2) == [1, {"two": 2}]  # type: ignore[comparison-overlap]
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == (0 if dry else 2)
    if lines:
        assert lines[0].startswith("tenken: left by an earlier session: Daxpy on ") and lines[0].endswith(", archived")
        assert lines[1].startswith("tenken: 2 jobs of sessions that were killed are not accounted for: `tenken jobs`")
    orphans._tell(tmp_path / "none")
    assert capsys.readouterr() == ("", "")
