"""The archive of fingerprints: what devices computed, for comparison when a run has no other device.

    <archive>/.fingerprints/<algorithm>-<digest of the key>/<digest of its versions>/<time>-<digest>-<device>.json

One file is one trace of one device, written whole or not at all under a unique name. Any number of processes may write
at once, a kill loses at most its own file, and no file is ever changed. The digest in the name covers the fingerprints;
a file that does not match it has no vote. Wrong results are kept as well as right ones. Each device has one vote, its
first trace that has the step and tensor, and the majority counts (tenken/model/fingerprint.py). The votes of the first
MOST files decide, so that a fleet of thousands does not read as many files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

import msgspec

from tenken.archive import records
from tenken.errors import ArchiveError
from tenken.model import files
from tenken.model.fingerprint import Key, Trace

FOLDER = ".fingerprints"
#: A larger file is not read: 100,000 fingerprints.
MAX_BYTES = 8 << 20
MOST = 200
_NAME = re.compile(r"\d{8}T\d{6}-(?P<digest>[0-9a-f]{16})-(?P<device>.+)\.json")


@dataclass(frozen=True)
class _Entry:
    key: Key
    device: str
    node: str
    run: str
    time: str
    prints: tuple[tuple[int, str, str], ...]
    gpu: int | None = None


_DECODER = msgspec.json.Decoder(_Entry)


@dataclass(frozen=True)
class Known:
    """What the archive has for a key: one trace per device; `damaged`: files without a vote, with the reason."""

    traces: tuple[Trace, ...] = ()
    damaged: tuple[str, ...] = ()


def known(root: Path, key: Key, run: str = "") -> Known:
    """The archived traces of a key, except those of the run being judged."""
    by_device: dict[str, tuple[_Entry, dict[tuple[int, str], str]]] = {}
    damaged = []
    for path in islice(_entries(_folder(root, key)), MOST):
        try:
            entry = _read(path)
            if entry.key != key:
                raise ArchiveError(f"{path}: its key is not that of its folder")
        except ArchiveError as error:
            damaged.append(str(error))
            continue
        if entry.run == run != "":
            continue
        _, said = by_device.setdefault(entry.device, (entry, {}))
        for step, tensor, digest in entry.prints:
            said.setdefault((step, tensor), digest)
    traces = (
        Trace(device, tuple((*place, digest) for place, digest in said.items()), one.node, one.gpu, one.time)
        for device, (one, said) in by_device.items()
    )
    return Known(tuple(traces), tuple(damaged))


def add(root: Path, key: Key, trace: Trace, run: str, now: datetime | None = None) -> Path | None:
    """Stores a trace; None if a file of this device already has it. `run`: a unique name of the run. Raises
    ArchiveError."""
    folder = _folder(root, key)
    device = records.safe_name(trace.device)
    if any(path.name.endswith(f"-{trace.digest}-{device}.json") for path in _entries(folder)):
        return None
    moment = now or datetime.now(timezone.utc)
    entry = _Entry(key, trace.device, trace.node, run, f"{moment:%Y-%m-%dT%H:%M:%SZ}", trace.prints, trace.gpu)
    path = folder / f"{moment:%Y%m%dT%H%M%S}-{trace.digest}-{device}.json"
    records.write_file(path, json.dumps(msgspec.to_builtins(entry)) + "\n")
    return path


def other_versions(root: Path, key: Key) -> list[Key]:
    """Archived keys that differ only in versions, in the order of their first traces."""
    found = []
    for folder in _folder(root, key).parent.glob("*"):
        for path in _entries(folder):
            try:
                entry = _read(path)
            except ArchiveError:
                continue
            found += [(path.name, entry.key)] if entry.key.of_versions != key.of_versions else []
            break
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _folder(root: Path, key: Key) -> Path:
    return root / FOLDER / f"{records.safe_name(key.algorithm)[:80]}-{key.but_versions}" / key.of_versions


def _entries(folder: Path) -> Iterator[Path]:
    """Files in order of time; unfinished ones have another kind of name."""
    yield from (path for path in sorted(folder.glob("*.json")) if _NAME.fullmatch(path.name))


def _read(path: Path) -> _Entry:
    try:
        entry = _DECODER.decode(files.read_text(path, MAX_BYTES))
    except (files.FileError, msgspec.MsgspecError, UnicodeError) as error:
        raise ArchiveError(f"{path}: is not a trace of fingerprints: {error}") from None
    named = _NAME.fullmatch(path.name)
    if named is None or Trace(entry.device, entry.prints).digest != named["digest"]:
        raise ArchiveError(f"{path}: its fingerprints do not match its name")
    return entry
