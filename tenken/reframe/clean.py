"""`tenken clean`: removes leftovers of failed and killed sessions. The archive and its pages are never touched."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenken.archive import seal
from tenken.paths import ROOT, archive_root
from tenken.reframe.orphans import KEPT
from tenken.reframe.schedulers.ledger import entries

_DAY_S = 86400
#: A file has this name for less than a minute while it is written; older ones were left by a kill.
_LEFTOVERS = (".tmp-*", ".probe-*")


@dataclass(frozen=True)
class Left:
    """A removable item, its size, and the reason."""

    path: Path
    size: int
    why: str


def find(root: Path, archive: Path, days: float, log_days: float, now: float) -> Iterator[Left]:
    """Stage folders of sessions older than `days` without an open job or a record, partial files older than a day,
    logs of nights older than `log_days`.
    """
    for folder in sorted((root / "stage").glob("*")):
        age = (now - newest(folder)) / _DAY_S
        if folder.is_dir() and age >= days and not any(entries(folder)) and not any(folder.rglob(KEPT)):
            yield Left(folder, size(folder), f"stage folder, {age:.0f} days old")
    # the content of a file that a kill prevented from getting its name
    waiting = {
        temporary
        for manifest in seal.manifests(archive).values()
        for temporary, _ in seal.pending(archive, manifest.read_bytes())
    }
    for place in (archive, root / "output"):
        for pattern in _LEFTOVERS:
            for path in sorted(place.rglob(pattern)):
                if path not in waiting and path.is_file() and now - path.lstat().st_mtime >= _DAY_S:
                    yield Left(path, path.lstat().st_size, "half-written file")
    for path in sorted((root / "output" / "nightly").glob("*.log")):
        age = (now - path.lstat().st_mtime) / _DAY_S
        if age >= log_days:
            yield Left(path, path.lstat().st_size, f"log of a night, {age:.0f} days old")


def newest(folder: Path) -> float:
    """The time of the last write in a folder, in seconds since 1970."""
    return max((path.lstat().st_mtime for path in [folder, *folder.rglob("*")]), default=0.0)


def size(folder: Path) -> int:
    """Total size of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def remove(left: Left) -> None:
    if left.path.is_dir() and not left.path.is_symlink():
        shutil.rmtree(left.path)
    else:
        os.unlink(left.path)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "clean", help="remove leftovers of failed and killed sessions; the archive is not touched"
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--days", type=float, default=7, help="age of stage folders in days (default: %(default)s)")
    parser.add_argument("--log-days", type=float, default=90, help="age of nightly logs in days (default: %(default)s)")
    parser.set_defaults(func=main)


def main(arguments: argparse.Namespace) -> int:
    """0; 1 if something could not be removed."""
    failed, total = 0, 0
    for left in find(ROOT, archive_root(), arguments.days, arguments.log_days, time.time()):
        print(f"{left.size / 1e6:10.1f} MB  {left.why}  {left.path}")
        if not arguments.dry_run:
            try:
                remove(left)
            except OSError as error:
                print(f"not removed: {left.path}: {error.strerror}")
                failed += 1
                continue
        total += left.size
    print(f"{total / 1e6:.1f} MB {'would be' if arguments.dry_run else 'were'} removed")
    return int(failed > 0)
