"""HPL: the built-in solver on GPUs and on the host, and the vendor's or the site's binary instead."""

from __future__ import annotations

import math

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from tenken.parsers import hpl as xhpl
from tenken.reframe.hpl import HplBase, OtherHpl
from tenken.reframe.links import FIND_NCCL, NEAR_GPU

#: Order and block size of the matrix, by size of the problem.
SIZES = {"small": (32768, 1024), "large": (65536, 2048), "full": (98304, 2048)}
#: The same for all GPUs of a node, by their number; other numbers of GPUs use what fits.
OF_NODE = {2: (131072, 2048), 4: (188416, 2048), 8: (262144, 2048)}
#: Nodes -> N, NB, P, Q of the publication (Reedbush-H, two GPUs per node).
PUBLISHED = {1: (67200, 384, 2, 1), 2: (96000, 384, 2, 2), 4: (130176, 384, 2, 4), 8: (192000, 384, 2, 8)}
#: GiB on the GPU in addition to the matrix: panels, rows in transit, libraries.
BESIDE_GIB = 8.0
#: Share of the memory of all GPUs that the matrix fills in mode acceptance, as HPL's tuning guide recommends.
FILLS = 0.85
#: Share of the peak from which the duration of a solution is estimated.
USUAL_SHARE = 0.6

# Finds the BLAS that pip brought if none is named.
_FIND_BLAS = """if [ -z "$TENKEN_BLAS" ]; then for python in $(type -ap python3); do
  TENKEN_BLAS=$("$python" -c 'import scipy_openblas32 as b; print(f"{b.get_lib_dir()}/lib{b.get_library()}.so")' \\
    2>/dev/null) && break
done; [ -r "$TENKEN_BLAS" ] && export TENKEN_BLAS || unset TENKEN_BLAS; fi"""


@rfm.simple_test
class Hpl(HplBase):
    """One GPU: N = 32768, 65536 and 98304, or the N that fills 90 % of a smaller memory; compared with the library's
    LU."""

    descr = "HPL on one GPU"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1
    #: Size of the matrix.
    size = parameter(list(SIZES))

    @run_after("init")
    def leave_long_runs_to_long_modes(self):
        """At listing: modes and share of time by the size."""
        if self.size != "small":
            self.tags = self.tags - {"quick"}
        if self.size == "large":
            self.tags = self.tags - {"acceptance"}
        self.share = {"small": 10}.get(self.size, 45)

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: size and block, waived if it does not fit."""
        n, nb = SIZES["large" if self.size == "full" and self.size_mode == "quick" else self.size]
        fits = n * n * 8 / 2**30 + BESIDE_GIB <= 0.95 * self.machine.gpu_memory_gib
        if not fits and self.size == "large":
            room = f"{self.machine.gpu_memory_gib:.0f} GiB"
            self.waive(f"not supported by the device: N={n} does not fit into {room}; size=full uses what fits")
        wanted = {"backend": "cuda", "nb": str(nb), **({"n": str(n)} if fits else {})}
        # the library is compared, and energy is measured, only if memory and time permit
        compare = fits and self.size_mode != "quick" and not self.shortened
        self.arguments = {**self.arguments, "energy-seconds": None if self.size_mode == "quick" else 2.5}
        self.arguments = {**self.arguments, **wanted, "gpus": "0", "compare-library": compare, "steps": True}
        self.expected_parameters |= wanted


@rfm.simple_test
class HplNode(HplBase):
    """All GPUs of a node together, one MPI rank each: N = 131072 on two, 188416 on four."""

    descr = "HPL on all GPUs of a node"
    share = 80
    tags = {"hpl", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    subjects = ["ranks"]
    on_gpus = True
    uses_mpi = True
    cores = 0
    env_vars = dict(NEAR_GPU)
    prerun_cmds = FIND_NCCL.splitlines()

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        """Once the partition is known: ranks and size by the number of GPUs."""
        self.num_tasks = self.num_tasks_per_node = self.machine.gpus or 2
        self.set_size(OF_NODE.get(self.num_tasks))

    def set_size(self, known: tuple[int, int] | None):
        """The known best N for this number of GPUs if it fits; in mode acceptance with all its time, the N that fills
        the memory."""
        n, nb = known or (0, 2048)
        memory = self.num_tasks * self.machine.gpu_memory_gib
        room = 0.95 * memory - self.num_tasks * BESIDE_GIB
        if (self.tenken_mode == "acceptance" and not self.shortened) or known is None:
            n = int(math.sqrt(max(min(FILLS * memory, room), 0) * 2**30 / 8)) // nb * nb
        wanted = {"backend": "cuda", "nb": str(nb), **({"n": str(n)} if 0 < n * n * 8 / 2**30 <= room else {})}
        self.arguments = {**self.arguments, **wanted, "steps": True, "energy-seconds": 2.5}
        self.expected_parameters |= wanted
        self.solve_as_often_as_fits(n)

    def solve_as_often_as_fits(self, n: int):
        """In mode acceptance: as many solutions as fit into the check's share of time, and a longer time limit."""
        sheet = self.machine.partition.node.gpu
        peak = max(sheet.fp64_tflops or 0, sheet.fp64_tensor_tflops or 0) if sheet else 0
        seconds = 2 / 3 * n**3 / (USUAL_SHARE * peak * 1e12 * self.num_tasks) if peak else 0
        if self.tenken_mode == "acceptance" and seconds:
            times = max(1, min(self.arguments["repetitions"], int((self.share_seconds or 0) / seconds)))
            self.arguments = {**self.arguments, "repetitions": times}
            self.expected_parameters |= {"repetitions": times}
        self.time_limit = f"{max(60, math.ceil(3 * seconds / 60))}m"


