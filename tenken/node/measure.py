"""What can be measured in seconds, with the suite's own programs and short arguments.

The programs must have been built; nothing is compiled here. Each runs in a child (tenken.node.probe) with a clean
environment and writes its result document; the median of each series is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tenken.node import probe, state
from tenken.node.probe import Say

#: Folder of the programs' locks (lib/base/machine_locks.h), and the one for root if the first does not belong to root.
LOCKS, OWN_LOCKS = Path("/dev/shm/tenken-locks"), Path("/run/tenken-locks")
#: A program hangs if it takes this many times its usual time; below that, the time limit was too short.
HANGS = 2


@dataclass(frozen=True)
class Step:
    """One run of a program; not started if less time than `seconds` is left."""

    program: str
    arguments: tuple[str, ...]
    seconds: float
    each: float = 0.0
    """Additional seconds for each GPU."""
    gpus: int = 1
    """Minimum number of GPUs."""
    at_once: bool = False
    """With several GPUs, all of them at the same time."""
    metrics: tuple[str, ...] = ()
    """Metrics that are kept; empty: all."""


#: In order of importance. Arrays are larger than four times the L2 of any GPU; on the host, the program chooses their
#: size by its caches. stream tries all launch configurations: the default one reaches 2,970 GB/s on an H100, the best
#: 3,070. Seconds were measured on two H100. gemm needs the time to load its libraries; it takes the first algorithm,
#: since trying all takes eight seconds.
STEPS = (
    Step("stream", ("--backend", "cuda", "--launch", "tried", "--array-bytes", "1Gi", "--repetitions", "20",
                    "--warmup-seconds", "0.1"), 2.0, 0.2, at_once=True, metrics=("triad",)),
    Step("transfer", ("--backend", "cuda", "--kinds", "pinned", "--bytes", "256Mi", "--repetitions", "5",
                      "--warmup-seconds", "0.05"), 0.4, 0.4, metrics=("htod_pinned", "dtoh_pinned")),
    Step("p2p", ("--transfers", "peer", "--bytes", "64Mi", "--repetitions", "5", "--warmup-seconds", "0"), 0.1, 0.3,
         gpus=2, metrics=("peer",)),
    Step("gemm", ("--backend", "cuda", "--cases", "bf16:4096", "--algorithms", "first", "--data", "random",
                  "--repetitions", "5", "--warmup-seconds", "0.1", "--first-seconds", "0", "--sustained-seconds", "0.3",
                  "--energy-seconds", "0"), 2.5, at_once=True, metrics=("gemm",)),
    Step("stream", ("--backend", "host", "--repetitions", "3", "--warmup-seconds", "0"), 1.0, gpus=0,
         metrics=("triad",)),
)  # fmt: skip


@dataclass
class Measured:
    """Values in GB/s and TFLOP/s by `stream.triad.gpu0`, and what went wrong."""

    values: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    """Programs whose verification failed, with their reason: the hardware computes or moves data wrongly."""
    hung: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Programs without a result, with the reason."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each program took, its start included."""


