"""An acceptance as one tar: contract, report, decision, evidence and the archive on which they are based, with a
manifest.

`MANIFEST.sha256` has a line for every other member, in the format of `sha256sum -c`. The tar is canonical (members in
order, no times, no owners), so `verify` can rewrite it from its content. A changed byte anywhere, also between members,
is detected and reported.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tenken.archive import durable
from tenken.errors import TenkenError

MANIFEST, ARCHIVE, ANSWER, CONTRACT = "MANIFEST.sha256", "archive", "acceptance.json", "contract.yaml"
SUFFIX = ".tar"

#: Maximum size of a bundle in bytes: more is a mistake or an attack.
MAX_BYTES = 8 << 30

_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


class BundleError(TenkenError):
    """A bundle that cannot be written or read: one line."""


@dataclass(frozen=True)
class Member:
    """One file of a bundle: bytes in memory, or a file to read."""

    name: str
    content: bytes | Path

    def bytes(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of several files by name: SHA-256 of the lines `sha256sum` writes for them in order of their names."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    with content.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def archive_digest(digests: Mapping[str, str]) -> str:
    """The digest printed on every page of a report: of all members below `archive/`."""
    return digest_of({name: one for name, one in digests.items() if name.startswith(f"{ARCHIVE}/")})


def write(target: Path, members: list[Member]) -> str:
    """Write a bundle by rename and return the SHA-256 of its manifest. Raises BundleError and leaves nothing behind."""
    digests = {m.name: sha256(m.content) for m in members}
    if len(digests) != len(members):
        raise BundleError(f"{target}: two members have one name")
    manifest = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()
    temporary = target.with_name(f".tmp-{target.name}")
    try:
        with temporary.open("xb") as stream:
            _tar(stream, [Member(MANIFEST, manifest), *sorted(members, key=lambda m: m.name)])
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
        durable.sync_folder(target.parent)
    except OSError as error:
        raise BundleError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return hashlib.sha256(manifest).hexdigest()


def _tar(stream: io.BufferedIOBase | io.BufferedWriter, members: list[Member]) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for member in members:
            content = member.bytes()
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mode = len(content), 0o644
            packed.addfile(entry, io.BytesIO(content))


def read(file: Path) -> dict[str, bytes]:
    """All members of a bundle. Raises BundleError unless it is a tar of regular files with unique names."""
    found: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(file, "r:") as packed:
            for member in packed:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or str(name) != member.name:
                    raise BundleError(f"{file}: {member.name!r} is not a valid name inside a bundle")
                content = packed.extractfile(member) if member.isreg() else None
                if content is None:
                    raise BundleError(f"{file}: {member.name!r} is not a regular file")
                if member.name in found:
                    raise BundleError(f"{file}: {member.name!r} is listed twice")
                total += member.size
                if total > MAX_BYTES:
                    raise BundleError(f"{file}: contains more than {MAX_BYTES >> 30} GiB")
                found[member.name] = content.read()
    except (tarfile.TarError, EOFError) as error:
        raise BundleError(f"{file}: is not a complete tar file: {error}") from None
    except OSError as error:
        raise BundleError(f"{file}: cannot be read: {error.strerror or error}") from None
    return found


def faults(file: Path, members: Mapping[str, bytes]) -> Iterator[str]:
    """Differences from the bundle as written, one line each: members changed, lost or added, and bytes between them."""
    text = members.get(MANIFEST)
    if text is None:
        yield f"{MANIFEST} is missing"
        return
    listed: dict[str, str] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in listed:
            yield f"{MANIFEST}, line {number}: is not a digest followed by a unique name"
            continue
        listed[match[2]] = match[1]
    found = False
    for name in sorted(listed.keys() | members.keys() - {MANIFEST}):
        if name not in members:
            found, fault = True, f"{name} is missing"
        elif name not in listed:
            found, fault = True, f"{name} is not in the manifest"
        elif hashlib.sha256(members[name]).hexdigest() != listed[name]:
            found, fault = True, f"{name} was modified: its SHA-256 is not that of the manifest"
        else:
            continue
        yield fault
    if not found:
        yield from _between(file, members)


def _between(file: Path, members: Mapping[str, bytes]) -> Iterator[str]:
    """The first byte that differs when the same members are written again."""
    again = io.BytesIO()
    rest = [Member(name, content) for name, content in sorted(members.items()) if name != MANIFEST]
    _tar(again, [Member(MANIFEST, members[MANIFEST]), *rest])
    there, wanted = file.read_bytes(), again.getvalue()
    if there == wanted:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(there, wanted, strict=False)) if a != b), min(len(there), len(wanted))
    )
    with tarfile.open(fileobj=io.BytesIO(wanted)) as packed:
        before = [m.name for m in packed if m.offset <= place]
    yield f"byte {place} of the tar was modified, in the head or the padding of {before[-1] if before else MANIFEST}"
