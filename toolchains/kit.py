"""``make kit``: write a folder from which the suite runs on a machine without network.

The kit contains wheels (ReFrame and what the checks need), an MPI with CUDA transports, ``install.sh`` that creates the
virtual environment from them, MANIFEST (hash and size of every file) and REVISION (the commit, because the target
machine has no .git). docs/kit.md describes how to make, carry and use one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchains import cuda_home, debian, mpi, processes, wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Pin, Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

#: ReFrame requires polars for its own results database, which Tenken does not use; it is larger than all the rest.
LEFT_OUT = frozenset({"polars", "polars-runtime-32"})

#: In addition to Tenken's dependencies, from kit.lock.
TOOLS = ("setuptools", "pip")

#: The extra `build`, part of every kit: nothing runs without it on a machine without cmake.
BUILDERS = ("cmake", "ninja")

#: The CUDA release whose compiler goes into a kit for drivers of that major version.
CUDA_RELEASE = {"12": "12.4", "13": "13.0"}

#: NVSHMEM's bitcode is for compilers other than nvcc and makes up three quarters of the wheel.
NVSHMEM_LEFT_OUT = re.compile(r"\.(?:bc|ltoir|py|pyc)$|/RECORD$")


@dataclass(frozen=True)
class Settings:
    """The target of a kit; each field has the variable KIT_<FIELD> in the environment (``make kit KIT_CUDA=12``)."""

    target: Target
    cuda: str = "13"
    reports: bool = False
    nvcc: str = ""
    nvshmem: bool = False

    @classmethod
    def of(cls, environment: dict[str, str]) -> Settings:
        """Settings of the KIT_* variables. Raises ToolchainError with the variable and the allowed values."""
        known = {"KIT_PYTHON", "KIT_ARCH", "KIT_CUDA", "KIT_REPORTS", "KIT_NVCC", "KIT_NVSHMEM"}
        for name in environment:
            if name.startswith("KIT_") and name not in known:
                raise ToolchainError(f"{name} is not known; allowed: {', '.join(sorted(known))}")
        cuda = environment.get("KIT_CUDA") or "13"
        if cuda not in CUDA_RELEASE:
            raise ToolchainError(f"KIT_CUDA={cuda} is not known; allowed: {', '.join(CUDA_RELEASE)}")
        python = environment.get("KIT_PYTHON") or f"3.{sys.version_info.minor}"
        target = Target(environment.get("KIT_ARCH") or platform.machine(), python)
        nvcc = environment.get("KIT_NVCC") or "0"
        components = {"0": "", "1": "base"}.get(nvcc, nvcc)
        if components:
            cuda_home.parse_components(components, cuda_home.TOOLKITS[CUDA_RELEASE[cuda]])
        return cls(target, cuda, _switch(environment, "KIT_REPORTS"), components, _switch(environment, "KIT_NVSHMEM"))

    @property
    def toolkit(self) -> cuda_home.Toolkit:
        return cuda_home.TOOLKITS[CUDA_RELEASE[self.cuda]]


def _switch(environment: dict[str, str], name: str) -> bool:
    value = environment.get(name) or "0"
    if value not in ("0", "1"):
        raise ToolchainError(f"{name}={value} is not known; allowed: 0, 1")
    return value == "1"


def roots(settings: Settings) -> list[str]:
    """Names of the distributions in pyproject.toml that the kit starts from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    build = project["optional-dependencies"]["build"]
    requirements = [*project["dependencies"], *(one for one in build if _distribution(one) in BUILDERS)]
    if settings.reports:
        requirements += project["optional-dependencies"]["reports"]
    if settings.nvcc:
        requirements += build
    return [_distribution(requirement) for requirement in requirements]