@rfm.simple_test
class HplBetweenNodes(HplNode):
    """All GPUs of several nodes together, with N for 85 % of their memory: two nodes, or as many as `-S
    HplBetweenNodes.num_nodes=64` gives."""

    descr = "HPL on all GPUs of several nodes"
    tags = {"hpl", "acceptance"}
    valid_systems = ["+cuda +mpi"]
    num_nodes = variable(int, value=2)

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes."""
        self.need_nodes(self.num_nodes)

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        """Once the partition is known: a rank for each GPU, and the size that fits."""
        self.num_tasks_per_node = self.machine.gpus or 1
        self.num_tasks = self.num_nodes * self.num_tasks_per_node
        self.set_size(None)


@rfm.simple_test
class HplPublished(HplNode):
    """The publications' sizes (R7, R8) by the built-in solver, which keeps the whole matrix on the GPUs. They need
    more than the 16 GB of the publication's GPUs, for which `HplOtherPublished` uses the site's program.
    """

    descr = "HPL on the GPUs of one and more nodes, sizes of the publications"
    tags = {"hpl", "published"}
    valid_systems = ["+cuda +mpi +nodes +gpus2"]
    #: All GPUs of each node: the publications' nodes had two.
    gpus = 2
    #: Nodes, two GPUs of each.
    nodes_used = parameter(list(PUBLISHED))

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes."""
        if self.nodes_used > 2:
            self.need_nodes(self.nodes_used)

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        """Once the partition is known: ranks, size and grid as published, waived if they do not fit."""
        n, nb, p, q = PUBLISHED[self.nodes_used]
        self.num_tasks_per_node = 2
        self.num_tasks = 2 * self.nodes_used
        room = self.num_tasks * (0.95 * self.machine.gpu_memory_gib - BESIDE_GIB)
        if n * n * 8 / 2**30 > room:
            self.waive(f"not supported by the device: N={n} does not fit into {room:.0f} GiB of {self.num_tasks} GPUs")
        wanted = {"backend": "cuda", "n": str(n), "nb": str(nb), "grid": f"{p}x{q}"}
        self.arguments = {**self.arguments, **wanted}
        self.expected_parameters |= wanted


class Sweep(HplBase):
    """Random N, NB and grids, including unfavourable ones: every residual below 16, every solution equal to cuSOLVER's.

    Metrics: `residual` and `difference` of each case.
    """

    #: How many problems.
    cases = variable(int)

    metrics = ["residual", "difference"]
    tags = {"hpl", "acceptance", "published"}
    share = 8

    @run_after("setup")
    def ask_for_repetitions(self):
        """Once the partition is known: the cases of the sweep, each once."""
        # at these sizes both the suite's own panels and the library's are used
        wanted = {"backend": "cuda", "repetitions": 1, "few-rows": 600, "sweep": self.cases, "sweep-max-n": 2500}
        self.arguments = {"warmup-seconds": 0, **wanted}
        self.expected_parameters = {key.replace("-", "_"): value for key, value in wanted.items()}


