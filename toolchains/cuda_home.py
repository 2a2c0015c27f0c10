"""Make a CUDA_HOME without an installer: ``python3 -m toolchains.cuda_home 13.0`` prints its path.

CUDA 13.0 is put together from wheels alone. CUDA 12.4 and 11.8 take nvcc from a Debian package, because no wheel of
these contains it, and headers and libraries from wheels. What the wheels lack is added: unversioned names of libraries
for the linker, link stubs of the driver's libraries, ``lib64``, and below 13.0 the static runtime.

The folder is created next to its final place and renamed when it is complete: an incomplete one is never used."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchains import debian, processes, wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Target

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

#: Folder for all downloads; the variable moves it (for example to a disk shared by CI runs).
CACHE_VARIABLE = "TENKEN_CACHE"

#: Written last into a finished home: version, components, pins. If it is missing, the folder is not ours.
MARKER = ".tenken-cuda-home.json"

#: What every program needs: the compiler, the runtime, CCCL (cuda_fp16.h requires <nv/target>), NVML's header.
BASE = ("nvcc", "cudart", "cccl", "nvml")


@dataclass(frozen=True)
class Toolkit:
    """One CUDA version: wheels of each component, and the Debian package that contains nvcc if no wheel does."""

    version: str
    components: dict[str, tuple[str, ...]]
    debian_package: str | None = None

    @property
    def lock(self) -> Path:
        return HERE / f"cuda-{self.version}.lock"

    def wheels_of(self, components: Sequence[str]) -> list[str]:
        """Names of the wheels of ``components``, each once."""
        return list(dict.fromkeys(name for component in components for name in self.components[component]))


def _of_cuda_11(names: str) -> tuple[str, ...]:
    return tuple(f"nvidia-{name}-cu11" for name in names.split())


#: A component lists everything that it needs to link: cuSPARSE and cuSOLVER need nvJitLink, cuSOLVER also cuBLAS.
TOOLKITS = {
    "13.0": Toolkit(
        "13.0",
        {
            "nvcc": ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"),
            "cudart": ("nvidia-cuda-runtime",),
            "cccl": ("nvidia-cuda-cccl",),
            "nvml": ("nvidia-nvml-dev",),
            "nvtx": ("nvidia-nvtx",),
            "cublas": ("nvidia-cublas",),
            "cusparse": ("nvidia-cusparse", "nvidia-nvjitlink"),
            "cusolver": ("nvidia-cusolver", "nvidia-cublas", "nvidia-cusparse", "nvidia-nvjitlink"),
            "cufile": ("nvidia-cufile",),
            "nccl": ("nvidia-nccl-cu13",),
            "nvshmem": ("nvidia-nvshmem-cu13",),
        },
    ),
    "12.4": Toolkit(
        "12.4",
        {
            "nvcc": ("nvidia-cuda-nvcc-cu12",),
            "cudart": ("nvidia-cuda-runtime-cu12",),
            "cccl": ("nvidia-cuda-cccl-cu12",),
            "nvml": ("nvidia-nvml-dev-cu12",),
            "nvtx": ("nvidia-nvtx-cu12",),
            "cublas": ("nvidia-cublas-cu12",),
            "cusparse": ("nvidia-cusparse-cu12", "nvidia-nvjitlink-cu12"),
            "cusolver": (
                "nvidia-cusolver-cu12",
                "nvidia-cublas-cu12",
                "nvidia-cusparse-cu12",
                "nvidia-nvjitlink-cu12",
            ),
            "cufile": ("nvidia-cufile-cu12",),
            "nccl": ("nvidia-nccl-cu12",),
            "nvshmem": ("nvidia-nvshmem-cu12",),
        },
        debian_package="nvidia-cuda-toolkit",
    ),
    "11.8": Toolkit(
        "11.8",
        {
            "nvcc": _of_cuda_11("cuda-nvcc"),
            "cudart": _of_cuda_11("cuda-runtime"),
            "cccl": _of_cuda_11("cuda-cccl"),
            "nvml": _of_cuda_11("nvml-dev"),
            "nvtx": _of_cuda_11("nvtx"),
            "cublas": _of_cuda_11("cublas"),
            "cusparse": _of_cuda_11("cusparse"),
            "cusolver": _of_cuda_11("cusolver cublas cusparse"),
        },
        debian_package="nvidia-cuda-toolkit",
    ),
}

#: nvcc's own settings, relative to the folder of nvcc; those of the Debian package name its installed places instead.
NVCC_PROFILE = """\
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib/stubs" "-L$(TOP)/lib"
"""


def cache() -> Path:
    """Folder for downloads: $TENKEN_CACHE, else .cache in the repository."""
    return Path(os.environ.get(CACHE_VARIABLE) or ROOT / ".cache").resolve()


def parse_components(text: str, toolkit: Toolkit) -> tuple[str, ...]:
    """Components of "base", "all" or a comma-separated list; nvcc and cudart are always included.

    Raises ToolchainError naming what is allowed."""
    chosen: list[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name == "base":
            chosen += BASE
        elif name == "all":
            chosen += [component for component in toolkit.components if component != "nvshmem"]
        elif name in toolkit.components:
            chosen += [*BASE, name]
        else:
            allowed = ", ".join(["base", "all", *toolkit.components])
            raise ToolchainError(f"CUDA component {name!r} is not known; allowed: {allowed}")
    if not chosen:
        raise ToolchainError("no CUDA component asked for; allowed: base, all, or " + ", ".join(toolkit.components))
    return tuple(component for component in toolkit.components if component in chosen)


def make(version: str, components: str = "base", home: Path | None = None, wheelhouse: Path | None = None) -> Path:
    """A CUDA_HOME of ``version`` with at least ``components``; created if it does not exist.

    ``home`` is the folder to create (default: cuda-VERSION in the cache). ``wheelhouse`` contains wheels (and the .deb
    of 11.8 or 12.4) that were fetched before, for a machine without network. Raises ToolchainError.
    """
    if version not in TOOLKITS:
        raise ToolchainError(f"CUDA {version!r} is not known; allowed: {', '.join(TOOLKITS)}")
    toolkit = TOOLKITS[version]
    wanted = parse_components(components, toolkit)
    home = (home or cache() / f"cuda-{version}").absolute()
    home.parent.mkdir(parents=True, exist_ok=True)
    with processes.only_one(home.parent / f".{home.name}.lock"):
        present = components_of(home, toolkit)
        if set(wanted) <= set(present):
            return home
        if home.exists() and not present and not (home / MARKER).exists():
            raise ToolchainError(f"{home} exists and was not made here; remove it or name another folder")
        wanted = tuple(name for name in toolkit.components if name in {*wanted, *present})
        _build(toolkit, wanted, home, wheelhouse)
    return home


def components_of(home: Path, toolkit: Toolkit) -> tuple[str, ...]:
    """Components of a finished home made from today's pins; empty when it is absent or outdated."""
    try:
        marker = json.loads((home / MARKER).read_text())
    except (OSError, ValueError):
        return ()
    components = tuple(marker.get("components", ()))
    if not set(components) <= set(toolkit.components) or marker.get("pins") != _pins(toolkit, components):
        return ()
    return components


