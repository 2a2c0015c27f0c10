"""An archive of release 0.2, taken over as docs/upgrading.md says: read, judged, reported and accepted by this one."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from tenken.archive import packed, records
from tenken.cli import main
from tests.support import kept

pytestmark = pytest.mark.release


def digests(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_an_archive_of_0_2_is_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "perflogs"
    shutil.copytree(packed.folder_of(kept.PATH_USER), root, copy_function=shutil.copyfile)
    before, found = digests(root), list(records.records(root))
    assert {one.version for one in found} == {"tenken-record/2"} and len(found) > 100  # what 0.2 wrote
    archive, store = ["--archive", str(root)], ["--store", str(tmp_path / "store.duckdb")]

    def said(*words: str) -> tuple[int, str]:
        status = main(list(words))
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    assert said("ingest", *archive, *store)[0] == 0
    status, text = said("gate", *archive, *store, "--output", str(tmp_path / "gate"))
    assert status == 3 and "Traceback" not in text, text  # a session is no history
    last = max(one.session for one in found)
    assert said("report", *archive, "--session", last, "--output", str(tmp_path / "page.html"))[0] == 0
    assert "StreamCuda" in (tmp_path / "page.html").read_text(encoding="utf-8")
    status, text = said("archive", "verify", *archive)
    assert status == 1 and f"{len(found)} records are unsealed" in text, text
    draft = ["contract", "new", "lot", "--from", "local", "--session", last, *archive, "--folder", str(tmp_path)]
    assert said(*draft)[0] == 0
    answer = tmp_path / "answer"
    accept = ["accept", "--contract", str(tmp_path / "lot.yaml"), "--sessions", last, *archive, "--no-pdf"]
    status, text = said(*accept, "--output", str(answer))
    assert status == 3 and "INCONCLUSIVE: lot" in text, text
    assert "records are unsealed" in (answer / "report.html").read_text(encoding="utf-8")
    assert said("accept", "--verify", str(answer / "lot.tar"))[0] == 0
    assert digests(root) == before