@rfm.simple_test
class HplSweep(Sweep):
    """60 random problems on one GPU."""

    descr = "60 random problems on one GPU, each against cuSOLVER's solution"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1
    cases = 60


@rfm.simple_test
class HplSweepNode(Sweep):
    """30 random problems and grids on all GPUs of a node."""

    descr = "30 random problems and grids on all GPUs of a node, each against cuSOLVER's solution"
    valid_systems = ["+cuda +mpi +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    subjects = ["ranks"]
    on_gpus = True
    uses_mpi = True
    cores = 0
    cases = 30
    env_vars = dict(NEAR_GPU)
    prerun_cmds = FIND_NCCL.splitlines()

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        """Once the partition is known: a rank for each GPU."""
        self.num_tasks = self.num_tasks_per_node = self.machine.gpus or 2


@rfm.simple_test
class HplHost(HplBase):
    """The host: dgetrf of OpenBLAS or the site's BLAS on all cores of a node. Waived without a BLAS."""

    descr = "HPL on the host, LAPACK on all cores"
    tags = {"hpl", "quick", "acceptance", "nightly"}
    share = 20
    prerun_cmds = _FIND_BLAS.splitlines()

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a size by mode and cores."""
        cores = self.cores or 1
        n = 4096 if self.size_mode == "quick" else 8192 if cores < 16 else 16384 if cores < 64 else 32768
        self.expected_parameters |= {"backend": "host", "n": str(n), "nb": "256"}
        energy = None if self.size_mode == "quick" else 2.5
        warm = 0.3 if self.size_mode == "quick" else 1
        self.arguments = {"warmup-seconds": warm, "energy-seconds": energy, **self.expected_parameters}


@rfm.simple_test
class HplOther(OtherHpl):
    """The vendor's or the site's xhpl: NVIDIA HPC Benchmarks, netlib, AMD's, Intel's.

    `-S hpl_command=...` or the variable TENKEN_XHPL, of the environment or of the system file, names its command.
    """

    descr = "the vendor's or the site's HPL"
    tags = {"hpl", "acceptance", "published"}
    implementation = "xhpl"
    usual_command = "xhpl"
    named_by = "TENKEN_XHPL"
    input_file = "HPL.dat"


@rfm.simple_test
class HplOtherPublished(HplOther):
    """The publications' sizes (R7, R8) by the site's xhpl, with CUDA and MPI modules, two ranks and GPUs per node.

    NVIDIA's program keeps a part of the matrix in host memory: the publication used it on GPUs of 16 GB.
    """

    descr = "the vendor's or the site's HPL on one and more nodes, sizes of the publications"
    tags = {"hpl", "published"}
    valid_systems = ["+cuda +mpi +nodes +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    on_gpus = True
    #: All GPUs of each node: the publications' nodes had two.
    gpus = 2
    env_vars = dict(NEAR_GPU)
    #: Nodes, two GPUs of each.
    nodes_used = parameter(list(PUBLISHED))

    @run_after("init")
    def take_the_published_size(self):
        """At listing: size and grid as published; only in that mode."""
        self.hpl_n, self.hpl_nb, self.hpl_p, self.hpl_q = PUBLISHED[self.nodes_used]
        self.hpl_ranks_per_node = 2
        if self.nodes_used > 2:
            self.need_nodes(self.nodes_used)
        self.only_in_mode("published")


@rfm.simple_test
class HplHpcc(OtherHpl):
    """The HPL part of HPC Challenge (Debian's package hpcc)."""

    descr = "the HPL part of hpcc"
    tags = {"hpl", "acceptance"}
    implementation = "hpcc"
    usual_command = "hpcc"
    named_by = "TENKEN_HPCC"
    input_file = "hpccinf.txt"
    output_file = "hpccoutf.txt"

    def problem(self) -> str:
        return xhpl.hpcc_input(self.n, self.nb, self.hpl_p, self.hpl_q)
