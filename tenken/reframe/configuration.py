"""ReFrame's site configuration, assembled from the system files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reframe.frontend.executors import Runner

from tenken.archive.records import new_session, session_folder
from tenken.errors import TenkenError
from tenken.machines import catch_all_system as everything
from tenken.machines import hardware, loader, tonight
from tenken.machines.errors import SystemFileError
from tenken.machines.model import NODE_COUNTS, OF_MODE, Environment, Partition, Patience, System, duration_seconds
from tenken.paths import ROOT, archive_root, unusable
from tenken.reframe import schedulers, terminal

MODES = tuple(OF_MODE)

_PERFLOG_COLUMNS = (
    "check_result", "check_job_completion_time", "check_system", "check_partition", "check_environ",
    "check_display_name", "check_hashcode", "check_jobid", "check_job_nodelist", "check_tenken_session",
    "check_tenken_verdict", "check_perf_var", "check_perf_value", "check_perf_unit", "check_perf_ref",
    "check_perf_lower_thres", "check_perf_upper_thres", "check_fail_phase",
)  # fmt: skip


#: Jobs of a partition in the queue at once if the system file does not set it: never more than schedulers accept.
MOST_JOBS = 500


def dry_run() -> bool:
    """Whether a dry run was requested: ReFrame appends empty rows to the performance logs even in that case."""
    return "--dry-run" in sys.argv


def _environment(environment: Environment, system: System) -> dict[str, Any]:
    return {
        "name": environment.name,
        "target_systems": [system.name],
        "modules": list(environment.modules),
        "prepare_cmds": list(environment.prepare),
        "env_vars": [[k, v] for k, v in environment.env_vars.items()],
        "features": sorted(system.abilities(environment.name)),
        "cc": environment.cc,
        "cxx": environment.cxx,
        **({"nvcc": environment.cuda} if environment.cuda else {}),
        **({"ftn": environment.fortran} if environment.fortran else {}),
    }


def _processor(partition: Partition) -> dict[str, int]:
    node = partition.node
    known = {"num_cpus_per_core": node.threads_per_core, "num_sockets": node.sockets}
    found = {key: value for key, value in known.items() if value}
    if node.cores:
        found["num_cpus"] = node.cores * (node.threads_per_core or 1)
    if node.cores and node.sockets:
        found["num_cpus_per_socket"] = found["num_cpus"] // node.sockets
    return found


#: Set inside a job that has a whole node: checks run there, one after another, without the scheduler.
ON_NODE = "TENKEN_ON_NODE"


def _scheduler(partition: Partition) -> str:
    if not partition.usable:
        return schedulers.UNAVAILABLE
    if os.environ.get(ON_NODE):
        return "local"
    if partition.remote:
        return schedulers.REMOTE
    return schedulers.NAMES.get(partition.scheduler, partition.scheduler)


def impatience(text: str) -> dict[str, float]:
    """Seconds from `pending=01:00:00,output=00:05:00` ($TENKEN_PATIENCE), which overrides the system file's
    `patience:`. Raises TenkenError for another key.
    """
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in asdict(Patience()) or not re.fullmatch(r"\d+:\d\d:\d\d", value):
            allowed = ", ".join(asdict(Patience()))
            raise TenkenError(f"TENKEN_PATIENCE: {part!r}; allowed: {allowed}, each with =HH:MM:SS")
        found[name] = float(duration_seconds(value))
    return found


def _extras(partition: Partition) -> dict[str, Any]:
    """Settings of the back ends in tenken/reframe/schedulers/ beyond ReFrame's options."""
    return {
        "submit_options": list(partition.submit_options),
        "node_request": list(partition.node_request),
        "select": partition.select,
        "place": partition.place,
        "host": partition.remote,
        "tonight": tonight.of_partition(partition.name),
        "patience": {**asdict(partition.patience), **impatience(os.environ.get("TENKEN_PATIENCE", ""))},
    }


