"""HPCG by the suite's own solver: on the host, on one GPU, on all GPUs of a node, and between nodes."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import run_after, variable

from checks.base import TenkenCheck
from checks.links import FIND_NCCL, MpiBase
from tenken.document import Document
from tenken.verdict import FAIL, Finding

#: Seconds of timed sets by mode. An official HPCG run takes 1800 s: every document says that it is none.
SECONDS = {"quick": 2, "acceptance": 20, "nightly": 20, "published": 60}
#: Points along each side of one GPU's grid, and the memory in GiB that they take.
SIDES = ((256, 15), (192, 7), (128, 3), (64, 1))


class HpcgBase(TenkenCheck):
    """GFLOP/s by HPCG's own count, its tests of validity, and the report in its own form beside the document.

    Metrics: `raw`, `rating` (with the overheads of convergence and of setting up), `set`, `spmv`, `mg`, `setup`,
    `optimise`, `iterations`, `dot` and `of_dot`, its ratio to a solver with three passes over the matrix a level.
    """

    program = "hpcg"
    tags = {"hpcg"}

    #: Points along each side of a rank's grid, a multiple of 8; None: by mode and memory.
    side = variable(int, type(None), value=None)

    #: Seconds of timed sets; None: by mode.
    seconds = variable(int, type(None), value=None)

    def ask(self, backend: str, side: int, **more: object) -> None:
        """Sets arguments, and the parameters that the document must state."""
        chosen = {"backend": backend, "nx": self.side or side}
        seconds = SECONDS[self.tenken_mode] if self.seconds is None else self.seconds
        self.arguments = {
            **chosen,
            "target-seconds": seconds,
            "repetitions": 100,
            "hpcg-file": "HPCG-Benchmark_3.1_tenken.txt",
            **more,
            **self.arguments,
        }
        self.asked = {**chosen, "repetitions": 100, **{k: v for k, v in more.items() if k == "ranks"}, **self.asked}

    def side_for_memory(self) -> int:
        """The largest grid that a GPU of this machine holds; the smallest where nothing is known of it."""
        memory = self.machine.gpu_memory_gib
        return next((side for side, gib in SIDES if memory > gib), SIDES[-1][0])

    def relations(self, result: Document) -> list[Finding]:
        return rating_above_raw(result)


def rating_above_raw(result: Document) -> list[Finding]:
    """The rating is what overheads leave of raw performance; only fewer iterations than 50 can raise it."""
    values = {metric.name: metric for metric in result.metrics}
    if not {"raw", "rating", "iterations"} <= set(values):
        return []
    rating, raw = values["rating"], values["raw"]
    bound = raw.value * max(1.0, 50 / max(1.0, values["iterations"].value))
    if rating.value <= bound * 1.00001:  # six digits are printed
        return []
    message = (
        f"{rating.id} = {rating.value:.5g} GFLOP/s is above what {raw.id} = {raw.value:.5g} GFLOP/s and "
        f"{values['iterations'].value:g} iterations allow"
    )
    return [Finding(FAIL, message, metric=rating.id, value=rating.value, unit="GFLOP/s", bound=bound)]


@rfm.simple_test
class HpcgHost(HpcgBase):
    """One process on all cores of a node, with OpenMP."""

    descr = "HPCG on the host, OpenMP on all cores"
    tags = {"hpcg", "quick", "acceptance", "nightly"}
    time_limit = "30m"

    @run_after("setup")
    def set_problem(self):
        """104^3 as HPCG's own default; smaller where a node has few cores or time is short."""
        small = self.tenken_mode == "quick" or (self.cores or 1) < 8
        self.ask("host", 64 if small else 104)


@rfm.simple_test
class HpcgHostRanks(HpcgBase):
    """Four ranks of one node with OpenMP threads each: halo exchange and sums by MPI, without any GPU."""

    descr = "HPCG on the host, four MPI ranks"
    tags = {"hpcg", "mpi", "quick", "acceptance"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+mpi"]
    subjects = ["ranks"]
    uses_mpi = True
    num_tasks = 4
    num_tasks_per_node = 4
    cores = 0
    env_vars = dict(MpiBase.env_vars)

    @run_after("setup")
    def set_problem(self):
        self.ask("host", 32, ranks=self.num_tasks)


@rfm.simple_test
class HpcgCuda(HpcgBase):
    """One GPU, 256^3 points where its memory holds them."""

    descr = "HPCG on one GPU"
    tags = {"hpcg", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1

    @run_after("setup")
    def set_problem(self):
        quick = self.tenken_mode == "quick"
        self.ask("cuda", min(128, self.side_for_memory()) if quick else self.side_for_memory(), gpus="0")


@rfm.simple_test
class HpcgCudaSmall(HpcgBase):
    """One GPU at 104^3, HPCG's default size: bound by launches where there is no graph of the multigrid cycle.

    The copy in random order is solved too: the solver must find its colours there as well (`shuffled`).
    """

    descr = "HPCG on one GPU, 104^3, and a copy in random order"
    tags = {"hpcg", "acceptance", "nightly"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1

    @run_after("setup")
    def set_problem(self):
        self.ask("cuda", 104 if self.side_for_memory() > 104 else 64, gpus="0", shuffled="on")
        self.asked = {**self.asked, "shuffled": "on"}


class HpcgRanksBase(HpcgBase):
    """A rank for each GPU; halo and sums by peer stores, else NCCL, else through the host; `path.exchange` says."""

    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+cuda +mpi"]
    subjects = ["ranks"]
    on_gpus = True
    uses_mpi = True
    cores = 0
    env_vars = dict(MpiBase.env_vars)
    prerun_cmds = FIND_NCCL.splitlines()

    #: Nodes; each runs a rank for each of its GPUs.
    nodes_asked = variable(int, value=1)

    @run_after("setup")
    def set_problem(self):
        # one GPU alone is no pair: the program then waives
        self.num_tasks_per_node = max(self.machine.gpus or 1, 2 if self.nodes_asked == 1 else 1)
        self.num_tasks = self.nodes_asked * self.num_tasks_per_node
        quick = self.tenken_mode == "quick"
        side = min(128, self.side_for_memory()) if quick else self.side_for_memory()
        self.ask("cuda", side, ranks=self.num_tasks)


@rfm.simple_test
class HpcgGpus(HpcgRanksBase):
    """All GPUs of a node together (R9 of the publications)."""

    descr = "HPCG on all GPUs of a node"
    tags = {"hpcg", "mpi", "quick", "acceptance", "nightly", "published"}


@rfm.simple_test
class HpcgBetweenNodes(HpcgRanksBase):
    """Four nodes (R10 of the publications; `-S nodes_asked=8` and 32 for its other figures)."""

    descr = "HPCG on the GPUs of several nodes"
    tags = {"hpcg", "mpi", "acceptance", "published"}
    valid_systems = ["+cuda +mpi +nodes"]
    nodes_asked = 4
