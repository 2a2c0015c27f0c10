"""Records that a session could not archive: they stay until they are archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenken.archive import records
from tenken.reframe import orphans
from tests.unit.judge.test_healthy import kept_runs


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
