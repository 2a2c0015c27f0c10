"""GEMM in every precision: the ladder of a GPU's tensor cores and vector units, with power, every element verified."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from tenken.reframe.base import TenkenCheck

#: Square problems of every precision that some GPU supports; the program omits and names those that this GPU lacks.
LADDER = "fp64,fp64_tensor,fp32,tf32,fp16,bf16,int8,fp8_e4m3,fp8_e4m3_fast,fp8_blocks,mxfp8,nvfp4,mxfp4"
#: The same tensor cores with other inputs, left out where time is short.
E5M2 = "fp8_e5m2,fp8_e5m2_fast"
#: The part of them that mode quick runs, one square problem per precision.
FEW = "fp16,fp64_tensor,fp8_e4m3"
#: The update of an LU with FP32 sums: the attainable rate of HPL-MxP at one NB, and at others from 1024 to 8192.
UPDATES = "fp16_c32:65536x65536x4096,fp8_c32:65536x65536x4096"
MORE_UPDATES = ",".join(f"fp16_c32:65536x65536x{k}" for k in (1024, 2048, 8192)) + (
    ",bf16_c32:65536x65536x4096,fp8_c32:65536x65536x2048"
)
#: Flat matrices, and batches of small ones.
SHAPES = "fp16:16384x64x16384,bf16:16384x64x16384,fp16:512x512x512x512,fp64_tensor:512x512x512x128"
#: GiB required by the largest update with its verification.
UPDATES_GIB = 40.0


class GemmBase(TenkenCheck):
    """TFLOP/s by precision, sizes, data and phase; random data, the best of the library's algorithms.

    Metrics: `gemm`, `of_best`, `over_first`; `power` and `per_watt` where the GPU's sensor can be read.
    """

    program = "gemm"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    #: The seconds of each case add up over the GPUs.
    time_limit = "60m"

    #: The problems, as in the program's `--cases`; None: those of the check.
    gemm_cases = variable(str, type(None), value=None)

    def cases(self) -> str:
        return {"quick": FEW, "acceptance": LADDER}.get(self.size_mode, f"{LADDER},{E5M2}")

    def one_of_two(self) -> bool:
        """Whether another check measures the energy of the same products."""
        return False

    @run_after("setup")
    def choose_cases(self):
        """Once the partition is known: shapes, data and durations of the mode."""
        quick, acceptance = self.size_mode == "quick", self.size_mode == "acceptance"
        wanted = {
            "backend": "cuda",
            "cases": self.gemm_cases or self.cases(),
            # zeros double the time
            "data": "random" if quick or acceptance else "both",
            # the power limiter overshoots after a second, and needs 0.3 s to recover
            "sustained-seconds": 0.6 if quick else 1.2,
            "energy-seconds": 0 if quick or (acceptance and self.one_of_two()) else 2.1,
        }
        self.arguments = {**self.arguments, **wanted, "gpus": "all"}
        self.expected_parameters |= {"backend": "cuda", "cases": wanted["cases"], "data": wanted["data"]}


@rfm.simple_test
class Gemm(GemmBase):
    """Square problems of every precision, all GPUs one by one or all at once."""

    descr = "GEMM in every precision, all GPUs of a node"
    tags = {"gemm", "compute", "quick", "acceptance", "nightly", "published"}
    share = 110
    #: Whether the GPUs are measured one by one or all at once: together they share power and cooling.
    gpus_at = parameter(["one_by_one", "at_once"])

    def one_of_two(self) -> bool:
        return self.gpus_at == "one_by_one" and (self.machine.gpus or 0) > 1

    @run_after("init")
    def choose_variant(self):
        """When it is listed: GPUs one after another or at once, by the mode."""
        self.one_by_one_or_at_once(self.gpus_at == "at_once")

    @run_after("setup")
    def choose_gpus(self):
        """Once the partition is known: whether all GPUs work at once."""
        at_once = self.gpus_at == "at_once"
        self.arguments = {**self.arguments, "at-once": at_once}
        self.expected_parameters |= {"at_once": at_once}


@rfm.simple_test
class GemmShapes(GemmBase):
    """The LU update at its block widths, flat matrices, and batches of small ones, on every GPU."""

    descr = "GEMM of application-relevant shapes, all GPUs of a node"
    tags = {"gemm", "compute", "acceptance", "published"}
    share = 60

    def cases(self) -> str:
        if self.machine.gpu_memory_gib < UPDATES_GIB or self.size_mode == "quick":
            return SHAPES
        return f"{UPDATES},{SHAPES}" if self.size_mode == "acceptance" else f"{UPDATES},{MORE_UPDATES},{SHAPES}"

    @run_after("setup")
    def leave_energy_to_the_ladder(self):
        """Once the partition is known: no energy, which the check of the square products measures; in mode acceptance
        every GPU in the time of one."""
        at_once = self.tenken_mode == "acceptance" and (self.machine.gpus or 0) > 1
        wanted = {"data": "random", "energy-seconds": 0, "sustained-seconds": 0.6, "at-once": at_once}
        self.arguments = {**self.arguments, **wanted}
        self.expected_parameters |= {"data": "random", "at_once": at_once}


@rfm.simple_test
class GemmHost(TenkenCheck):
    """Every format emulated on the host, to test bounds and verification; the rates are not meaningful."""

    descr = "GEMM, all formats emulated on the host"
    program = "gemm"
    tags = {"gemm", "quick", "acceptance"}
    share = 2
    arguments = {"backend": "host", "sustained-seconds": 0.05}
    expected_parameters = {"backend": "host"}
