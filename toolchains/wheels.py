"""Pinned wheels: read a lock file, fetch what it names for any machine, unpack it.

A lock file is a pip requirements file with hashes (``name==version ; marker --hash=sha256:...``), made by ``uv pip
compile --universal --generate-hashes`` from the ``.in`` file next to it. One lock serves all Python versions and both
architectures; markers are evaluated for the *target*, not for the Python that runs this.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from toolchains import processes
from toolchains.processes import ToolchainError

ARCHITECTURES = ("x86_64", "aarch64")

#: Newest glibc that a wheel of ours may require: 2.28 is what Red Hat 8 and Debian 10 have. pip takes each
#: platform tag literally, so every older one is spelt out.
NEWEST_GLIBC = 28


@dataclass(frozen=True)
class Target:
    """The machine that wheels are for: architecture (x86_64, aarch64) and Python version ("3.12")."""

    arch: str
    python: str

    def __post_init__(self) -> None:
        if self.arch not in ARCHITECTURES:
            raise ToolchainError(f"architecture {self.arch!r} is not known; allowed: {', '.join(ARCHITECTURES)}")
        if not re.fullmatch(r"3\.\d+", self.python) or int(self.python[2:]) < 10:
            raise ToolchainError(f"Python {self.python!r} is not served; allowed: 3.10 and later, as 3.N")

    def pip_options(self) -> list[str]:
        """Options with which pip resolves wheels for this machine instead of the one it runs on."""
        options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", self.python]
        for minor in range(NEWEST_GLIBC, 4, -1):
            options += ["--platform", f"manylinux_2_{minor}_{self.arch}"]
        for year in (2014, 2010, 1):
            options += ["--platform", f"manylinux{year}_{self.arch}"]
        return options


@dataclass(frozen=True)
class Pin:
    """One wheel of a lock file; ``marker`` is "" or a condition on the Python version."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    def applies_to(self, target: Target) -> bool:
        """Whether the marker holds for ``target``. Raises ToolchainError for a marker that is not understood."""
        return all(self._holds(clause.strip(), target) for clause in self.marker.split(" and ") if clause.strip())

    def _holds(self, clause: str, target: Target) -> bool:
        match = re.fullmatch(r"python_(?:full_)?version\s*(<|<=|>=|>|==|!=)\s*['\"]3\.(\d+)(?:\.\*)?['\"]", clause)
        if match is None:
            raise ToolchainError(f"lock entry {self.name}: marker {clause!r} is not understood")
        have, bound = int(target.python[2:]), int(match[2])
        return {
            "<": have < bound,
            "<=": have <= bound,
            ">=": have >= bound,
            ">": have > bound,
            "==": have == bound,
            "!=": have != bound,
        }[match[1]]

    def requirement(self) -> str:
        """The line for pip, without the marker, which pip would evaluate for the Python that runs it."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash={h}" for h in self.hashes)])


def normal_name(name: str) -> str:
    """Name of a distribution as the package index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path) -> list[Pin]:
    """All pins of a lock file. Raises ToolchainError with file and entry for an entry without a hash."""
    text = re.sub(r"(?m)^\s*#.*$", "", path.read_text()).replace("\\\n", " ")
    pins = []
    for line in filter(None, (part.strip() for part in text.splitlines())):
        head, *hashes = re.split(r"\s+--hash=", line)
        requirement, _, marker = head.partition(";")
        name, _, version = requirement.strip().partition("==")
        if not version or not hashes:
            raise ToolchainError(f"{path}: {line.split()[0]!r} has no exact version with a hash")
        pins.append(Pin(normal_name(name), version.strip(), marker.strip(), tuple(h.strip() for h in hashes)))
    return pins


def select(pins: Iterable[Pin], names: Iterable[str], target: Target) -> list[Pin]:
    """The pins of ``names`` that apply to ``target``. Raises ToolchainError for a name that is not locked."""
    wanted = [normal_name(name) for name in names]
    found = {pin.name: pin for pin in pins if pin.name in wanted and pin.applies_to(target)}
    for name in wanted:
        if name not in found:
            raise ToolchainError(f"{name} is not in the lock file for Python {target.python}")
    return [found[name] for name in dict.fromkeys(wanted)]


def find_pip() -> list[str]:
    """Command of a working pip: of this Python, else of the checkout's environment (Debian's python3 has none), else of
    another on PATH (a venv made by uv has none)."""
    ours = str(Path(__file__).resolve().parents[1] / ".venv/bin/python")
    for command in ([sys.executable, "-m", "pip"], [ours, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"], ["pip"]):
        if shutil.which(command[0]) is None:
            continue
        if processes.run([*command, "--version"]).returncode == 0:
            return command
    raise ToolchainError(f"no pip ({sys.executable}, {ours}, python3, pip3): make venv, or install python3-pip")


def fetch(pins: Sequence[Pin], target: Target, directory: Path, at_once: int = 1) -> list[Path]:
    """Fetches the wheels of ``pins`` for ``target`` into ``directory``; returns their paths in the same order.

    pip runs for ``at_once`` wheels at a time: 1 for large wheels, so that completed ones stay if a later one fails (pip
    keeps files with the right hash); many for small ones, for which pip's own start costs most. Raises ToolchainError
    with pip's own last words.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pip = find_pip()
    groups = [pins[start : start + at_once] for start in range(0, len(pins), at_once)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda group: _fetch_group(pip, group, target, directory), groups))
    return [find_wheel(directory, pin) for pin in pins]


def _fetch_group(pip: list[str], pins: Sequence[Pin], target: Target, directory: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.writelines(pin.requirement() + "\n" for pin in pins)
        requirements.flush()
        command = [*pip, "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
        command += [
            "--require-hashes",
            "--dest",
            str(directory),
            *target.pip_options(),
            "-r",
            requirements.name,
        ]
        what = ", ".join(f"{pin.name} {pin.version}" for pin in pins)
        done = processes.run(command, what=f"pip download of {what}")
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        if "connection" in done.stderr.lower():
            errors = ["no connection to the package index"]
        raise ToolchainError(f"cannot fetch {what} for {target.arch}, Python {target.python}: {errors[-1].strip()}")


def find_wheel(directory: Path, pin: Pin) -> Path:
    """The wheel of ``pin`` in ``directory``. Raises ToolchainError when it is not there."""
    for path in sorted(directory.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        if normal_name(name) == pin.name and version == pin.version:
            return path
    raise ToolchainError(f"{directory} holds no wheel of {pin.name} {pin.version}")


def unpack(wheel: Path, directory: Path) -> None:
    """Unpack a wheel with the permissions that it records (zipfile's own extraction drops them)."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, directory))
            mode = entry.external_attr >> 16
            if not entry.is_dir() and mode & stat.S_IXUSR:
                os.chmod(path, 0o755)


def command(
    module: str, summary: str, majors: Sequence[str], prefix: str, make: Callable[[str, Path], object],
    arguments: Sequence[str] | None = None,
) -> int:  # fmt: skip
    """The command line of a module that unpacks wheels for a major version of CUDA into a folder: prints `prefix` and
    what `make` returns, or the error; returns the exit status.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=summary)
    parser.add_argument("cuda", help=f"major version of CUDA: {', '.join(majors)}")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    try:
        print(f"{prefix}{make(given.cuda, given.folder.resolve())}")
    except (ToolchainError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
