"""HPCG by the suite's own solver: on the host, on one GPU, on all GPUs of a node, and between nodes."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from tenken.reframe.hpcg import HpcgBase
from tenken.reframe.links import FIND_NCCL, MpiBase


@rfm.simple_test
class HpcgHost(HpcgBase):
    """One process on all cores of a node, with OpenMP."""

    descr = "HPCG on the host, OpenMP on all cores"
    share = 33
    tags = {"hpcg", "quick", "acceptance", "nightly"}
    time_limit = "30m"

    @run_after("setup")
    def set_problem(self):
        """104^3 as HPCG's own default; smaller if a node has few cores or time is limited, since the reference solver,
        which must run first, is serial.
        """
        few = (self.cores or 1) < 8
        quick = self.size_mode == "quick"
        self.ask("host", 32 if quick else 64 if few else 104, **({} if quick else {"energy-seconds": 2.5}))


@rfm.simple_test
class HpcgHostRanks(HpcgBase):
    """Four ranks of one node with OpenMP threads each: halo exchange and sums by MPI, without any GPU."""

    descr = "HPCG on the host, four MPI ranks"
    share = 17
    tags = {"hpcg", "mpi", "acceptance"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    uses_mpi = True
    num_tasks = 4
    num_tasks_per_node = 4
    cores = 0
    env_vars = dict(MpiBase.env_vars)

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a small grid per rank."""
        self.ask("host", 32, ranks=self.num_tasks)


@rfm.simple_test
class HpcgCuda(HpcgBase):
    """One GPU, 256^3 points if they fit into its memory."""

    descr = "HPCG on one GPU"
    share = 30
    tags = {"hpcg", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: the largest grid that fits."""
        quick = self.size_mode == "quick"
        side = min(128, self.side_for_memory()) if quick else self.side_for_memory()
        self.ask("cuda", side, gpus="0", **({} if quick else {"energy-seconds": 2.5}))


@rfm.simple_test
class HpcgCudaSmall(HpcgBase):
    """One GPU at 104^3, HPCG's default size: limited by launches unless the multigrid cycle is a CUDA graph. A copy in
    random order is solved too: the solver must find a colouring for it as well (`shuffled`).
    """

    descr = "HPCG on one GPU, 104^3, and a copy in random order"
    tags = {"hpcg", "nightly"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a small grid, rows shuffled."""
        self.ask("cuda", 104 if self.side_for_memory() > 104 else 64, gpus="0", shuffled="on")
        self.expected_parameters |= {"shuffled": "on"}


class HpcgRanksBase(HpcgBase):
    """A rank for each GPU; halos and sums by peer stores, else NCCL, else through the host; recorded in
    `path.exchange`.
    """

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
        """Once the partition is known: a rank for each GPU, each with the largest grid that fits."""
        self.num_tasks_per_node = self.machine.gpus or (2 if self.nodes_asked == 1 else 1)
        self.num_tasks = self.nodes_asked * self.num_tasks_per_node
        quick = self.size_mode == "quick"
        side = min(128, self.side_for_memory()) if quick else self.side_for_memory()
        self.ask("cuda", side, ranks=self.num_tasks, **({} if quick else {"energy-seconds": 2.5}))


@rfm.simple_test
class HpcgGpus(HpcgRanksBase):
    """All GPUs of a node together (R9 of the publications)."""

    descr = "HPCG on all GPUs of a node"
    share = 31
    tags = {"hpcg", "mpi", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi +gpus2"]


@rfm.simple_test
class HpcgBetweenNodes(HpcgRanksBase):
    """Four nodes, or as many as `-S HpcgBetweenNodes.num_nodes=64` sets."""

    descr = "HPCG on the GPUs of several nodes"
    share = 40
    tags = {"hpcg", "mpi", "acceptance"}
    valid_systems = ["+cuda +mpi"]
    num_nodes = variable(int, value=4)

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes."""
        self.nodes_asked = self.num_nodes
        self.need_nodes(self.num_nodes)


@rfm.simple_test
class HpcgPublished(HpcgRanksBase):
    """Four, eight and 32 nodes (R10 of the publications)."""

    descr = "HPCG on the GPUs of as many nodes as published"
    tags = {"hpcg", "mpi", "published"}
    valid_systems = ["+cuda +mpi"]
    #: Nodes.
    num_nodes = parameter([4, 8, 32])

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes; only in mode published."""
        self.nodes_asked = self.num_nodes
        self.need_nodes(self.nodes_asked)
        self.only_in_mode("published")
