"""One build per partition and environment, shared by all checks that run there and limited to the programs that they
need."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError
from reframe.frontend.executors import Runner

from tenken.archive import disk
from tenken.machines import loader
from tenken.model import headers
from tenken.paths import PROGRAMS, ROOT, SRC
from tenken.reframe.failure_excerpt import why
from tenken.reframe.machine import Machine
from tenken.reframe.mode import HasMode
from tenken.reframe.outcome import Outcome, known_nodes

#: With fewer free bytes compilers fail.
TOO_FEW_FOR_COMPILERS = 4 << 20
#: File with the build job's output at its end, with its exit status.
_END = "TENKEN-BUILD-END"
#: The header of the build with the revision, copied next to the programs.
REVISION_FILE = "tenken_revision.h"
#: Programs of the checks that this session runs, by partition, environment and whether the check comes first; ReFrame
#: itself does not pass them to a test.
_selected: dict[tuple[str, str, bool], set[str]] = {}
#: Where an image made by toolchains/container has the programs.
IMAGE_BUILT = "/opt/tenken/built"
#: Seconds that a build on the measured machine waits for the check that comes first to begin.
WAIT_FOR_FIRST = 120
#: Seconds that the finished build for that check waits for the others to have configured.
WAIT_FOR_CONFIGURED = 20


@functools.cache
def _builds_on_login(system: str, partition: str) -> bool | None:
    """Whether a partition builds on the login node; None for a system without a file. Cached: ReFrame asks for each of
    some dozen fixtures."""
    return loader.load(system).partition(partition).builds_on_login if system in loader.names() else None


def note_selection(cases: Iterable[Any]) -> None:
    """Register the test cases that are about to run."""
    _selected.clear()
    for case in cases:
        program = getattr(case.check, "program", None)
        if isinstance(program, str) and (PROGRAMS / program / "CMakeLists.txt").is_file():
            first = bool(getattr(case.check, "comes_first", False))
            _selected.setdefault((case.partition.fullname, case.environ.name, first), set()).add(program)


def selected(partition: str, environment: str, first: bool = False) -> list[str]:
    """Programs needed by the checks that run first, or by all others; empty if unknown, in which case all are built."""
    return sorted(_selected.get((partition, environment, first), ()))


def firsts(partition: str) -> list[str]:
    """Environments of a partition that have checks that run first."""
    return sorted(environment for where, environment, first in _selected if first and where == partition)


def first_is_over(partition: str, environment: str) -> Path:
    """The file that signals to the build of all other programs that the first check has been measured."""
    key = f"{partition.replace(':', '-')}-{environment}"
    return ROOT / ".build" / key / f".first-{os.environ.get('TENKEN_SESSION', 'none')}"


def others(partition: str) -> list[str]:
    """Environments of a partition that have checks, but none that runs first. They have separate build folders, so they
    are configured while the programs of the first check are built.
    """
    every = {environment for where, environment, _ in _selected if where == partition}
    return sorted(every - set(firsts(partition)))


def configured_file(partition: str, environment: str) -> Path:
    """The file that signals to the build for the first check that another build has been configured."""
    key = f"{partition.replace(':', '-')}-{environment}"
    return ROOT / ".build" / key / f".configured-{os.environ.get('TENKEN_SESSION', 'none')}"


def wait_for(file: Path, seconds: int) -> str:
    """A line that waits until a file exists, for a limited time."""
    return f"for quarter in $(seq {4 * seconds}); do [ ! -e {shlex.quote(str(file))} ] || break; sleep 0.25; done"


def first_began(over: Path) -> Path:
    """The file with the process number of the job script of the check that comes first, while that runs."""
    return over.with_name(f"{over.name}.began")


def wait_for_first(over: Path, seconds: int) -> str:
    """A line that waits for the check that comes first: for a limited time until it begins, then as long as it runs.
    Otherwise a check that takes longer would measure next to compilers.
    """
    began, ended = shlex.quote(str(first_began(over))), shlex.quote(str(over))
    runs = f'kill -0 "$(cat {began} 2> /dev/null)" 2> /dev/null'
    return f"{wait_for(over, seconds)}; while [ ! -e {ended} ] && {runs}; do sleep 0.25; done"


def under_way(environment: str) -> list[str]:
    """Lines of a build job that mark it as compiling on the machine that is measured."""
    folder = shlex.quote(str(ROOT / ".build" / f".under-way-{os.environ.get('TENKEN_SESSION', 'none')}"))
    return [f"mkdir -p {folder} && echo $$ > {folder}/{shlex.quote(environment)}"]


def all_over(environment: str) -> list[str]:
    """Lines that let a build end only after the session's other builds: a check that started earlier would measure
    while the machine compiles. Builds that were killed are not waited for.
    """
    folder = shlex.quote(str(ROOT / ".build" / f".under-way-{os.environ.get('TENKEN_SESSION', 'none')}"))
    return [
        f"rm -f {folder}/{shlex.quote(environment)}",
        f"for other in {folder}/*; do",
        '  while [ -e "$other" ] && kill -0 "$(cat "$other")" 2> /dev/null; do sleep 1; done',
        "done",
        f"rmdir {folder} 2> /dev/null || :",
    ]


def choose_generator(tree: str) -> list[str]:
    """Lines that choose the build tool, ninja if it starts, otherwise make, and discard the other one's configuration.
    Ninja compiles a program before its libraries are built, make does not.
    """
    return [
        "tenken_generator=${CMAKE_GENERATOR:-Unix Makefiles}",
        '[ -n "$CMAKE_GENERATOR" ] || ! { ninja --version || ninja-build --version; } > /dev/null 2>&1'
        " || tenken_generator=Ninja",
        f'grep -qsx "CMAKE_GENERATOR:INTERNAL=$tenken_generator" {tree}/CMakeCache.txt'
        f" || rm -rf {tree}/CMakeCache.txt {tree}/CMakeFiles",
    ]


def find_cmake() -> str:
    """A line for the job of a build, which some schedulers start with a login shell's PATH: if no module provides
    CMake, the one in the virtual environment is used.
    """
    return f"cmake --version > /dev/null 2>&1 || PATH=$PATH:{shlex.quote(str(Path(sys.executable).parent))}"


def configured(command: str, tree: str) -> str:
    """A configuration line. A failed configuration is removed: CMake would cache for good that a compiler, or a library
    whose module was not loaded, is missing.
    """
    return f"{command} || {{ tenken_failed=$?; rm -rf {tree}/CMakeCache.txt {tree}/CMakeFiles; exit $tenken_failed; }}"


def moved(tree: str) -> str:
    """A shell line that empties a build tree copied with its checkout from another path, since CMake refuses such a
    tree."""
    of = f"$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' {tree}/CMakeCache.txt)"
    found = f'[ ! -e {tree}/CMakeCache.txt ] || [ "{of}" -ef {tree} ]'
    return f"{{ {found} || find {tree} -mindepth 1 -maxdepth 1 ! -name '.*' -exec rm -rf {{}} +; }}"


def built_key(key: str, programs: Sequence[str]) -> str:
    """The name of a build in the folder that the nodes of a campaign share. Builds of other programs (those of the
    check that comes first, or of a campaign file that was extended) are kept apart."""
    return f"{key}-{hashlib.sha256(' '.join(programs).encode()).hexdigest()[:8]}" if programs else key


def lock(descriptor: int) -> str:
    """Shell words that wait for the lock of an open file; file systems without locks have none to wait for."""
    return f"{{ flock {descriptor} || echo 'tenken: built without a lock: let no other session build here' >&2; }}"


def built_once(folder: Path, steps: list[str]) -> list[str]:
    """Shell lines of a build shared by the nodes of a campaign: the first node builds, all others use the result.
    `steps` lock the folder they compile in, which sessions outside of the campaign use as well."""
    here = shlex.quote(str(folder))
    return [
        f"mkdir -p {here}",
        f"[ -e {here}/whole ] || exec 8> {here}/.lock",
        f"[ -e {here}/whole ] || {lock(8)}",
        f"[ -e {here}/whole ] || {{ {' && '.join(steps)} && "
        f"rm -rf {here}/made && mkdir {here}/made && cp -R bin {REVISION_FILE} {here}/made/ && : > {here}/whole; }}",
        f"[ -e bin ] || ln -s {here}/made/bin bin",
        f"[ -e {REVISION_FILE} ] || cp {here}/made/{REVISION_FILE} .",
    ]


def register() -> None:
    """Let ReFrame's runner report what it is about to run."""
    runall = Runner.runall

    def noting(self, testcases, *args, **kwargs):
        note_selection(testcases)
        return runall(self, testcases, *args, **kwargs)

    Runner.runall = noting


