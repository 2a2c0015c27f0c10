"""HPL-MxP: the built-in solver on GPUs and on the host, LU in FP8 as an experiment, and the vendor's binary instead."""

from __future__ import annotations

import math

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.parsers import hpl_mxp as xhpl_mxp
from tenken.reframe.base import RESULT_FILE, TenkenCheck
from tenken.reframe.hpl import OtherHpl
from tenken.reframe.links import FIND_NCCL, NEAR_GPU

#: Order of the matrix and columns eliminated together on one GPU; FP32 takes 4 N^2 bytes.
ONE_GPU = {"quick": (65536, 2048), "nightly": (131072, 4096), "acceptance": (163840, 4096), "published": (163840, 4096)}
#: The same for all GPUs of a node, by their number: 163840 sqrt(Q) in multiples of the block, which fills the same
#: share of each GPU's memory as on a single one (weak scaling).
OF_NODE = {2: (229376, 4096), 4: (327680, 4096), 8: (462848, 4096)}
#: GiB on the GPU in addition to its part of the matrix.
BESIDE_GIB = 10.0


class MxpBase(TenkenCheck):
    """TFLOP/s of A x = b by HPL-MxP's rules, compared with products of the format with K = NB in the same job.

    Metrics: `hpl_mxp`, `residual`, `factor_error`, `refinements`, `small_share`, `product`, `phase`; `power`, `energy`
    and `per_watt` if the GPUs' sensors can be read.
    """

    program = "hpl_mxp"
    metrics = ["hpl_mxp", "residual", "factor_error", "refinements", "small_share", "product", "phase"]
    tags = {"hpl_mxp", "compute", "acceptance", "nightly", "published"}
    time_limit = "60m"
    fewest = 1

    @run_after("setup")
    def ask_for_repetitions(self):
        """Once the partition is known: repetitions and warm-up of the mode."""
        quick = self.size_mode == "quick"
        repetitions = {"quick": 1, "acceptance": 2}.get(self.size_mode, 3)
        # mode quick measures no energy, which alone would take longer than the solution
        timed = {"warmup-seconds": 1, "energy-seconds": 0} if quick else {"warmup-seconds": 5, "energy-seconds": 2.5}
        self.arguments = {"repetitions": repetitions, **timed, **self.arguments}
        self.expected_parameters = {"repetitions": repetitions, **self.expected_parameters}

    def ask_for(self, n: int, nb: int, room_gib: float, **more: str):
        """The given problem if it fits; otherwise the largest N that does."""
        fits = n * n * 4 / 2**30 + BESIDE_GIB <= room_gib
        wanted = {"backend": "cuda", **({"n": n, "nb": nb} if fits else {}), **more}
        self.arguments = {**self.arguments, **wanted}
        self.expected_parameters |= wanted


@rfm.simple_test
class HplMxp(MxpBase):
    """One GPU, FP16 and BF16."""

    descr = "HPL-MxP on one GPU"
    share = 35
    tags = {"hpl_mxp", "compute", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1
    #: Operands of the update.
    low = parameter(["fp16", "bf16"])

    @run_after("init")
    def leave_the_second_format_to_long_modes(self):
        """At listing: bfloat16 only in long modes."""
        if self.low != "fp16":
            self.tags = self.tags - {"quick", "acceptance"}

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: the size of the mode, on one GPU."""
        n, nb = ONE_GPU["nightly" if self.shortened and self.size_mode != "quick" else self.size_mode]
        self.ask_for(n, nb, 0.95 * self.machine.gpu_memory_gib, low=self.low)
        self.arguments = {**self.arguments, "gpus": "0"}


@rfm.simple_test
class LuFp8(MxpBase):
    """LU in FP8 with refinement on one GPU: below the 16 bits that the rules require, so its figures are not called
    HPL-MxP."""

    descr = "LU in FP8 with refinement on one GPU, an experiment"
    metrics = ["lu_fp8", "residual", "factor_error", "refinements", "small_share", "product", "phase"]
    tags = {"hpl_mxp", "compute", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: one size, in FP8 on one GPU."""
        self.ask_for(131072, 4096, 0.95 * self.machine.gpu_memory_gib, low="fp8")
        self.arguments = {**self.arguments, "gpus": "0"}


@rfm.simple_test
class HplMxpNode(MxpBase):
    """All GPUs of a node together, one MPI rank each."""

    descr = "HPL-MxP on all GPUs of a node"
    share = 60
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
        """Once the partition is known: ranks and size by the number of GPUs; with the problems of mode quick each GPU
        has as much of the matrix as a single one."""
        self.num_tasks = self.num_tasks_per_node = self.machine.gpus or 2
        n, nb = OF_NODE.get(self.num_tasks, (0, 0))
        if self.size_mode == "quick":
            side, nb = ONE_GPU["quick"]
            n = int(side * math.sqrt(self.num_tasks)) // nb * nb
        room = self.num_tasks * (0.95 * self.machine.gpu_memory_gib - BESIDE_GIB)
        self.ask_for(n or 10**7, nb, room, low="fp16")


@rfm.simple_test
class HplMxpHost(MxpBase):
    """The host with FP16 emulated, to test accuracy, refinement and verification; the rates are not meaningful."""

    descr = "HPL-MxP on the host, FP16 emulated"
    share = 1
    tags = {"hpl_mxp", "quick", "acceptance"}
    subjects = ["host"]
    arguments = {"warmup-seconds": 0}
    expected_parameters = {"backend": "host", "low": "fp16"}

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: the back end of the host."""
        self.arguments = {**self.arguments, "backend": "host", "low": "fp16"}


@rfm.simple_test
class HplMxpOther(OtherHpl):
    """The vendor's HPL-MxP in place of the built-in solver, one GPU per rank: `hpl-mxp.sh` of the NVIDIA HPC
    Benchmarks, or AMD's `rochplmxp`, for which `-S valid_systems='*' -S on_gpus=False` is needed.

    `-S hpl_command=...` or the variable TENKEN_XHPL_MXP, of the environment or of the system file, names its command;
    N, NB and the grid are `-S hpl_n=...` and so on. It prints a residual, but nothing about its factors.

    Metrics: `hpl_mxp`, `residual`. Waived if the program is not found.
    """

    descr = "the vendor's HPL-MxP"
    program = "hpl_mxp"
    metrics = ["hpl_mxp", "residual"]
    tags = {"hpl_mxp", "compute", "acceptance", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    on_gpus = True
    implementation = "xhpl_mxp"
    usual_command = "hpl-mxp.sh"
    named_by = "TENKEN_XHPL_MXP"
    outputs = [RESULT_FILE]

    @property
    def n(self) -> int:
        return self.hpl_n or {"quick": 32768}.get(self.size_mode, 131072)

    @property
    def nb(self) -> int:
        return self.hpl_nb or 2048

    @run_after("setup")
    def ask_for_the_format(self):
        """Once the partition is known: the format that its output must state."""
        self.expected_parameters |= {"low": "fp16"}

    def options(self) -> str:
        return xhpl_mxp.options(self.command(), self.n, self.nb, self.hpl_p, self.hpl_q, "fp16")

    def made_of(self, text, nodes):
        found = None if text is None else xhpl_mxp.parse(text)
        size = (self.n, self.nb, self.hpl_p, self.hpl_q)
        return xhpl_mxp.document(found, [self.command()], nodes[0], nodes, self.num_tasks, *size, "fp16")
