"""A campaign of all host checks over the four nodes of the tests' Slurm, or of the PBS stand-in: killed three times at
random moments and resumed, with one node that is really slow.

    python -m tests.cluster.allchecks [slurm|pbs] [--names CHECK ...] [--factor F] [--seed N] [--keep FOLDER]

The programs are built and run; on one node their time passes more slowly than on the others (slow_node.c). Exit status
1 unless each node was tested once and only the slow one is reported, with its command. All nodes are this machine, so
they run one at a time. With --keep the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tenken.campaign import journal
from tenken.paths import ROOT
from tests.cluster.campaigns import Small
from tests.cluster.conftest import bring_up
from tests.cluster.minislurm import MiniSlurm
from tests.cluster.standins.cluster import Cluster

KILLS = 3
#: Seconds between two lines of progress of this driver.
PROGRESS_S = 30.0
#: What a campaign needs of a checkout, except the systems.
PARTS = ("checks", "config", "scripts", "src", "tenken", "tests", "toolchains")
SYSTEM = """\
title: Four nodes of a test
status: test
facts: {{date: "2026-11-23", source: "tests/cluster/allchecks.py, which starts it"}}
environments:
  host: {{description: "gcc, CPU only", features: [openmp], cc: gcc, cxx: g++}}
partitions:
  gpu:
    description: emulated nodes
    scheduler: {scheduler}
    launcher: local
    access: [{access}]
    {more}
    environments: [host]
    patience: {{pending: 00:02:00, output: 00:00:10}}
    build: login
    node: {{architecture: x86_64, count: 4}}
"""
SITES: dict[str, tuple[str, str, str, str]] = {
    "slurm": ('"--partition=gpu"', "gpu_request: []", "nid[1-4]", "nid3"),
    "pbs": ('"-q regular-g", "-W group_list=gz00", "-j oe"', "select: mpiprocs={num_tasks_per_node}",
            "mg[0001-0004]", "mg0002"),
}  # fmt: skip


@dataclass
class Progress:
    """What survives an interruption of this driver: in FOLDER/driver.json."""

    kills: int = 0
    #: Seconds of all commands, and the longest time of one without a line.
    seconds: float = 0.0
    silent: float = 0.0
    #: Folder, port and first job number of the last Slurm.
    folder: str = ""
    port: int = 0
    number: int = 1

    @classmethod
    def of(cls, path: Path) -> Progress:
        return cls(**json.loads(path.read_text())) if path.is_file() else cls()

    def keep(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def lay_out(folder: Path, scheduler: str, names: Sequence[str], factor: float) -> None:
    """A root that equals this checkout except for its systems, and the campaign `small`."""
    access, more, nodes, slow = SITES[scheduler]
    root, home = folder / "root", folder / "campaigns"
    (root / "systems").mkdir(parents=True)
    home.mkdir(exist_ok=True)
    for part in PARTS:
        (root / part).symlink_to(ROOT / part)
    (root / "systems" / "hardware.yaml").symlink_to(ROOT / "systems" / "hardware.yaml")
    (root / "systems" / "mini.yaml").write_text(SYSTEM.format(scheduler=scheduler, access=access, more=more))
    library = folder / "slow_node.so"
    source = Path(__file__).with_name("slow_node.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
    # waiting threads yield their core to other processes: otherwise a barrier occasionally takes ten times as long
    shared = ", OMP_WAIT_POLICY: passive"
    # a compiler cache, if one is set up
    cache = {name: value for name, value in os.environ.items() if name.startswith(("CCACHE_", "CMAKE_"))}
    cached = "".join(f", {name}: '{value}'" for name, value in cache.items())
    only = f", names: [{', '.join(names)}]" if names else ""
    (home / "small.yaml").write_text(
        f"system: mini\npartition: gpu\nnodes: '{nodes}'\nminutes: 50\nconcurrency: 1\n"
        f"retest: {{runs: 1, checks: suspect}}\n"
        f"checks: {{mode: quick, environments: [host]{only}}}\n"
        f"environment: {{LD_PRELOAD: '{library}', SLOW_NODE: '{slow}', SLOW_FACTOR: '{factor}'{shared}{cached}}}\n"
    )


class Watched:
    """Runs one command of the campaign: its lines are stored, and some of them printed as they come."""

    def __init__(self, small: Small, progress: Progress, *words: str) -> None:
        self.small, self.progress = small, progress
        self.lines: list[str] = []
        self.process = small.start(*words, "small", "--poll", "1", "--late", "20")
        self.began = self.last = self.said = time.monotonic()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            now = time.monotonic()
            self.progress.silent = max(self.progress.silent, now - self.last)
            self.last = now
            self.lines.append(line.rstrip())
            if now - self.said > PROGRESS_S or not re.match(r"\d\d:\d\d:\d\d ", line):
                self.said = now
                print(f"{self.lines[-1]}; {on_node(self.small)}", flush=True)

    def ended(self, seconds: float | None = None) -> bool:
        """Waits until it has ended, at most this long."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def over(self, folder: Path) -> None:
        """Stores what was printed, and how long it took."""
        self.reader.join(10)
        self.progress.seconds += time.monotonic() - self.began
        self.progress.keep(folder / "driver.json")


