"""A simulated scheduler with simulated nodes: jobs take no time and leave records as programs write them.

Used for the tables of `bench`, and for tests of what a kill at any moment may lose. The work of the nodes is not
counted as cost of the submitting host.
"""

from __future__ import annotations

import io
import json
import random
import re
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.campaign import nodejob
from tenken.campaign.queue import JobScript, Limits, Refused, Seen
from tenken.model.judgement import JudgedMetric, Judgement, Limit
from tenken.model.numbers import quantile
from tenken.model.record import Job, Record
from tenken.model.result import typed

#: Figures of a check on a GPU: name, unit, level.
_FIGURES = (("copy", 4250.0), ("scale", 4250.0), ("add", 4390.0), ("triad", 4395.0), ("dot", 4530.0))
_SAMPLES = 20


@dataclass
class StandIn:
    """Nodes behind a queue of `most` jobs. `clock` is its own: `pass_time` lets jobs begin and end. `factor` returns
    the fraction of the usual performance of a node's GPU (node, GPU, figure)."""

    nodes: Sequence[str]
    checks: int = 12
    gpus: int = 8
    job_seconds: float = 600.0
    most: int | None = None
    factor: Callable[[str, int, str], float] = lambda node, gpu, figure: 1.0
    seed: int = 0
    #: Probabilities that a job leaves nothing, that it starts twice, and that a submission is refused although the job
    #: was queued.
    dies: float = 0.0
    twice: float = 0.0
    taken_unsaid: float = 0.0
    now: float = 1_700_000_000.0
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes_cpu_s: float = 0.0
    submissions: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._texts: dict[int, str] = {}

    # -- a queue --

    def script(self, job: JobScript) -> str:
        return json.dumps({"node": job.node, "tag": job.tag, "seconds": job.seconds}) + "\n" + "\n".join(job.commands)

    def submit(self, path: Path) -> str:
        if self.most is not None and sum(j["state"] != "ended" for j in self.jobs.values()) >= self.most:
            raise Refused("job violates queue limit: max_queued")
        head, _, rest = path.read_text(encoding="utf-8").partition("\n")
        self.submissions += 1
        number = str(self.submissions)
        spool = re.search(r"^spool=(.*); token=(\w+); node=", rest, re.M)
        session = re.search(r"^export TENKEN_SESSION=(\S+)", rest, re.M)
        assert spool and session
        self.jobs[number] = {
            **json.loads(head), "state": "queued", "spool": spool[1].strip("'"), "token": spool[2],
            "session": session[1].strip("'"), "until": None,
        }  # fmt: skip
        if self.rng.random() < self.taken_unsaid:
            raise Refused("socket timed out on send/recv operation")
        return number

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        found: dict[str, Seen | None] = {}
        for number in jobs:
            job = self.jobs.get(number)
            if job is not None:
                found[number] = Seen(running=job["state"] == "running", ended=job["state"] == "ended", why=job["state"])
        return found

    def tagged(self, tag: str) -> dict[str, str]:
        return {
            j["tag"].removeprefix(tag): n for n, j in self.jobs.items()
            if j["state"] != "ended" and j["tag"].startswith(tag)
        }  # fmt: skip

    def cancel(self, job: str) -> None:
        if job in self.jobs:
            self.jobs[job]["state"] = "ended"

    def limits(self) -> Limits:
        return Limits(self.most, "max_queued") if self.most else Limits()

    def exclusion(self, node: str, reason: str) -> str:
        return f"scontrol update nodename={node} state=drain reason={reason!r}"

    # -- the nodes --

    def clock(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        """Jobs begin when their node is free, run for their time, write their results, and end."""
        began = time.process_time()
        self.now += max(seconds, 1.0)
        busy = {j["node"] for j in self.jobs.values() if j["state"] == "running"}
        for job in self.jobs.values():
            if job["state"] == "queued" and job["node"] not in busy:
                job["state"], job["until"] = "running", self.now + self.job_seconds
                busy.add(job["node"])
            elif job["state"] == "running" and self.now >= job["until"]:
                if self.rng.random() >= self.dies:
                    self._leave(job)
                    if self.rng.random() < self.twice:
                        self._leave(job)  # its claim is taken, so it will leave nothing
                job["state"] = "ended"
        self.nodes_cpu_s += time.process_time() - began

    def _leave(self, job: dict[str, Any]) -> None:
        spool, token = Path(job["spool"]), job["token"]
        try:
            (spool / f"{token}.claim").mkdir()
        except FileExistsError:
            return
        meta = (
            f"token={token}\nnode={job['node']}\nhost={job['node']}\nnames={job['node']}\nstatus=0\n"
            f"begin={self.now - self.job_seconds}\nend={self.now}\n"
        )
        part = spool / f".{token}.part"
        with tarfile.open(part, "w") as packed:
            _add(packed, nodejob.META, meta)
            for check in range(self.checks):
                record = self._record(job["session"], job["node"], check)
                inside = archive.folder_of(record, Path("archive"))
                name = f"00{check:02d}00-{archive.safe_name(record.session)}-{self.rng.getrandbits(32):08x}.json"
                _add(packed, str(inside / name), record.text())
        part.rename(spool / f"{token}.tar")

    def _record(self, session: str, node: str, check: int) -> Record:
        values = {
            (name, gpu): level * self.factor(node, gpu, f"Check{check:02d} {name}") * (1 + 5e-4 * self.rng.gauss(0, 1))
            for name, level in _FIGURES for gpu in range(self.gpus)
        }  # fmt: skip
        result = typed(json.loads(json.dumps(_document(node, values, self.gpus), separators=(",", ":"))))
        judged = {
            m.id: JudgedMetric(
                "RECORDED", m.value, m.unit, m.direction, m.statistic, None, Limit(None), None, (None, None)
            )
            for m in result.metrics
        }  # fmt: skip
        return Record(
            session=session, time=f"2026-01-01T00:{check:02d}:00.000000Z", system="standin", partition="gpu",
            environ="cuda", check=f"Check{check:02d}", base_check=f"Check{check:02d}", parameters={}, mode="acceptance",
            program="stream", program_version=1, subjects=("gpu",), nodes=(node,),
            job=Job("local", "1", "SUCCESS", 0), judgement=Judgement("RECORDED", judged=judged),
            result=result,
        )  # fmt: skip


def _add(packed: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    about = tarfile.TarInfo(name)
    about.size = len(content)
    packed.addfile(about, io.BytesIO(content))


def _document(node: str, values: dict[tuple[str, int], float], gpus: int) -> dict[str, Any]:
    """As a program writes it, with every sample."""
    metrics = []
    for at, ((name, gpu), value) in enumerate(values.items()):
        samples = [value * (1 + (0.002 + 1e-5 * at) * (2 * i / (_SAMPLES - 1) - 1)) for i in range(_SAMPLES)]
        ordered = sorted(samples)
        found = {"best": ordered[-1], "median": quantile(ordered, 0.5), "p5": quantile(ordered, 0.05),
                 "p95": quantile(ordered, 0.95)}  # fmt: skip
        metrics.append(
            {"id": f"{name}.gpu{gpu}", "name": name, "subject": {"gpu": gpu}, "unit": "GB/s", "direction": "higher",
             "statistic": "median", "value": found["median"], **found, "count": _SAMPLES, "clock": "device",
             "samples": samples}
        )  # fmt: skip
    state = {"sm_clock_mhz": 1980, "power_w": 500.0, "temperature_c": 45, "reasons": [], "ecc_uncorrected": 0}
    return {
        "schema": "tenken-result/1", "program": "stream", "version": "0123abc", "command": ["stream"],
        "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:09Z",
        "host": {"name": node, "os": "Linux", "kernel": "6.1.0", "architecture": "x86_64", "cpu": "stand-in",
                 "sockets": 2, "cores": 64, "logical_cpus": 128, "numa_nodes": 2, "memory_bytes": 2**40,
                 "last_level_cache_bytes": 2**28, "virtual_machine": None},
        "build": {"compiler": "GNU 12.2.0", "flags": "-O3", "type": "Release", "backends": ["cuda"]},
        "status": "ok", "reason": "", "parameters": {"repetitions": _SAMPLES},
        "placement": {"threads": 1, "allowed_cpus": [0], "allowed_cores": 64, "thread_cpus": [0], "binding": "close",
                      "places": "cores (1 places)", "numa_nodes_of_memory": [0], "ranks": 1},
        "devices": [
            {"index": g, "uuid": f"GPU-{node}-{g}", "name": "NVIDIA H200", "compute_capability": "9.0",
             "memory_bytes": 150_000_000_000, "driver": "580.0", "vbios": "96.00.61"}
            for g in range(gpus)
        ],
        "metrics": metrics,
        "limits": {m["id"]: {"value": 4814.3, "unit": "GB/s", "basis": "attribute"} for m in metrics},
        "verification": {"passed": True, "checks": [{"what": "arrays", "error": 0.0, "tolerance": 1e-12,
                                                     "passed": True}]},
        "path": {"backend": "cuda"},
        "health": {"available": True, "devices": [
            {"index": g, "before": state, "after": state, "worst": state, "samples": 20} for g in range(gpus)]},
    }  # fmt: skip
