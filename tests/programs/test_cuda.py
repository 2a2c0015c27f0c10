"""Builds with CUDA on a machine without CUDA: old and new architectures, no warning, and the programs' messages."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import pytest

from tenken.paths import ROOT
from tests.support.builds import after_host_build, build, checked, configure, locked, tool
from tests.support.documents import completed
from toolchains import cuda_home, kvikio

pytestmark = [pytest.mark.cuda, pytest.mark.build, pytest.mark.slow, pytest.mark.xdist_group("cuda")]

#: What each toolkit compiles. The sources distinguish architectures from 80 and from 90 on, so the oldest of one
#: toolkit and the newest of the other compile every branch. `make architectures` compiles for every GPU from P100 and
#: Jetson TX2 to B200, with 11.8 too: no wheel has an older nvcc.
ARCHITECTURES = {"12.4": "60", "13.0": "100"}
#: Nothing of it runs on a GPU, so one toolkit may compile without optimization. With the other one, nvcc optimizes
#: device code as for a user.
OPTIMIZATION = {"12.4": "-O0 -Xcicc=-O0 -Xptxas=-O0", "13.0": "-O1"}
if asked := os.environ.get("TENKEN_TEST_CUDA_ARCHITECTURES"):
    every = {"11.8": "60;62;70;72;80;90", "12.4": "60;62;70;72;80;90", "13.0": "80;90;100"}
    ARCHITECTURES = every if asked == "all" else dict.fromkeys(ARCHITECTURES, asked)
    OPTIMIZATION = dict.fromkeys(ARCHITECTURES, "-O3")
#: Programs that are started, by toolkit.
STARTED = [("12.4", "hpl"), ("12.4", "stream"), ("13.0", "stream")]
#: For CUDA 13.0, only the program that is started here is compiled. Of the others, the compilers only read the
#: sources that include a CUDA header: nvcc makes PTX, g++ nothing. What 13.0 removed or changed is an error. All are
#: linked with 12.4.
COMPILED = {"13.0": ["stream"]}
UNMEASURED = str(ROOT / "tests" / "support" / "unmeasured.sh")
QUICK = ("--repetitions", "2", "--warmup-seconds", "0")
NO_DRIVER = "no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded); built for CUDA {}"


@functools.cache
def built(version: str, *targets: str, mpi: str = "") -> Path:
    """The build folder of a toolkit with everything that it can compile, or at least some programs.

    `mpi`: "mpi" for a separate folder, with the MPI of the environment."""
    after_host_build()
    folder = ROOT / ".cache" / "-".join(filter(None, ["tests-src-cuda", version, mpi]))
    with locked(folder):
        wanted = [one for one in ("cublas", "cusolver", "cufile") if one in cuda_home.TOOLKITS[version].components]
        home = cuda_home.make(version, ",".join(wanted))
        if version == "11.8":  # it names gcc 11 as the newest
            os.environ["NVCC_APPEND_FLAGS"] = "-allow-unsupported-compiler"
        # one of them with KvikIO, the other without
        more = [f"-DTENKEN_KVIKIO_ROOT={kvikio.make('12', ROOT / '.cache' / 'kvikio')}"] if version == "12.4" else []
        more = ["-DTENKEN_MPI=ON", "-DTENKEN_TESTS=OFF"] if mpi else more
        if not asked:
            more.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={UNMEASURED}")
        configure(
            folder,
            "-DTENKEN_CUDA=ON",
            "-DTENKEN_WERROR=ON",
            f"-DCMAKE_CUDA_ARCHITECTURES={ARCHITECTURES[version]}",
            f"-DTENKEN_CUDA_OPTIMIZATION={OPTIMIZATION[version]}",
            f"-DCMAKE_CUDA_COMPILER={home}/bin/nvcc",
            f"-DCUDAToolkit_ROOT={home}",
            f"-DCMAKE_LIBRARY_PATH={home}/lib64;{home}/lib64/stubs",
            *more,
        )
        build(folder, *(targets or () if asked or mpi else COMPILED.get(version, targets)))
        if version in COMPILED and not asked:
            read_the_others(folder, COMPILED[version])
    return folder


def of_the_toolkit(folder: Path) -> set[str]:
    """The objects of a finished build for which a header of CUDA was read."""
    with locked(folder):  # another worker may configure it again
        told = checked([tool("ninja"), "-C", str(folder), "-t", "deps"])
    return {one.split(":")[0] for one in told.split("\n\n") if re.search(r"/cuda-[\d.]+/include/", one)}


def read_the_others(folder: Path, targets: list[str]) -> None:
    """Let the compilers read every source with a header of CUDA that these targets do not need, with the options of the
    build."""
    ninja = [tool("ninja"), "-C", str(folder), "-t"]
    needed = set(checked([*ninja, "inputs", *targets]).split())
    affected = of_the_toolkit(built("12.4"))
    commands = []
    for one in json.loads(checked([*ninja, "compdb"])):
        words = shlex.split(one["command"])
        if "-c" not in words or one["output"] in needed or one["output"] not in affected:
            continue
        words = words[words[0] in ("ccache", UNMEASURED) :]
        output = words.index("-o")
        if one["file"].endswith(".cu"):
            # what a toolkit refuses, its front end refuses
            words[words.index("-c")], words[output + 1] = "--ptx", f"{words[output + 1]}.ptx"
            words.append("-Xcicc=-O0")
        else:
            words[output : output + 2], words[words.index("-c")] = [], "-fsyntax-only"
        commands.append(words)
    assert {"--ptx", "-fsyntax-only"} <= {word for words in commands for word in words}
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda words: checked(words, folder), commands))


def test_spmv_compiles_against_the_cusparse_of_cuda_8() -> None:
    """There is a stand-in for its interface: the library itself is in no registry, and never ran with this program."""
    home = cuda_home.make("12.4", "cublas,cusolver,cufile")
    stand_in = ROOT / "tests" / "programs" / "unit" / "doubles" / "cusparse_8"
    strict = ["-Wall", "-Wextra", "-Werror"]
    command = ["g++", "-std=c++14", "-fsyntax-only", "-fopenmp", *strict, "-DSPMV_HAVE_CUSPARSE=1"]
    folders = ["-I", str(stand_in), "-I", str(ROOT / "src"), "-isystem", f"{home}/include"]
    checked([*command, *folders, str(ROOT / "src" / "programs" / "spmv" / "vendor.cpp")])


@pytest.fixture(scope="module", params=sorted(ARCHITECTURES))
def cuda(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """(version of the toolkit, build folder), kept in .cache/ between sessions; a lock keeps parallel workers apart."""
    version: str = request.param
    yield version, built(version)


@pytest.fixture
def run(cuda: tuple[str, Path], tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """run("stream", ...) gives exit code and document of a program built with CUDA."""

    def run_program(program: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "document.json"
        command = [str(cuda[1] / "bin" / program), "--json", str(file), *QUICK, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, completed(file.read_text())

    return run_program


@pytest.mark.parametrize(("cuda", "program"), STARTED, indirect=["cuda"])
def test_programs_need_no_driver_library_to_start(cuda: tuple[str, Path], program: str) -> None:
    libraries = checked(["ldd", str(cuda[1] / "bin" / program)])
    assert "libcuda.so" not in libraries and "libnvidia-ml" not in libraries and "not found" not in libraries
    # The wheels of 12.4 have no static runtime; a program linked with the other one runs without a toolkit.
    assert ("libcudart.so" in libraries) == (cuda[0] == "12.4")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver")
@pytest.mark.parametrize(("cuda", "program"), STARTED, indirect=["cuda"])
def test_a_missing_driver_is_a_failure_with_its_reason(
    run: Callable[..., tuple[int, dict[str, Any]]], cuda: tuple[str, Path], program: str
) -> None:
    code, document = run(program, "--backend", "cuda")
    assert code == 1
    assert (document["status"], document["reason"]) == ("failed", NO_DRIVER.format(cuda[0]))
    assert document["devices"] == [] and document["metrics"] == []


def test_the_host_back_end_is_there_too(run: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    code, document = run("stream", "--backend", "host")
    assert code == 0
    assert document["build"]["backends"] == ["host", "cuda"]
    assert document["parameters"]["gpus"] == "all" and document["parameters"]["at_once"] is False


def test_the_architectures_follow_from_the_compiler(cuda: tuple[str, Path], tmp_path: Path) -> None:
    """Neither given nor detectable on a GPU: a list that suits the toolkit."""
    home = cuda_home.make(cuda[0])
    options = (f"-DCMAKE_CUDA_COMPILER={home}/bin/nvcc", f"-DCUDAToolkit_ROOT={home}")
    configure(tmp_path, "-DTENKEN_CUDA=ON", *options)
    cache = (tmp_path / "CMakeCache.txt").read_text()
    wanted = {"12.4": "60-real;70-real;80-real;90", "13.0": "80-real;90-real;100"}[cuda[0]]
    if shutil.which("nvidia-smi") is None:
        assert f"CMAKE_CUDA_ARCHITECTURES:STRING={wanted}\n" in cache


def test_the_architectures_compiled_reach_every_branch() -> None:
    """A branch for another generation of GPUs would need another architecture here."""
    files = [file for pattern in ("*.h", "*.cuh", "*.cu") for file in (ROOT / "src").rglob(pattern)]
    text = "\n".join(file.read_text() for file in files)
    bounds = {int(bound) for bound in re.findall(r"__CUDA_ARCH__ *>= *(\d+)", text)}
    assert not re.findall(r"__CUDA_ARCH__ *(?:[=!]=|<|>[^=]).*", text), "compared otherwise than with >="
    compiled = [10 * int(one) for names in ARCHITECTURES.values() for one in names.split(";")]
    assert bounds and min(compiled) < min(bounds) and max(compiled) >= max(bounds)


@pytest.mark.parametrize(("compiler", "named"), [("", "nvcc"), ("nvcc", "nvcc"), ("nvcc-9", "nvcc-9")])
def test_a_missing_compiler_is_named(tmp_path: Path, compiler: str, named: str) -> None:
    with pytest.raises(AssertionError, match=f"there is no {named} on PATH, in CUDA_HOME/bin"):
        configure(
            tmp_path, "-DTENKEN_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={compiler}",
            "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF", "-DCMAKE_FIND_USE_CMAKE_PATH=OFF",
        )  # fmt: skip


def test_a_compiler_that_is_not_on_the_path_of_a_user_is_found_in_cuda_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a system file names it: `cuda: nvcc`. The build tree is configured again in every session."""
    home = cuda_home.make("13.0")
    monkeypatch.setenv("CUDA_HOME", str(home))
    for _ in range(2):
        configure(tmp_path, "-DTENKEN_CUDA=ON", "-DCMAKE_CUDA_COMPILER=nvcc", f"-DCUDAToolkit_ROOT={home}")
    assert f"CMAKE_CUDA_COMPILER:FILEPATH={home}/bin/nvcc\n" in (tmp_path / "CMakeCache.txt").read_text()


