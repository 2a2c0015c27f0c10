"""The base of all checks: it runs one benchmark program and fails closed.

ReFrame by itself passes a test whose metric never appeared, whose unit is wrong, whose value is infinite, whose
program exited with 1 or whose job was killed. Here every run ends in one of five verdicts (tenken/model/verdicts.py),
the record with its document and samples is archived before anything is raised, and a message names the node, the
device, the value, the bound and the miss.
"""

from __future__ import annotations

import os
import secrets
import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import (
    fixture,
    loggable,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import PerformanceError, ReframeError, SanityError

from tenken.archive import records as archive
from tenken.errors import ArchiveError, CatalogueError, ResultError
from tenken.judge import judging
from tenken.judge.criteria import reframe_reference
from tenken.machines.model import NODE_COUNTS, OF_MODE, duration_seconds
from tenken.model import result as results
from tenken.model import verdicts
from tenken.model.catalogue import program as catalogue_program
from tenken.model.judgement import Finding, Judgement
from tenken.model.record import Job, Record
from tenken.model.request import Request
from tenken.paths import archive_root
from tenken.reframe import joblines
from tenken.reframe.build import BuildPrograms, first_is_over
from tenken.reframe.last_words import why
from tenken.reframe.machine import Machine
from tenken.reframe.mode import HasMode

RESULT_FILE = "result.json"
REQUEST_FILE = "request.json"

_KILLED_STATES = ("TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE")


class TenkenCheck(rfm.RunOnlyRegressionTest, HasMode):
    """Runs `program` once on one partition and environment and gives a verdict.

    A derived class names the program, the kind of subjects its metrics come for and the arguments; metrics,
    units, directions and floors come from the program's metrics.yaml, references from the system file.
    """

    #: The benchmark program: a folder of src/.
    #:
    #: :type: :class:`str`
    program = variable(str)

    #: Kinds of subject for which metrics must come: host, gpu, pair, ranks.
    #:
    #: :type: :class:`List[str]`
    #: :default: ``['host']``
    subjects = variable(typ.List[str], value=["host"])

    #: Metrics that must come; None: all of the program's that are not optional and come for `subjects`.
    metrics = variable(typ.List[str], type(None), value=None)

    #: Whether the program is launched by MPI; otherwise it runs once, in the job script itself, on the first node.
    #:
    #: :default: ``False``
    uses_mpi = variable(bool, value=False)

    #: Whether the program uses GPUs although its metrics come for ranks.
    #:
    #: :default: ``False``
    on_gpus = variable(bool, value=False)

    #: Command-line arguments of the program by long name without dashes; True for a flag, None to leave one out.
    arguments = variable(dict, value={})

    #: Parameters that the document must state with these values: proof that the program ran what was asked.
    asked = variable(dict, value={})

    #: Cores of the node that the program uses; None: all that the system file names.
    cores = variable(int, type(None), value=None)

    #: GPUs of the node that the program must see; None: all that the system file names.
    gpus = variable(int, type(None), value=None)

    #: The verdict, as a column of ReFrame's performance log.
    tenken_verdict = variable(str, value="none", loggable=True)

    #: The session, as a column of ReFrame's performance log: the key to the archived record.
    tenken_session = variable(str, value="", loggable=True)

    #: Files that the job writes into its stage folder, removed at its start if an earlier attempt left them; with `*`.
    #:
    #: :default: ``['result.json']``
    outputs = variable(typ.List[str], value=[RESULT_FILE])

    programs = fixture(BuildPrograms, scope="environment")

    #: Whether its program is built before all others (with `programs = fixture(BuildFirst, ...)`): a first finding.
    comes_first = False

    valid_systems = ["*"]
    valid_prog_environs = ["host"]
    num_tasks = 1
    num_tasks_per_node = 1
    exclusive_access = True
    time_limit = "30m"
    require_reference = True
    # the comparison is ReFrame's, the raising ours (raise_misses): its own message would not name the node
    strict_check = False
    maintainers = ["tenken"]

    # -- before the run --

    @run_after("setup")
    def find_machine(self):
        self.token = secrets.token_hex(16)
        self.machine = Machine.of(self.current_partition, self.current_environ)
        self.machine.require_variables()
        if self.cores is None:
            self.cores = self.machine.cores
        if self.gpus is None:
            self.gpus = self.machine.gpus if self.uses_gpus else 0

    @property
    def uses_gpus(self) -> bool:
        return self.on_gpus or "gpu" in self.subjects or "pair" in self.subjects

    @run_after("setup")
    def refuse_a_broken_archive(self):
        if self.is_dry_run():
            return
        try:
            archive.check_writable(archive_root())
        except ArchiveError as error:
            raise ReframeError(str(error)) from None

    @run_before("run")
    def place_on_node(self):
        if self.cores:
            # the ranks of a node share its cores
            self.num_cpus_per_task = max(1, self.cores // (self.num_tasks_per_node or 1))
            self.env_vars.setdefault("OMP_NUM_THREADS", self.num_cpus_per_task)
        self.env_vars.setdefault("OMP_PROC_BIND", "close")
        self.env_vars.setdefault("OMP_PLACES", "cores")
        if self.uses_gpus and self.machine.gpu_resource:
            self.num_gpus_per_node = self.gpus

    @run_before("run")
    def keep_to_the_queues_limit(self):
        """A job that asks for more than its queue allows waits without end."""
        longest = self.machine.partition.time_limit
        if longest:
            asked: Any = self.time_limit  # ReFrame keeps "30m" as seconds
            allowed: Any = duration_seconds(longest)
            self.time_limit = min(asked, allowed) if asked else allowed

    @run_before("run")
    def count_flexible_ranks(self):
        """ReFrame counts the nodes of `num_tasks = 0` only after it has written the launch line: `mpirun -np 0`."""
        if self.num_tasks > 0 or self.is_dry_run():
            return
        at_least = -self.num_tasks or self.num_tasks_per_node
        self.job.num_tasks_per_node = self.num_tasks_per_node
        self.num_tasks = self.job.guess_num_tasks()
        if self.num_tasks < at_least:
            raise ReframeError(f"{self.num_tasks} ranks fit on the nodes that can be had; {at_least} are needed")

    @run_before("run")
    def set_launcher(self):
        """Without MPI none: mpirun and srun would bind a lone process to one core."""
        if self.uses_mpi:
            options = self.machine.launcher_options(self.num_tasks, self.num_tasks_per_node)
            self.job.launcher.options = [*options, joblines.around_rank()]
        else:
            self.job.launcher = getlauncher("local")()

    @run_before("run")
    def set_command(self):
        self.executable = os.path.join(self.programs.stagedir, "bin", self.program)
        self.executable_opts = [*command_line(self.arguments), "--request", REQUEST_FILE, "--json", RESULT_FILE]

    @run_before("run", always_last=True)
    def write_request(self):
        """What the program, or the adapter of a foreign one, repeats the token of."""
        Path(self.stagedir, REQUEST_FILE).write_text(self.request().text(), encoding="utf-8")

    @run_before("run", always_last=True)
    def mark_the_end(self):
        """A killed job may report exit 0: only a job that printed its own exit status ran to its end."""
        before, after = list(self.prerun_cmds), list(self.postrun_cmds)  # type: ignore[has-type]
        begin = self.machine.begin_commands(self.token, self.outputs)
        allowed = joblines.allow_root() if self.uses_mpi else []
        self.prerun_cmds = [*begin, *allowed, *before, *joblines.command_begin()]
        over = first_is_over(self.current_partition.fullname, self.current_environ.name)
        told = [f": > {shlex.quote(str(over))}"] if self.comes_first and self.machine.measured_where_built else []
        self.postrun_cmds = [*joblines.command_end(), *told, *after, *joblines.end()]

    # -- after the run --

    @sanity_function
    def judge_run(self):
        """Judge, archive, then raise what voids the run; numbers that miss are raised after ReFrame logged them."""
        judgement, result, error, text = self.judgement()
        self.judged = judgement
        self.tenken_verdict = judgement.verdict
        self.tenken_session = os.environ.get("TENKEN_SESSION", "")
        self.archive_record(judgement, result, error, text)
        if judgement.verdict == verdicts.WAIVED:
            self.skip(f"WAIVED: {judgement.message()}")
        if judgement.verdict == verdicts.INVALID:
            raise SanityError(f"INVALID: {judgement.message()}")
        if judgement.structural:
            raise SanityError(f"FAIL: {judgement.message()}")
        self.result = result
        return sn.assert_true(True)

    def need_nodes(self, count: int):
        """Of `run_after("init")`: selected only where there are so many nodes."""
        feature = NODE_COUNTS[max(least for least in NODE_COUNTS if least <= count)]
        self.valid_systems = [f"{one} +{feature}" for one in self.valid_systems]

    def only_in_mode(self, mode: str):
        """Of `run_after("init")`: not selected in another mode, which is no waiver: the machine could do it."""
        if self.tenken_mode != mode:
            self.valid_systems = [f"{one} +{OF_MODE[mode]}" for one in self.valid_systems]

    def waive(self, reason: str):
        """What set-up can tell that this machine cannot do: archived as a waiver, then skipped.

        A plain `skip` would leave no record, and what leaves none reads as a failure.
        """
        if not self.is_dry_run():
            self.tenken_session = os.environ.get("TENKEN_SESSION", "")
            judgement = judging.waived(reason, self.current_system.name)
            self.archive_record(judgement, None, None, "")
        self.skip(f"WAIVED: {reason}")

    def request(self) -> Request:
        """What is asked of this attempt."""
        return Request(
            token=self.token,
            program=self.program,
            check=self.display_name,
            subjects=tuple(self.subjects),
            metrics=None if self.metrics is None else tuple(self.metrics),
            parameters=dict(self.asked),
            gpus=self.gpus or None,
            cores=self.cores or None,
            ranks=self.num_tasks,
            arguments=tuple(command_line(self.arguments)),
            mode=self.tenken_mode,
        )

    def judgement(self) -> tuple[Judgement, results.Result | None, str | None, str]:
        """The judgement of the run, the result (or None), why there is none, and its raw text then."""
        path = Path(self.stagedir) / RESULT_FILE
        result, error, text = None, None, ""
        try:
            result = results.load(path)
        except ResultError as raised:
            error = str(raised)
            if path.is_file() and not path.is_symlink():
                with path.open(encoding="utf-8", errors="replace") as stream:
                    text = stream.read(100_000)
        status, killed = self.exit_status()
        where = self.where()
        if killed:
            return judging.failed(f"{where}: {killed}", where), result, error, text
        if result is None:
            what = f"{self.program} exited with {status}: {error}{self.last_words(status)}"
            return judging.failed(f"{where}: {what}", where), result, error, text
        try:
            declared = catalogue_program(self.program)
        except CatalogueError as raised:
            return judging.failed(f"{where}: {raised}", where), result, error, text
        judgement = judging.judge(result, declared, self.request(), self.machine.facts(), status)
        return judging.extended(judgement, self.attempts()), result, error, text

    def exit_status(self) -> tuple[int | None, str | None]:
        """The program's exit status as the job printed it, and what voids the job: cut short, or not where asked."""
        state = str(self.job.state or "")
        told = self.told()
        if any(bad in state.upper() for bad in _KILLED_STATES):
            return None, f"the job did not run to its end: state {state}"
        if told.status is None:
            return None, (
                f"the job did not run to its end: no end mark in its output "
                f"(state {state or 'unknown'}, exit code {self.job.exitcode}){self.last_words()}"
            )
        if self.uses_mpi and told.status == 0 and (fault := told.placement_fault(self.num_tasks)):
            return told.status, fault
        return told.status, None

    def attempts(self) -> list[Finding]:
        """A job that the scheduler started again measured something, but not what was asked for."""
        told, facts = self.told(), getattr(self.job, "scheduler_facts", {})
        counted = str(facts.get("run_count", 1))
        times = max(len(told.attempts), int(counted) if counted.isdigit() else 1)
        if times < 2 or getattr(self.job, "may_run_again", False):
            return []
        where = self.where()
        hosts = ", then ".join(attempt.node for attempt in told.attempts)
        text = f"{where}: the job ran twice: the scheduler started it {times} times (it began on {hosts})"
        return [Finding(verdicts.INVALID, text, node=where)]

    def told(self) -> joblines.JobReport:
        """What the job printed of itself."""
        return joblines.report(self.output_text(), self.token)

    def output_text(self, stream: str = "stdout") -> str:
        """The job's standard output or error, empty when there is none."""
        name = self.job.stdout if stream == "stdout" else self.job.stderr
        path = Path(self.stagedir) / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def last_words(self, status: int | None = None) -> str:
        """Why it gave up, out of standard error (a site may join it to the output), with a colon before it."""
        said = why(self.output_text("stderr"), status) or why(self.output_text(), status)
        return f": {said}" if said else ""

    def where(self) -> str:
        """The nodes as the job printed them (ReFrame's list may be short), else what ReFrame knows."""
        return ",".join(self.nodes()) or "unknown node"

    def nodes(self) -> list[str]:
        """Those of the job; of one that never started those that it was pinned to."""
        return list(self.told().nodes or self.job.nodelist or self.job.pin_nodes or [])

    def archive_record(self, judgement, result, error, text):
        """Append the run to the archive. A run that cannot be archived fails: its number would be lost."""
        record = Record(
            session=self.tenken_session or "none",
            time=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}",
            system=self.current_system.name,
            partition=self.current_partition.name,
            environ=self.current_environ.name,
            check=self.display_name,
            base_check=type(self).__name__.split("_")[0],
            parameters=self.own_parameters(),
            mode=self.tenken_mode,
            program=self.program,
            program_version=self.program_version(),
            subjects=tuple(self.subjects),
            nodes=tuple(self.nodes()),
            job=Job(
                self.current_partition.scheduler.registered_name,
                None if self.job.jobid is None else str(self.job.jobid),
                None if self.job.state is None else str(self.job.state),
                self.job.exitcode,
                {
                    **(getattr(self.job, "scheduler_facts", None) or {}),
                    **({"ran_as_root": True} if joblines.ran_as_root(self.output_text()) else {}),
                },
            ),
            judgement=judgement,
            request=self.request(),
            result=result,
            result_error=error,
            result_text=text,
        )
        try:
            self.record_path = archive.write(record, archive_root())
        except ArchiveError as raised:
            raise SanityError(f"FAIL: {self.where()}: {raised}") from None

    def program_version(self) -> int:
        """The version of the program's figures; 1 where the catalogue cannot say."""
        try:
            return catalogue_program(self.program).version
        except CatalogueError:
            return 1

    def own_parameters(self) -> dict[str, Any]:
        """ReFrame parameters of this test case, without fixtures and the ones that only distribute it."""
        return {
            name: value
            for name, value in ((n, getattr(self, n)) for n in type(self).param_space.params)
            if isinstance(value, (str, int, float, bool, type(None)))
        }

    @run_before("performance")
    def declare_metrics(self):
        if self.is_dry_run():
            return
        partition = self.current_partition.fullname
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(judged.value), judged.unit)
            for name, judged in self.judged.judged.items()
        }
        self.reference = {partition: {name: reframe_reference(judged) for name, judged in self.judged.judged.items()}}

    def metrics_of_result(self) -> tuple[results.MetricValue, ...]:
        """The values that came."""
        return self.result.metrics if self.result is not None else ()

    @run_after("performance")
    def raise_misses(self):
        if self.is_dry_run():
            return
        logged = {key.rsplit(":", 1)[-1] for key in self.perfvalues}
        lost = sorted({metric.id for metric in self.metrics_of_result()} - logged)
        if lost:
            raise PerformanceError(f"FAIL: {self.where()}: ReFrame did not log {', '.join(lost)}")
        if self.judged.verdict not in (verdicts.PASS, verdicts.RECORDED):
            raise PerformanceError(f"{self.judged.verdict}: {self.judged.message()}")


def command_line(arguments: dict[str, Any]) -> list[str]:
    """Long options out of a dictionary: {'array-bytes': 1024, 'verbose': True} -> --array-bytes 1024 --verbose."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if value is not True:
            words.append(shlex.quote(str(value)))
    return words


# `loggable` is re-exported for checks that add columns of their own
__all__ = ["TenkenCheck", "command_line", "loggable"]
