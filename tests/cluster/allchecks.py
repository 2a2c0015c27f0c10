"""A campaign of all host checks over the four nodes of the tests' Slurm, or of the PBS stand-in: killed three times at
random moments, resumed, one node really slow.

    python -m tests.cluster.allchecks [slurm|pbs] [--names CHECK ...] [--factor F] [--seed N] [--keep FOLDER]

The programs are built and run; in those of one node time passes more slowly than on the others (slow_node.c). Exit
status 1 unless each node was tested once, the slow one is reported with its command, and no other one. All nodes are
this machine, so that they run one at a time.
"""

from __future__ import annotations

import argparse
import getpass
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tenken.paths import ROOT
from tests.cluster.campaigns import Small
from tests.cluster.conftest import bring_up
from tests.cluster.standins.cluster import Cluster

KILLS = 3
#: Of what a campaign needs of a checkout all but the systems.
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


def lay_out(folder: Path, scheduler: str, names: Sequence[str], factor: float) -> None:
    """A root that is this checkout but for its systems, and the campaign `small`."""
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
    only = f", names: [{', '.join(names)}]" if names else ""
    (home / "small.yaml").write_text(
        f"system: mini\npartition: gpu\nnodes: '{nodes}'\nminutes: 50\nconcurrency: 1\nretest: {{runs: 1}}\n"
        f"checks: {{mode: quick, environments: [host]{only}}}\n"
        f"environment: {{LD_PRELOAD: '{library}', SLOW_NODE: '{slow}', SLOW_FACTOR: '{factor}'}}\n"
    )


def survives(small: Small, seed: int, say: Callable[[str], None]) -> tuple[int, str]:
    """Runs it, with KILLS kills after 5 to 60 s each; the status and output of the last command."""
    rng = random.Random(seed)
    for number in range(KILLS):
        process = small.start("resume" if number else "run", "small", "--poll", "1", "--late", "20")
        after = rng.uniform(5, 60)
        try:
            process.wait(after)
            raise SystemExit(f"it ended before it was killed: {process.communicate()[0]}")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        said = process.communicate()[0].splitlines()
        say(f"killed after {after:.0f} s: {said[-1] if said else 'no line yet'}")
    process = small.start("resume", "small", "--poll", "1", "--late", "20")
    output = process.communicate()[0]
    return process.returncode, output


def faults(small: Small, scheduler: str, status: int, output: str) -> list[str]:
    """What is not as it must be."""
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
    print(f"{len(checks)} checks on 4 nodes; verdicts: {dict(Counter(r.verdict for r in small.records()))}")
    return wrong + twice + lost


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.allchecks")
    parser.add_argument("scheduler", nargs="?", choices=sorted(SITES), default="slurm")
    parser.add_argument("--names", nargs="+", default=(), metavar="CHECK", help="only these checks")
    parser.add_argument("--factor", type=float, default=4, help="how slow the slow node is (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--keep", type=Path, help="folder for all files, new; default: a temporary one")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tk", dir="/tmp") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        (Path(name) / "s").mkdir()
        cluster = bring_up(Path(name) / "s") if given.scheduler == "slurm" else None
        environment = (
            cluster.environment if cluster
            else Cluster(folder / "cluster").create("pbs", ("qsub", "qstat", "qdel", "pbsnodes"))
        )  # fmt: skip
        try:
            lay_out(folder, given.scheduler, given.names, given.factor)
            small = Small(folder, {**environment, "TENKEN_ROOT": str(folder / "root")})
            since = time.monotonic()
            status, output = survives(small, given.seed, lambda line: print(line, flush=True))
            took = time.monotonic() - since
            wrong = faults(small, given.scheduler, status, output)
        finally:
            if cluster:
                cluster.slurm("scancel", "-f", "-u", getpass.getuser())
                time.sleep(5)  # of its jobs nothing is to be left when their daemons are gone
                cluster.down()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join(wrong) or "the slow node alone is reported; no record lost, none twice")
    print(f"{KILLS} kills, {took:.0f} s; load {os.getloadavg()[1]:.1f}; {spent.ru_utime + spent.ru_stime:.1f} CPU-s of "
          "the submitting host's commands")  # fmt: skip
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
