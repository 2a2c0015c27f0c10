"""Moves results from the spool into the archive. A node's file is recognised by the names of its records and gathered
once, whatever happened before."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.campaign import inventory, nodejob
from tenken.errors import RecordError
from tenken.model import files
from tenken.model.job import short
from tenken.model.record import MAX_RECORD_BYTES, Record, parse

#: Folder of files that the archive contains: ReFrame's output on the node can be read there.
GATHERED = "gathered"
#: Maximum size of a node's file.
MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class Gathered:
    """What one node left: `records` (paths in the archive), `verdicts` by number, `meta` as the job wrote it; `fault`:
    why it does not count."""

    token: str
    records: tuple[str, ...] = ()
    verdicts: dict[str, int] | None = None
    meta: dict[str, str] | None = None
    fault: str | None = None

    @property
    def seconds(self) -> float:
        meta = self.meta or {}
        try:
            return max(float(meta["end"]) - float(meta["begin"]), 0.0)
        except (KeyError, ValueError):
            return 0.0


def there(spool: Path) -> list[str]:
    """Tokens whose file is complete."""
    return sorted(p.name.removesuffix(".tar") for p in spool.glob("*.tar") if not p.name.startswith("."))


def put_away(spool: Path, token: str) -> None:
    """Moves a gathered file away, so that it is not seen again; if it cannot be moved it stays."""
    with contextlib.suppress(OSError):
        (spool / GATHERED).mkdir(exist_ok=True)
        (spool / f"{token}.tar").rename(spool / GATHERED / f"{token}.tar")


def gather(spool: Path, token: str, node: str, session: str, root: Path) -> Gathered:
    """Adds the records of one file to the archive. Gathering it again changes nothing, since the names are the records'
    own.

    A file is refused if it is of another node or token, has no record, or has one that the node's manifest does not
    list. Raises ArchiveError if the archive cannot be written.
    """
    path = spool / f"{token}.tar"
    records: list[Record] = []
    sealed: dict[str, bytes] = {}
    manifest: bytes | None = None
    others: list[tuple[PurePosixPath, str]] = []
    try:
        with tarfile.open(path) as packed:
            members = {m.name: m for m in packed if m.isreg()}
            meta = _meta(packed, members)
            meta["said"] = _last_line(packed, members)
            for name, member in members.items():
                inside = PurePosixPath(name)
                if inside.parts[0] != "archive" or ".." in inside.parts or inside.is_absolute():
                    continue
                if member.size > MAX_RECORD_BYTES:
                    return Gathered(token, fault=f"{name} has {member.size} bytes; maximum: {MAX_RECORD_BYTES}")
                stream = packed.extractfile(member)
                content = (stream or io.BytesIO()).read()
                text = content.decode("utf-8", "replace")
                below = inside.relative_to("archive")
                if len(below.parts) == 5 and archive.SESSIONS not in below.parts and not below.name.startswith("."):
                    sealed[str(below)] = content
                    try:
                        records += [parse(text, figures_only=True)] if below.suffix == ".json" else []
                    except RecordError as error:
                        return Gathered(token, fault=f"{name}: {error}")
                elif below == PurePosixPath(archive.SESSIONS, archive.safe_name(session), seal.MANIFEST):
                    manifest = content
                elif str(below) == inventory.FILE:
                    others.append((PurePosixPath(archive.SESSIONS, archive.safe_name(session), inventory.FILE), text))
                elif below.parts[0] == archive.SESSIONS and below.suffix == ".json":
                    others.append((below, text))
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        return Gathered(token, fault=f"{path.name} cannot be read: {error}")
    fault = _fault(token, node, session, meta, records) or _unlisted(session, manifest, sealed)
    fault = fault or _put(root, session, sealed)
    if fault is not None:
        return Gathered(token, meta=meta, fault=fault)
    verdicts: dict[str, int] = {}
    for record in records:
        verdicts[record.verdict] = verdicts.get(record.verdict, 0) + 1
    for below, text in others:
        # each node has its own run report in the session
        archive.write_file(root / below.with_name(f"{below.stem}-{archive.safe_name(node)}.json"), text)
    return Gathered(token, tuple(name for name in sealed if name.endswith(".json")), verdicts, meta)


def _unlisted(session: str, manifest: bytes | None, sealed: Mapping[str, bytes]) -> str | None:
    """The first file named after another session or different from the node's manifest; jobs of earlier releases wrote
    no manifest.
    """
    folder = archive.safe_name(session)
    for name in sealed:
        if seal.session_of(PurePosixPath(name).name) != folder:
            return f"{name} has no name of session {session}"
    if manifest is None:
        return None
    listed = seal.read(manifest, folder).files
    there = {name: seal.sha256(content) for name, content in sealed.items()}
    wrong = sorted(name for name in {*listed, *there} if listed.get(name) != there.get(name))
    return f"{wrong[0]} is not what the node's manifest lists" if wrong else None


def _put(root: Path, session: str, sealed: Mapping[str, bytes]) -> str | None:
    """Adds files to the archive that do not exist yet; returns the first existing one that differs, if any. A file that
    was pruned since counts as the same.
    """
    path = archive.session_folder(root, session) / seal.MANIFEST
    known = path.read_bytes() if path.is_file() else b""
    listed = seal.read(known, path.parent.name).files
    # output of a third-party program, archived with the record next to it
    for name in sorted(sealed, key=lambda one: one.endswith(".json")):
        if name not in listed:
            archive.put(root, session, root / name, sealed[name])
        elif not re.search(rf"^(# pruned )?{seal.sha256(sealed[name])}  {re.escape(name)}$", known.decode(), re.M):
            return f"{name} is in the archive with another content"
    return None


def configuration(root: Path, session: str, node: str) -> dict[str, dict[str, str]]:
    """The configuration of a node in a session, by `host` or GPU; empty if it was not reported."""
    stem = Path(inventory.FILE).stem
    path = archive.session_folder(root, session) / f"{stem}-{archive.safe_name(node)}.json"
    try:
        raw = json.loads(files.read_text(path, 1 << 20))
    except (files.FileError, ValueError):
        return {}
    if not isinstance(raw, dict) or not all(isinstance(items, dict) for items in raw.values()):
        return {}
    return {str(place): {str(k): str(v) for k, v in items.items()} for place, items in raw.items()}


def _meta(packed: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> dict[str, str]:
    member = members.get(nodejob.META)
    stream = packed.extractfile(member) if member and member.size < 1 << 16 else None
    lines = stream.read().decode("utf-8", "replace").splitlines() if stream else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _last_line(packed: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> str:
    """The last line of ReFrame's output that looks like an error."""
    member = members.get("reframe.txt")
    stream = packed.extractfile(member) if member and member.size < 64 << 20 else None
    lines = [line.strip() for line in stream.read().decode("utf-8", "replace").splitlines()] if stream else []
    errors = [line for line in lines if "rror" in line or line.startswith("tenken:")]
    return (errors or [line for line in lines if line] or ["it printed nothing"])[-1][:300]


def _fault(token: str, node: str, session: str, meta: dict[str, str], records: list[Record]) -> str | None:
    """Why a file does not prove that this node was tested by this job."""
    if meta.get("token") != token:
        return f"it belongs to another job (token {meta.get('token')!r})"
    said = {short(n) for n in [meta.get("host", ""), *meta.get("names", "").split(",")] if n}
    if short(node) not in said:
        return f"it ran on {', '.join(sorted(said)) or 'an unknown node'}, not on {node}"
    if not records:
        return f"no check left a record (reframe ended with {meta.get('status', 'unknown')}: {meta.get('said')})"
    strangers = sorted({n for r in records for n in r.nodes if short(n) not in {short(node), *said}})
    if strangers:
        return f"a record belongs to {strangers[0]}, not to {node}"
    if any(r.session != session for r in records):
        return "a record belongs to another session"
    return None