def _pins(toolkit: Toolkit, components: Sequence[str]) -> list[str]:
    """The lock file's entries for ``components``: a home is outdated when they have changed."""
    names = toolkit.wheels_of(components)
    return sorted(f"{pin.name}=={pin.version}" for pin in wheels.read_lock(toolkit.lock) if pin.name in names)


def _build(toolkit: Toolkit, components: tuple[str, ...], home: Path, wheelhouse: Path | None) -> None:
    target = Target(platform.machine(), f"3.{max(10, sys.version_info.minor)}")
    pins = wheels.select(wheels.read_lock(toolkit.lock), toolkit.wheels_of(components), target)
    store = wheelhouse or home.parent / f".{home.name}.fetched"
    half = home.parent / f".{home.name}.half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    began = time.monotonic()
    if wheelhouse is None:
        wheels.fetch(pins, target, store)
    archives = [wheels.find_wheel(store, pin) for pin in pins]
    fetched = sum(path.stat().st_size for path in archives)
    for archive in archives:
        _merge_wheel(archive, half)
    if toolkit.debian_package:
        pin = debian.read_debian_lock(HERE / "debian.lock", toolkit.debian_package, target.arch, toolkit.version)
        package = _packaged(wheelhouse, pin) if wheelhouse else debian.fetch_package(pin, store)
        fetched += package.stat().st_size
        _merge_debian_nvcc(package, half)
    _mend(half)
    _prove(half)
    marker = {"version": toolkit.version, "components": list(components), "pins": _pins(toolkit, components)}
    (half / MARKER).write_text(json.dumps(marker, indent=1))
    if home.exists():
        old = home.parent / f".{home.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        home.rename(old)
        half.rename(home)
        shutil.rmtree(old)
    else:
        half.rename(home)
    if not wheelhouse:
        shutil.rmtree(store, ignore_errors=True)
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and not path.is_symlink())
    print(
        f"CUDA {toolkit.version} ({', '.join(components)}): {fetched / 1e6:.0f} MB fetched, "
        f"{size / 1e6:.0f} MB unpacked, {time.monotonic() - began:.0f} s",
        file=sys.stderr,
    )


