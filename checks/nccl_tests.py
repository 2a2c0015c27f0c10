"""The site's nccl-tests in place of `nccl`: their binaries, and a parser of their output."""

from __future__ import annotations

import os
import re

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.parsers.nccl_tests import BENCHMARKS, IMPLEMENTATION, Output, document, parse_all
from tenken.reframe import locks
from tenken.reframe.base import TenkenCheck
from tenken.reframe.links import FIND_NCCL, NEAR_GPU


@rfm.simple_test
class NcclTests(TenkenCheck):
    """The site's nccl-tests (module, container) between all GPUs of a node, in one process.

    Metrics: `perf_all_reduce`, `perf_all_gather`, `perf_sendrecv`, ... by size, out of place and in place.
    `nccl_tests_dir` or the variable TENKEN_NCCL_TESTS names the folder of the binaries; waived if neither is set.
    """

    descr = "the site's nccl-tests between the GPUs of a node"
    program = "nccl"
    tags = {"links", "nccl", "acceptance"}
    valid_systems = ["+cuda +gpus2"]
    valid_prog_environs = ["+cuda"]
    subjects = ["ranks"]
    on_gpus = True
    lists_gpus = False
    ours = False
    cores = 0

    #: Folder that contains the binaries.
    nccl_tests_dir = variable(str, value="")

    #: Which binaries.
    nccl_tests_benchmarks = variable(typ.List[str], value=["all_reduce_perf", "all_gather_perf", "sendrecv_perf"])

    #: Smallest and largest size in bytes, and the factor between sizes.
    nccl_tests_min_bytes = variable(int, value=1024)
    nccl_tests_max_bytes = variable(int, value=1 << 30)
    nccl_tests_factor = variable(int, value=4)

    #: Number of nodes; with more than one, binaries built with MPI=1 run as one rank per GPU.
    nccl_tests_nodes = variable(int, value=1)

    prerun_cmds = FIND_NCCL.splitlines()

    @run_after("init")
    def need_so_many(self):
        """At listing: requires that many nodes."""
        if self.nccl_tests_nodes > 1:
            self.need_nodes(self.nccl_tests_nodes)
            self.uses_mpi = True

    @run_after("setup")
    def expect_nccl_tests(self):
        """Once the partition is known: refuses unknown benchmarks; sets what the output must state."""
        if self.nccl_tests_nodes < 1:
            raise ReframeError(f"nccl_tests_nodes {self.nccl_tests_nodes}: allowed: 1 or above")
        if self.uses_mpi:
            self.num_tasks_per_node = self.gpus or 1
            self.num_tasks = self.nccl_tests_nodes * self.num_tasks_per_node
        wrong = [one for one in self.nccl_tests_benchmarks if one not in BENCHMARKS]
        if wrong or not self.nccl_tests_benchmarks:
            raise ReframeError(f"nccl_tests_benchmarks {wrong or 'is empty'}: allowed: {', '.join(BENCHMARKS)}")
        self.metrics = [BENCHMARKS[one][0] for one in self.nccl_tests_benchmarks]
        self.expected_parameters = {
            "implementation": IMPLEMENTATION,
            "gpus": self.num_tasks if self.uses_mpi else self.gpus,
            "min_bytes": self.nccl_tests_min_bytes,
            "max_bytes": self.nccl_tests_max_bytes,
            "factor": self.nccl_tests_factor,
            "iterations": 100,
            "operations_each": 1,
        }

    @run_before("run")
    def set_nccl_tests_commands(self):
        """Just before the job script is written: a command for each benchmark."""
        folder = self.nccl_tests_dir or os.environ.get("TENKEN_NCCL_TESTS", "")
        sizes = f"-b {self.nccl_tests_min_bytes} -e {self.nccl_tests_max_bytes} -f {self.nccl_tests_factor}"
        self.executable_opts = []
        self.executable = locks.each_binary("NCCL-TESTS", folder, "TENKEN_NCCL_TESTS", self.nccl_tests_benchmarks)
        launch, each = "", self.gpus or 1
        if self.uses_mpi:
            launch, each = f"{self.ranks_by_function()} ", 1
        run = f'tenken_run() {{ {launch}"$1" {sizes} -g {each} -n 100 -w 20 -c 1; }}'
        self.prerun_cmds = [*self.prerun_cmds, run]

    def judgement(self):
        """From the output of the binaries."""
        text = self.output_text()
        missing = re.search(r"^TENKEN-NCCL-TESTS-MISSING (\w+)$", text, re.M)

        def made(nodes):
            asked = tuple(self.expected_parameters.items())[1:]
            outputs = [Output(missing[1], "none", 0, (), asked, 0, ())] if missing else parse_all(text)
            found = document(outputs, nodes[0], nodes, self.expected_parameters["gpus"] or 1)
            if missing:
                where = self.nccl_tests_dir or os.environ.get("TENKEN_NCCL_TESTS")
                where = where or "nccl_tests_dir and TENKEN_NCCL_TESTS are unset"
                found.update(status="waived", reason=f"library missing: no {missing[1]} of nccl-tests ({where})")
            return found

        self.write_result(made)
        return super().judgement()


@rfm.simple_test
class NcclTestsBetweenNodes(NcclTests):
    """The same between the GPUs of two nodes, or of `nccl_tests_nodes` nodes, with binaries built with MPI."""

    descr = "the site's nccl-tests between the GPUs of several nodes"
    valid_systems = ["+cuda +mpi +nodes"]
    valid_prog_environs = ["+cuda +mpi"]
    nccl_tests_nodes = 2
    env_vars = dict(NEAR_GPU)