def revision(folder: Path) -> str | None:
    """The revision from which the programs in `folder` were built; None if unknown."""
    try:
        text = (folder / REVISION_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'TENKEN_REVISION "([^"\n]+)"', text)
    return found[1] if found else None


class BuildPrograms(rfm.CompileOnlyRegressionTest, HasMode):
    """Builds src/ with CMake and installs the programs into this fixture's stage folder (`bin/`).

    The object files stay in `.build/<system>-<partition>-<environment>` under a lock, so the next session compiles only
    changes. A session runs its own copy of the binaries, which no other build can replace.
    """

    #: Further CMake options, for experiments (`-S cmake_options=...`).
    cmake_options = variable(str, value="")

    #: Jobs of the build: 0 uses the cores of the node that builds.
    build_jobs = variable(int, value=0)

    build_system = "CustomBuild"
    sourcesdir = None
    build_time_limit = "60m"
    #: Whether it builds for the checks that come first.
    for_first = False
    maintainers = ["tenken"]

    @run_after("init")
    def choose_where(self):
        """ReFrame creates the build job during set-up, for the login node or for a node; later would be too late."""
        # a fixture of an environment is made for one partition, by its full name
        system, _, partition = self.valid_systems[0].partition(":") if self.valid_systems else ("", "", "")
        built_on_login = _builds_on_login(system, partition) if partition else None
        if built_on_login is not None:
            self.build_locally = built_on_login

    @run_after("setup")
    def find_machine(self):
        self.machine = Machine.of(self.current_partition, self.current_environ)
        self.machine.require_variables()

    @run_before("compile")
    def set_commands(self):
        if self.machine.partition.image:
            self.take_out_of_image()
            return
        key = f"{self.current_partition.fullname.replace(':', '-')}-{self.current_environ.name}"
        tree = shlex.quote(str(ROOT / ".build" / key))
        jobs = self.build_jobs or os.cpu_count() or 1
        if not self.build_locally:
            self.build_job.num_cpus_per_task = self.machine.cores
            jobs = self.build_jobs or self.machine.cores or jobs
        launchers = ['-DCMAKE_CXX_COMPILER_LAUNCHER="$tenken_launcher"']
        if self.machine.nvcc:
            launchers.append('-DCMAKE_CUDA_COMPILER_LAUNCHER="$tenken_cuda_launcher"')
        # generated here: the node that builds may have no Python, or another architecture
        entries = ROOT / ".build" / "catalogue"
        headers.write(PROGRAMS, entries)
        stated = f"-DTENKEN_CATALOGUE={shlex.quote(str(entries))}"
        options = " ".join([*self.machine.cmake_options(), *launchers, stated, self.cmake_options]).strip()
        # one flock for configure, build and install: another session may build the same tree at this moment
        configure = f'cmake -G "$tenken_generator" -S {shlex.quote(str(SRC))} -B {tree} -DCMAKE_BUILD_TYPE=Release'
        where = (self.current_partition.fullname, self.current_environ.name)
        programs = selected(*where, self.for_first)
        build = f"cmake --build {tree} -j {jobs}"
        apart = self.machine.measured_where_built and not self.for_first
        if self.build_locally and not self.machine.measured_where_built:
            # others may work on a login node; at nice 19 this build would get 1.5 % of a core
            build = f"nice -n 10 {build}"
        install = f'cmake --install {tree} --prefix "$PWD"'
        if programs:
            # one target: make builds several of a command line one after another
            configure += ' -DTENKEN_PROGRAMS="$tenken_programs"'
            build += " --target tenken_programs"
            # parts without a program (a library that is loaded at run time) are a component of that name
            install = f"for name in $tenken_programs Unspecified; do {install} --component $name || exit; done"
        driver = f"sh {shlex.quote(str(ROOT / 'scripts' / 'driver.sh'))} {self.machine.nvcc}"
        over = shlex.quote(str(first_is_over(*where)))
        built = os.environ.get("TENKEN_BUILT")
        # also of another environment, since it is the same machine
        wait = [wait_for_first(first_is_over(where[0], one), WAIT_FOR_FIRST) for one in firsts(where[0]) if apart]
        at_once = bool(self.machine.measured_where_built and not built and firsts(where[0]))
        waiting = others(where[0]) if at_once and self.for_first else []
        configures = at_once and where[1] in others(where[0])
        told = shlex.quote(str(configured_file(*where)))
        steps = [
            *([] if configures else wait),
            *([] if self.build_locally else [find_cmake()]),
            *([driver] if self.machine.nvcc else []),
            f"mkdir -p {tree}",
            *([f"rm -f {tree}/.first-*"] if self.for_first else [f"rm -f {tree}/.configured-*"] if configures else []),
            f"exec 9> {tree}/.lock",
            lock(9),
            moved(tree),
            *([f'tenken_programs="{" ".join(programs)}"'] if programs else []),
            *choose_generator(tree),
            f". {shlex.quote(str(ROOT / 'scripts' / 'ccache.sh'))} {tree} {shlex.quote(self.machine.environment.cxx)} "
            f"{shlex.quote(str(ROOT))}",
            configured(f"{configure} {options}".strip(), tree),
            *([f": > {told}", *wait] if configures else []),
            build,
            install,
            # the revision that the programs must report
            f"cp {tree}/generated/{REVISION_FILE} .",
            *(wait_for(configured_file(where[0], one), WAIT_FOR_CONFIGURED) for one in waiting),
        ]
        if built:
            steps = built_once(Path(built) / built_key(key, programs), steps)
        self.build_system.commands = [  # type: ignore[attr-defined]
            "tenken_build() (",
            *(f"  {step} || exit" for step in steps),
            ")",
            # ReFrame would report only the exit status, so the job ends with 0 and its output is read below
            *(under_way(self.current_environ.name) if apart else []),
            "tenken_build && tenken_status=0 || tenken_status=$?",
            # also after an earlier failure, when there may be no folder
            *([f"{{ : > {told}; }} 2> /dev/null || :"] if configures else []),
            *(all_over(self.current_environ.name) if apart else []),
            # so that nothing waits for a check that will not run
            *([f"[ $tenken_status = 0 ] || : > {over}"] if self.for_first else []),
            f'echo "{_END} $tenken_status"',
        ]

    def take_out_of_image(self):
        """Nothing is compiled: the programs and their revision are copied out of the suite's image."""
        taken = f"cp -R {IMAGE_BUILT}/. ."
        self.modules = [*self.modules, *self.machine.image_modules]  # type: ignore[has-type]
        self.build_system.commands = [  # type: ignore[attr-defined]
            f"{self.machine.in_image(taken, self.stagedir)} && tenken_status=0 || tenken_status=$?",
            f'echo "{_END} $tenken_status"',
        ]

    def last_words(self, status: int | None) -> str:
        """The last output that explains why the build failed, or that the disk of its files or of TMPDIR is full."""
        job = self.build_job
        outcome = Outcome(Path(self.stagedir), job.stdout, job.stderr, None, False)
        # compilers write to standard error, ninja forwards their messages to its own output
        said = outcome.text("stderr") + outcome.text()
        # compilers write there, and CMake reports their failure as something that was not found
        places = (os.environ.get("TMPDIR") or "/tmp", self.stagedir)
        full = next(filter(None, (disk.room(one, TOO_FEW_FOR_COMPILERS) for one in places)), "")
        words = why(said, status) or "it printed nothing"
        return f"{full[2:]}: {words}" if full else words

    @sanity_function
    def programs_are_there(self):
        job = self.build_job
        outcome = Outcome(
            Path(self.stagedir), job.stdout, job.stderr, None, False,
            facts=getattr(job, "scheduler_facts", {}), known=known_nodes(job, (), self.current_partition),
        )  # fmt: skip
        if outcome.unseen is not None:
            raise SanityError(f"the build did not run: {outcome.unseen}")
        said = outcome.text()
        ended = re.search(rf"^{_END} (\d+)$", said, re.M)
        status = int(ended[1]) if ended else None
        if status != 0:
            how = "was cut short" if status is None else f"failed with exit status {status}"
            raise SanityError(f"the build {how}: {self.last_words(status)}")
        folder = os.path.join(self.stagedir, "bin")
        return sn.assert_true(
            os.path.isdir(folder) and os.listdir(folder), f"the build installed no program into {folder}"
        )


class BuildFirst(BuildPrograms):
    """Builds the programs of the checks that run first, so that a first result does not wait for all of them.

    If programs are compiled on the measured machine, the other build waits until that check has ended.
    """

    for_first = True
