"""The build itself: unit tests, the revision, adding a program by adding a folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support.builds import build, checked, configure, locked, tool

pytestmark = pytest.mark.build


def test_unit_tests_of_common(build_dir: Path) -> None:
    print(checked([str(build_dir / "bin" / "tenken_unit")]))


def test_nothing_is_built_again_without_a_change(build_dir: Path) -> None:
    with locked(build_dir):
        again = build(build_dir)
    assert "Building CXX" not in again and "Linking" not in again


@pytest.mark.plain
@pytest.mark.slow
def test_a_new_program_is_a_new_folder_and_installs(build_dir: Path, tmp_path: Path) -> None:
    """src/ without its history and with one more folder: it is found, built and installed."""
    source = tmp_path / "tree" / "src"
    shutil.copytree(ROOT / "src", source)
    (tmp_path / "tree" / "REVISION").write_text("v7-of-a-tarball\n")
    programs = source / "programs"
    shutil.copytree(programs / "daxpy", programs / "newcomer")
    for name, of in (("metrics.yaml", "program: {}"), ("daxpy.cpp", '#include "catalogue/{}.h"')):
        file = programs / "newcomer" / name
        file.write_text(file.read_text().replace(of.format("daxpy"), of.format("newcomer")))
    (programs / "newcomer" / "CMakeLists.txt").write_text(
        "tenken_program(newcomer SOURCES daxpy.cpp)\ntenken_program(needs_gpu NEEDS CUDA SOURCES absent.cu)\n"
    )
    for program in programs.iterdir():
        if (program / "metrics.yaml").exists() and program.name != "newcomer":
            shutil.rmtree(program)
    folder = tmp_path / "build"
    # No OpenMP, no tuning, no optimisation: the plainest compiler must be sufficient.
    plain = ("-DTENKEN_NATIVE=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DTENKEN_WERROR=ON")
    configure(folder, *plain, "-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON", source=source)
    build(folder)
    checked([tool("cmake"), "--install", str(folder), "--prefix", str(tmp_path / "installed")])
    installed = sorted(file.name for file in (tmp_path / "installed" / "bin").iterdir())
    assert installed == ["newcomer"]
    program = str(tmp_path / "installed" / "bin" / "newcomer")
    assert checked([program, "--version"]) == "daxpy v7-of-a-tarball\n"
    assert "daxpy: ok" in checked([program, "--repetitions", "2", "--warmup-seconds", "0"])


@pytest.mark.parametrize(("processor", "flag"), [("x86_64", "-march=native"), ("aarch64", "-mcpu=native")])
def test_programs_are_tuned_for_the_processor(tmp_path: Path, processor: str, flag: str) -> None:
    """On Arm, the architecture alone is tuned for a generic core. This compiler takes either flag."""
    compiler = tmp_path / "g++"
    compiler.write_text(
        '#!/bin/sh\nfor one; do shift; case $one in -m*) ;; *) set -- "$@" "$one" ;; esac; done\nexec g++ "$@"\n'
    )
    compiler.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(mini CXX)\nset(CMAKE_SYSTEM_PROCESSOR {processor})\n"
        f'set(TENKEN_NATIVE ON)\ninclude("{ROOT}/src/cmake/tenken_options.cmake")\n'
        'message(STATUS "flags=${cxx_flags};")\n'
    )
    options = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_CXX_COMPILER={compiler}", "-G", "Ninja"]
    none = "-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON"
    said = checked([tool("cmake"), "-S", str(tmp_path), "-B", str(tmp_path / "build"), *options, none])
    (flags,) = [line.split("flags=")[1] for line in said.splitlines() if "flags=" in line]
    assert [one for one in flags.split(";") if "native" in one] == [flag]


#: Output of gcc's offload back end when an object file was compiled for both.
MKOFFLOAD = """#!/bin/sh
case " $* " in *" -c "*) ;; *-fopenmp*-fopenacc*)
  echo "mkoffload: fatal error: either '-fopenacc' or '-fopenmp' must be set" >&2; exit 1 ;;
esac
"""
#: Output of the ptxas of CUDA 13 for the default of gcc's back end, wherever it is on PATH.
PTXAS = """case " $* " in *" -c "*) ;; *-misa=sm_75*) ;; *-fopenacc*)
  echo "ptxas fatal   : Value 'sm_50' is not defined for option 'gpu-name'" >&2; exit 1 ;;
