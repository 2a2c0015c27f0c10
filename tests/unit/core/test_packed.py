"""A packed archive is read like its folder, is unpacked once, and cannot write anywhere else."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path

import pytest

from tenken.archive import packed, records
from tenken.cli import main
from tenken.errors import ArchiveError
from tests.support import kept
from tests.unit.core.test_archive import record


def pack(file: Path, *members: tarfile.TarInfo | tuple[str, str]) -> Path:
    with tarfile.open(file, "w:xz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                named = tarfile.TarInfo(member[0])
                named.size = len(member[1])
                archive.addfile(named, io.BytesIO(member[1].encode()))
    return file


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_records_come_out_as_they_went_in_and_only_once(tmp_path):
    path = records.write(record(), tmp_path / "archive")
    with tarfile.open(tmp_path / "archive.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "archive", ".")
    folder = packed.folder_of(tmp_path / "archive.tar.xz", tmp_path / "cache")
    (read,) = records.records(folder)
    assert read.path.read_bytes() == path.read_bytes()
    assert read.path.stat().st_mode & 0o777 == 0o444
    before = folder.stat().st_ino
    assert packed.folder_of(tmp_path / "archive.tar.xz", tmp_path / "cache").stat().st_ino == before
    # another file of this name is another archive
    pack(tmp_path / "archive.tar.xz", ("other", "x"))
    assert list(records.records(packed.folder_of(tmp_path / "archive.tar.xz", tmp_path / "cache"))) == []


def test_what_another_process_extracts_meanwhile_is_used(tmp_path):
    file, cache = pack(tmp_path / "archive.tar.xz", ("a/b", "x")), tmp_path / "cache"
    other = pytest.MonkeyPatch()

    def waits(descriptor, path):
        other.undo()
        ready.append(packed.folder_of(file, cache))

    ready = []
    other.setattr(packed.durable, "lock", waits)
    folder = packed.folder_of(file, cache)
    assert ready == [folder] and (folder / "a/b").read_text() == "x"
    assert [one for one in cache.iterdir() if one.is_dir()] == [folder]


def test_a_folder_is_itself(tmp_path):
    assert packed.folder_of(tmp_path) == tmp_path
    assert packed.folder_of(tmp_path / "absent.tar.xz") == tmp_path / "absent.tar.xz"


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (("/etc/passwd", "x"), "points outside the archive"),
        (("a/../../b", "x"), "points outside the archive"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "neither a regular file nor a directory"),
        (special("hard", tarfile.LNKTYPE, "a"), "neither a regular file nor a directory"),
        (special("device", tarfile.CHRTYPE), "neither a regular file nor a directory"),
        (special("pipe", tarfile.FIFOTYPE), "neither a regular file nor a directory"),
    ],
)
def test_what_could_reach_elsewhere_is_refused_by_name(tmp_path, member, says):
    file = pack(tmp_path / "bad.tar.xz", ("a", "good"), member)
    with pytest.raises(ArchiveError, match=says):
        packed.folder_of(file, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no archive", lambda data: b""])
def test_a_damaged_file_is_one_line_and_leaves_nothing(tmp_path, damage):
    file = pack(tmp_path / "archive.tar.xz", ("a/b", "x" * 100_000))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ArchiveError, match=r"not a whole \.tar\.xz file"):
        packed.folder_of(file, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_a_cache_is_made_and_nothing_is_written_elsewhere(tmp_path, monkeypatch):
    """A rename from another file system would fail."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    file = pack(tmp_path / "archive.tar.xz", special("a/b/c", tarfile.DIRTYPE), ("a/b/c/d", "x"), ("e/f", "y"))
    folder = packed.folder_of(file, tmp_path / "some" / "cache")
    assert (folder / "a/b/c/d").read_text() + (folder / "e/f").read_text() == "xy"
    assert folder.parent == tmp_path / "some" / "cache"


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    file = pack(tmp_path / "archive.tar.xz", ("a", "x"))
    (tmp_path / "cache").write_text("")
    with pytest.raises(ArchiveError) as error:
        packed.folder_of(file, tmp_path / "cache" / "archives")
    assert str(error.value) == f"{file}: cannot be extracted to {tmp_path}/cache/archives: Not a directory"


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "MAX_BYTES", 1000)
    file = pack(tmp_path / "bomb.tar.xz", ("a", "x" * 600), ("b", "x" * 600))
    with pytest.raises(ArchiveError, match="extracts to more than"):
        packed.folder_of(file, tmp_path / "cache")


def test_the_kept_sessions_are_whole():
    found = kept.all_records()
    assert len({one.session for one in found}) == 12
    assert len(found) == 126


def test_commands_read_a_packed_archive(tmp_path, capsys):
    output = tmp_path / "page.html"
    session = "20261121T160001Z-h200four"
    assert main(["report", "--archive", str(kept.FILE), "--session", session, "--output", str(output)]) == 0
    assert "HplNode" in capsys.readouterr().out
    assert "HplNode" in output.read_text()
    records.write(record(), tmp_path / "archive")
    with tarfile.open(tmp_path / "archive.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "archive", ".")
    store = tmp_path / "store.duckdb"
    assert main(["ingest", "--archive", str(tmp_path / "archive.tar.xz"), "--store", str(store)]) == 0
    assert ": 1 records" in capsys.readouterr().out
    (tmp_path / "bad.tar.xz").write_text("nothing")
    with pytest.raises(SystemExit) as refused:
        main(["ingest", "--archive", str(tmp_path / "bad.tar.xz")])
    assert refused.value.code == 2
    assert "not a whole .tar.xz file" in capsys.readouterr().err
