"""Compares the files of an archive with its manifests (seal.py), and the logs of node checks with their seals
(chained.py). Nothing is written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tenken.archive import chained, seal
from tenken.archive import records as archive
from tenken.errors import ArchiveError
from tenken.model.files import FileError, open_regular


@dataclass
class Found:
    """The result for each file, by its path below the archive. `sealed`: number of files that manifests list, also of
    those that are missing; `faults`: file and reason, sorted by path; `unsealed`: records from before there were
    manifests; `notes`: unfinished files, which are not faults; `logs`: logs of node
    checks, sealed line by line.
    """

    sealed: int = 0
    logs: int = 0
    faults: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(root: Path, sessions: Collection[str] | None = None) -> Found:
    """Compares all files of an archive with its manifests; with `sessions`, only those of these sessions."""
    chosen = None if sessions is None else {archive.safe_name(name) for name in sessions}
    # read first: a running session writes a file's line before the file has its name
    there = {path.relative_to(root).as_posix(): path for path in archive.all_files(root)}
    contents = {
        name: path.read_bytes() for name, path in seal.manifests(root).items() if chosen is None or name in chosen
    }
    known = {name: seal.read(content, name) for name, content in contents.items()}
    found = Found()
    faults = [(_place(name), fault) for name, manifest in known.items() for fault in manifest.faults]
    # of another user whose umask keeps them to himself
    folders = (one for one in root.glob(f"{seal.SESSIONS}/*") if one.is_dir())
    closed = {one.name for one in folders if not os.access(one, os.R_OK | os.X_OK)}
    closed = closed if chosen is None else closed.intersection(chosen)
    faults += [(_place(name), "cannot be read: permission denied") for name in closed]
    # the session in a file's name selects the manifest that must list it
    listed = {path: digest for manifest in known.values() for path, digest in manifest.files.items()}
    waiting = {
        target.relative_to(root).as_posix()
        for content in contents.values()
        for _, target in seal.pending(root, content)
    }
    found.notes += [f"{path}: killed before it was renamed; the next session renames it" for path in waiting]
    found.sealed = len(listed)
    for below, digest in listed.items():
        path = root / below
        if below not in waiting and (below in there or path.is_file()):
            fault = _differs(path, digest)
        else:
            fault = "" if below in waiting else "is missing"
        faults += [(below, fault)] if fault else []
    for below, path in there.items():
        if below in listed:
            continue
        session = seal.session_of(path.name) or (_session_within(path) if known else "")
        if session in closed or (chosen is not None and session not in chosen):
            continue
        if session not in known or below in known[session].unsealed:
            found.unsealed += [below] if path.suffix == ".json" else []
        else:
            faults.append((below, "is new: the manifest of its session does not list it"))
    if chosen is None:
        faults += [one for one in chain(root) if one[0] not in map(_place, closed)]
        for path in root.glob("*/*/*.log*"):
            if path.is_file() and chained.is_one(path):
                found.logs += 1
                faults += [(path.relative_to(root).as_posix(), fault) for fault in chained.faults(path)]
    found.faults = [f"{place}: {fault}" for place, fault in sorted(faults)]
    return found


def chain(root: Path, about: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
    """Manifests that differ from what later ones say they continue, with the reason; `about`: of these sessions
    alone."""
    contents = {name: path.read_bytes() for name, path in seal.manifests(root).items()}
    chosen = None if about is None else {archive.safe_name(name) for name in about}
    for name, content in contents.items():
        for other, size, digest in seal.read(content, name).continues:
            if chosen is not None and other not in chosen:
                continue
            if other not in contents:
                yield _place(other), f"is missing; session {name} continues it"
            elif seal.sha256(contents[other][:size]) != digest:
                yield _place(other), f"differs from what session {name} continues"


def _place(session: str) -> str:
    return f"{seal.SESSIONS}/{session}/{seal.MANIFEST}"


def _differs(path: Path, digest: str) -> str:
    """What is wrong with a listed file; empty if nothing is."""
    try:
        stream, _ = open_regular(path)
    except FileError as error:
        return str(error)
    with stream:
        now = hashlib.sha256()
        while block := stream.read(1 << 20):
            now.update(block)
    return "" if now.hexdigest() == digest else f"differs: its SHA-256 is {now.hexdigest()}; its manifest has {digest}"


def _session_within(path: Path) -> str:
    """The session of a record whose file name was not given by the suite; empty for any other file."""
    if path.suffix != ".json":
        return ""
    try:
        return archive.safe_name(archive.read(path, figures_only=True).session)
    except ArchiveError:
        return ""
