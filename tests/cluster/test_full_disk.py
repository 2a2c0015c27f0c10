"""A full disk ends no session: archive, stage, output and spool, each a small full file system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tenken.archive import disk
from tenken.archive import records as archive
from tenken.reframe import orphans
from tests.cluster.conftest import on_a_small_disk, write_document
from tests.support.reframe import Outcome, reframe


@dataclass(frozen=True)
class Full:
    """Which disk is full, from the beginning or because of the job, and the required result."""

    disk: str
    now: bool
    command: str
    code: int = 1
    words: Sequence[str] = field(default_factory=tuple)


CASES = {
    "archive": Full("perflogs", True, "true", words=["INVALID: no part of a run could be archived", "bytes of "
    ".probe-"]),
    "archive, while the job runs": Full(
        "perflogs", False, "cat /dev/zero > {small}/fill; true",
        words=["cannot write to the archive: No space left on device", "saved as {folder}/stage/"],
    ),
    "stage": Full("stage", True, "true", words=["No space left on device"]),
    "stage, while the job runs": Full(
        "stage", False, "cat /dev/zero > fill; rm result.json; cat fill fill > result.json",
        words=["INVALID: ", "the disk of {folder}/stage/"],
    ),
    "output": Full("output", True, "true", words=["the output of Doctored is not saved: No space left on device"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def sessions(small_disks, tmp_path_factory) -> dict[str, tuple[Path, Outcome]]:
    """All of them concurrently: most of the time they wait for a disk that stays full."""

    tmp_path_factory.getbasetemp()  # created on first use: not by three threads at once

    def run(name: str) -> tuple[Path, Outcome]:
        case, folder = CASES[name], tmp_path_factory.mktemp("full")
        small = folder / case.disk
        outcome = reframe(
            "-r", "-n", "^Doctored", "--system", "local", folder=folder, checks="tests/reframe/checks/doctored",
            before=on_a_small_disk(small, case.now), TENKEN_TEST_DOCUMENT=write_document(folder),
            TENKEN_TEST_COMMAND=case.command.format(small=small),
        )  # fmt: skip
        return folder, outcome

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.xdist_group("full disk")
@pytest.mark.parametrize("name", CASES)
def test_a_full_disk_ends_no_session_and_is_told_with_path_and_bytes(sessions, name):
    folder, outcome = sessions[name]
    case = CASES[name]
    assert outcome.code == case.code, outcome.output
    assert "Finished on" in outcome.output
    assert "Traceback" not in outcome.output and "KeyError" not in outcome.output
    for words in case.words:
        assert words.format(folder=folder) in outcome.output, outcome.output
    left = outcome.output.partition("LEFT\n")[2].split()
    assert not [path for path in left if "/.tmp-" in path or path.endswith(".json.tmp")], left


@pytest.mark.xdist_group("full disk")
@pytest.mark.parametrize(
    ("name", "verdict"), [("stage", "INVALID"), ("stage, while the job runs", "INVALID"), ("output", "RECORDED")]
)
def test_the_record_names_node_and_reason(sessions, name, verdict):
    _, outcome = sessions[name]
    # what is INVALID was measured again, or could not be staged on the full disk
    record = outcome.records[-1]
    assert (record.verdict, record.nodes) == (verdict, (os.uname().nodename,))
    if verdict != "RECORDED":
        assert "stage" in record.findings[0].message and "(0 bytes are free)" in record.findings[0].message


@pytest.mark.xdist_group("full disk")
def test_what_a_full_archive_could_not_take_is_archived_by_the_next_session(sessions, tmp_path):
    """Once, and for its own session; the verdict is that of the run."""
    folder, _ = sessions["archive, while the job runs"]
    shutil.copytree(folder / "stage", tmp_path / "stage")
    assert list(orphans.adopt(tmp_path / "stage", tmp_path / "perflogs")) == [
        f"Doctored on {os.uname().nodename} of session 20260101T000000Z-test: RECORDED, archived"
    ]
    assert list(orphans.adopt(tmp_path / "stage", tmp_path / "perflogs")) == []
    (record,) = archive.records(tmp_path / "perflogs")
    assert (record.session, record.verdict) == ("20260101T000000Z-test", "RECORDED")


def test_a_write_is_tried_again_where_the_disk_is_full_and_only_there(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_given_up", {})
    pauses: list[float] = []
    errors = [OSError(28, "No space left on device"), OSError(122, "Disk quota exceeded")]

    def write() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert disk.patiently(write, tmp_path / "a" / "b", pauses.append) == "done"
    assert pauses == [0.2, 1.0]
    errors.append(OSError(30, "Read-only file system"))
    with pytest.raises(OSError, match="Read-only"):
        disk.patiently(write, tmp_path, pauses.append)
    assert len(pauses) == 2


def test_what_says_that_a_disk_is_full_may_stand_behind_another_error_and_in_a_circle():
    full, other = OSError(28, "No space left on device"), ValueError("x")
    other.__cause__, full.__context__ = full, other
    assert disk.fullness(other) is full
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert not disk.is_full(first)


def test_a_disk_that_stays_full_costs_a_session_its_patience_once(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_given_up", {})
    pauses: list[float] = []

    def full() -> None:
        raise OSError(28, "No space left on device")

    for _ in range(5):
        with pytest.raises(OSError, match="No space"):
            disk.patiently(full, tmp_path, pauses.append)
    assert pauses == [0.2, 1.0, 3.0]
