"""Power cuts: the order of write, fsync, rename and fsync of the folder, for every file that must survive one."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import chained, durable, records, seal
from tenken.campaign import spool
from tenken.campaign.journal import Journal
from tenken.errors import ArchiveError
from tenken.node import state
from tenken.paths import ROOT
from tenken.report import bundle
from tests.unit.core.test_archive import record


def journal(root: Path) -> None:
    held = Journal(root, lambda: 1.0)
    held.open()
    held.note("campaign", name="x")
    held.note("phase", units=[])
    held.close()


def finish(root: Path) -> None:
    """A kill came between the line of a record and its name."""
    target = records.write(record("20261120T010203", check="C"), root)
    shutil.copyfile(target, target.with_name(f"{durable.TEMPORARY}{target.name}.1.0"))
    target.unlink()
    seal.finish(root, "20261120T010203")


def checks_of_a_node(root: Path) -> None:
    for values in ({"triad": 1.0}, {"copy": 2.0}):
        chained.append(root / "n1.log", {"line": "good"}, values)


RECORD = [
    "F temporary", "F folder", "L manifest", "W manifest", "F manifest", "F folder", "W manifest", "F manifest",
    "rename", "F folder",
]  # fmt: skip
#: Events, and what has reached the disk on return: F is an fsync of a file or a folder, W a line, L a lock.
WRITERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    # the manifest begins with a heading
    "a record": (lambda root: records.write(record("20261120T010203", check="C"), root), RECORD),
    "a file beside the archive": (lambda root: records.write_file(root / "state.json", "{}"),
        ["F temporary", "rename", "F folder"]),
    "a report to sign": (lambda root: bundle.write(root / "report.tar", [bundle.Member("report.html", b"x")]),
        ["F temporary", "rename", "F folder"]),
    "the journal of a campaign": (journal,
        ["F folder", "L journal", "W journal", "F journal", "W journal", "F journal"]),
    "a record that was not named": (finish, [*RECORD, "L manifest", "rename", "F folder"]),
    "the log of a node's checks": (checks_of_a_node,
        ["L n1", "W n1", "F n1", "L n1", "rename", "F folder", "L n1", "W n1", "F n1"]),
    # a power cut may lose the last one, but leaves no half
    "the state of a node": (lambda root: state.write(root / "state.json", {}), ["F temporary", "rename"]),
}  # fmt: skip


def kind(descriptor: int) -> str:
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    if path.is_dir():
        return "folder"
    return "temporary" if path.name.startswith((durable.TEMPORARY, ".state")) else path.name.partition(".")[0]


#: A line of the sources, by file and number.
Site = tuple[str, int]


def traced(what: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], set[Site]]:
    """The events of a writer, and the lines of the sources on the way to them."""
    seen: list[str] = []
    sites: set[Site] = set()
    real = {name: getattr(os, name) for name in ("fsync", "rename", "replace", "write")}
    locked = fcntl.flock

    def note(event: str) -> None:
        seen.append(event)
        sites.update((frame.filename, frame.lineno or 0) for frame in traceback.extract_stack())

    def fsync(descriptor: int) -> None:
        note(f"F {kind(descriptor)}")
        real["fsync"](descriptor)

    def flock(descriptor: Any, how: int) -> None:
        if how & fcntl.LOCK_EX:
            note(f"L {kind(descriptor if isinstance(descriptor, int) else descriptor.fileno())}")
        locked(descriptor, how)

    def rename(source: Path, target: Path) -> None:
        note("rename")
        real["replace"](source, target)

    def written(descriptor: int, content: bytes) -> int:
        note(f"W {kind(descriptor)}")
        return int(real["write"](descriptor, content))

    root.mkdir()
    with monkeypatch.context() as patch:
        for name, double in (("fsync", fsync), ("rename", rename), ("replace", rename), ("write", written)):
            patch.setattr(os, name, double)
        patch.setattr(fcntl, "flock", flock)
        WRITERS[what][0](root)
    return seen, sites


@pytest.mark.parametrize("what", WRITERS)
def test_content_is_on_the_disk_before_its_name_and_before_what_follows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = traced(what, tmp_path / "root", monkeypatch)
    known = ("temporary", "folder", "manifest", "journal", "n1", "rename")
    found = [one for one in seen if one.split(" ")[-1] in known]
    assert found == WRITERS[what][1]


@pytest.mark.parametrize("what", WRITERS)
def test_no_file_stays_open(what: str, tmp_path: Path) -> None:
    """A campaign writes for days."""
    (tmp_path / "root").mkdir()
    before = os.listdir("/proc/self/fd")
    WRITERS[what][0](tmp_path / "root")
    (tmp_path / "other").write_text("a\n")
    with pytest.raises(ArchiveError):
        chained.append(tmp_path / "other", {}, {})
    assert os.listdir("/proc/self/fd") == before


#: Calls for another purpose.
NOTHING_TO_KEEP = {
    "tenken/archive/packed.py": "locked while it is unpacked, which can be done again",
    "tenken/node/host.py": "whether a folder can be written",
}


def test_each_place_that_syncs_is_passed_by_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {site for n, what in enumerate(WRITERS) for site in traced(what, tmp_path / str(n), monkeypatch)[1]}
    for file in (ROOT / "tenken").rglob("*.py"):
        text = file.read_text()
        if str(file.relative_to(ROOT)) not in NOTHING_TO_KEEP and ("fsync" in text or "durable" in text):
            for call in ast.walk(ast.parse(text)):
                name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
                if name in ("os.fsync", "durable.sync_folder", "durable.appended", "durable.temporary", "durable.lock"):
                    assert (str(file), call.lineno) in passed, f"{file}:{call.lineno}: {name}"


#: Code that renames files without them, and why a power cut may lose those.
RENAMED = {
    "tenken/archive/chained.py": "a log of ReFrame, set aside as ReFrame does",
    "tenken/archive/packed.py": "unpacked again from its archive",
    "tenken/archive/records.py": "durable",
    "tenken/archive/seal.py": "durable",
    "tenken/campaign/groupjobs.py": "a folder put aside",
    "tenken/campaign/spool.py": "gathered again without effect",
    "tenken/commands/accept.py": "in a temporary folder",
    "tenken/history/detect/state.py": "computed again from the archive",
    "tenken/history/store.py": "exported again from the archive",
    "tenken/machines/draft.py": "a draft, seen by who wrote it",
    "tenken/model/cache.py": "read again from the file it was made of",
    "tenken/model/catalogue.py": "read again from metrics.yaml",
    "tenken/node/state.py": "the state of the last check, before the next",
    "tenken/reframe/matrices.py": "fetched again",
    "tenken/reframe/schedulers/ledger.py": "a job that is still in the scheduler's queue",
    "tenken/reframe/terminal.py": "how long cases took",
    "tenken/report/bundle.py": "durable",
    "tenken/report/fleet.py": "a page, drawn again",
    "tenken/report/writing.py": "a page, drawn again",
}


def renames(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of os.rename, os.replace, Path.rename and Path.replace; those of texts and dates have other arguments."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.keywords:
            continue
        of_os = isinstance(call.func.value, ast.Name) and call.func.value.id == "os"
        if call.func.attr in ("rename", "replace") and len(call.args) == (2 if of_os else 1):
            yield call


def test_who_renames_without_them_may_lose_the_file() -> None:
    files = {str(f.relative_to(ROOT)): f.read_text() for f in (ROOT / "tenken").rglob("*.py")}
    named = {name: text for name, text in files.items() if "rename" in text or "replace" in text}
    found = {name for name, text in named.items() if any(True for _ in renames(ast.parse(text)))}
    assert found == set(RENAMED)
    for name, why in RENAMED.items():
        assert why != "durable" or "durable." in files[name], name


def test_what_a_record_names_is_there_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between the files leaves no record without its output."""
    told: list[str] = []
    monkeypatch.setattr(records, "put", lambda root, session, path, content: told.append(path.name))
    spool._put(tmp_path, "s", dict.fromkeys(["a/a/a/a/s-1.json", "a/a/a/a/s-1.out", "b/b/b/b/s-0.txt"], b""))
    records.write(record("s", check="C"), tmp_path, {"out.txt": b"", "a.log": b""})
    assert [name.endswith(".json") for name in told] == [False, False, True] * 2


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_that_syncs_files_alone_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            durable.sync_folder(tmp_path)
    else:
        durable.sync_folder(tmp_path)