def _packaged(wheelhouse: Path, pin: debian.DebianPin) -> Path:
    found = sorted(wheelhouse.glob(f"{pin.package}_*_{pin.arch}.deb"))
    if not found:
        raise ToolchainError(f"{wheelhouse} holds no {pin.package} for {pin.arch}, which its nvcc is in")
    return found[-1]


def _merge_wheel(wheel: Path, home: Path) -> None:
    """Merges the folders of a wheel (nvidia/cu13/... or nvidia/<library>/...) into ``home``."""
    scratch = home / ".unpacked"
    wheels.unpack(wheel, scratch)
    for package in sorted((scratch / "nvidia").iterdir()):
        if package.is_dir():
            _move_into(package, home)
    shutil.rmtree(scratch)


def _move_into(source: Path, destination: Path) -> None:
    """Moves a tree onto another one; existing files are replaced, Python's own are left out."""
    destination.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name in ("__init__.py", "__pycache__", ".metadata"):
            continue
        if path.is_dir() and not path.is_symlink():
            _move_into(path, destination / path.name)
        else:
            path.replace(destination / path.name)


def _merge_debian_nvcc(package: Path, home: Path) -> None:
    scratch = home / ".unpacked"
    debian.unpack_package(package, scratch)
    tools, rest = scratch / "usr/bin", scratch / "usr/lib/nvidia-cuda-toolkit"
    (home / "nvvm/bin").mkdir(parents=True, exist_ok=True)
    for name in (
        "cudafe++",
        "fatbinary",
        "nvlink",
        "ptxas",
        "bin2c",
        "cuobjdump",
        "nvdisasm",
        "__nvcc_device_query",
    ):
        if (tools / name).exists():
            (tools / name).replace(home / "bin" / name)
    (rest / "bin/nvcc").replace(home / "bin/nvcc")
    _move_into(rest / "bin/crt", home / "bin/crt")
    (rest / "bin/cicc").replace(home / "nvvm/bin/cicc")
    _move_into(rest / "libdevice", home / "nvvm/libdevice")
    (home / "bin/nvcc.profile").write_text(NVCC_PROFILE)
    shutil.rmtree(scratch)


