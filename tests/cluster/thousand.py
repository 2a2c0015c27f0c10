"""A campaign of many real jobs of two seconds on the tests' Slurm: whether it ends, and the cost per job.

    python -m tests.cluster.thousand [JOBS]        1000 by default; exit status 1 if it does not end or loses a job

The nodes of the campaign are names; several of them share each emulated node. A job waits two seconds and writes the
file of records that a node would leave.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tenken.archive import records as archive
from tenken.campaign import runner
from tenken.campaign.file import Campaign
from tenken.campaign.queue import JobScript
from tenken.commands.campaign_queues import SlurmQueue
from tenken.machines import loader
from tests.cluster.conftest import bring_up
from tests.cluster.minislurm import NODES
from tools.campaign import standin

SECONDS = 2


class Shared(SlurmQueue):
    """Slurm with several campaign nodes on each of its own."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        super().__init__(loader.load("minislurm").expand(os.environ).partition("gpu"), None)
        self.made = standin.StandIn(names, checks=1, gpus=1)
        self.folder = folder
        self.host = {name: f"nid{i % NODES + 1}" for i, name in enumerate(names)}
        self.prepared_cpu_s = 0.0

    def script(self, job: JobScript) -> str:
        began = time.process_time()
        whole = "\n".join(job.commands)
        found = re.search(r"^spool=(.*); token=(\w+); node=", whole, re.M)
        session = re.search(r"^export TENKEN_SESSION=(\S+)", whole, re.M)
        assert found and session
        spool, token = found[1].strip("'"), found[2]
        stage = self.folder / "stage"
        stage.mkdir(exist_ok=True)
        self.made._leave({"spool": str(stage), "token": token, "node": job.node, "session": session[1].strip("'")})
        self.prepared_cpu_s += time.process_time() - began
        lines = [
            f'mkdir "{spool}/{token}.claim" || exit 75', f"sleep {SECONDS}",
            f'mv "{stage}/{token}.tar" "{spool}/{token}.tar"',
        ]  # fmt: skip
        pinned = JobScript(job.name, job.tag, self.host[job.node], job.seconds, job.output, lines)
        return super().script(pinned).replace("#SBATCH --exclusive\n", "#SBATCH --ntasks=1 --mem=10\n")


def main(jobs: int) -> int:
    names = tuple(f"n{i:05d}" for i in range(jobs))
    with tempfile.TemporaryDirectory(prefix="tk", dir="/tmp") as name:
        folder = Path(name)
        (folder / "s").mkdir()
        cluster = bring_up(folder / "s")
        os.environ.update(cluster.environment)
        try:
            queue = Shared(folder, names)
            said: list[float] = [time.monotonic()]

            def say(line: str) -> None:
                said.append(time.monotonic())
                print(line, flush=True)

            run = runner.Runner(
                Campaign("thousand", "minislurm", "gpu", names, 60.0, concurrency=500, in_phase=True, attempts=2),
                folder / "c", folder / "archive", queue, say, lambda state: [], poll=2.0,
            )  # fmt: skip
            began, since = _cpu(), time.monotonic()
            whole = run.run()
            said.append(time.monotonic())
            spent, took = _cpu() - began - queue.prepared_cpu_s, time.monotonic() - since
        finally:
            cluster.down()
        of_node = Counter(r.nodes[0] for r in archive.records(folder / "archive"))
    right = whole and of_node == {node: 1 for node in names}
    silent = max(b - a for a, b in pairwise(said))
    print(
        f"{jobs} jobs of {SECONDS} s on {NODES} emulated nodes: {'ended' if whole else 'NOT ended'} "
        f"after {took:.0f} s, {sum(of_node.values())} records of {len(of_node)} nodes; {spent:.1f} CPU-s "
        f"of the submitting host, {spent / jobs:.3f} a job, sbatch and squeue included; "
        f"longest without a line {silent:.1f} s"
    )
    return 0 if right else 1


def _cpu() -> float:
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
