"""`tenken matrices`: matrices of the SuiteSparse collection for `spmv`, selected by a rule and downloaded.

Files are stored as GROUP__NAME.mtx.gz in one folder next to `digests.json`, which contains size and SHA-256 of every
archive ever downloaded there: an archive with another digest than before is rejected.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.paths import ROOT

#: Where the collection is; `--from` names a mirror.
COLLECTION = "https://sparse.tamu.edu"

_CHUNK = 1 << 20


class MatricesError(TenkenError):
    """A matrix cannot be downloaded: one line with name, source and reason."""


def default_folder() -> Path:
    """The default folder of matrices: $TENKEN_MATRICES, otherwise .cache/matrices."""
    return Path(os.environ.get("TENKEN_MATRICES") or ROOT / ".cache" / "matrices")


@dataclass(frozen=True)
class Listed:
    """A line of the collection's index."""

    group: str
    name: str
    rows: int
    columns: int
    entries: int
    real: bool
    pattern_symmetry: float
    kind: str

    @property
    def full_name(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def stratum(self) -> tuple[int, str, str]:
        """Decade of entries, structure (symmetric, nearly, not), and the first two words of the kind of problem."""
        symmetry = "symmetric" if self.pattern_symmetry >= 1 else "near" if self.pattern_symmetry >= 0.5 else "not"
        return len(str(max(self.entries, 1))) - 1, symmetry, " ".join(self.kind.split()[:2])


def parse_index(text: str) -> list[Listed]:
    """The collection's ssstats.csv: number, date, then one line each. Raises MatricesError with the line."""
    lines = text.splitlines()
    found = []
    for number, row in enumerate(csv.reader(lines[2:]), start=3):
        try:
            found.append(
                Listed(
                    group=row[0],
                    name=row[1],
                    rows=int(row[2]),
                    columns=int(row[3]),
                    entries=int(row[4]),
                    real=row[5].strip() == "1",
                    pattern_symmetry=float(row[9]),
                    kind=row[11].strip(),
                )
            )
        except (IndexError, ValueError):
            raise MatricesError(f"ssstats.csv:{number}: not a line of the index: {','.join(row)[:80]}") from None
    if not found:
        raise MatricesError("ssstats.csv: the index lists no matrix")
    return found


def select(listed: Iterable[Listed], least: int, most: int, each: int) -> list[Listed]:
    """The rule that replaces a published list: of all real square matrices with `least` to `most` entries, the `each`
    largest of every stratum (decade of entries x structure x kind), by name if equally large.
    """
    strata: dict[tuple[int, str, str], list[Listed]] = {}
    for one in listed:
        if one.real and one.rows == one.columns and least <= one.entries <= most:
            strata.setdefault(one.stratum, []).append(one)
    chosen: list[Listed] = []
    for members in strata.values():
        chosen += sorted(members, key=lambda m: (-m.entries, m.full_name))[:each]
    return sorted(chosen, key=lambda m: (m.entries, m.full_name))


def _open(url: str, offset: int = 0) -> Any:
    request = urllib.request.Request(url, headers={"Range": f"bytes={offset}-"} if offset else {})
    try:
        return urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        raise MatricesError(f"{url}: the server answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, OSError) as error:
        raise MatricesError(f"{url}: no network, or no such server: {getattr(error, 'reason', error)}") from None


def download(url: str, target: Path) -> None:
    """Download to `target`, resuming TARGET.part of an earlier attempt. Raises MatricesError if the connection breaks
    (the part remains) or the size is not the announced one.
    """
    part = target.with_name(target.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    with _open(url, have) as answer:
        resumed = have > 0 and answer.status == 206
        length = answer.headers.get("Content-Length")
        whole = None if length is None else int(length) + (have if resumed else 0)
        try:
            with part.open("ab" if resumed else "wb") as sink:
                while chunk := answer.read(_CHUNK):
                    sink.write(chunk)
        except OSError as error:
            raise MatricesError(
                f"{url}: interrupted after {part.stat().st_size} bytes ({error}); run it again"
            ) from None
    size = part.stat().st_size
    if whole is not None and size < whole:
        raise MatricesError(f"{url}: interrupted after {size} of {whole} bytes; run it again to continue")
    if whole is not None and size > whole:
        part.unlink()
        raise MatricesError(f"{url}: {size} of {whole} announced bytes were received; run it again")
    part.replace(target)


def digest_of(path: Path) -> str:
    """SHA-256 in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


class Store:
    """The folder of downloaded matrices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "digests.json"

    def file(self, full_name: str) -> Path:
        return self.folder / f"{full_name.replace('/', '__')}.mtx.gz"

    def digests(self) -> dict[str, dict[str, Any]]:
        """Size and digest of every archive seen, by GROUP/NAME."""
        if not self.notes.exists():
            return {}
        try:
            return dict(json.loads(self.notes.read_text(encoding="utf-8")))
        except ValueError as error:
            raise MatricesError(f"{self.notes}: not JSON ({error}); move it away to start again") from None

    def remember(self, full_name: str, archive: Path) -> None:
        """Compare an archive with the one seen under this name, or record it the first time. Raises MatricesError."""
        seen = self.digests()
        now = {"bytes": archive.stat().st_size, "sha256": digest_of(archive)}
        before = seen.setdefault(full_name, now)
        if before != now:
            archive.unlink()
            raise MatricesError(
                f"{full_name}: {now['bytes']} bytes with SHA-256 {now['sha256']}, but previously {before['bytes']} "
                f"bytes with {before['sha256']} ({self.notes})"
            )
        temporary = self.notes.with_suffix(".tmp")
        temporary.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(self.notes)

    def fetch(self, full_name: str, base: str) -> Path:
        """Downloads, compares and unpacks one matrix; an existing one is not replaced. Raises MatricesError."""
        group, slash, name = full_name.partition("/")
        if not (group and slash and name) or "/" in name or ".." in full_name:
            raise MatricesError(f"{full_name!r} is not GROUP/NAME, like HB/1138_bus")
        target = self.file(full_name)
        if target.exists():
            return target
        self.folder.mkdir(parents=True, exist_ok=True)
        archive = self.folder / f"{group}__{name}.tar.gz"
        download(f"{base}/MM/{group}/{name}.tar.gz", archive)
        self.remember(full_name, archive)
        unpack(archive, f"{name}.mtx", target)
        archive.unlink()
        return target


def unpack(archive: Path, member_name: str, target: Path) -> None:
    """Recompresses the only file of this name in a tar.gz. Raises MatricesError."""
    temporary = target.with_name(target.name + ".part")
    try:
        with tarfile.open(archive, "r:gz") as bundle:
            for member in bundle:
                if Path(member.name).name != member_name or not member.isfile():
                    continue
                source = bundle.extractfile(member)
                assert source is not None
                with source, gzip.open(temporary, "wb", compresslevel=1) as sink:
                    shutil.copyfileobj(source, sink, _CHUNK)
                temporary.replace(target)
                return
    except (tarfile.TarError, EOFError, OSError) as error:
        archive.unlink(missing_ok=True)
        raise MatricesError(f"{archive.name}: damaged ({error}); run it again") from None
    raise MatricesError(f"{archive.name}: does not contain {member_name}")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "matrices", help="select and download matrices of the SuiteSparse collection for spmv"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("fetch", "download GROUP/NAME..., resuming an interrupted download"),
        ("select", "print names selected by size and structure from the collection's index"),
        ("list", "list what was downloaded"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--folder", type=Path, default=default_folder(), help="default: %(default)s")
        action.set_defaults(func=run)
        if name == "list":
            continue
        action.add_argument("--from", dest="base", default=COLLECTION, metavar="URL", help="default: %(default)s")
        if name == "fetch":
            action.add_argument("names", nargs="+", metavar="GROUP/NAME")
            continue
        action.add_argument("--index", type=Path, metavar="FILE", help="an existing ssstats.csv")
        action.add_argument("--least", type=int, default=10_000, metavar="N", help="entries (default: %(default)s)")
        action.add_argument("--most", type=int, default=500_000_000, metavar="N", help="entries (default: %(default)s)")
        action.add_argument("--each", type=int, default=1, metavar="N", help="names per stratum (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """0; 1 if a matrix could not be downloaded (the others are)."""
    if arguments.action == "select":
        for one in select(index_of(arguments), arguments.least, arguments.most, arguments.each):
            print(one.full_name)
        return 0
    store = Store(arguments.folder)
    if arguments.action == "list":
        for line in _fetched(store):
            print(line)
        return 0
    failed = 0
    for name in arguments.names:
        try:
            print(f"{name}: {store.fetch(name, arguments.base.rstrip('/'))}")
        except MatricesError as error:
            print(f"tenken: {error}")
            failed += 1
    return int(failed > 0)


def index_of(arguments: argparse.Namespace) -> list[Listed]:
    if arguments.index is None:
        with _open(f"{arguments.base.rstrip('/')}/files/ssstats.csv") as answer:
            return parse_index(answer.read().decode("utf-8"))
    try:
        return parse_index(arguments.index.read_text(encoding="utf-8"))
    except OSError as error:
        raise MatricesError(f"{arguments.index}: cannot be read: {error.strerror}") from None


def _fetched(store: Store) -> Iterator[str]:
    seen = store.digests()
    for name in sorted(seen):
        there = "" if store.file(name).exists() else " (no longer here)"
        yield f"{name}: {seen[name]['bytes']} bytes, SHA-256 {seen[name]['sha256']}{there}"
