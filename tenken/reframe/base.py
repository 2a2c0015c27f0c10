"""The base of all checks: it runs one benchmark program and fails closed.

ReFrame by itself passes a test whose metric never appeared, whose unit is wrong, whose value is infinite, whose program
exited with 1 or whose job was killed. Here every run ends in one of five verdicts (tenken/model/verdicts.py). The
record with its document and samples is archived before anything is raised, and a message names the node, the device,
the value, the bound and the deviation.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Callable
from dataclasses import replace
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

from tenken.archive import disk
from tenken.archive import records as archive
from tenken.errors import ArchiveError, CatalogueError, TenkenError
from tenken.judge import verdict
from tenken.machines.model import GPUS, NODE_COUNTS, OF_MODE, duration_seconds
from tenken.model import result as results
from tenken.model import verdicts
from tenken.model.catalogue import program as catalogue_program
from tenken.model.judgement import Finding, Judgement
from tenken.model.record import Job, Record
from tenken.model.request import Request
from tenken.paths import archive_root
from tenken.reframe import budget, joblines, locks, logs, orphans
from tenken.reframe.build import BuildPrograms, first_began, first_is_over, revision
from tenken.reframe.machine import Machine
from tenken.reframe.mode import HasMode
from tenken.reframe.outcome import (
    REQUEST_FILE,
    RESULT_FILE,
    Outcome,
    captured,
    known_nodes,
    requested_nodes,
)
from tenken.reframe.reference import reframe_reference
from tenken.reframe.schedulers import ledger

#: Seconds of warm-up in mode quick, unless the check sets them. Programs warm up once per GPU and kind of work; with
#: one second each, warm-up was a quarter of a quick run. Clocks rise within 0.1 s.
QUICK_WARMUP = budget.WARMUPS["warmup-seconds"]
#: Sessions whose start this process has recorded.
_BEGUN: set[str] = set()


class InCheckFile(metaclass=typ._BuiltinType):
    """A dictionary set by a check. A value set by -S is text, and would replace everything that the check declares."""

    _type = dict

    @classmethod
    def __rfm_cast_str__(cls, text):
        # ReFrame turns any other error into a warning, runs nothing and ends with 0
        raise SystemExit(
            f"tenken: -S cannot set the arguments of a program ({text!r}): they are set in the check's file; derive "
            f"a class from the check there with `arguments = {{'name': value}}`"
        )


class JudgedCheck(rfm.RunOnlyRegressionTest, HasMode):
    """Runs a program once on one partition and environment and gives a verdict. It is independent of the origin of the
    program: TenkenCheck builds one of this suite, ForeignCheck (tenken/reframe/foreign.py) uses an installed one.

    A derived class names the program, the kind of subjects of its metrics and the arguments; metrics,
    units, directions and floors come from the program's metrics.yaml, references from the system file.
    """

    #: The benchmark program: a folder of src/.
    #:
    #: :type: :class:`str`
    program = variable(str)

    #: Kinds of subject that must have metrics: host, gpu, pair, ranks.
    #:
    #: :type: :class:`List[str]`
    #: :default: ``['host']``
    subjects = variable(typ.List[str], value=["host"])

    #: Metrics that must be present; None: all of the program's that are not optional and belong to `subjects`.
    metrics = variable(typ.List[str], type(None), value=None)

    #: Whether the program is launched by MPI; otherwise it runs once, in the job script itself, on the first node.
    #:
    #: :default: ``False``
    uses_mpi = variable(bool, value=False)

    #: Whether the program is part of this suite; for others an adapter creates the result from the output.
    #:
    #: :default: ``True``
    ours = variable(bool, value=True)

    #: Whether the program uses GPUs although its metrics are reported for ranks.
    #:
    #: :default: ``False``
    on_gpus = variable(bool, value=False)

    #: Command-line arguments of the program by long name without dashes; True for a flag, None to leave one out.
    arguments = variable(InCheckFile, value={})

    #: Parameters that the document must state with these values, which proves that the program ran what was requested.
    expected_parameters = variable(InCheckFile, value={})
    #: Its former name, for a site's checks.
    asked = variable(alias=expected_parameters)

    #: Cores of the node that the program uses; None: as many as the system file names.
    cores = variable(int, type(None), value=None)

    #: GPUs of the node that the program must see; None: as many as the system file names.
    gpus = variable(int, type(None), value=None)

    #: Whether the document lists the GPUs it used, so that their number can be checked.
    #:
    #: :default: ``True``
    lists_gpus = variable(bool, value=True)

    #: Seconds of mode acceptance that it may take on a node with one or two GPUs (tenken/reframe/budget.py).
    share = variable(int, type(None), value=None)

    #: The minimum number of repetitions under a time share; None: what the catalogue requires of the program's metrics.
    fewest = variable(int, type(None), value=None)

    #: The verdict, as a column of ReFrame's performance log.
    tenken_verdict = variable(str, value="none", loggable=True)

    #: The session, as a column of ReFrame's performance log: the key to the archived record.
    tenken_session = variable(str, value="", loggable=True)

    #: Files that the job writes into its stage folder, removed at its start if an earlier attempt left them; with `*`.
    #:
    #: :default: ``['result.json']``
    outputs = variable(typ.List[str], value=[RESULT_FILE])

    #: The file in the stage folder that contains the output of a third-party program; `captures` states who writes it:
    #: the job script, or the command itself.
    captured, captures = "tenken-output.txt", True

    #: Whether its program is built before all others (with `programs = fixture(BuildFirst, ...)`) to get a first result
    #: early.
    comes_first = False

    valid_systems = ["*"]
    valid_prog_environs = ["+for_host"]
    num_tasks = 1
    num_tasks_per_node = 1
    exclusive_access = True
    time_limit = "30m"
    require_reference = True
    # ReFrame compares, and we raise (raise_misses): its own message would not name the node
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
        if self.uses_mpi and not self.uses_gpus:
            self.fit_ranks()

    def fit_ranks(self):
        """A scheduler rejects jobs that request more ranks on a node than it has CPUs: halves them until they fit."""
        asked, slots = self.num_tasks_per_node or 1, self.machine.slots
        if slots is None or asked <= slots:
            return
        if slots < 2:
            self.waive(f"needs more ranks: a node of this partition has {slots} CPU")
        fitting = asked
        while fitting > slots:
            fitting //= 2
        # of whole nodes; 0 is resolved later
        self.num_tasks, self.num_tasks_per_node = -(-self.num_tasks // asked) * fitting, fitting

    @property
    def uses_gpus(self) -> bool:
        return self.on_gpus or "gpu" in self.subjects or "pair" in self.subjects

    @run_after("setup")
    def refuse_a_broken_archive(self):
        if self.is_dry_run():
            return
        try:
            archive.check_writable(archive_root())
            # once per process, to record that a run has begun even if it is killed, and which modules failed to load
            session = os.environ.get("TENKEN_SESSION", "")
            if session and session not in _BEGUN:
                archive.begin_session(archive_root(), session, logs.load_errors)
                _BEGUN.add(session)
        except ArchiveError as error:
            self.tenken_verdict = verdicts.INVALID
            raise ReframeError(f"INVALID: no part of a run could be archived: {error}") from None

    @property
    def one_by_one(self) -> bool:
        """Whether it measures the GPUs of the node one after another."""
        return "gpu" in self.subjects and self.arguments.get("gpus") == "all" and not self.arguments.get("at-once")

    @property
    def of_usual_time(self) -> float:
        """The time of mode acceptance over its usual time; 1 in other modes."""
        by = budget.scale(self.tenken_mode, self.tenken_minutes, self.machine.gpus or 0, one_by_one=False)
        return by if self.tenken_mode == "acceptance" else 1.0

    @property
    def shortened(self) -> bool:
        """Whether mode acceptance has less time than usual: problems are then those of shorter modes."""
        return self.of_usual_time < 1

    @property
    def size_mode(self) -> str:
        """The mode whose problems and cases are measured: quick if mode acceptance has less than half its time."""
        return "quick" if self.of_usual_time < budget.HALF else self.tenken_mode

    @property
    def share_seconds(self) -> float | None:
        """The time it may take on this machine; None if nothing limits it."""
        return budget.seconds_of(
            self.share, self.tenken_mode, self.tenken_minutes, self.machine.gpus or 0, self.one_by_one, self.tags
        )

    @run_before("run")
    def keep_to_the_share(self):
        """Takes more or fewer samples if the share of time on this machine and run differs from the stated one; waived
        if the run's time is up.
        """
        by = budget.scale(self.tenken_mode, self.tenken_minutes, self.machine.gpus or 0, self.one_by_one)
        smaller = self.size_mode != self.tenken_mode
        if smaller:
            # problems of mode quick take that rest of the time; other checks take as few samples as allowed
            by = min(1.0, by / budget.REST) if "quick" in self.tags else 0.0
        if not self.is_dry_run():
            if late := budget.PACE.over():
                self.waive(late)
            by *= budget.PACE.factor(self.unique_name)
            if self.share is None:
                budget.PACE.on_top()
        asked = {**({"warmup-seconds": budget.WARMUP} if by < 1 and self.ours else {}), **self.arguments}
        if not asked or (by == 1 and not smaller):
            return
        fewest = self.fewest or catalogue_program(self.program).most_required if "repetitions" in asked else 1
        changed = budget.fitted(asked, by, fewest)
        if smaller and self.arguments.get(budget.ENERGY):
            changed[budget.ENERGY] = 0
        self.arguments = {**self.arguments, **changed}
        told = {name.replace("-", "_"): value for name, value in changed.items()}
        self.expected_parameters |= {name: told[name] for name in told if name in self.expected_parameters}

    @run_before("run")
    def load_image_modules(self):
        self.modules = [*self.modules, *self.machine.image_modules]  # type: ignore[has-type]

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
        """A job that requests more than its queue permits would wait forever."""
        longest = self.machine.partition.time_limit
        if longest:
            asked: Any = self.time_limit  # ReFrame keeps "30m" as seconds
            allowed: Any = duration_seconds(longest)
            self.time_limit = min(asked, allowed) if asked else allowed

    @run_before("run")
    def count_flexible_ranks(self):
        """ReFrame resolves `num_tasks = 0` to nodes only after it has written the launch line: `mpirun -np 0`."""
        if self.num_tasks > 0 or self.is_dry_run():
            return
        at_least = -self.num_tasks or self.num_tasks_per_node
        self.job.num_tasks_per_node = self.num_tasks_per_node
        self.num_tasks = self.job.guess_num_tasks()
        if self.num_tasks < at_least:
            raise ReframeError(f"{self.num_tasks} ranks fit on the available nodes; {at_least} are needed")

    @run_before("run")
    def set_launcher(self):
        """None without MPI, since mpirun and srun would bind a single process to one core."""
        if self.uses_mpi:
            options = self.machine.launcher_options(self.num_tasks, self.num_tasks_per_node)
            held = "" if self.ours else locks.around_rank()
            self.job.launcher.options = [*options, joblines.around_rank(self.stagedir, held)]
        else:
            self.job.launcher = getlauncher("local")()

    @property
    def fault(self) -> str:
        """The fault to inject in a drill (`tenken drill`), which makes the program fail."""
        return os.environ.get("TENKEN_DRILL", "") if self.ours else ""

    @property
    def given(self) -> dict[str, Any]:
        """The program's arguments, including the warm-up of mode quick and the fault of a drill."""
        warm = {"warmup-seconds": QUICK_WARMUP} if self.ours and self.size_mode == "quick" else {}
        return {**warm, **self.arguments, **({"inject-fault": self.fault} if self.fault else {})}

    @run_before("run", always_last=True)
    def write_request(self):
        """Writes the request, whose token the program or the adapter repeats, and the data that a later session needs
        to adopt the result if this one is killed.
        """
        path = Path(self.stagedir, REQUEST_FILE)
        disk.patiently(lambda: path.write_text(self.request().text(), encoding="utf-8"), path)
        if not self.ours:
            functions = Path(self.stagedir, locks.FUNCTIONS_FILE)
            text = locks.functions(self.program, self.token)
            disk.patiently(lambda: functions.write_text(text, encoding="utf-8"), functions)
        if not self.is_dry_run():
            disk.patiently(lambda: orphans.leave(self.case_so_far(), Path(self.stagedir)), path)

    @run_before("run", always_last=True)
    def mark_the_end(self):
        """A killed job may report exit 0: only a job that printed its own exit status ran to its end."""
        before, after = list(self.prerun_cmds), list(self.postrun_cmds)  # type: ignore[has-type]
        # an adapter writes the result of another program from its output
        printed = [] if self.ours else [self.captured]
        sealed = [*([name for name in self.outputs if self.ours or name != RESULT_FILE]), *printed]
        begin = self.machine.begin_commands(self.token, self.stagedir, [*self.outputs, *printed])
        allowed = joblines.allow_root() if self.uses_mpi else []
        if self.uses_mpi and self.num_tasks == (self.num_tasks_per_node or self.num_tasks):
            allowed += joblines.without_ssh()
        # programs of this suite hold their locks themselves; whether ranks use the available GPUs is not known
        gpus = self.uses_gpus or ("ranks" in self.subjects and self.machine.gpus != 0)
        held = [] if self.ours else locks.hold(gpus)
        capture = joblines.capture(self.captured) if printed and self.captures else ([], [])
        over = first_is_over(self.current_partition.fullname, self.current_environ.name)
        waited_for = self.comes_first and self.machine.measured_where_built and not self.machine.partition.image
        began = [f"echo $$ > {shlex.quote(str(first_began(over)))}"] if waited_for else []
        told = [f": > {shlex.quote(str(over))}"] if waited_for else []
        self.prerun_cmds = [*begin, *allowed, *before, *held, *began, *joblines.command_begin(), *capture[0]]
        digests = joblines.digests(self.stagedir, sealed)
        self.postrun_cmds = [*joblines.command_end(capture[1]), *told, *after, *digests, *joblines.end()]

    # -- after the run --

    @sanity_function
    def judge_run(self):
        """Judge, archive, then raise if the run is invalid; missed criteria are raised after ReFrame has logged the
        values.
        """
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
        """For `run_after("init")`: selected only with at least this number of nodes. Raises ReframeError below two."""
        if count < min(NODE_COUNTS):
            raise ReframeError(f"{self.unique_name}: num_nodes is {count}; allowed: {min(NODE_COUNTS)} and above")
        feature = NODE_COUNTS[max(least for least in NODE_COUNTS if least <= count)]
        self.valid_systems = _with_feature(self.valid_systems, feature)

    def only_in_mode(self, mode: str):
        """For `run_after("init")`: not selected in other modes. This is not a waiver, since the machine could run
        it."""
        if self.tenken_mode != mode:
            self.valid_systems = _with_feature(self.valid_systems, OF_MODE[mode])

    def one_by_one_or_at_once(self, at_once: bool):
        """For `run_after("init")`: a check that has one variant for the GPUs one by one and another for all at once.

        The second one needs two GPUs. Modes quick and acceptance use only the latter: every GPU in the time
        of one.
        """
        if at_once:
            self.valid_systems = _with_feature(self.valid_systems, GPUS[2])
        elif self.tenken_mode in ("quick", "acceptance"):
            self.valid_systems = [f"{one} -{GPUS[2]}" for one in self.valid_systems]

    def waive(self, reason: str):
        """Archives a waiver that was found in set-up, as this machine cannot run the check; then skips it.

        A plain `skip` would leave no record, which would be read as a failure.
        """
        budget.PACE.forget(self.unique_name)
        if not self.is_dry_run():
            self.tenken_session = os.environ.get("TENKEN_SESSION", "")
            judgement = verdict.waived(reason, self.current_system.name)
            self.archive_record(judgement, None, None, "")
        self.skip(f"WAIVED: {reason}")

    def request(self) -> Request:
        """The request for this attempt."""
        revision = self.revision_built()
        # a rank uses one GPU, and two ranks do not list all GPUs of a node
        gpus = min(self.gpus or 0, self.num_tasks_per_node or 1) if self.uses_mpi and self.ours else self.gpus
        return Request(
            token=self.token,
            program=self.program,
            check=self.display_name,
            subjects=tuple(self.subjects),
            metrics=None if self.metrics is None else tuple(self.metrics),
            parameters={**self.expected_parameters, **({"inject_fault": self.fault} if self.fault else {})},
            gpus=(gpus or None) if self.lists_gpus else None,
            cores=self.cores or None,
            ranks=self.num_tasks,
            arguments=tuple(command_line(self.given)) if self.ours else (),
            foreign=not self.ours,
            mode=self.tenken_mode,
            revision=revision,
            # programs of this suite report the revision of the sources
            sections=("locks", "load") if revision is not None else (),
        )

    def revision_built(self) -> str | None:
        """The revision of the program's sources; None for a third-party program."""
        return None

    def stamp(self, made: dict[str, Any]) -> dict[str, Any]:
        """The document of a third-party program, with the token and the times printed by the job script."""
        told = self.told()
        begins = [c.begin for c in told.commands if c.begin is not None]
        ends = [c.end for c in told.commands if c.end is not None]
        times = {"started": begins[:1], "finished": ends[-1:]}
        stamped = {
            key: f"{datetime.fromtimestamp(moment[0], timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"
            for key, moment in times.items()
            if moment
        }
        beside = {"locks": locks.told(self.output_text()), "load": locks.load(Path(self.stagedir))}
        return {**made, **stamped, **{k: v for k, v in beside.items() if v is not None}, "token": told.token}

    def ranks_by_function(self) -> str:
        """The launcher's command, for a shell function of the job script that starts the ranks instead of ReFrame."""
        # ReFrame sets the job only after this hook
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        launch: str = self.job.launcher.run_command(self.job)
        self.job.launcher = getlauncher("local")()
        return launch

    def write_result(self, made: Callable[[list[str]], dict[str, Any]]) -> TenkenError | None:
        """Writes the result document of a third-party program, made from its output and the nodes; it is then judged
        like any other. A parser's error is written instead, which the judgement reports as not being a document."""
        path = Path(self.stagedir, RESULT_FILE)
        try:
            path.write_text(json.dumps(self.stamp(made(self.nodes() or ["unknown"]))))
        except TenkenError as error:
            path.write_text(str(error))
            return error
        return None

    def judgement(self) -> tuple[Judgement, results.Result | None, str | None, str]:
        """The judgement of the run, the result (or None), the reason if there is none, and in that case its raw
        text."""
        return self.outcome().judgement(self.request(), self.machine.facts())

    def outcome(self) -> Outcome:
        """The job's files as they are now."""
        job = self.job
        return Outcome(
            Path(self.stagedir),
            job.stdout,
            job.stderr,
            self.token,
            self.uses_mpi,
            str(job.state or ""),
            job.exitcode,
            getattr(job, "scheduler_facts", None) or {},
            getattr(job, "may_run_again", False),
            known_nodes(job, self.pinned_nodes(), self.current_partition),
            requested_nodes(job, self.pinned_nodes()),
            self.unnamed_nodes(self.current_partition.name),
        )

    def exit_status(self) -> tuple[int | None, str | None]:
        """The program's exit status as printed by the job, and what voids the job: it was cut short, or ran on other
        nodes than requested.
        """
        return self.outcome().exit_status(self.num_tasks)

    def told(self) -> joblines.JobReport:
        """What the job printed about itself."""
        return self.outcome().told

    def output_text(self) -> str:
        """The job's standard output; empty if there is none."""
        return self.outcome().text()

    def where(self) -> str:
        """The nodes as printed by the job, otherwise as requested."""
        return self.outcome().where

    def nodes(self) -> list[str]:
        """The nodes of the job; for a job that never started, the requested ones."""
        return list(self.outcome().nodes)

    def pinned_nodes(self) -> tuple[str, ...]:
        """The node for which --distribute created this case."""
        return tuple(getattr(self, ".nid", None) or ())

    def unnamed_nodes(self, partition: str) -> str:
        """The text in place of the nodes if none was named."""
        count = -(-max(self.num_tasks, 1) // (self.num_tasks_per_node or 1))
        return f"any {'node' if count == 1 else f'{count} nodes'} of partition {partition}"

    def archive_record(self, judgement, result, error, text):
        """Append the run to the archive. A run that cannot be archived does not pass: its values would be lost."""
        record = self.record(judgement, self.current_partition, self.current_environ)
        record = replace(record, request=self.request(), result=result, result_error=error, result_text=text)
        try:
            archive.write(record, archive_root(), captured(Path(self.stagedir), record.job.facts))
        except ArchiveError as raised:
            kept = orphans.keep(record, Path(self.stagedir))
            self.tenken_verdict = verdicts.INVALID
            raise SanityError(f"INVALID: {self.where()}: {raised}{kept}") from None
        finally:
            self.recorded = True
        ledger.close(self.job)

    def record_failure(self, partition, environ, reason: str):
        """Archives that this case was not judged, if it has no record yet."""
        if getattr(self, "recorded", False):
            return
        self.recorded = True
        nodes = known_nodes(self.job, self.pinned_nodes(), partition)
        where = ",".join(nodes) or self.unnamed_nodes(partition.name)
        invalid = re.search(r"(^|: )INVALID: ", reason)
        judgement = verdict.failed(f"{where}: {reason}", where)
        if invalid:
            said = Finding(verdicts.INVALID, f"{where}: {reason.replace('INVALID: ', '')}", node=where)
            judgement = Judgement(verdicts.INVALID, (said,), (said,))
        record = replace(self.record(judgement, partition, environ), nodes=nodes, result_error=reason)
        try:
            archive.write(record, archive_root())
        except ArchiveError:
            if self.stagedir is None:
                raise
            orphans.keep(record, Path(self.stagedir))
        if self.job is not None and getattr(self.job, "completed", False):
            ledger.close(self.job)

    def case_so_far(self) -> dict[str, Any]:
        """The data that a later session needs to adopt the result (tenken/reframe/orphans.py)."""
        record = self.record(orphans.nothing_yet(), self.current_partition, self.current_environ)
        return {
            "record": replace(record, request=self.request()).text(),
            "stdout": self.job.stdout,
            "stderr": self.job.stderr,
            "uses_mpi": self.uses_mpi,
            "may_run_again": getattr(self.job, "may_run_again", False),
            "own_judgement": type(self).judgement is not JudgedCheck.judgement,
        }

    def record(self, judgement: Judgement, partition: Any, environ: Any) -> Record:
        """The record of this case with what is known about its job, without request and result."""
        job = self.job
        began = job is not None and job.jobid is not None
        facts = (getattr(job, "scheduler_facts", None) or {}) if began else {}
        root: dict[str, Any] = {"ran_as_root": True} if began and joblines.ran_as_root(self.output_text()) else {}
        if began and (hosts := joblines.other_names(self.told())):
            root["hosts"] = hosts
        if began:
            outcome = self.outcome()
            root |= {**outcome.own_facts(), **outcome.digests()}
        return Record(
            session=os.environ.get("TENKEN_SESSION") or "none",
            time=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}",
            system=partition.fullname.split(":")[0],
            partition=partition.name,
            environ=environ.name,
            check=self.display_name,
            base_check=type(self).__name__.split("_")[0],
            parameters=self.own_parameters(),
            mode=self.tenken_mode,
            program=self.program,
            program_version=self.program_version(),
            subjects=tuple(self.subjects),
            nodes=tuple(self.nodes()) if began else known_nodes(job, self.pinned_nodes(), partition),
            job=Job(
                partition.scheduler.registered_name,
                str(job.jobid) if began else None,
                None if job is None or job.state is None else str(job.state),
                None if job is None else job.exitcode,
                {**facts, **root},
            ),
            judgement=judgement,
        )

    def program_version(self) -> int:
        """The version of the program's metrics; 1 if the catalogue does not state it."""
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
        """The reported values."""
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


