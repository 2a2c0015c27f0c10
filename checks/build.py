"""One build of all programs per partition and environment, shared by every check that runs there."""

from __future__ import annotations

import os
import shlex

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable

from checks.machine import Machine
from checks.mode import HasMode
from tenken.paths import ROOT, SRC


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
        build = f"cmake --build {tree} -j {jobs}"
        if self.build_locally:
            # others work on a login node; where the node builds for itself, host checks already run beside it
            build = f"nice -n 19 {build}"
        install = f'cmake --install {tree} --prefix "$PWD"'
        self.build_system.commands = [  # type: ignore[attr-defined]
            *(
                [f"sh {shlex.quote(str(ROOT / 'scripts' / 'driver.sh'))} {self.machine.nvcc}"]
                if self.machine.nvcc
                else []
            ),
            f"mkdir -p {tree}",
            "(flock 9",
            *(f"  {command} || exit" for command in (configure, build, install)),
            f") 9> {tree}/.lock",
        ]

    @sanity_function
    def programs_are_there(self):
        folder = os.path.join(self.stagedir, "bin")
        return sn.assert_true(
            os.path.isdir(folder) and os.listdir(folder), f"the build installed no program into {folder}"
        )
