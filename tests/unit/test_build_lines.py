"""Output of a failed configuration that a build's job keeps, and when it compiles with ccache."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tenken.reframe import build

#: Finds a library once, and then trusts its cache, as CMake does.
CMAKE = """#!/bin/bash
mkdir -p {tree}/CMakeFiles
[ -e {tree}/CMakeCache.txt ] || if [ -e {library} ]; then echo found; else echo missing; fi > {tree}/CMakeCache.txt
grep -qx found {tree}/CMakeCache.txt || exit 7
"""


def test_a_failed_configuration_is_not_kept(tmp_path: Path) -> None:
    tree, library, cmake = tmp_path / "tree", tmp_path / "library", tmp_path / "cmake"
    cmake.write_text(CMAKE.format(tree=tree, library=library))
    cmake.chmod(0o755)

    def configure() -> int:
        line = f"( {build.configured(str(cmake), str(tree))} || exit ); echo $?"
        return int(subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout)

    (tree / "objects").mkdir(parents=True)
    assert configure() == 7, "the status is CMake's own"
    assert not (tree / "CMakeCache.txt").exists() and not (tree / "CMakeFiles").exists()
    assert (tree / "objects").exists()
    library.touch()  # its module is loaded now
    assert configure() == 0 and (tree / "CMakeCache.txt").exists(), "one that is right stays"
    library.unlink()
    assert configure() == 0


@pytest.mark.parametrize(("of", "stays"), [("", True), ("elsewhere", False), ("gone", False), ("link", True)])
def test_a_tree_copied_with_its_checkout_is_emptied(tmp_path: Path, of: str, stays: bool) -> None:
    tree = tmp_path / "it's here" / "tree"
    (tree / "objects").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tree)
    for name in (".lock", "build.ninja"):
        (tree / name).touch()
    (tree / "CMakeCache.txt").write_text(f"A:STRING=b\nCMAKE_CACHEFILE_DIR:INTERNAL={tmp_path / of if of else tree}\n")
    subprocess.run(["bash", "-c", f"{build.moved(shlex.quote(str(tree)))} || exit 9"], check=True)
    assert (tree / ".lock").exists() and (tree / "objects").exists() is (tree / "build.ninja").exists() is stays


def test_other_compilers_of_the_same_name_discard_the_configuration(tmp_path: Path) -> None:
    """A module was exchanged, or CXX names another one: CMake would use the former one for one more build."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "g++").touch(0o755)

    def kept(folder: str) -> bool:
        (tree / "CMakeCache.txt").touch()
        line = f". {ROOT}/scripts/ccache.sh {shlex.quote(str(tree))} g++ / || exit 9"
        path = f"{tmp_path / folder}:{os.environ['PATH']}"
        subprocess.run(["bash", "-c", line], env={"PATH": path}, check=True)
        return (tree / "CMakeCache.txt").exists()

    assert [kept(one) for one in ("old", "old", "new", "new", "old")] == [False, True, False, True, False]


