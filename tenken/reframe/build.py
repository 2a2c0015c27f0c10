"""One build per partition and environment, shared by every check that runs there, of the programs that these need."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError
from reframe.frontend.executors import Runner

from tenken.paths import PROGRAMS, ROOT, SRC
from tenken.reframe.last_words import why
from tenken.reframe.machine import Machine
from tenken.reframe.mode import HasMode

#: What the build's job prints at its end, with its exit status.
_END = "TENKEN-BUILD-END"
#: Programs of the checks that this session runs, by partition and environment; ReFrame itself tells no test of it.
_selected: dict[tuple[str, str], set[str]] = {}


def note_selection(cases: Iterable[Any]) -> None:
    """Take in the test cases that are about to run."""
    _selected.clear()
    for case in cases:
        program = getattr(case.check, "program", None)
        if isinstance(program, str) and (PROGRAMS / program / "CMakeLists.txt").is_file():
            _selected.setdefault((case.partition.fullname, case.environ.name), set()).add(program)


def selected(partition: str, environment: str) -> list[str]:
    """Programs that are needed there; empty: nothing is known, and all are built."""
    return sorted(_selected.get((partition, environment), ()))


def register() -> None:
    """Have ReFrame's runner say what it is about to run."""
    runall = Runner.runall

    def noting(self, testcases, *args, **kwargs):
        note_selection(testcases)
        return runall(self, testcases, *args, **kwargs)

    Runner.runall = noting


class BuildPrograms(rfm.CompileOnlyRegressionTest, HasMode):
    """Builds src/ with CMake and installs the programs into this fixture's stage folder (`bin/`).

    The object files stay in `.build/<system>-<partition>-<environment>` under a lock, so the next session compiles
    only what changed; the binaries that a session runs are its own copy and no other build can replace them.
    """

    #: Further CMake options, for experiments (`-S cmake_options=...`).
    cmake_options = variable(str, value="")

    #: Jobs of the build: 0 takes the cores of the node that builds.
    build_jobs = variable(int, value=0)

    build_system = "CustomBuild"
    sourcesdir = None
    build_time_limit = "60m"
    maintainers = ["tenken"]

    @run_after("setup")
    def find_machine(self):
        self.machine = Machine.of(self.current_partition, self.current_environ)
        self.machine.require_variables()

    @run_before("compile")
    def set_commands(self):
        self.build_locally = self.machine.builds_on_login
        key = f"{self.current_partition.fullname.replace(':', '-')}-{self.current_environ.name}"
        tree = shlex.quote(str(ROOT / ".build" / key))
        jobs = self.build_jobs or os.cpu_count() or 1
        if not self.build_locally:
            self.build_job.num_cpus_per_task = self.machine.cores
            jobs = self.build_jobs or self.machine.cores or jobs
        options = " ".join([*self.machine.cmake_options(), self.cmake_options]).strip()
        # one flock for configure, build and install: another session may build the same tree at this moment
        configure = f"cmake -S {shlex.quote(str(SRC))} -B {tree} -DCMAKE_BUILD_TYPE=Release {options}".strip()
        programs = selected(self.current_partition.fullname, self.current_environ.name)
        build = f"cmake --build {tree} -j {jobs}"
        if self.build_locally:
            # others work on a login node; where the node builds for itself, host checks already run beside it
            build = f"nice -n 19 {build}"
        install = f'cmake --install {tree} --prefix "$PWD"'
        if programs:
            build += " --target $tenken_programs"
            # what belongs to no program (a library that is loaded while running) is a component of that name
            install = f"for name in $tenken_programs Unspecified; do {install} --component $name || exit; done"
        driver = f"sh {shlex.quote(str(ROOT / 'scripts' / 'driver.sh'))} {self.machine.nvcc}"
        steps = [
            *([driver] if self.machine.nvcc else []),
            f"mkdir -p {tree}",
            f"exec 9> {tree}/.lock",
            "flock 9",
            *([f'tenken_programs="{" ".join(programs)}"'] if programs else []),
            configure,
            build,
            install,
        ]
        self.build_system.commands = [  # type: ignore[attr-defined]
            "tenken_build() (",
            *(f"  {step} || exit" for step in steps),
            ")",
            # ReFrame would tell no more than the exit status: the job ends with 0, and what it printed is read below
            "tenken_build && tenken_status=0 || tenken_status=$?",
            f'echo "{_END} $tenken_status"',
        ]

    @sanity_function
    def programs_are_there(self):
        said = Path(self.stagedir, self.build_job.stdout).read_text(errors="replace")
        ended = re.search(rf"^{_END} (\d+)$", said, re.M)
        status = int(ended[1]) if ended else None
        if status != 0:
            errors = Path(self.stagedir, self.build_job.stderr).read_text(errors="replace")
            how = "was cut short" if status is None else f"failed with exit status {status}"
            # compilers speak on standard error, ninja passes what they said on to its own output
            raise SanityError(f"the build {how}: {why(errors + said, status) or 'it printed nothing'}")
        folder = os.path.join(self.stagedir, "bin")
        return sn.assert_true(
            os.path.isdir(folder) and os.listdir(folder), f"the build installed no program into {folder}"
        )