def on_node(small: Small) -> str:
    """ReFrame's last output on the nodes that are measured now."""
    state = journal.read(small.folder / "campaigns" / "small")
    found = []
    for attempt in state.open():
        for path in Path(tempfile.gettempdir()).glob(f"tenken-{attempt.token}.*/reframe.txt"):
            lines = path.read_text(errors="replace").splitlines()
            found.append(f"{attempt.unit.id}: {' '.join((lines or ['nothing yet'])[-1].split())[:150]}")
    return "; ".join(found) or "no node is measured"


def survives(small: Small, seed: int, progress: Progress) -> tuple[int, str]:
    """Runs it, with KILLS kills after 5 to 60 s each; the status and output of the last command."""
    rng = random.Random(seed)
    moments = [rng.uniform(5, 60) for _ in range(KILLS)]
    while progress.kills < KILLS:
        one = Watched(small, progress, "resume" if small.events() else "run")
        after = moments[progress.kills]
        if one.ended(after):
            one.over(small.folder)
            raise SystemExit("\n".join(["it ended before it was killed:", *one.lines]))
        one.process.send_signal(signal.SIGKILL)
        one.ended()
        progress.kills += 1
        one.over(small.folder)
        print(f"killed after {after:.0f} s: {one.lines[-1] if one.lines else 'no line yet'}", flush=True)
    one = Watched(small, progress, "resume")
    one.ended()
    one.over(small.folder)
    return one.process.returncode, "\n".join(one.lines)


def faults(small: Small, scheduler: str, status: int, output: str) -> list[str]:
    """Deviations from what is required."""
    slow = SITES[scheduler][3]
    wrong = [] if status == 0 else [f"`resume` ended with {status}: {output[-2000:]}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.campaign", "report", "small"],
        cwd=ROOT, env=small.env(), text=True, capture_output=True, check=False,
    )  # fmt: skip
    print(done.stdout)
    section = done.stdout.partition("confirmed by a second")[2].partition("\n\n")[0]
    named = set(re.findall(r"^  (?:device|node) (\S+):", section, re.M))
    if named != {slow}:
        wrong.append(f"reported: {sorted(named)}, slow: {slow}")
    command = f"nodename={slow} state=drain" if scheduler == "slurm" else "pbsnodes -o -C"
    if command not in done.stdout:
        wrong.append(f"no command with {command!r}")
    of_round = Counter((r.nodes[0], r.check) for r in small.records() if r.session.endswith("-round1"))
    twice = [f"{node} {check}: {n} times" for (node, check), n in of_round.items() if n != 1]
    checks = {check for _, check in of_round}
    lost = [f"{node} {check}: no record" for node in {n for n, _ in of_round} for check in checks
            if (node, check) not in of_round]  # fmt: skip
    if len({node for node, _ in of_round}) != 4:
        lost.append(f"nodes with a record: {sorted({n for n, _ in of_round})}")
    of_run = {"first runs": sum(of_round.values()), "all": len(small.records())}
    print(f"{len(checks)} checks on 4 nodes; records: {of_run}; lost: {len(lost)}; twice: {len(twice)}; "
          f"verdicts: {dict(Counter(r.verdict for r in small.records()))}")  # fmt: skip
    return wrong + twice + lost


def slurm_of(progress: Progress, folder: Path, place: Path) -> MiniSlurm:
    """A new cluster with other job numbers than the previous one, from which nothing is left."""
    if progress.folder and Path(progress.folder).is_dir():
        end(MiniSlurm(Path(progress.folder), progress.port))
        progress.number += 10000
    cluster = bring_up(place, progress.number)
    progress.folder, progress.port = str(place), cluster.port
    progress.keep(folder / "driver.json")
    return cluster


def end(cluster: MiniSlurm) -> None:
    cluster.slurm("scancel", "-f", "-u", getpass.getuser())
    time.sleep(5)  # nothing of its jobs may be left when their daemons are gone
    cluster.down()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.allchecks")
    parser.add_argument("scheduler", nargs="?", choices=sorted(SITES), default="slurm")
    parser.add_argument("--names", nargs="+", default=(), metavar="CHECK", help="only these checks")
    parser.add_argument("--factor", type=float, default=4, help="how slow the slow node is (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--keep", type=Path, help="folder for all files, new or interrupted; default: a temporary one")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tk", dir="/tmp") as name:
        folder = (given.keep or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        progress = Progress.of(folder / "driver.json")
        cluster = None
        if given.scheduler == "slurm":
            (Path(name) / "s").mkdir()
            cluster = slurm_of(progress, folder, Path(name) / "s")
        # the stand-in's daemons are the processes of its jobs: running ones are found again
        commands = ("qsub", "qstat", "qdel", "pbsnodes")
        environment = cluster.environment if cluster else Cluster(folder / "cluster").create("pbs", commands)
        try:
            if not (folder / "campaigns" / "small.yaml").is_file():
                lay_out(folder, given.scheduler, given.names, given.factor)
            small = Small(folder, {**environment, "TENKEN_ROOT": str(folder / "root")})
            status, output = survives(small, given.seed, progress)
            wrong = faults(small, given.scheduler, status, output)
        finally:
            if cluster:
                end(cluster)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join(wrong) or "the slow node alone is reported; no record lost, none twice")
    print(
        f"{progress.kills} kills, {progress.seconds:.0f} s; longest time without a line {progress.silent:.1f} s; load "
        f"{os.getloadavg()[1]:.1f}; {spent.ru_utime + spent.ru_stime:.1f} CPU-s of this command's children"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
