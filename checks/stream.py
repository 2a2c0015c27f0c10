"""STREAM: sustainable memory bandwidth of the host, of every GPU, and of the OpenACC device."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after

from tenken.reframe.base import TenkenCheck
from tenken.reframe.build import BuildFirst


class StreamBase(TenkenCheck):
    """copy, scale, add, triad and dot in double precision; the value is the median of the repetitions. Fewer than 100
    are not enough on a host: in archived H200 sessions the median of 30 differs from that of 100 by 1.4 %, and by 12 %
    at the 95th percentile.

    Metrics: `copy`, `scale`, `add`, `triad`, `dot` in GB/s per subject. Checked analytically after the timed part.
    """

    program = "stream"
    tags = {"stream", "bandwidth", "quick", "acceptance", "nightly", "published"}

    @run_after("setup")
    def set_repetitions(self):
        """Once the partition is known: repetitions of the mode."""
        repetitions = {"quick": 100, "acceptance": 200, "nightly": 200, "published": 200}[self.size_mode]
        self.arguments = {**self.arguments, "repetitions": repetitions}
        self.expected_parameters |= {"repetitions": repetitions}


@rfm.simple_test
class StreamHost(StreamBase):
    """STREAM in host memory with OpenMP on all cores of a node: the first result of a run."""

    programs = fixture(BuildFirst, scope="environment")
    comes_first = True
    descr = "STREAM, host memory, OpenMP on all cores"
    share = 22
    arguments = {"backend": "host"}
    expected_parameters = {"backend": "host"}


@rfm.simple_test
class StreamCuda(StreamBase):
    """STREAM in the memory of every GPU of a node: one after the other, or all at the same time.

    Additional metrics: `memcpy`, cudaMemcpy on the same arrays in the same job, which distinguishes GPUs; `power`
    and `per_watt` of all five together, except in mode quick.
    """

    descr = "STREAM, GPU memory, all GPUs of a node"
    share = 27
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    #: Whether the GPUs are measured one by one or all at once: together they share power and cooling.
    gpus_at = parameter(["one_by_one", "at_once"])

    @run_after("init")
    def choose_variant(self):
        """When it is listed: GPUs one after another or at once, by the mode."""
        self.one_by_one_or_at_once(self.gpus_at == "at_once")

    @run_after("setup")
    def choose_gpus(self):
        """4 GiB arrays if three of them fit into half of the memory (1 GiB in mode `quick`); else the program's own
        default."""
        large = "1Gi" if self.size_mode == "quick" else "4Gi"
        size = large if self.machine.gpu_memory_gib >= 24 else None
        self.arguments = {
            **self.arguments,
            "backend": "cuda",
            "gpus": "all",
            "array-bytes": size,
            "at-once": self.gpus_at == "at_once",
            "energy-seconds": None if self.size_mode == "quick" else 2.5,
        }
        self.expected_parameters |= {"backend": "cuda", "at_once": self.gpus_at == "at_once"}


@rfm.simple_test
class StreamOpenACC(StreamBase):
    """STREAM by OpenACC, as the Reedbush-H figures of 2017 were measured."""

    descr = "STREAM, OpenACC"
    share = 15
    tags = StreamBase.tags - {"quick"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+one_openacc"]
    arguments = {"backend": "openacc"}
    expected_parameters = {"backend": "openacc"}
    on_gpus = True
    lists_gpus = False

    @run_after("setup")
    def expect_the_device(self):
        """Runs on a GPU, except with gcc: whether gcc offloads is known only at build time, and the result states
        it."""
        if not self.machine.environment.is_gcc:
            self.subjects = ["gpu"]