def search_path(file: Path) -> list[Path]:
    """Where the loader searches a program's libraries before its default folders: DT_RUNPATH and DT_RPATH of a 64-bit
    ELF file (elf(5)); none for a script."""
    with file.open("rb") as opened:
        head = opened.read(64)
        if head[:5] != b"\x7fELF\2":
            return []
        order = "<" if head[5] == 1 else ">"
        (at,), (size, count) = struct.unpack_from(f"{order}Q", head, 32), struct.unpack_from(f"{order}HH", head, 54)
        opened.seek(at)
        raw = opened.read(size * count)
        # type, flags, offset, address, physical address, bytes in the file
        segments = [struct.unpack_from(f"{order}IIQQQQ", raw, size * number) for number in range(count)]
        dynamic = next((one for one in segments if one[0] == 2), None)
        if dynamic is None:
            return []
        opened.seek(dynamic[2])
        tags = list(struct.iter_unpack(f"{order}QQ", opened.read(dynamic[5] // 16 * 16)))
        names = next(value for tag, value in tags if tag == 5)
        offset = next(names - one[3] + one[2] for one in segments if one[0] == 1 and 0 <= names - one[3] < one[5])
        found = []
        for tag, value in tags:
            if tag in (15, 29):
                opened.seek(offset + value)
                found += opened.read(4096).partition(b"\0")[0].decode().split(":")
    # an empty part means the current folder, which is / for our programs
    origin = str(file.parent)
    return [Path("/", re.sub(r"\$(ORIGIN|\{ORIGIN\})", origin, one)) for one in found]


def missing(folder: Path, steps: Sequence[Step] = STEPS) -> dict[str, str]:
    """Programs that cannot be run, with the reason; root also rejects those that others could replace."""
    result = {}
    for program in dict.fromkeys(step.program for step in steps):
        file = folder / program
        why = "" if os.access(file, os.X_OK) and file.is_file() else f"no program {file}"
        if not why and os.geteuid() == 0:
            why = next(filter(None, map(state.replaceable, (file, *search_path(file)))), "")
        if why:
            result[program] = why
    return result


def run(
    folder: Path, gpus: Sequence[Mapping[str, Any]], until: float, steps: Sequence[Step] = STEPS,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:  # fmt: skip
    """Runs what fits before `until` (of `clock`), on the given GPUs only, one program after another."""
    result = Measured()
    unusable = missing(folder, steps)
    scratch = Path(tempfile.mkdtemp(prefix="tenken-node-"))
    try:
        for number, step in enumerate(steps):
            said = f"{step.program} {step.arguments[1]}"
            left = until - clock()
            if step.program in unusable:
                result.left_out[said] = unusable[step.program]
            elif len(gpus) < step.gpus:
                result.left_out[said] = f"needs {step.gpus} idle GPUs"
            elif left < step.seconds + step.each * len(gpus):
                result.left_out[said] = "no time left"
            else:
                began = clock()
                _one(step, said, folder, gpus, scratch / f"{number}.json", left, result)
                result.seconds[said] = clock() - began
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return result


def _one(
    step: Step, said: str, folder: Path, gpus: Sequence[Mapping[str, Any]], file: Path, left: float, result: Measured
) -> None:
    command = [str(folder / step.program), *step.arguments, "--json", str(file)]
    if step.at_once and len(gpus) > 1:
        command.append("--at-once")
    answer = probe.run({said: lambda say: _program(say, command, _environment(gpus), file)}, left)[said]
    if answer.hung and left < HANGS * (step.seconds + step.each * len(gpus)):
        result.left_out[said] = "no time left: it did not end"
        return
    if answer.hung:
        result.hung.append(said)
        return
    if answer.error:
        result.left_out[said] = answer.error
        return
    document, text = answer.value
    status, reason = document.get("status"), document.get("reason") or text
    if status == "failed" and reason.startswith("verification: "):
        result.wrong[said] = reason.removeprefix("verification: ")
    elif status != "ok":
        result.left_out[said] = reason
    else:
        result.values |= values(document, [gpu["index"] for gpu in gpus], step.metrics)


def locks(usual: Path = LOCKS, own: Path = OWN_LOCKS) -> dict[str, str]:
    """The folder of locks for root. It is the one shared by all users if that belongs to root, since a link placed
    there by a user would make root create files elsewhere. Empty for other users."""
    if os.geteuid() != 0:
        return {}
    try:
        with contextlib.suppress(FileExistsError):
            usual.mkdir()
            usual.chmod(0o1777)
        found = os.lstat(usual)
        safe = stat.S_ISDIR(found.st_mode) and found.st_uid == 0
    except OSError:
        safe = False
    return {"TENKEN_LOCKS": str(usual if safe else own)}


def _environment(gpus: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        **locks(),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu["uuid"] for gpu in gpus),
        # another measurement holds the lock: waiting does not help
        "TENKEN_LOCK_SECONDS": "0",
    }


def _program(say: Say, command: Sequence[str], environment: Mapping[str, str], file: Path) -> Any:
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, cwd="/", check=False
    )
    last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    document = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return [{k: document.get(k) for k in ("program", "status", "reason", "series")}, last[0]]


def values(document: Mapping[str, Any], indices: Sequence[int], metrics: Sequence[str] = ()) -> dict[str, float]:
    """Medians of the series: GB/s, TFLOP/s, by program, metric, subject and coordinates. GPU i of the program is
    `indices[i]` of the node."""
    result = {}
    for series in document.get("series") or []:
        if metrics and series["metric"] not in metrics:
            continue
        subject = _subject(series["subject"], indices)
        at = "".join(f".{key}={value}" for key, value in sorted((series.get("at") or {}).items()))
        if "values" in series:
            rate = median(series["values"])
        else:
            counted = "operations" if "operations" in series["counts"] else "bytes"
            unit = 1e12 if counted == "operations" else 1e9
            rate = series["counts"][counted] / median(series["seconds"]) / unit
        result[f"{document['program']}.{series['metric']}.{subject}{at}"] = rate
    return result


def _subject(subject: Mapping[str, int], indices: Sequence[int]) -> str:
    if "from" in subject:
        return f"gpu{indices[subject['from']]}-gpu{indices[subject['to']]}"
    if "gpu" in subject:
        return f"gpu{indices[subject['gpu']]}"
    return "host"
