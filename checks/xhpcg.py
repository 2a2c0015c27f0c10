"""The vendor's or the site's HPCG in place of `hpcg`: their binary, and a parser of its report."""

from __future__ import annotations

import os
import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.parsers.hpcg import METRICS, document, parse, waived
from tenken.reframe.base import RESULT_FILE
from tenken.reframe.hpcg import SECONDS, HpcgBase
from tenken.reframe.links import MpiBase


@rfm.simple_test
class HpcgBinary(HpcgBase):
    """The vendor's or the site's `xhpcg` (module, container), a rank for each GPU of a node.

    `xhpcg` or the variable TENKEN_XHPCG is the command (waived if neither is set): a path, or a container command
    such as `apptainer exec --nv hpc-benchmarks.sif ./hpcg.sh`. Size and duration are passed in the file hpcg.dat, which
    the binaries read; NVIDIA's script needs `--dat hpcg.dat` in `xhpcg_options`. The report is the file that the
    program writes, or what it prints.
    """

    descr = "the vendor's or the site's HPCG"
    tags = {"hpcg", "xhpcg", "acceptance", "published"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    metrics = list(METRICS)
    ours = False
    uses_mpi = True
    cores = 0
    outputs = [RESULT_FILE, "*HPCG*.txt", "n[0-9]*_V[0-9]*.txt", "*.yaml"]
    env_vars = dict(MpiBase.env_vars)
    time_limit = "1h"

    #: The command that each rank runs.
    xhpcg = variable(str, value="")

    #: Its options.
    xhpcg_options = variable(str, value="")

    #: Ranks per node; 0: one for each GPU.
    xhpcg_ranks = variable(int, value=0)

    #: Nodes.
    xhpcg_nodes = variable(int, value=1)

    @run_after("init")
    def need_so_many(self):
        """At listing: requires that many nodes."""
        if self.xhpcg_nodes > 1:
            self.need_nodes(self.xhpcg_nodes)

    @property
    def command(self) -> str:
        return f"{self.xhpcg or os.environ.get('TENKEN_XHPCG', '')} {self.xhpcg_options}".strip()

    @run_after("setup")
    def expect_xhpcg(self):
        """Once the partition is known: ranks and grid; sets what the output must state."""
        if self.xhpcg_ranks < 0 or self.xhpcg_nodes < 1:
            raise ReframeError(
                f"xhpcg_ranks {self.xhpcg_ranks}, xhpcg_nodes {self.xhpcg_nodes}: allowed: 0 or more, 1 or more"
            )
        self.num_tasks_per_node = self.xhpcg_ranks or self.machine.gpus or 1
        self.num_tasks = self.xhpcg_nodes * self.num_tasks_per_node
        self.points = self.side or (self.side_for_memory() if self.machine.gpus else 104)
        sides = dict.fromkeys(("nx", "ny", "nz"), self.points)
        self.expected_parameters = {"implementation": "xhpcg", **sides, "ranks": self.num_tasks}

    @run_before("run")
    def set_xhpcg_command(self):
        """Just before the job script is written: starts the ranks from a function of the job script."""
        launch = self.ranks_by_function()
        seconds = SECONDS[self.size_mode] if self.seconds is None else self.seconds
        side = f"{self.points} {self.points} {self.points}"
        words = (self.command, side, str(seconds))
        self.executable, self.executable_opts = f"tenken_xhpcg {' '.join(map(shlex.quote, words))}", []
        self.prerun_cmds = [*self.prerun_cmds, f"tenken_run() {{ {launch} {self.command or 'true'}; }}"]

    def judgement(self):
        """From the report of the binary."""
        text = self.output_text()

        def made(nodes):
            if "TENKEN-XHPCG-MISSING" in text.splitlines():
                return waived(nodes, self.num_tasks, self.expected_parameters)
            # if the report is in a file, the output before it names the implementation
            return document(parse(text), nodes[0], nodes, self.command, {"implementation": "xhpcg"})

        self.write_result(made)
        return super().judgement()


@rfm.simple_test
class HpcgBinaryBetweenNodes(HpcgBinary):
    """The same on two nodes, or on `xhpcg_nodes` nodes, as published in R10."""

    descr = "the vendor's or the site's HPCG on several nodes"
    valid_systems = ["+mpi +nodes"]
    xhpcg_nodes = 2


@rfm.simple_test
class HpcgBinaryPublished(HpcgBinary):
    """As published (R9, R10): 256^3 points per rank, one rank for each of two GPUs of one, four, eight and 32 nodes."""

    descr = "the vendor's or the site's HPCG on as many nodes as published"
    tags = {"hpcg", "xhpcg", "published"}
    valid_systems = ["+cuda +mpi +nodes +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    on_gpus = True
    #: All GPUs of each node: the publication's nodes had two.
    gpus = 2
    xhpcg_ranks = 2
    side = 256
    num_nodes = parameter([1, 4, 8, 32])

    @run_after("init")
    def take_the_published_size(self):
        """At listing: nodes as published; only in that mode."""
        self.xhpcg_nodes = self.num_nodes
        if self.num_nodes > 1:
            self.need_nodes(self.num_nodes)
        self.only_in_mode("published")