def _distribution(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    if match is None:
        raise ToolchainError(f"pyproject.toml: requirement {requirement!r} has no name")
    return wheels.normal_name(match[0])


def requires(wheel: Path) -> list[str]:
    """Names that a wheel's metadata requires, without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        head = archive.read(metadata).decode().split("\n\n")[0]
    lines = [line.split(":", 1)[1].strip() for line in head.splitlines() if line.startswith("Requires-Dist:")]
    return [_distribution(line) for line in lines if not re.search(r"\bextra\s*==", line)]


def fetch_closure(names: Iterable[str], pins: Sequence[Pin], target: Target, directory: Path) -> None:
    """Fetches wheels of ``names`` and of everything that they require.

    The lock file was resolved for every Python and platform: a requirement that it does not contain for this target is
    not needed there.
    """
    locked = {pin.name for pin in pins if pin.applies_to(target)} - LEFT_OUT
    done: set[str] = set()
    wanted = list(dict.fromkeys(names))
    while wanted:
        paths = wheels.fetch(wheels.select(pins, wanted, target), target, directory, at_once=8)
        done.update(wanted)
        asked = [name for path in paths for name in requires(path)]
        wanted = [name for name in dict.fromkeys(asked) if name in locked and name not in done]


def write_kit(settings: Settings, directory: Path) -> None:
    """Writes the kit to ``directory`` (regenerated; replaced when it is complete). Raises ToolchainError."""
    half = directory.with_name(f".{directory.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    tools = wheels.read_lock(HERE / "kit.lock")
    fetch_closure(roots(settings), wheels.read_lock(ROOT / "requirements.lock"), settings.target, half / "wheels")
    wheels.fetch(wheels.select(tools, TOOLS, settings.target), settings.target, half / "wheels", at_once=8)
    mpi.fetch(settings.target, settings.cuda, half)
    if settings.nvcc:
        _add_compiler(settings, half / "cuda")
    (half / "install.sh").write_text((HERE / "install.sh").read_text())
    (half / "install.sh").chmod(0o755)
    (half / "settings").write_text(
        f"KIT_PYTHON={settings.target.python}\nKIT_ARCH={settings.target.arch}\nKIT_CUDA={settings.cuda}\n"
        f"KIT_CUDA_RELEASE={settings.toolkit.version}\nKIT_COMPONENTS={settings.nvcc}\n"
    )
    (half / "REVISION").write_text(revision() + "\n")
    _finish(half, directory)


def _add_compiler(settings: Settings, directory: Path) -> None:
    toolkit = settings.toolkit
    components = cuda_home.parse_components(settings.nvcc, toolkit)
    pins = wheels.select(wheels.read_lock(toolkit.lock), toolkit.wheels_of(components), settings.target)
    wheels.fetch(pins, settings.target, directory)
    if toolkit.debian_package:
        pin = debian.read_debian_lock(
            HERE / "debian.lock", toolkit.debian_package, settings.target.arch, toolkit.version
        )
        debian.fetch_package(pin, directory)


def write_nvshmem(settings: Settings, directory: Path) -> None:
    """Writes NVSHMEM to a separate folder, without its bitcode (about 50 MB), which no run needs."""
    half = directory.with_name(f".{directory.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    names = settings.toolkit.components["nvshmem"]
    pins = wheels.select(wheels.read_lock(settings.toolkit.lock), names, settings.target)
    wheel = wheels.fetch(pins, settings.target, half / "fetched")[0]
    mpi.repack(wheel, half / "nvshmem.zip", lambda name: not NVSHMEM_LEFT_OUT.search(name))
    shutil.rmtree(half / "fetched")
    (half / "REVISION").write_text(revision() + "\n")
    _finish(half, directory)


def revision() -> str:
    """The commit of this checkout, followed by "-dirty" when files differ; "unknown" outside a checkout."""
    try:
        commit = processes.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"])
        changes = processes.run(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]).stdout
    except OSError:
        return "unknown"
    if commit.returncode:
        return "unknown"
    return commit.stdout.strip() + ("-dirty" if changes.strip() else "")


def files_of(directory: Path) -> list[Path]:
    """All files of a kit except MANIFEST, sorted."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "MANIFEST")


def _finish(half: Path, directory: Path) -> None:
    """Writes MANIFEST (sha256, bytes, path) and puts the folder in its place."""
    shutil.rmtree(half / "cuda/apt", ignore_errors=True)
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {path.relative_to(half)}\n"
        for path in files_of(half)
    ]
    (half / "MANIFEST").write_text("".join(lines))
    shutil.rmtree(directory, ignore_errors=True)
    half.rename(directory)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    print(f"{directory}: {len(lines) + 1} files, {size / 1e6:.1f} MB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="kit",
        description="Write a folder from which the suite runs offline. The variables KIT_PYTHON (3.12), KIT_ARCH "
        "(x86_64, aarch64), KIT_CUDA (12, 13), KIT_REPORTS, KIT_NVCC (1, all, or CUDA components) and KIT_NVSHMEM "
        "select its target.",
    )
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "kit", help="folder to write (default: kit)")
    options = parser.parse_args(arguments)
    try:
        settings = Settings.of({name: value for name, value in os.environ.items() if name.startswith("KIT_")})
        write_kit(settings, options.directory.absolute())
        if settings.nvshmem:
            write_nvshmem(settings, options.directory.absolute().with_name(f"{options.directory.name}-nvshmem"))
    except (ToolchainError, OSError) as error:
        print(f"kit: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
