"""The site's OSU Micro-Benchmarks in place of `mpi_p2p`: their binaries, and a parser of their output."""

from __future__ import annotations

import os
import re

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.judge import verdict
from tenken.parsers.osu import BENCHMARKS, Output, document, hold_sizes, parse_all, parts
from tenken.reframe import locks
from tenken.reframe.links import MpiBase

#: Options of the benchmarks for the memory of the buffers, and its name here.
BUFFERS = {"H": "host", "D": "device", "M": "managed"}


@rfm.simple_test
class MpiOsu(MpiBase):
    """The site's OSU Micro-Benchmarks (module, container, HPC-X) between two ranks.

    Metrics: `osu_latency`, `osu_bandwidth`, `osu_bidirectional`, `osu_message_rate`, `osu_allreduce`, `osu_alltoall`,
    `osu_bcast` by size. `osu_dir` or the variable TENKEN_OSU names the folder of the binaries; waived if neither is
    set.
    """

    descr = "the site's OSU Micro-Benchmarks between two ranks"
    tags = {"links", "mpi", "osu", "acceptance", "published"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    ours = False
    num_tasks = 2
    num_tasks_per_node = 2

    #: Folder that contains the binaries (`pt2pt/osu_latency` or `osu_latency` directly).
    osu_dir = variable(str, value="")

    #: Memory of the buffers: H (host), D (device), M (managed).
    osu_buffers = variable(str, value="H")

    #: Which benchmarks.
    osu_benchmarks = variable(typ.List[str], value=["osu_latency", "osu_bw", "osu_bibw"])

    #: Largest message in bytes.
    osu_max_bytes = variable(int, value=4194304)

    #: Whether they accept options for sizes and iterations; the Python ports accept neither, and choose both
    #: themselves.
    osu_takes_sizes = variable(bool, value=True)

    #: Longest time of one benchmark in seconds.
    osu_seconds = variable(int, value=300)

    #: Further options of each; -c requests validation (from OSU 6.0 on), without which nothing is verified.
    osu_options = variable(str, value="-c")

    @run_after("setup")
    def expect_osu(self):
        """Once the partition is known: refuses unknown benchmarks; sets what the output must state."""
        wrong = [b for b in self.osu_benchmarks if b not in BENCHMARKS]
        if wrong or self.osu_buffers not in BUFFERS:
            raise ReframeError(
                f"osu_benchmarks {wrong or ''}, osu_buffers {self.osu_buffers!r}: allowed: {', '.join(BENCHMARKS)}; "
                f"H, D, M"
            )
        if min(self.osu_max_bytes, self.osu_seconds) < 1:
            raise ReframeError("osu_max_bytes, osu_seconds: allowed: 1 or above")
        self.metrics = [BENCHMARKS[b][0] for b in self.osu_benchmarks]
        self.expected_parameters = {
            "implementation": "osu", "ranks": self.num_tasks, "buffers": BUFFERS[self.osu_buffers],
        }  # fmt: skip
        if self.osu_takes_sizes:
            self.expected_parameters["max_bytes"] = 1 << (self.osu_max_bytes.bit_length() - 1)  # sizes double

    @run_before("run")
    def set_osu_commands(self):
        """One launch per benchmark, each announced; the last one is ReFrame's own command."""
        folder = self.osu_dir or os.environ.get("TENKEN_OSU", "")
        launch = self.ranks_by_function()
        buffers = "" if self.osu_buffers == "H" else f" -d cuda {self.osu_buffers} {self.osu_buffers}"
        self.executable_opts = []
        self.executable = locks.each_binary("OSU", folder, "TENKEN_OSU", self.osu_benchmarks)
        self.prerun_cmds = [*self.prerun_cmds, *self.runs(self.osu_options, buffers, launch)]

    def runs(self, options: str, buffers: str, launch: str) -> list[str]:
        """Shell lines: the parts of each benchmark (tenken/reframe/locks.py), and how one is launched with its time
        limit.

        The memory of the buffers comes last, since the benchmarks ignore options after it.
        """
        sizes = parts if self.osu_takes_sizes else lambda *_: []
        of = [f"tenken_parts_{name}='{'|'.join(sizes(name, self.osu_max_bytes))}'" for name in self.osu_benchmarks]
        return [
            " ".join(of),
            f'tenken_run() {{ timeout -k 10 {self.osu_seconds} {launch} "$1" {options} $tenken_part{buffers}; }}',
        ]

    def late(self, text: str) -> str:
        """The last line of a benchmark that did not end within its time; empty if all ended."""
        late = re.search(r"^TENKEN-OSU-LATE (\w+)$", text, re.M)
        if late is None:
            return ""
        lines = [line for line in text[: late.start()].splitlines() if line.strip()]
        return (
            f"{late[1]} did not end within {self.osu_seconds} s (osu_seconds; osu_max_bytes "
            f"makes it shorter); it last printed {lines[-1].strip()[:80]!r}"
        )

    def judgement(self):
        """From the output of the binaries."""
        text = self.output_text()
        missing = re.search(r"^TENKEN-OSU-MISSING (\w+)$", text, re.M)
        if not missing and (late := self.late(text)):
            return verdict.failed(f"{self.where()}: {late}", self.where()), None, late, text

        def made(nodes):
            outputs = [Output(missing[1], "none", ())] if missing else parse_all(text)
            if self.osu_takes_sizes and not missing:
                hold_sizes(outputs, self.expected_parameters["max_bytes"])
            found = document(outputs, nodes[0], self.num_tasks, nodes, BUFFERS[self.osu_buffers])
            if missing:
                where = self.osu_dir or os.environ.get("TENKEN_OSU") or "osu_dir and TENKEN_OSU are unset"
                reason = f"library missing: no {missing[1]} of the OSU Micro-Benchmarks ({where})"
                found.update(status="waived", reason=reason)
                found["parameters"]["max_bytes"] = self.expected_parameters["max_bytes"]
            return found

        self.write_result(made)
        return super().judgement()


@rfm.simple_test
class MpiOsuBetweenNodes(MpiOsu):
    """The same between two nodes, one rank on each: the network instead of the node's own links."""

    descr = "the site's OSU Micro-Benchmarks between two nodes"
    valid_systems = ["+mpi +nodes"]
    num_tasks_per_node = 1


@rfm.simple_test
class MpiOsuPublished(MpiOsuBetweenNodes):
    """As published (R5, R6): osu_latency and osu_bw between GPUs of two nodes, buffers in their memory."""

    descr = "the site's OSU Micro-Benchmarks between GPUs of two nodes, as published"
    tags = {"links", "mpi", "osu", "published"}
    valid_systems = ["+cuda +mpi +nodes"]
    valid_prog_environs = ["+cuda +mpi"]
    on_gpus = True
    osu_buffers = "D"
    osu_benchmarks = ["osu_latency", "osu_bw"]

    @run_after("init")
    def keep_to_the_mode(self):
        """At listing: only in mode published."""
        self.only_in_mode("published")


@rfm.simple_test
class MpiOsuCollectives(MpiOsu):
    """Collectives over all cores of `osu_nodes` nodes, or over `osu_ranks` ranks per node."""

    descr = "the site's OSU Micro-Benchmarks, collectives of whole nodes"
    tags = {"links", "mpi", "osu", "acceptance"}
    osu_benchmarks = ["osu_allreduce", "osu_alltoall", "osu_bcast"]
    osu_max_bytes = 1048576
    # from 7.1 on the default type of reductions is MPI_CHAR, with which 7.4 fails its own validation from 16 B on
    osu_options = "-c -T mpi_int"

    #: Ranks per node; 0: one for each GPU, or two.
    osu_ranks = variable(int, value=0)

    #: Nodes.
    osu_nodes = variable(int, value=1)

    @run_after("init")
    def need_so_many(self):
        """At listing: requires that many nodes."""
        if self.osu_nodes > 1:
            self.need_nodes(self.osu_nodes)

    @run_after("setup")
    def place_ranks(self):
        """Once the partition is known: ranks per node."""
        self.num_tasks_per_node = self.osu_ranks or max(2, self.machine.gpus or 0)
        self.num_tasks = self.osu_nodes * self.num_tasks_per_node
        self.expected_parameters |= {"ranks": self.num_tasks}
