"""Sparse matrix times vector: generated matrices, and downloaded files."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from tenken.reframe.base import TenkenCheck
from tenken.reframe.matrices import default_folder

#: What a mode measures on a GPU: more than 4 x the L2 of any GPU to date, so that each matrix has a memory limit.
GPU_MATRICES = {
    "quick": "poisson27:128",
    "acceptance": "poisson27:192,fem:88,rmat:22",
    "nightly": "poisson27:192,rmat:22",
    "published": "poisson27:192,poisson27:256,poisson7:256,fem:88,rmat:22,random:4000000,tridiagonal:30000000,"
    "banded:2000000:20",
}
#: The largest of these needs 19 GB on the GPU, including its conversions; GPUs with less memory use the smaller ones.
SMALL_GPU_MATRICES = "poisson27:128,poisson7:200,fem:48,rmat:20"


class SpmvBase(TenkenCheck):
    """GFLOP/s by matrix and variant, relative to the dot bandwidth of the same job; verified row by row.

    Metrics: `best`, `spmv`, `dot`, `prepare`; `own_over_vendor` where cuSPARSE was built in; `geomean`, `worst` and
    `geomean_by_size` for several matrices.
    """

    program = "spmv"
    tags = {"sparse", "spmv", "quick", "acceptance", "nightly", "published"}

    #: Generated matrices, KIND:SIZE with commas between; None: those of the mode.
    matrices = variable(str, type(None), value=None)

    #: A folder of additional Matrix Market files (`-S spmv_files=DIR`). Empty: in mode published, the matrices that
    #: `tenken matrices fetch` downloaded, if any.
    spmv_files = variable(str, value="")

    @run_after("setup")
    def ask_for_repetitions(self):
        """Best of 100, as published; the median of the same 100 is the value."""
        self.arguments = {
            **self.arguments,
            "repetitions": 100,
            "variant-warmup-seconds": 0.05,  # the dot product has already brought the clocks up
            "files": self.files(),
        }
        self.expected_parameters |= {"repetitions": 100}

    def files(self) -> str | None:
        if self.spmv_files:
            return self.spmv_files
        fetched = default_folder()
        return str(fetched) if self.tenken_mode == "published" and any(fetched.glob("*.mtx.gz")) else None


@rfm.simple_test
class SpmvHost(SpmvBase):
    """SpMV in host memory with OpenMP on all cores of a node."""

    descr = "SpMV, host memory, OpenMP on all cores"
    share = 10
    arguments = {"backend": "host"}
    expected_parameters = {"backend": "host"}

    @run_after("setup")
    def choose_matrices(self):
        """The program's own choice (5 x the last-level cache) unless matrices were requested.

        With a cache of 300 MiB this is 1.5 GB; mode quick uses 160 MB.
        """
        quick = "poisson27:80" if self.size_mode == "quick" else None
        self.arguments = {**self.arguments, "matrices": self.matrices or quick}


@rfm.simple_test
class SpmvCuda(SpmvBase):
    """SpMV in the memory of every GPU of a node, this suite's kernels and cuSPARSE."""

    descr = "SpMV, GPU memory, this suite's kernels and cuSPARSE"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    precision = parameter(["double", "single"])

    @run_after("init")
    def choose_share(self):
        """At listing: share of time by the precision; no single precision in mode quick."""
        self.share = 12 if self.precision == "single" else 40
        if self.precision == "single":
            self.tags = self.tags - {"quick"}

    @run_after("setup")
    def choose_matrices(self):
        """Once the partition is known: matrices by mode and memory."""
        chosen = GPU_MATRICES[self.size_mode]
        if self.machine.gpu_memory_gib < 24 and self.size_mode != "quick":
            chosen = SMALL_GPU_MATRICES
        if self.precision == "single":
            chosen = "poisson27:160" if self.machine.gpu_memory_gib >= 24 else "poisson27:128"
        wanted = {"backend": "cuda", "precision": self.precision}
        self.arguments = {**self.arguments, **wanted, "gpus": "all", "matrices": self.matrices or chosen}
        self.expected_parameters |= wanted
