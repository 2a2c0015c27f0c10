"""Changed archives through the command line, and kept ones: none of their records is doubted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenken import cli
from tenken.archive import packed, records
from tenken.paths import ROOT
from tests.lies import class_17_archives as archives

#: All that machines wrote, of every version.
KEPT = sorted((ROOT / "tests" / "data").glob("*.tar.xz"))


def report(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main(
        ["report", "--archive", str(root), "--session", archives.NAME, "--output", str(root.parent / "page.html")]
    )
    return status, capsys.readouterr().out


def test_an_honest_session_is_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = report(archives.honest().write(tmp_path / "archive"), capsys)
    assert status == 0 and said.splitlines()[-2].endswith("RECORDED (1 RECORDED, 2 PASS, 1 WAIVED)")


@pytest.mark.parametrize(
    ("group", "name", "status", "says"),
    [
        (
            "job",
            "its exit code is 137",
            1,
            "DAMAGED: local/.*cannot be believed: verdict is PASS; the job exited with 137",
        ),
        ("nodes", "it has no nodes", 1, "DAMAGED: local/.*nodes is empty"),
        ("session", "a copy is of a second node", 1, "FAIL +MemcopyGpu.*cannot be believed"),
        ("run report", "it has no runs", 3, "INCOMPLETE: ReFrame's run report lists no test case"),
        ("plan", "a check is gone everywhere but there", 3, "INCOMPLETE: 1 of 4 checks of the plan never ran"),
    ],
)
def test_a_changed_session_does_not_end_with_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], group: str, name: str, status: int, says: str
) -> None:
    changed = archives.honest()
    {**archives.OF_RECORDS, **archives.OF_SESSIONS}[group][name][0](changed)
    ended, said = report(changed.write(tmp_path / "archive"), capsys)
    assert ended == status and re.search(says, said)
    assert not re.search(r"Session .*: (PASS|RECORDED)", said)
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_no_kept_record_is_doubted(file: Path) -> None:
    damaged: list[records.Damaged] = []
    assert list(records.records(packed.folder_of(file), damaged=damaged, figures_only=True))
    assert not damaged