esac
"""
COMPILE = """for one; do shift; case $one in -foffload*) ;; *) set -- "$@" "$one" ;; esac; done
exec g++ "$@"
"""
#: A compiler that offloads, without and with the ptxas of CUDA 13.
OFFLOADING = {
    "offloads": MKOFFLOAD + COMPILE,
    "CUDA 13": MKOFFLOAD + PTXAS + COMPILE,
    "fails": MKOFFLOAD + PTXAS.replace("-misa=sm_75", "-foffload=disable") + COMPILE,
}
#: A gcc that was moved.
MOVED = """#!/bin/sh
case " $* " in *" -c "*) ;; *-fopenacc*) echo "ld: error: could not run lto-wrapper" >&2; exit 1 ;; esac
"""
WITHOUT_OPENMP = "-fno-openmp;-Wno-unknown-pragmas;-fno-stack-protector"
#: Ubuntu's gcc enables this protection, which the back end's compiler refuses.
CF = "-fcf-protection=none"


def openacc(folder: Path, script: str, kind: str = "GNU") -> list[str]:
    """A command that prints the flags of OpenACC, of g++ or of this script in its place."""
    compiler = folder / "offloading-g++"
    compiler.write_text(script)
    compiler.chmod(0o755)
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.21)\nproject(mini CXX)\nset(CMAKE_CXX_COMPILER_ID {kind})\n"
        f'include("{ROOT}/src/cmake/tenken_openacc.cmake")\n'
        'message(STATUS "flags=${TENKEN_OPENACC_FLAGS}|${TENKEN_OPENACC_COMPILE}|${TENKEN_OPENACC_LINK}|")\n'
    )
    options = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_CXX_COMPILER={compiler if script else 'g++'}"]
    return [tool("cmake"), "-S", str(folder), "-B", str(folder / "build"), "-G", "Ninja", *options]


def test_a_compiler_that_does_not_link_openacc_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(openacc(tmp_path, MOVED + COMPILE), capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert (
        done.returncode != 0
        and f"{tmp_path}/offloading-g++ does not link with -fopenacc, neither with OpenMP nor without" in said
    )


@pytest.mark.parametrize(
    ("kind", "offloads", "expected"),
    [
        ("GNU", "", "-fopenacc|||"),
        ("GNU", "offloads", f"-fopenacc|{WITHOUT_OPENMP};{CF}|-no-pie;{CF}|"),
        ("GNU", "CUDA 13", f"-fopenacc|{WITHOUT_OPENMP};{CF}|-no-pie;{CF};-foffload-options=nvptx-none=-misa=sm_75|"),
        ("GNU", "fails", f"-fopenacc|{WITHOUT_OPENMP};{CF}|-no-pie;{CF};-foffload=disable|"),
        ("PGI", "", "-acc|||"),
    ],
)
def test_openacc_sources_leave_openmp_out_where_the_compiler_offloads(
    tmp_path: Path, kind: str, offloads: str, expected: str
) -> None:
    """With it the program could not be linked; without an offload back end OpenMP divides the loops among the cores."""
    assert f"flags={expected}\n" in checked(
        openacc(tmp_path, OFFLOADING.get(offloads, COMPILE) if offloads else "", kind)
    )


#: A stand-in for nvc++ 25.11: the options of its reference manual that a build uses, mapped to gcc's; other options of
#: gcc are refused as nvc++ refuses them. NVIDIA's HPC SDK is in no package registry: the suite was never built with it.
NVCXX = """#!/bin/bash
words=()
for one; do
  case $one in
    -mp) words+=(-fopenmp) ;;
    -acc) words+=(-fopenacc) ;;
    -fast | -Minform=inform | -tp=native | -gpu=* | -A) ;;
    --c++14) words+=(-std=c++14) ;;
    -Wl,* | -fPIC) words+=("$one") ;;
    -f* | -W* | -m* | -pedantic) echo "nvc++-Error-Unknown switch: $one" >&2; exit 1 ;;
    *) words+=("$one") ;;
  esac
done
echo "$*" >> "$0.log"
version="-D__NVCOMPILER_MAJOR__=25 -D__NVCOMPILER_MINOR__=11 -D__NVCOMPILER_PATCHLEVEL__=0"
exec g++ -D__NVCOMPILER=1 $version "${words[@]}"
"""


def test_cmake_gives_nvidias_compiler_its_own_switches(tmp_path: Path) -> None:
    compiler = tmp_path / "nvc++"
    compiler.write_text(NVCXX)
    compiler.chmod(0o755)
    folder = tmp_path / "build"
    options = ("-DTENKEN_OPENACC=ON", "-DCMAKE_CXX_FLAGS_RELEASE=-O0", f"-DCMAKE_CXX_COMPILER={compiler}")
    configure(folder, *options)
    cache, rules = (folder / "CMakeCache.txt").read_text(), (folder / "build.ninja").read_text()
    assert "OpenMP_CXX_FLAGS:STRING=-mp\n" in cache and "TENKEN_OPENACC_FLAGS:STRING=-acc\n" in cache
    # one OpenACC source covers the common options, and the program's own rule covers its link line
    build(folder, "programs/stream/CMakeFiles/stream.dir/openacc_backend.cpp.o")
    compiled = [
        call for call in Path(f"{compiler}.log").read_text().splitlines() if "stream/openacc_backend.cpp" in call
    ]
    assert compiled and all({"-acc", "-mp", "-tp=native"} <= set(call.split()) for call in compiled)
    linked = rules.split("build bin/stream: ")[1].split("\n\n")[0]
    assert "-acc" in linked.split()