@pytest.mark.parametrize(("brought", "found"), [(None, "ours"), ("exit 0", "module"), ("exit 126", "module")])
def test_a_job_without_cmake_takes_that_of_the_virtual_environment(tmp_path, monkeypatch, brought, found):
    """PBS starts a job with the PATH of a login shell. One that a module provides comes first."""
    for folder in ("venv", "module"):
        (tmp_path / folder).mkdir()
    (tmp_path / "venv" / "cmake").write_text("#!/bin/sh\necho ours\n")
    if brought:
        (tmp_path / "module" / "cmake").write_text(f"#!/bin/sh\necho module\n{brought}\n")
    for tool in tmp_path.glob("*/cmake"):
        tool.chmod(0o755)
    monkeypatch.setattr(build.sys, "executable", str(tmp_path / "venv" / "python"))
    done = subprocess.run(
        ["/bin/bash", "-c", f"{build.find_cmake()} || exit; cmake --build x"], env={"PATH": str(tmp_path / "module")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == f"{found}\n", done.stderr


#: Variables of ccache that a user may have set, and that these tests must not use.
FOREIGN = ("CCACHE_", "CMAKE_")


def launchers(folder: Path, ccache: str | None, cxx: str = "g++", **env: str) -> list[str]:
    """The launchers that scripts/ccache.sh chooses, followed by CCACHE_BASEDIR and CCACHE_EXTRAFILES."""
    tools, tree = folder / "tools", folder / "tree"
    for place in (tools, tree):
        place.mkdir(exist_ok=True)
    for tool in ("bash", "uname", "sed", "grep", "rm", "cat"):
        if not (tools / tool).exists():
            (tools / tool).symlink_to(shutil.which(tool) or "")
    if ccache:
        (tools / "ccache").write_text(f"#!/bin/sh\n{ccache}\n")
        (tools / "ccache").chmod(0o755)
    line = (
        f'. {ROOT}/scripts/ccache.sh {tree} {cxx} /root-of-all; for one in "$tenken_launcher" "$tenken_cuda_launcher" '
        '"$CCACHE_BASEDIR" "$CCACHE_EXTRAFILES"; do echo "$one"; done'
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    done = subprocess.run(
        [str(tools / "bash"), "-c", line], env={**kept, "PATH": str(tools), **env}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert not list(tree.glob(".tried*"))
    return done.stdout.splitlines()


def test_ccache_is_used_where_it_is_and_tells_cpus_apart(tmp_path: Path) -> None:
    ccache = str(tmp_path / "tools" / "ccache")
    found = launchers(tmp_path, "exit 0")
    assert found == [ccache, "", "/root-of-all", str(tmp_path / "tree" / ".cpu")]
    assert (tmp_path / "tree" / ".cpu").read_text().startswith(os.uname().machine)
    assert launchers(tmp_path, "exit 0", "/opt/gcc/bin/g++-12")[0] == ccache


@pytest.mark.parametrize(
    ("ccache", "cxx", "env", "chosen"),
    [
        (None, "g++", {}, ["", ""]),
        ("exit 1", "g++", {}, ["", ""]),  # its folder cannot be written
        ("exit 0", "nvc++", {}, ["", ""]),
        ("exit 0", "g++", {"CMAKE_CXX_COMPILER_LAUNCHER": ""}, ["", ""]),
        ("exit 0", "g++", {"CMAKE_CXX_COMPILER_LAUNCHER": "mine"}, ["mine", ""]),
        ("exit 0", "g++", {"CMAKE_CXX_COMPILER_LAUNCHER": "mine", "CMAKE_CUDA_COMPILER_LAUNCHER": "c"}, ["mine", "c"]),
    ],
    ids=["none", "broken", "another compiler", "not wanted", "chosen", "both chosen"],
)
def test_ccache_is_left_out_where_it_is_not_there_or_not_wanted(tmp_path, ccache, cxx, env, chosen) -> None:
    if not ccache:
        assert launchers(tmp_path, None, cxx, **env)[:2] == chosen
    else:
        found = launchers(tmp_path, ccache, cxx, **env)
        assert found[:2] == chosen and (found[3] == "" or ccache == "exit 1")


def test_another_mpi_is_looked_for_again(tmp_path: Path) -> None:
    """After `module switch` the programs stayed linked with the former MPI: each rank started alone."""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\nlist(APPEND CMAKE_MODULE_PATH {ROOT}/src/cmake)\n"
        'include(tenken_mpi)\nset(MPI_X $ENV{FOUND} CACHE STRING "")\nmessage("found ${MPI_X} ${OTHER}")\n'
    )
    mpicxx = tmp_path / "bin" / "mpicxx"
    mpicxx.parent.mkdir()

    def found(shown: str, now: str) -> str:
        mpicxx.write_text(f"#!/bin/sh\necho {shown}\n")
        mpicxx.chmod(0o755)
        env = {**os.environ, "PATH": f"{mpicxx.parent}:{os.environ['PATH']}", "FOUND": now}
        command = ["cmake", "-S", tmp_path, "-B", tmp_path / "tree", "-DOTHER=kept"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return done.stderr.strip()

    assert found("g++ -lmpi", "openmpi") == "found openmpi kept"
    assert found("g++ -lmpi", "newer") == "found openmpi kept", "the same one stays"
    assert found("g++ -lmpich", "mpich") == "found mpich kept"
