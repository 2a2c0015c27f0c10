"""Retention: figures are kept permanently, samples for a limited time; and export of an archive for use outside the
site.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.archive.redact import Redactor
from tenken.errors import ArchiveError, RecordError
from tenken.model import files
from tenken.model.record import MAX_RECORD_BYTES, RESULT_BYTES, Record, parse

#: Key of a record whose samples were removed: when.
PRUNED = "pruned"
#: Key of a record in which words were replaced, and which therefore has no seal.
DERIVED = "derived"
#: Facts of a job that name nodes in a notation of the scheduler (`gpu[01-04]`), or in words of the site's staff.
_OF_THE_SITE = ("nodes", "exec_host", "exec_vnode", "comment", "reason", "not_in_order")


@dataclass(frozen=True)
class Prunable:
    """A record that still has samples: its content, and its text without them; `sealed`: its manifest lists it."""

    path: Path
    session: str
    before: bytes
    text: str
    sealed: bool

    @property
    def saved(self) -> int:
        return len(self.before) - len(self.text.encode())


def prunable(root: Path, days: float, now: datetime, keep: Sequence[str], damaged: list[str]) -> Iterator[Prunable]:
    """Records older than `days` that have samples, except those of the sessions `keep`. Files that are unreadable, or
    that their manifest does not list, are appended to `damaged` and left unchanged.
    """
    limit = f"{now - timedelta(days=days):%Y-%m-%dT%H:%M:%S}"
    manifests = {name: seal.read(path.read_bytes(), name) for name, path in seal.manifests(root).items()}
    for path in archive.paths(root):
        if path.parent.parent.name > limit[:10]:  # by the day in its name, without reading the file
            continue
        try:
            text = files.read_text(path, MAX_RECORD_BYTES)
            record = parse(text, path)
            if record.time >= limit or record.session in keep or not _has_samples(record):
                continue
            before, manifest = text.encode(), manifests.get(archive.safe_name(record.session))
            below = path.relative_to(root).as_posix()
            sealed = manifest is not None and below not in manifest.unsealed
            if sealed and manifest is not None and manifest.files.get(below) != seal.sha256(before):
                raise RecordError("it is not what its manifest lists; `tenken archive verify` names all such files")
            short = without_samples(text, now)
            if _figures(parse(short)) != _figures(record):
                raise RecordError("its figures cannot be reproduced without samples")
        except (files.FileError, RecordError) as error:
            damaged.append(f"{path}: {error}")
            continue
        yield Prunable(path, record.session, before, short, sealed)


def without_samples(text: str, now: datetime) -> str:
    """A record's text in which no metric has samples. Values, statistics and the number of samples are retained."""
    raw = json.loads(text)
    result = raw.get("result") or raw["document"]  # of version 1, as are its metrics
    for metric in result.get("metrics", ()):
        metric["samples"] = []
    for series in result.get("series", ()):
        series.pop("seconds", None)
        series.pop("values", None)
    raw.pop(RESULT_BYTES, None)
    raw[PRUNED] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return json.dumps(raw, allow_nan=False, separators=(",", ":"))


def prune(one: Prunable, root: Path) -> None:
    """Replace a record's file by the shorter one, completely or not at all; the manifest keeps both digests. Raises
    ArchiveError.
    """
    if one.sealed:
        archive.put(root, one.session, one.path, one.text.encode(), instead_of=one.before)
    else:
        archive.write_file(one.path, one.text)


def _has_samples(record: Record) -> bool:
    return record.result is not None and any(m.samples for m in record.result.metrics)


def _figures(record: Record) -> list[object]:
    head: list[object] = [record.check, record.time[:10], record.verdict, [(f.metric, f.kind) for f in record.findings]]
    if record.result is None:
        return head
    return head + [
        (m.id, m.unit, m.direction, m.statistic, m.value, m.best, m.median, m.p5, m.p95, m.count)
        for m in record.result.metrics
    ]


# ---- what may leave the site ----------------------------------------------------------------------------------------


def export(chosen: Iterable[Record], hosts: Iterable[str], users: Iterable[str], devices: bool) -> dict[str, str]:
    """Texts of records by their place in an archive, with names of hosts, users, folders and addresses replaced; with
    `devices`, also those of devices. Raises ArchiveError if a figure changed or a name remains."""
    found = list(chosen)
    names = {name for r in found for name in _hosts(r) if name}
    names |= {name.split(".")[0] for name in names} | set(hosts)
    redactor = Redactor(sorted(names), sorted(users), devices=devices)
    # a session may be named after a campaign or a person
    sessions = {s: f"session{i}" for i, s in enumerate(sorted({r.session for r in found}), 1)}
    # a short name may be part of any word; a longer one must not appear anywhere, not even within a word
    seen_as = [re.escape(n) if len(n) > 4 else _word(n) for n in sorted(names)]
    left = re.compile("|".join(seen_as), re.I) if seen_as else None
    texts: dict[str, str] = {}
    for number, record in enumerate(found, 1):
        raw = json.loads(record.text())
        raw["session"] = sessions[record.session]
        raw.pop(RESULT_BYTES, None)
        for key in ("sha256", *_OF_THE_SITE):  # digests are of texts before names were replaced
            (raw.get("job") or {}).get("facts", {}).pop(key, None)
        raw[DERIVED] = "exported without the site's names; unsealed"
        raw = _in_sentences(raw, re.compile(_word(record.session)), raw["session"])
        text = redactor.text(json.dumps(raw, separators=(",", ":")))
        where = f"{archive.folder_of(record, Path())}/{number:06d}-{raw['session']}.json"
        try:
            same = _figures(parse(text)) == _figures(record)
        except RecordError as error:
            raise ArchiveError(f"{record.path}: cannot be redacted: {error}") from None
        if not same:
            raise ArchiveError(f"{record.path}: redaction would change a value: a host name may equal a word in it")
        seen = left.search(text) if left else None
        if seen is not None:
            raise ArchiveError(f"{record.path}: '{seen[0]}' would remain in the export")
        texts[where] = text
    return texts


def _hosts(record: Record) -> Iterator[str]:
    """Every name of a host that a record states in a field of its own, as written there."""
    yield from record.nodes
    yield from map(str, record.job.facts.get("hosts") or ())
    # what was waived in set-up names the system, whose folder the record is in
    yield from (finding.node for finding in record.findings if finding.node != record.system)
    if record.result is not None:
        yield record.result.host.name
        yield from record.result.placement.nodes


def _in_sentences(value: Any, word: re.Pattern[str], instead: str) -> Any:
    """`value` with a session's name replaced in paths and sentences: a text that is nothing else may be the name of an
    environment, and a key one of the record's own."""
    if isinstance(value, dict):
        return {key: _in_sentences(one, word, instead) for key, one in value.items()}
    if isinstance(value, list):
        return [_in_sentences(one, word, instead) for one in value]
    return word.sub(instead, value) if isinstance(value, str) and not word.fullmatch(value) else value


def _word(name: str) -> str:
    return rf"(?<![\w-]){re.escape(name)}(?![\w-])"


def packed(texts: dict[str, str]) -> bytes:
    """A .tar.xz that is identical for identical texts."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as tar:
        for name, text in sorted(texts.items()):
            content = text.encode()
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return stream.getvalue()
