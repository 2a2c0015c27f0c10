"""Runs probes on a stand-in cluster through the real ReFrame."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import records as archive
from tests.cluster import matrix
from tests.cluster.minislurm import PORT, MiniSlurm, PortTakenError
from tests.cluster.standins.cluster import Cluster
from tests.support import debian
from tests.support.documents import host_document
from tests.support.reframe import Outcome, reframe

#: Site by scheduler: the system file, its user variables and the stand-in's commands.
SITES: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "pbs": ("miyabi", {"TENKEN_GROUP": "gz00"}, ("qsub", "qstat", "qdel", "pbsnodes")),
    "nqsv": ("pegasus", {"TENKEN_PROJECT": "gz00"}, ("qsub", "qstat", "qdel")),
    "gridengine": ("tsubame3", {"TENKEN_GROUP": "gz00"}, ("qsub", "qstat", "qacct", "qdel")),
}

#: Users have such folders: their paths must come through every script and command whole.
HOME = "a user's"

#: Tests use short waiting times, not those for production.
IMPATIENT = "output=00:00:05,submission=00:00:06,cancel=00:00:10,blocked=00:00:03,silence=00:00:20"
#: No time is left to measure again what is INVALID: on a slow machine there would be, and tests count records.
ENDED = "1"


def document(ranks: int = 1) -> dict[str, Any]:
    """A good result of daxpy on a node with enough cores for any system."""
    found = host_document("daxpy")
    cpus = list(range(256))
    found["placement"] |= {"ranks": ranks, "allowed_cores": 256, "threads": 256, "allowed_cpus": cpus}
    found["placement"] |= {"thread_cpus": cpus, **({"nodes": ["nid001"] * ranks} if ranks > 1 else {})}
    found["host"] |= {"cores": 256, "logical_cpus": 256}
    found["build"] |= {"mpi": "Open MPI 4.1.6"} if ranks > 1 else {}
    return found


def write_document(folder: Path, ranks: int = 1) -> str:
    path = folder / "document.json"
    path.write_text(json.dumps(document(ranks)))
    return str(path)


@dataclass
class Site:
    """A stand-in with a system file for it."""

    cluster: Cluster
    system: str
    environment: dict[str, str]
    folder: Path

    def run(
        self, *arguments: str, check: str = "ProbeOne", command: str = "true", ranks: int = 1, **env: str
    ) -> Outcome:
        """`reframe -n CHECK` there, in the environment `host` or that of the MPI probes."""
        programming = ["-p", "host"] if check == "ProbeOne" else ["-p", "cuda"]
        environment = {
            "TENKEN_TEST_DOCUMENT": write_document(self.folder, ranks), "TENKEN_TEST_COMMAND": command,
            "TENKEN_PATIENCE": IMPATIENT, "TENKEN_UNTIL": ENDED, **self.environment, **env,
        }  # fmt: skip
        return reframe(
            "-r", "--system", self.system, "-n", check, *programming, *arguments,
            folder=self.folder, checks="tests/cluster/probes", **environment,
        )  # fmt: skip

    def script(self, check: str = "ProbeOne") -> str:
        """The job script of a check."""
        found = [*self.folder.glob("stage/**/rfm_job.sh"), *self.folder.glob("output/**/rfm_job.sh")]
        return next(path.read_text() for path in found if path.parent.name.startswith(check))


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Site]:
    def make(scheduler: str, **faults: Any) -> Site:
        system, variables, commands = SITES[scheduler]
        cluster = Cluster(tmp_path / "cluster")
        environment = cluster.create(scheduler, commands, **faults)
        (tmp_path / HOME).mkdir()
        return Site(cluster, system, {**environment, **variables}, tmp_path / HOME)

    return make


#: A session that only has to end; files left on the small disk are listed after its output.
_SCRIPT = """
small=$1; now=$2; shift 2
mkdir -p "$small" && mount -t tmpfs -o size=96k none "$small" || exit 99
[ "$now" = now ] && cat /dev/zero > "$small/fill" 2>/dev/null
"$@"; status=$?
echo LEFT; find "$small" -type f
exit $status
"""


def on_a_small_disk(small: Path, now: bool) -> list[str]:
    """Words that start a command with a full disk at `small`, or with one that the command itself fills."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", _SCRIPT, "sh", str(small), "now" if now else "later"]


@pytest.fixture(scope="session")
def small_disks() -> None:
    """Skips if the kernel does not allow mounting."""
    probe = subprocess.run([*on_a_small_disk(Path("/tmp"), False), "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no mount namespace here: unshare --mount and mount -t tmpfs must work")


@pytest.fixture(scope="session")
def started(tmp_path_factory) -> Iterator[MiniSlurm]:
    debian.need(*debian.SLURM)
    cluster = bring_up(tmp_path_factory.mktemp("mini"))
    yield cluster
    cluster.down()


def bring_up(folder: Path) -> MiniSlurm:
    """Uses the first free ports: another worker, or another checkout, may have a cluster on this machine."""
    asked = os.environ.get("TENKEN_TEST_PORT")
    ports = [int(asked)] if asked else range(PORT, PORT + 2000, 100)
    taken: PortTakenError | None = None
    for port in ports:
        try:
            cluster = MiniSlurm(folder, port)
            cluster.up()
            return cluster
        except PortTakenError as error:
            taken = error
    raise taken or AssertionError("no ports")


@pytest.fixture
def slurm(started: MiniSlurm) -> MiniSlurm:
    started.reset()
    return started


@pytest.fixture
def run(slurm: MiniSlurm, tmp_path: Path) -> Callable[..., Outcome]:
    def call(
        *arguments: str, check: str = "ProbeOne", command: str = "true", ranks: int = 1, before: Sequence[str] = (),
        **env: str,
    ) -> Outcome:  # fmt: skip
        environment = {
            **slurm.environment, "TENKEN_TEST_DOCUMENT": write_document(tmp_path, ranks),
            "TENKEN_TEST_COMMAND": command, "TENKEN_UNTIL": ENDED, **env,
        }  # fmt: skip
        action = () if "--list" in arguments else ("-r",)
        return reframe(
            *action, "--system", "minislurm", "-n", check, *arguments,
            folder=tmp_path, checks="tests/cluster/probes", before=before, **environment,
        )  # fmt: skip

    return call


@pytest.fixture(autouse=True)
def row(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Compares a test of the matrix with its rows: sessions leave records with the row's verdict, naming node and
    reason."""
    yield
    name = f"{request.module.__name__.rpartition('.')[2]}::{request.node.originalname}"
    rows = [one for one in matrix.of_test(name) if not one.own]
    if not rows:
        return
    found = [one for folder in tmp_path.rglob("perflogs") for one in archive.records(folder)]
    assert not (wrong := matrix.against(rows, found)), wrong