def _partition(partition: Partition) -> dict[str, Any]:
    node = partition.node
    options: dict[str, Any] = {
        "name": partition.name,
        "descr": partition.description,
        "scheduler": _scheduler(partition),
        "launcher": partition.launcher if partition.usable else "local",
        "environs": list(partition.environments),
        "access": list(partition.access),
        "modules": list(partition.modules),
        "prepare_cmds": list(partition.prepare),
        "env_vars": [[k, v] for k, v in partition.env_vars.items()],
        "features": sorted(partition.abilities),
        "extras": _extras(partition),
        "processor": _processor(partition),
    }
    if os.environ.get(ON_NODE):
        # the job already has what was requested from the queue, and its single node cannot run checks between nodes
        options |= {"access": [], "max_jobs": 1, "features": sorted(partition.abilities - {*NODE_COUNTS.values()})}
    elif partition.max_jobs:
        options["max_jobs"] = partition.max_jobs
    elif (partition.node.count or 0) > 8 and not partition.remote and partition.scheduler != "local":
        # ReFrame's default is 8: with --distribute on 1,000 nodes it would keep 992 waiting
        options["max_jobs"] = min(partition.node.count or 0, MOST_JOBS)
    if partition.time_limit:
        hours, minutes, seconds = partition.time_limit.split(":")
        options["time_limit"] = f"{int(hours)}h{int(minutes)}m{int(seconds)}s"
    if partition.gpu_request:
        options["resources"] = [{"name": "_rfm_gpu", "options": list(partition.gpu_request)}]
    if partition.containers:
        options["container_platforms"] = [
            {"type": c.platform, "modules": list(c.modules)} for c in partition.containers
        ]
    if node.gpu_count:
        options["devices"] = [
            {"type": "gpu", "num_devices": node.gpu_count, **({"arch": node.gpu.arch} if node.gpu else {})}
        ]
    return options


def _hostnames(system: System) -> list[str]:
    """Patterns by which ReFrame finds a system without `--system`: the first match counts, and `local`, the last one,
    matches every machine. A system without patterns is selected by name only.
    """
    if system.name == loader.LOCAL:
        return [".*"]
    return list(system.hostnames) or [f"^{system.name} is chosen by name$"]


def chosen_system(arguments: Sequence[str], env: Mapping[str, str]) -> str | None:
    """The system named by ReFrame's command line or environment; None: the host name selects it."""
    for at, word in enumerate(arguments):
        if word == "--system" and at + 1 < len(arguments):
            return arguments[at + 1].partition(":")[0]
        if word.startswith("--system="):
            return word.partition("=")[2].partition(":")[0]
    return env.get("RFM_SYSTEM", "").partition(":")[0] or None


def runs(arguments: Sequence[str]) -> bool:
    """Whether ReFrame was requested to run checks, as opposed to listing them or writing their scripts."""
    asked = any(word == "--run" or re.fullmatch(r"-[qrv]*r[qrv]*", word) for word in arguments)
    return asked and "--dry-run" not in arguments


def no_submission(system: System) -> str | None:
    """Why jobs of a system cannot be submitted from this host; None: they can, or they run here."""
    command = {"slurm": "sbatch", "pbs": "qsub", "nqsv": "qsub", "gridengine": "qsub"}
    needed = {command.get(one.scheduler) for one in system.partitions.values() if one.usable and not one.remote}
    if os.environ.get(ON_NODE) or not needed or any(name is None or shutil.which(name) for name in needed):
        return None
    names = " and ".join(sorted(map(str, needed)))
    return (
        f"{names} is not on PATH: run this on a node from which jobs are submitted (a login node); nothing was started"
    )


def _run_nothing(why: str) -> None:
    """Makes ReFrame fail with one line once it has selected anything to run, before the session begins."""
    runall = Runner.runall

    def refusing(self: Any, testcases: Any, *arguments: Any, **options: Any) -> Any:
        if testcases:
            sys.exit(f"tenken: {why}")
        return runall(self, testcases, *arguments, **options)

    Runner.runall = refusing


def _refuse_what_cannot_run(systems: Iterable[System]) -> None:
    """Raises one line before anything starts if the chosen system needs variables that are not set, or a submit command
    that does not exist, or if this node has GPUs that this process does not see.
    """
    # the scripts of a dry run contain the variables' values too
    if not runs(sys.argv[1:]) and "--dry-run" not in sys.argv:
        return
    name, host = chosen_system(sys.argv[1:], os.environ), socket.gethostname()
    for system in systems:
        if system.name == name or (name is None and any(re.match(p, host) for p in _hostnames(system))):
            system.expand(os.environ)
            if runs(sys.argv[1:]) and (missing := no_submission(system)):
                _run_nothing(missing)
            if system.hidden_gpus:
                print(f"WARNING: {system.hidden_gpus}. No GPU will be measured.", file=sys.stderr)
            return


def _system(system: System, session: str) -> dict[str, Any]:
    return {
        "name": system.name,
        "descr": system.title,
        "hostnames": _hostnames(system),
        "modules_system": system.modules_system,
        "stagedir": str(ROOT / "stage" / session),
        "outputdir": str(ROOT / "output"),
        "partitions": [_partition(partition) for partition in system.partitions.values()],
    }