class TenkenCheck(JudgedCheck):
    """Builds `program` of this suite, runs it and gives a verdict."""

    programs = fixture(BuildPrograms, scope="environment")

    @run_before("run")
    def set_command(self):
        built = shlex.quote(os.path.join(self.programs.stagedir, "bin", self.program))
        inside = self.machine.in_image(built, self.stagedir, self.programs.stagedir, gpus=self.uses_gpus)
        self.executable = inside if self.ours else built
        self.executable_opts = [*command_line(self.given), "--request", REQUEST_FILE, "--json", RESULT_FILE]

    def revision_built(self) -> str | None:
        return revision(Path(self.programs.stagedir)) if self.ours else None


def _with_feature(systems: list[str], feature: str) -> list[str]:
    """ReFrame's list of systems with an additional feature; `*` becomes all systems that have it."""
    return [f"+{feature}" if one == "*" else f"{one} +{feature}" for one in systems]


def command_line(arguments: dict[str, Any]) -> list[str]:
    """Long options from a dictionary: {'array-bytes': 1024, 'verbose': True} -> --array-bytes 1024 --verbose."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if value is not True:
            words.append(shlex.quote(str(value)))
    return words


# `loggable` is re-exported for checks that add columns
__all__ = ["RESULT_FILE", "TenkenCheck", "command_line", "loggable"]