@pytest.fixture(scope="module")
def driver_double(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine whose driver has no GPU, with the HDF5 of h5py."""
    folder = tmp_path_factory.mktemp("driver")
    source = ROOT / "tests" / "support" / "driver_double.c"
    checked(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / "libcuda.so.1"), str(source)])
    return {**os.environ, **hdf5(), "LD_LIBRARY_PATH": str(folder)}


def hdf5() -> dict[str, str]:
    (library,) = Path(h5py.__file__).parents[1].glob("h5py.libs/libhdf5-*")
    return {"TENKEN_HDF5": str(library)}


def snapshot(cuda: tuple[str, Path], folder: Path, env: dict[str, str], *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of snapshots of host memory by KvikIO, and by POSIX next to it."""
    file = folder / "document.json"
    sizes = ["--min-particles", "1000", "--max-particles", "250000", "--factor", "250", "--threads", "3"]
    brief = ["--repetitions", "3", "--seconds", "0", "--decide-seconds", "0", "--block-bytes", "64Ki"]
    command = [str(cuda[1] / "bin" / "snapshot_io"), "--path", str(folder), "--json", str(file), *sizes, *brief, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    return done.returncode, completed(file.read_text())


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver")
@pytest.mark.parametrize("cuda", ["12.4"], indirect=True)
def test_kvikio_moves_snapshots_where_the_build_was_given_it(
    cuda: tuple[str, Path], tmp_path: Path, driver_double: dict[str, str]
) -> None:
    by_name = ("--methods", "posix,kvikio")
    code, document = snapshot(cuda, tmp_path, driver_double, *by_name)
    assert code == 0 and document["verification"]["passed"], document["reason"]
    assert document["path"]["kvikio"] == "KvikIO 26.10.0, by its own copies (compatibility mode)"
    by_kvikio = [m["at"] | {"name": m["name"]} for m in document["metrics"] if m["at"].get("method") == "kvikio"]
    ways = {(at["name"], at["layout"]) for at in by_kvikio if "layout" in at}
    assert {(name, layout) for name in ("write", "read") for layout in ("asis", "hyperslab")} <= ways
    spoilt = ("--methods", "kvikio", "--directions", "read", "--inject-fault", "element")
    code, document = snapshot(cuda, tmp_path, driver_double, *spoilt)
    assert code == 1 and "method=kvikio" in document["reason"]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver")
@pytest.mark.parametrize("cuda", ["12.4"], indirect=True)
def test_kvikio_without_a_driver_is_left_out_with_its_reason(cuda: tuple[str, Path], tmp_path: Path) -> None:
    code, document = snapshot(cuda, tmp_path, {**os.environ, **hdf5()})
    assert code == 0
    assert "libcuda.so.1: cannot open shared object file" in document["path"]["left_out.kvikio"]
    nowhere = {**os.environ, **hdf5(), "TENKEN_KVIKIO": "/nowhere/libtenken_kvikio.so"}
    code, document = snapshot(cuda, tmp_path, nowhere, "--methods", "kvikio")
    assert code == 3 and "/nowhere/libtenken_kvikio.so: cannot open shared object file" in document["reason"]