def _logging() -> dict[str, Any]:
    """ReFrame's own performance logs: one line per metric, with a lock, next to the records."""
    basedir = ROOT / "output" / "dry-run" if dry_run() else archive_root()
    # if one line per check is printed (terminal.py), ReFrame's output goes to the file only
    shown = "warning" if terminal.brief() and runs(sys.argv[1:]) else "info"
    terminals = [{"type": "stream", "name": "stdout", "level": shown, "format": "%(message)s"}]
    handlers: list[dict[str, Any]] = []
    log = ROOT / "output" / "reframe.log"
    with contextlib.suppress(OSError):  # a checkout that is read-only or another user's can still be listed
        log.parent.mkdir(exist_ok=True)
        log.open("a").close()
        handlers.append(
            {
                "type": "file",
                "name": str(log),
                "level": "debug2",
                "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                "append": True,
            }
        )
    return {
        # the steps of a dry run are not needed, and logging them takes a third of its time
        "level": "info" if dry_run() else "debug2",
        "perflog_multiline": True,
        # ReFrame's name for the terminal's handlers, which it creates first
        "handlers$": terminals,
        "handlers": handlers,
        "handlers_perflog": [
            {
                "type": "filelog",
                "prefix": "%(check_system)s/%(check_partition)s",
                "level": "info",
                "format": "|".join(f"%({c})s" for c in _PERFLOG_COLUMNS),
                # ReFrame formats it with the prefix
                "basedir": str(basedir).replace("%", "%%"),
                "append": True,
                "locking_enable": True,
            }
        ],
    }


def _report_file(session: str) -> Path:
    """ReFrame's run report, stored with the session; for a dry run, which is not a session, outside of the archive."""
    if dry_run():
        return ROOT / "output" / "dry-run" / "run-report.json"
    return session_folder(archive_root(), session) / "run-report.json"


def _modes() -> list[dict[str, Any]]:
    """Modes for `--mode NAME`: which checks, and with which sizes and repetitions."""
    return [{"name": name, "options": [f"--tag=^{name}$", f"-S tenken_mode={name}"]} for name in MODES]


def _all_local(systems: Sequence[System], asked: str | None) -> bool:
    """Whether no job of the requested system uses a scheduler."""
    of_asked = [partition for system in systems if system.name == asked for partition in system.partitions.values()]
    return bool(of_asked) and all(partition.scheduler == "local" for partition in of_asked)


def site_configuration() -> dict[str, Any]:
    """The whole configuration.

    An unreadable system file is omitted with one line on standard error, unless it is the requested one, for which
    SystemFileError is raised. Notices are printed only for the requested one.
    """
    problem = unusable(ROOT)
    if problem:
        raise TenkenError(problem)
    session = os.environ.setdefault("TENKEN_SESSION", new_session())
    hardware.load()  # wrong data sheets are reported once, not for every system
    systems: list[System] = []
    asked = chosen_system(sys.argv[1:], os.environ)
    for name in [*loader.names(), loader.LOCAL]:
        asked_for = asked == name
        try:
            systems.append(loader.load(name))
        except SystemFileError as error:
            if asked_for:
                raise
            print(f"tenken: left out: {error}", file=sys.stderr)
            continue
        for notice in systems[-1].notices if asked_for else ():
            print(f"tenken: {notice}", file=sys.stderr)
    _refuse_what_cannot_run(systems)
    systems = [system.expand(os.environ, strict=False) for system in systems]
    if everything.VARIABLE in os.environ:
        systems.append(everything.describe())
    environments: dict[tuple[str, Any], Any] = {}
    for system in systems:
        for environment in system.environments.values():
            environments[(environment.name, system.name)] = _environment(environment, system)
    return {
        "systems": [_system(system, session) for system in systems],
        "environments": list(environments.values()),
        "logging": [_logging()],
        "modes": _modes(),
        "storage": [{"enable": False}],
        "general": [
            {
                "check_search_recursive": True,
                "remote_detect": False,
                "report_file": str(_report_file(session)),
                "resolve_module_conflicts": False,
                "purge_environment": False,
                # one query for all jobs; at ReFrame's 0.1 a verdict comes up to 10 s late. Polling a process on this
                # machine costs nothing: there even 2 s would add up to a minute
                "poll_rate_min": 4 if _all_local(systems, asked) else 0.5,
            }
        ],
    }
