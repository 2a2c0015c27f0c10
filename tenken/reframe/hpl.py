"""The bases of HPL's checks: for the suite's solver, and for another implementation in its place."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.judge import verdict
from tenken.parsers import hpl as xhpl
from tenken.reframe.base import RESULT_FILE, TenkenCheck

#: The MPI in this suite's virtual environment is not the one of a site's binary, which (without a launcher) reads the
#: same variables and then searches its components in the wrong place.
WITHOUT_OUR_MPI = (
    'case "$OPAL_PREFIX" in "${VIRTUAL_ENV:-none}"/*) '
    "unset OPAL_PREFIX OMPI_MCA_pml OMPI_MCA_opal_common_ucx_tls OMPI_MCA_opal_common_ucx_devices;; esac"
)


class HplBase(TenkenCheck):
    """TFLOP/s of A x = b by HPL's rules, residual below 16, compared with DGEMM with K = NB in the same job.

    Metrics: `hpl`, `residual`, `dgemm`, `phase`; `library` and `over_library` if the library is timed too.
    """

    program = "hpl"
    tags = {"hpl", "quick", "acceptance", "nightly", "published"}
    #: A job with the built-in program is long: the matrix, five seconds of warm-up, three runs.
    time_limit = "60m"
    fewest = 1

    @run_after("setup")
    def ask_for_repetitions(self):
        # after 1 s of warm-up, three runs in mode quick differed by 5.2 % on an H200, after 5 s by at most 3.1 %; two
        # runs of the size of other modes take less time
        times = 2 if self.tenken_mode == "acceptance" else 3
        self.arguments = {"repetitions": times, "warmup-seconds": 5, **self.arguments}
        self.expected_parameters = {"repetitions": self.arguments["repetitions"], **self.expected_parameters}


class OtherHpl(HplBase):
    """Another implementation in place of the suite's solver. The document is created from its output.

    Metrics: `hpl`, `residual`. Waived if the program is not found.
    """

    subjects = ["ranks"]
    metrics = ["hpl", "residual"]
    ours = False
    cores = 0
    outputs = [RESULT_FILE, "HPL.out", "hpccoutf.txt"]

    #: The command that starts it, e.g. `xhpl` or `apptainer run --nv /apps/hpc-benchmarks.sif ./hpl.sh --dat HPL.dat`.
    #: Empty: that of the variable, from the environment or the system file; else the default's name on PATH.
    hpl_command = variable(str, value="")

    #: Order of the matrix, block, and grid; ranks are P x Q.
    hpl_n = variable(int, value=0)
    hpl_nb = variable(int, value=0)
    hpl_p = variable(int, value=1)
    hpl_q = variable(int, value=1)

    #: Ranks per node; 0: all on one.
    hpl_ranks_per_node = variable(int, value=0)

    #: The short name of the implementation, its usual command, the variable that names another command, input and
    #: output file.
    implementation = variable(str)
    usual_command = variable(str)
    named_by = variable(str)
    input_file = variable(str, type(None), value=None)
    output_file = variable(str, type(None), value=None)

    @run_after("setup")
    def ask_for_repetitions(self):
        """One run, since these programs print one result."""
        self.num_tasks = self.hpl_p * self.hpl_q
        self.num_tasks_per_node = self.hpl_ranks_per_node or self.num_tasks
        if self.num_tasks % self.num_tasks_per_node:
            raise ReframeError(
                f"hpl_ranks_per_node {self.num_tasks_per_node}: allowed: divisors of the {self.num_tasks} ranks of "
                f"hpl_p {self.hpl_p} x hpl_q {self.hpl_q}"
            )
        self.uses_mpi = self.num_tasks > 1
        grid = f"{self.hpl_p}x{self.hpl_q}"
        self.expected_parameters = {
            "implementation": self.implementation, "ranks": self.num_tasks, "n": self.n, "nb": self.nb, "grid": grid,
        }  # fmt: skip
        self.arguments = {}

    @property
    def n(self) -> int:
        return self.hpl_n or {"quick": 2000}.get(self.tenken_mode, 8000)

    @property
    def nb(self) -> int:
        return self.hpl_nb or 192

    def command(self) -> str:
        named = self.machine.system.values(os.environ).get(self.named_by) or os.environ.get(self.named_by)
        return self.hpl_command or named or self.usual_command

    def problem(self) -> str:
        """The content of the input file, if the program reads one."""
        return xhpl.dat(self.n, self.nb, self.hpl_p, self.hpl_q)

    def options(self) -> str:
        """What follows the command."""
        return ""

    def made_of(self, text: str | None, nodes: list[str]) -> dict[str, Any]:
        """The document made from the output; without output, a document without a value. Raises HplFormatError."""
        output = xhpl.Output("none", ()) if text is None else xhpl.parse(text)
        return xhpl.document(
            output, self.implementation, [self.command()], nodes[0], nodes, self.num_tasks, self.n, self.nb,
            self.hpl_p, self.hpl_q,
        )  # fmt: skip

    @run_before("run")
    def set_other_command(self):
        """A separate line reports whether the program was found; ReFrame's own launcher starts the ranks."""
        program = shlex.quote(first_word(self.command(), self.named_by))
        if self.input_file is not None:
            Path(self.stagedir, self.input_file).write_text(self.problem())
        missing = f"{{ echo TENKEN-HPL-MISSING {program}; return 3; }}"
        there = f"tenken_there() {{ command -v {program} >/dev/null || {missing}; }}"
        # a program with one rank may still be linked with MPI, which refuses root
        as_root = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        mpi = as_root if self.uses_mpi else f"{as_root}; {WITHOUT_OUR_MPI}"
        self.prerun_cmds = [*self.prerun_cmds, there, mpi]
        launch = self.ranks_by_function()
        launch = launch if self.uses_mpi else ""
        line = f"tenken_there && {launch} {self.command()} {self.options()}"
        self.executable, self.executable_opts = line.replace("  ", " ").rstrip(), []

    def judgement(self):
        """From the output of the program."""
        text = self.output_text()
        missing = re.search(r"^TENKEN-HPL-MISSING (\S.*)$", text, re.M)

        def made(nodes: list[str]) -> dict[str, Any]:
            found = self.made_of(None if missing else self.printed(text), nodes)
            if missing:
                found.update(status="waived", reason=f"library missing: no {missing[1]} ({self.named_by} may name one)")
            return found

        error = self.write_result(made)
        if error is not None and self.exit_status()[1] is None:  # a job that was cut short is reported first
            failed = verdict.failed(f"{self.where()}: {self.command()}: {error}", self.where())
            return failed, None, str(error), text
        return super().judgement()

    def printed(self, text: str) -> str:
        if self.output_file is None:
            return text
        path = Path(self.stagedir) / self.output_file
        return path.read_text(errors="replace") if path.is_file() else ""


def first_word(command: str, named_by: str) -> str:
    """The program that a command line starts, as the shell splits it. Raises ReframeError if it cannot be split."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ReframeError(f"{named_by}={command!r}: no command line: {error}") from None
    if not words:
        raise ReframeError(f"{named_by}={command!r}: no command")
    return words[0]
