"""Archives packed into one file: read like a folder, never written.

A packed archive is a `.tar.xz` of an archive's folders and files. It is extracted once into the cache, under the
digest of its bytes, so that a different file of the same name is a different archive:

    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cJf ARCHIVE.tar.xz -C ARCHIVE .
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from tenken.archive import durable
from tenken.errors import ArchiveError
from tenken.paths import CACHE

SUFFIX = ".tar.xz"

#: Maximum unpacked size of a packed archive in bytes: more is a mistake or an attack.
MAX_BYTES = 4 << 30


def folder_of(archive: Path, cache: Path = CACHE / "archives") -> Path:
    """The folder of an archive: itself, or the folder into which a packed one was extracted; extracted files must not
    be written.

    Raises ArchiveError, naming the file, if it is not a .tar.xz, is damaged, or contains anything but plain files and
    folders below itself; nothing of such a file remains in `cache`.
    """
    if not archive.name.endswith(SUFFIX) or not archive.is_file():
        return archive
    try:
        folder = cache / _digest(archive)[:32]
        if folder.is_dir():
            return folder
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f".{folder.name}.lock").open("w") as lock:
            durable.lock(lock.fileno(), folder)  # the second process finds it complete
            if not folder.is_dir():
                unpacked = Path(tempfile.mkdtemp(prefix=".tmp-", dir=cache))
                try:
                    _unpack(archive, unpacked)
                    unpacked.rename(folder)
                except BaseException:
                    shutil.rmtree(unpacked, ignore_errors=True)
                    raise
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise ArchiveError(f"{archive}: not a whole {SUFFIX} file: {error}") from error
    except OSError as error:
        raise ArchiveError(f"{archive}: cannot be extracted to {cache}: {error.strerror or error}") from error
    return folder


def argument(text: str) -> Path:
    """A command's `--archive`: a folder, or a packed archive."""
    try:
        return folder_of(Path(text))
    except ArchiveError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _unpack(archive: Path, folder: Path) -> None:
    """Extracts only plain files and folders below `folder`, whatever the names in the archive are."""
    total = 0
    with tarfile.open(archive, "r:xz") as packed:
        for member in packed:
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts:
                raise ArchiveError(f"{archive}: {member.name!r} points outside the archive")
            if member.isdir():
                (folder / name).mkdir(parents=True, exist_ok=True)
                continue
            content = packed.extractfile(member) if member.isreg() else None
            if content is None:
                raise ArchiveError(f"{archive}: {member.name!r} is neither a regular file nor a directory")
            total += member.size
            if total > MAX_BYTES:
                raise ArchiveError(f"{archive}: extracts to more than {MAX_BYTES >> 30} GiB")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("xb") as file:
                shutil.copyfileobj(content, file)
            target.chmod(0o444)
