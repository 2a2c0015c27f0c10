"""The reason for a failure: the relevant lines of a launcher, a program and a build; missing things by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT, unusable
from tenken.reframe import joblines
from tenken.reframe.failure_excerpt import why
from tests.support.reframe import reframe

RULE = "-" * 74
NO_CMAKE = "command 'cmake' was not found: install the package cmake"
REFUSES_ROOT = f"""{RULE}
mpirun has detected an attempt to run as root.

Running as root is *strongly* discouraged as any mistake (e.g., in
defining TMPDIR) or bug can result in catastrophic damage to the OS
file system, leaving your system in an unusable state.
{RULE}
"""
NO_SSH = f"""{RULE}
The value of the MCA parameter "plm_rsh_agent" was set to a path
that could not be found:

  plm_rsh_agent: ssh : rsh

Please either unset the parameter, or check that the path is correct
{RULE}
[vm:06246] [[INVALID],INVALID] FORCE-TERMINATE AT Not found:-13 - error ../../orte/mca/plm/rsh/plm_rsh_component.c(335)
"""
OFFLOAD = """[9/9] Linking CXX executable bin/stream
FAILED: [code=1] bin/stream
lto1: error: '-fcf-protection=full' is not supported for this target
nvptx mkoffload: fatal error: x86_64-linux-gnu-accel-nvptx-none-gcc-13 returned 1 exit status
compilation terminated.
lto-wrapper: fatal error: /usr/libexec/gcc/x86_64-linux-gnu/13//accel/nvptx-none/mkoffload returned 1 exit status
compilation terminated.
/usr/bin/ld: error: lto-wrapper failed
collect2: error: ld returned 1 exit status
ninja: build stopped: subcommand failed.
"""
LOST_RANK = f"""mpi_p2p: cannot allocate 64 MiB on GPU 1: out of memory
{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
{RULE}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[61001,1],0]
  Exit code:    1
{RULE}
"""
COMPILER = """[12/140] Building CXX object lib/base/CMakeFiles/base.dir/health.cpp.o
FAILED: lib/base/CMakeFiles/base.dir/health.cpp.o
/usr/bin/g++ -O3 -c health.cpp
health.cpp:41:9: error: 'nvml' was not declared in this scope
   41 |     if (nvml) {
      |         ^~~~
ninja: build stopped: subcommand failed.
"""


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (REFUSES_ROOT, 1, "mpirun has detected an attempt to run as root. Running as root is"),
        (NO_SSH, 243, "was set to a path that could not be found: plm_rsh_agent: ssh : rsh Please either unset"),
        (LOST_RANK, 1, "mpi_p2p: cannot allocate 64 MiB on GPU 1: out of memory"),
        (COMPILER, 1, "health.cpp:41:9: error: 'nvml' was not declared in this scope"),
        (OFFLOAD, 1, "lto1: error: '-fcf-protection=full' is not supported for this target"),
        ("rfm_job.sh: line 19: cmake: command not found\n", 127, NO_CMAKE),
        ("sh: 1: cmake: not found\n", 127, NO_CMAKE),
        ("rfm_job.sh: Zeile 19: mpirun: Kommando nicht gefunden.\n", 127, "command 'mpirun' was not found: install"),
        ("x: error while loading shared libraries: libcudart.so.13: cannot open\n", 127, "libcudart"),
        ("srun: error: nid2: task 1: Exited with exit code 1\nspmv: no such matrix\n", 1, "spmv: no such matrix"),
        ("one\ntwo\nthree\nfour\n----\n\n", 1, "two | three | four"),
        (f"{RULE}\n{RULE}\n", 1, ""),
        ("", None, ""),
    ],
)  # fmt: skip
def test_the_meaningful_end_is_told(text, status, said):
    found = why(text, status)
    assert found.startswith(said) or (said and said in found), found
    assert RULE not in found and (said or not found)


def test_long_words_are_cut_at_the_side_that_matters():
    frame = f"{RULE}\nbegin {'x ' * 400}\n{RULE}\n"
    assert why(frame).startswith("begin") and len(why(frame)) <= 400
    assert why(f"{'x ' * 400} error at the end").endswith("error at the end")


def shell(lines: list[str], uid: int, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "id").write_text(f"#!/bin/sh\necho {uid}\n")
    (folder / "id").chmod(0o755)
    script = "\n".join([*lines, 'echo "$OMPI_ALLOW_RUN_AS_ROOT $OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"'])
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)


def test_open_mpi_may_start_as_root_and_the_record_says_so(tmp_path):
    as_root, as_user = (shell(joblines.allow_root(), uid, tmp_path).stdout for uid in (0, 1000))
    assert as_root.splitlines()[-1] == "1 1" and joblines.ran_as_root(as_root)
    assert as_user.strip() == "" and not joblines.ran_as_root(as_user)


@pytest.mark.parametrize(
    ("there", "own", "agents"),
    [
        ((), "", "true"),
        (("ssh",), "", ""),
        (("rsh",), "", ""),
        ((), "/opt/agent", "/opt/agent"),
    ],
)
def test_ranks_of_one_node_start_without_ssh(tmp_path, there, own, agents):
    for tool in there:
        (tmp_path / tool).symlink_to("/bin/true")
    script = "\n".join([*joblines.without_ssh(), 'echo "$OMPI_MCA_plm_rsh_agent"'])
    env = {"PATH": str(tmp_path), **({"OMPI_MCA_plm_rsh_agent": own} if own else {})}
    bash = shutil.which("bash") or "/bin/bash"
    done = subprocess.run([bash, "-ec", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{agents}\n"


def path_without(folder: Path, *missing: str) -> str:
    """A PATH with the commands of this machine except some."""
    for place in ("/usr/bin", "/bin", str(Path(sys.executable).parent)):
        for tool in Path(place).iterdir():
            if tool.name not in missing and not (folder / tool.name).exists():
                (folder / tool.name).symlink_to(tool)
    return str(folder)


def test_a_build_without_cmake_names_it_and_its_package(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    done = reframe(
        "-r", "--system", "local", "-n", "Daxpy", folder=tmp_path / "run", checks="checks/daxpy.py",
        PATH=path_without(tools, "cmake"),
    )  # fmt: skip
    assert done.code != 0
    said = "the build failed with exit status 127: command 'cmake' was not found: install the package cmake"
    assert said in done.output, done.output[-2000:]


@pytest.mark.parametrize(
    ("name", "odd"),
    [("a b", "a space"), ('a"b', '"'), ("it's", "'"), ("a:b", ":"), ("$HOME", "$"), ("a\nb", r"'\n'"), ("a,b", ",")],
)  # fmt: skip
def test_a_path_that_reframe_cannot_run_from_is_refused_in_one_line(name, odd, tmp_path):
    folder = tmp_path / name
    (folder / "tenken").mkdir(parents=True)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "tenken/paths.py", folder / "tenken/paths.py")
    shutil.copy(ROOT / "scripts/need.sh", folder / "scripts/need.sh")
    done = subprocess.run(
        ["sh", "scripts/need.sh", "python3", "venv"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "ReFrame cannot run from a path with" in done.stderr and odd in done.stderr
    assert unusable(folder) and not (folder / ".venv").exists()


def test_umlauts_and_other_letters_will_do(tmp_path):
    assert unusable(tmp_path / "Prüfung-点検_1.2") is None


def test_cmake_explains_below_its_line_and_its_first_error_is_the_cause():
    said = """\
-- The CXX compiler identification is unknown
CMake Error in /scratch/a/long/path/CMakeFiles/CMakeScratch/TryCompile-7Vq7yH/CMakeLists.txt:
  The CMAKE_CXX_COMPILER:

    /opt/nowhere/g++

  is not a full path to an existing compiler tool.


CMake Error at FindX.cmake:7 (try_compile):
  Failed to generate test project build system.
Call Stack (most recent call first):
  CMakeLists.txt:28 (include)
-- Configuring incomplete, errors occurred!
"""
    cause = "The CMAKE_CXX_COMPILER: /opt/nowhere/g++ is not a full path to an existing compiler tool."
    assert why(said, 1) == f"CMake Error: {cause}"
    # missing parts found by the job's own lines come first
    assert why("tenken: module gcc is not loaded here\n" + said, 1) == "tenken: module gcc is not loaded here"
