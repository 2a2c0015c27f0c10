"""Whether a result belongs to this attempt: its node, times, build and devices, compared with the job's own output."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone

from tenken.model.job import JobAccount, short
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Result

#: Seconds by which a program's times may lie outside of the lines that its job script printed around it. The clock is
#: the same one; a result holds whole seconds, and a time server may step it.
SAME_CLOCK_S = 5.0
#: The same where the result was written on another node than the script: clocks of nodes lie apart.
OTHER_CLOCK_S = 60.0

#: How programs must be built: anything else measures the compiler's debugging.
BUILD_TYPES = ("Release", "RelWithDebInfo")
_OPTIMISATION = re.compile(r"(?:^|\s)(-O\S*)")
_SPOILING = re.compile(r"(?:^|\s)(-fsanitize\S*|--coverage|-pg|-fprofile-arcs)")


def wrong(result: Result, request: Request, machine: Machine, job: JobAccount | None) -> list[str]:
    """Evidence that the result is not from this attempt, these nodes, these devices or these programs."""
    found = [*_times(result, job), *_nodes(result, request, job)]
    if not request.foreign and "implementation" not in result.parameters:
        found += [*_build(result, request), *_command(result, request)]
    if result.status == "ok":
        found += [*_devices(result, machine, job)]
    return found


def _moment(text: str) -> float | None:
    """Seconds since 1970 of a result's time; None for an invalid date or time."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    return seconds + (float(f"0.{fraction}") if fraction else 0.0)


def _times(result: Result, job: JobAccount | None) -> Iterator[str]:
    times = {"started": _moment(result.started), "finished": _moment(result.finished)}
    for name, moment in times.items():
        if moment is None:
            yield f"{name} is {getattr(result, name)!r}: not a valid time"
    started, finished = times["started"], times["finished"]
    if started is None or finished is None:
        return
    if finished < started:
        yield f"finished {result.finished} is before started {result.started}"
    if job is None:
        return
    apart = SAME_CLOCK_S if not job.node or short(job.node) == short(result.node) else OTHER_CLOCK_S
    if job.begin is not None and started < math.floor(job.begin) - apart:
        yield f"started {result.started}, {job.begin - started:.0f} s before the job began the command"
    for name, moment in (("started", started), ("finished", finished)):
        if job.end is not None and moment > job.end + apart:
            yield f"{name} {getattr(result, name)}, {moment - job.end:.0f} s after the job ended the command"


def _nodes(result: Result, request: Request, job: JobAccount | None) -> Iterator[str]:
    said = result.placement.nodes
    ours = result.status == "ok" and not request.foreign and "implementation" not in result.parameters
    if said and ours and request.ranks is not None and len(said) != result.placement.ranks:
        yield f"placement.nodes names {len(said)} ranks; placement.ranks is {result.placement.ranks}"
    if said and request.nodes is not None and len(set(said)) != request.nodes:
        yield f"placement.nodes names {len(set(said))} nodes; requested: {request.nodes}"
    if said and short(result.node) not in {short(node) for node in said}:
        yield f"host.name is {result.node!r}, which is not in placement.nodes ({', '.join(sorted(set(said)))})"
    if job is None or not job.nodes:
        return
    of_job = ", ".join(sorted(job.nodes))
    if short(result.node) not in job.nodes:
        yield f"host.name is {result.node!r}; the job ran on {of_job}"
    for node in sorted({node for node in said if short(node) not in job.nodes}):
        yield f"placement.nodes names {node!r}; the job ran on {of_job}"


def _build(result: Result, request: Request) -> Iterator[str]:
    build = result.build
    if build.type not in BUILD_TYPES:
        yield f"build.type is {build.type!r}; allowed: {', '.join(BUILD_TYPES)}"
    levels = _OPTIMISATION.findall(build.flags)
    if not levels or levels[-1] not in ("-O2", "-O3", "-Ofast"):
        yield f"build.flags optimise by {levels[-1] if levels else 'nothing'}; expected -O2 or -O3"
    spoiling = _SPOILING.findall(build.flags)
    if spoiling:
        yield f"build.flags contain {', '.join(spoiling)}: this does not measure the program itself"
    backend = result.parameters.get("backend")
    if isinstance(backend, str) and build.backends and backend not in build.backends:
        yield f"parameter backend is {backend!r}; build.backends has {', '.join(build.backends)}"
    if request.revision is not None and _revision(result.version) != _revision(request.revision):
        yield f"version is {result.version!r}; the suite built {request.revision!r}"


def _revision(text: str) -> str:
    return text.removesuffix("-dirty")


def _command(result: Result, request: Request) -> Iterator[str]:
    """The program started is that of the result, with the requested arguments."""
    name = result.command[0].rsplit("/", 1)[-1]
    if name != result.program:
        yield f"command is {name!r}; expected {result.program!r}"
    if request.token is None:
        return
    said = without_files(result.command[1:])
    asked = tuple(shlex.split(word)[0] if word[:1] in "'\"" else word for word in request.arguments)
    if said != asked:
        new = [word for word in said if word not in asked]
        lost = [word for word in asked if word not in said]
        yield f"command has other arguments than requested: {' '.join(new) or 'none'} instead of {' '.join(lost)}"


def without_files(words: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of a command line except the files of request and result."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("--request", "--json"):
            skip = True
        else:
            kept.append(word)
    return tuple(kept)


def _devices(result: Result, machine: Machine, job: JobAccount | None) -> Iterator[str]:
    for device in result.devices:
        place = f"GPU {device.index}"
        if machine.gpu_names and not any(re.fullmatch(name, device.name.strip()) for name in machine.gpu_names):
            yield f"{place} has name {device.name!r}; the system file has {machine.gpu}"
        if machine.compute_capability and device.compute_capability != machine.compute_capability:
            yield (
                f"{place} has compute_capability {device.compute_capability}; {machine.gpu} has "
                f"{machine.compute_capability}"
            )
        sheet = machine.gpu_memory_bytes
        if sheet and not device.mig_enabled and not 0.85 <= device.memory_bytes / sheet <= 1.02:
            yield f"{place} has memory_bytes {device.memory_bytes}; {machine.gpu} has {sheet:.0f}"
        if job is not None and job.uuids and device.uuid not in job.uuids:
            yield f"{place} has uuid {device.uuid or 'none'}; the job saw {', '.join(sorted(job.uuids))}"