def _mend(home: Path) -> None:
    """Adds what the wheels lack; the module's docstring has the list."""
    lib = home / "lib"
    (lib / "stubs").mkdir(parents=True, exist_ok=True)
    # nvcc 13 looks in lib, CMake's FindCUDAToolkit in lib64.
    (home / "lib64").symlink_to("lib")
    for path in sorted(lib.glob("lib*.so.[0-9]*")):
        if ".alt." not in path.name:
            plain = lib / (path.name.split(".so.")[0] + ".so")
            if not plain.exists():
                plain.symlink_to(path.name)
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise ToolchainError("no C compiler: set CC or install gcc (nvcc needs g++ too)")
    include = home / "include"
    if (include / "nvml.h").exists():
        names = re.findall(r"\b(nvml[A-Z]\w*) *\(", (include / "nvml.h").read_text(errors="replace"))
        _stub(compiler, names, lib / "stubs/libnvidia-ml.so", "libnvidia-ml.so.1")
    # Preprocessed, because macros rename the driver's functions (cuMemAlloc is cuMemAlloc_v2).
    source = "#include <cuda.h>\n"
    text = _run([compiler, "-E", "-P", f"-I{include}", "-xc", "-"], source)
    text += _run([compiler, "-E", "-dM", f"-I{include}", "-xc", "-"], source)
    _stub(compiler, re.findall(r"\bcu[A-Z]\w*", text), lib / "stubs/libcuda.so", "libcuda.so.1")
    if not (lib / "libcudadevrt.a").exists():
        _empty_archive(compiler, lib / "libcudadevrt.a")
    if not (lib / "libcudart_static.a").exists():
        # Wheels before CUDA 12.9 have no static runtime: a linker script replaces it and names the shared one.
        shared = sorted(lib.glob("libcudart.so.*"))[0].name
        (lib / "libcudart_static.a").write_text(f"/* GNU ld script */\nINPUT ( {shared} )\n")


def _stub(compiler: str, names: list[str], path: Path, soname: str) -> None:
    """A shared library that defines ``names`` as empty functions: for the linker, never for a program to run."""
    source = "".join(f"void {name}(void){{}}\n" for name in sorted(set(names)))
    options = ["-shared", "-fPIC", "-w", "-fno-builtin", "-xc", "-", "-o", str(path), f"-Wl,-soname,{soname}"]
    _run([compiler, *options], source)


def _empty_archive(compiler: str, path: Path) -> None:
    thing = path.with_suffix(".o")
    _run([compiler, "-c", "-fPIC", "-xc", "-", "-o", str(thing)], "int tenken_empty_archive_;\n")
    _run(["ar", "rcs", str(path), str(thing)], "")
    thing.unlink()


def _prove(home: Path) -> None:
    """Compile and link a kernel before the home is declared finished."""
    source = "__global__ void f(int *p) { *p = 1; }\nint main() { f<<<1, 1>>>(nullptr); return 0; }\n"
    program = home / "proof.cu"
    program.write_text(source)
    # the newest compiler that a release names is older than those of systems on which it works
    any_compiler = ["-allow-unsupported-compiler"]
    _run([str(home / "bin/nvcc"), *any_compiler, "-arch=sm_80", "-o", str(home / "proof"), str(program)], "")
    program.unlink()
    (home / "proof").unlink()


def _run(command: list[str], text: str) -> str:
    try:
        done = processes.run(command, text)
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise ToolchainError(f"{Path(command[0]).name} failed: {lines[0] if lines else 'without a word'}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="cuda_home", description="Make a CUDA_HOME and print its path.")
    parser.add_argument("version", choices=sorted(TOOLKITS), help="CUDA version")
    parser.add_argument(
        "--components",
        default="base",
        metavar="LIST",
        help="base (nvcc, cudart, cccl, nvml), all, or names with commas: " + ", ".join(TOOLKITS["13.0"].components),
    )
    parser.add_argument("--home", type=Path, metavar="DIR", help=f"folder to make (default: ${CACHE_VARIABLE}/cuda-N)")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take wheels from here, fetch nothing")
    options = parser.parse_args(arguments)
    try:
        print(make(options.version, options.components, options.home, options.wheels))
    except (ToolchainError, OSError) as error:
        print(f"cuda_home: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
