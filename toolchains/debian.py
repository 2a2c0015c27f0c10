"""Debian packages fetched without installing them and without touching the machine's own apt.

apt keeps all its state (sources, lists, cache) in a private folder, so no root is needed and the machine's
package lists stay as they are. The mirror is the one that the machine's own apt uses.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from toolchains import processes
from toolchains.processes import ToolchainError

#: Where Debian and Ubuntu keep the keys of Debian's archive.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

#: Overrides the mirror, for a machine whose apt has none of Debian's (Ubuntu) or that must use another.
MIRROR_VARIABLE = "TENKEN_DEBIAN_MIRROR"

#: By uname's machine name; sources have none.
DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64", "source": "source"}


@dataclass(frozen=True)
class DebianPin:
    """One line of debian.lock. For a source package (arch ``source``) the hash is that of the upstream archive."""

    suite: str
    component: str
    package: str
    version: str
    arch: str
    sha256: str


def read_debian_lock(path: Path, package: str, arch: str, version: str = "") -> DebianPin:
    """The pin of ``package`` for ``arch`` (x86_64, aarch64, source), of a version that begins with ``version``. Raises
    ToolchainError when there is none."""
    for line in path.read_text().splitlines():
        fields = line.split()
        if line.startswith("#") or not fields:
            continue
        if len(fields) != 6:
            raise ToolchainError(f"{path}: {line!r}: expected: suite component package version arch sha256")
        pin = DebianPin(*fields)
        if pin.package == package and pin.arch == DEBIAN_ARCH[arch] and pin.version.startswith(version):
            return pin
    raise ToolchainError(f"{path} has no {package} {version} for {DEBIAN_ARCH[arch]}")


def mirror() -> str:
    """URI of the Debian archive that this machine's apt uses, or TENKEN_DEBIAN_MIRROR.

    Raises ToolchainError when apt has none.
    """
    told = os.environ.get(MIRROR_VARIABLE)
    if told:
        return told
    if shutil.which("apt-get") is None:
        raise ToolchainError("no apt-get on PATH: nvcc before 13 is taken out of a Debian package, which needs apt")
    done = processes.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    uris = [uri.rstrip("/") for uri in dict.fromkeys(done.stdout.split())]
    for uri in uris:
        if uri.endswith("/debian"):
            return uri
    raise ToolchainError(
        f"apt's sources name no Debian archive (they name {', '.join(uris) or 'nothing'}); "
        f"set {MIRROR_VARIABLE} to the URI of a Debian mirror"
    )


def fetch_package(pin: DebianPin, directory: Path) -> Path:
    """Downloads ``pin`` into ``directory`` and returns the path of the .deb; an existing one is kept.

    apt checks the archive's signature. A package with another hash than the locked one (Debian replaces versions in
    point releases) is accepted with a warning, if the upstream version is the same. Raises ToolchainError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    upstream = pin.version.split("~")[0].split("-")[0]
    for path in directory.glob(f"{pin.package}_{upstream}*_{pin.arch}.deb"):
        if _sha256(path) == pin.sha256:
            return path
    options = _private_apt(pin, directory / "apt")
    # Acquire::Languages: no translations; DEP-11 and Contents targets are not requested either.
    _apt(["apt-get", *options, "update"], f"no package list of {pin.suite} from {mirror()}")
    wanted = f"{pin.package}:{pin.arch}"
    try:
        _apt(["apt-get", *options, "download", f"{wanted}={pin.version}"], "", cwd=directory)
    except ToolchainError:
        _apt(
            ["apt-get", *options, "download", wanted],
            f"cannot fetch {pin.package} {pin.version}",
            cwd=directory,
        )
    found = sorted(directory.glob(f"{pin.package}_*_{pin.arch}.deb"), key=lambda path: path.stat().st_mtime)
    version = found[-1].name.split("_")[1] if found else "nothing"
    if not version.startswith(upstream):
        raise ToolchainError(f"{mirror()} {pin.suite} has {pin.package} {version}, expected {pin.version}")
    if _sha256(found[-1]) != pin.sha256:
        print(f"warning: {found[-1].name} is not the locked package; apt vouches for it", file=sys.stderr)
    shutil.rmtree(directory / "apt", ignore_errors=True)
    return found[-1]


def fetch_source(pin: DebianPin, directory: Path) -> Path:
    """Downloads the upstream archive of the source package ``pin`` into ``directory``; returns its path.

    Raises ToolchainError, also if it differs from the locked one: upstream sources do not change with revisions."""
    directory.mkdir(parents=True, exist_ok=True)
    options = _private_apt(pin, directory / "apt")
    _apt(["apt-get", *options, "update"], f"no source list of {pin.suite} from {mirror()}")
    _apt(
        ["apt-get", *options, "source", "--download-only", "--only-source", f"{pin.package}={pin.version}"],
        f"cannot fetch the source of {pin.package} {pin.version}",
        cwd=directory,
    )
    shutil.rmtree(directory / "apt", ignore_errors=True)
    found = [path for path in directory.glob(f"{pin.package}_*.orig.tar.*") if _sha256(path) == pin.sha256]
    if not found:
        raise ToolchainError(f"{mirror()} {pin.suite} has another source of {pin.package} {pin.version} than locked")
    return found[0]


def unpack_package(deb: Path, directory: Path) -> None:
    """Unpack the files of a .deb (an ar archive that holds data.tar.xz or .gz) below ``directory``.

    Raises ToolchainError for anything else.
    """
    with open(deb, "rb") as stream:
        if stream.read(8) != b"!<arch>\n":
            raise ToolchainError(f"{deb} is not a Debian package")
        while len(header := stream.read(60)) == 60:
            name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
            if name in ("data.tar.xz", "data.tar.gz", "data.tar"):
                with tarfile.open(fileobj=io.BytesIO(stream.read(size))) as archive:
                    if hasattr(tarfile, "tar_filter"):
                        archive.extractall(directory, filter="tar")
                    else:  # Python 3.10.11, 3.11.3 and older
                        archive.extractall(directory)
                return
            stream.seek(size + size % 2, os.SEEK_CUR)
    raise ToolchainError(f"{deb} holds no data.tar that can be read here")


def _private_apt(pin: DebianPin, state: Path) -> list[str]:
    """Creates apt's folders under ``state``; returns the options that confine apt to them."""
    for folder in ("lists/partial", "cache/archives/partial", "sources"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    signed = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    kind = "deb-src" if pin.arch == "source" else "deb"
    (state / "sources" / "tenken.sources").write_text(
        f"Types: {kind}\nURIs: {mirror()}\nSuites: {pin.suite}\nComponents: {pin.component}\n{signed}"
    )
    settings = {
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": state / "sources",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Sandbox::User": "root",
        **({} if pin.arch == "source" else {"APT::Architecture": pin.arch, "APT::Architectures": pin.arch}),
        "APT::Default-Release": "",
        "APT::Update::Post-Invoke-Success": "",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "3",
    }
    return ["-qq", *(f"-o{key}={value}" for key, value in settings.items())]


def _apt(command: list[str], what: str, cwd: Path | None = None) -> None:
    done = processes.run(command, what=f"apt-get {command[-1]}", cwd=cwd)
    errors = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:", "W: Failed"))]
    if done.returncode != 0 or any(line.startswith("W: Failed") for line in errors):
        raise ToolchainError(f"{what}: {errors[-1] if errors else 'apt-get failed without a word'}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
