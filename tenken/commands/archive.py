"""`tenken archive`: verify its files; remove samples that are no longer needed; export records without names."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.archive import packed as packing
from tenken.archive import records as archive
from tenken.archive import retention, seal, verify
from tenken.errors import ArchiveError

#: Files that are named.
MOST = 20


def register(subparsers: Any) -> None:
    """Adds the subcommand `archive`."""
    parser = subparsers.add_parser(
        "archive",
        help="verify the archive, remove old samples, or export records for a vendor",
        description="Exit status: 0 done, 1 something was left out, a file is not what its manifest lists, or "
        "no manifest lists a file, 2 usage error or archive not readable or writable.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    about = "name the first file that differs from its manifest, is missing or is new (docs/seal.md)"
    check = actions.add_parser("verify", help=about, description=about)
    check.add_argument("--archive", type=packing.argument, metavar="DIR",
                       help="a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)")  # fmt: skip
    check.set_defaults(func=run_verify)
    about = "remove the samples of old records; values, statistics, verdicts and health are retained"
    prune = actions.add_parser("prune", help=about, description=about)
    prune.add_argument(
        "--days", type=_days, default=365.0, metavar="N", help="minimum age of records in days (default: %(default)g)"
    )
    prune.add_argument("--keep", nargs="+", default=[], metavar="SESSION",
                       help="sessions whose samples are retained, such as those of a signed report")  # fmt: skip
    prune.add_argument("--dry-run", action="store_true", help="only print what would be saved")
    prune.add_argument("--archive", type=Path, metavar="DIR", help="default: $TENKEN_ARCHIVE, else perflogs/")
    prune.set_defaults(func=run_prune)
    about = "write records as a .tar.xz for a vendor, with hosts, users, folders, addresses and sessions replaced"
    export = actions.add_parser("export", help=about, description=about)
    export.add_argument("file", type=Path, metavar="FILE.tar.xz", help="file to write; must not exist")
    export.add_argument("--sessions", nargs="+", required=True, metavar="ID", help="`last`: the most recent one")
    export.add_argument("--hosts", nargs="+", default=[], metavar="NAME", help="further names to replace")
    export.add_argument("--users", nargs="+", default=[], metavar="NAME", help="further users to replace")
    export.add_argument(
        "--devices", action="store_true", help="do not replace UUIDs and bus ids, which a vendor needs for a return"
    )
    export.add_argument("--archive", type=packing.argument, metavar="DIR",
                        help="a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)")  # fmt: skip
    export.set_defaults(func=run_export)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 1 <= days <= 36500:
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid age; allowed: 1 to 36500 days")
    return days


def run_verify(arguments: argparse.Namespace) -> int:
    """0; 1 if a file differs from its manifest, or if no manifest lists any file, so that nothing was verified."""
    root = arguments.archive or paths.archive_root()
    if not root.is_dir():
        raise ArchiveError(f"no archive at {root}: name the folder of the archive with --archive")
    try:
        found = verify.check(root)
    except OSError as error:
        raise ArchiveError(f"{error.filename or root}: cannot be read: {error.strerror}") from None
    for line in [*found.faults[:MOST], *found.notes]:
        print(line)
    if len(found.faults) > MOST:
        print(f"... and {len(found.faults) - MOST} more")
    if found.unsealed:
        print(f"{len(found.unsealed)} records are unsealed: they are older than the manifest of their session, or it "
              f"has none; the first: {found.unsealed[0]}")  # fmt: skip
    if found.faults:
        outcome = f"{len(found.faults)} faults"
    else:
        outcome = "no file differs, is missing or is new" if found.sealed or found.logs else "nothing was verified"
    print(f"{found.sealed} files are listed by {len(seal.manifests(root))} manifests: {outcome}")
    if found.logs:
        print(f"{found.logs} logs of node checks have a seal in each line")
    return int(not (found.sealed or found.logs) or bool(found.faults))


def run_prune(arguments: argparse.Namespace) -> int:
    """0; 1 if a record cannot be read or written; it is then unchanged."""
    root = arguments.archive or paths.archive_root()
    if not root.is_dir():
        raise ArchiveError(f"no archive at {root}: name the folder of the archive with --archive")
    damaged: list[str] = []
    count = saved = 0
    for one in retention.prunable(root, arguments.days, datetime.now(timezone.utc), arguments.keep, damaged):
        if not arguments.dry_run:
            retention.prune(one, root)
        count, saved = count + 1, saved + one.saved
    for line in damaged:
        print(f"left unchanged: {line}")
    words = (
        f"{'would lose' if arguments.dry_run else 'lost'} their samples ({saved / 1e6:.1f} MB); every figure is "
        f"retained"
    )
    print(f"{count} records older than {arguments.days:g} days {words}")
    return int(bool(damaged))


def run_export(arguments: argparse.Namespace) -> int:
    """0; 1 if a record of the sessions cannot be read."""
    root, target = arguments.archive or paths.archive_root(), arguments.file
    if not target.name.endswith(packing.SUFFIX):
        raise ArchiveError(f"{target}: the file must end with {packing.SUFFIX}")
    if target.exists():
        raise ArchiveError(f"{target} already exists: choose another name")
    if not root.is_dir():
        raise ArchiveError(f"no archive at {root}: name the folder of the archive with --archive")
    names = [archive.last_session(root) or "last" if name == "last" else name for name in arguments.sessions]
    damaged: list[archive.Damaged] = []
    chosen: list[archive.Record] = []
    for name in dict.fromkeys(names):
        found = list(archive.records(root, name, damaged=damaged))
        if not found:
            raise ArchiveError(f"{root}: no record of session '{name}'")
        chosen += found
    texts = retention.export(chosen, arguments.hosts, arguments.users, not arguments.devices)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = target.open("xb")
        try:
            with stream:
                stream.write(retention.packed(texts))
        except OSError:
            target.unlink()
            raise
    except OSError as error:
        raise ArchiveError(f"{target}: cannot be written: {error.strerror}") from None
    for one in damaged:
        print(f"left out: {one.reason}")
    print(f"{len(texts)} records without names of the site: {target}")
    return int(bool(damaged))
