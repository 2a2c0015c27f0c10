"""Memory copy A[i] = B[i]: every repetition of a long series, on the GPU and on the host."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck


class MemcopyBase(TenkenCheck):
    """200 consecutive repetitions, each timed, in one trial or, in mode `published`, ten.

    Mode acceptance copies 4 GB within the GPUs only: StreamHost measures the host's memory.
    """

    program = "memcopy"
    tags = {"memcopy", "bandwidth", "nightly", "published"}
    #: Bytes of each of the two arrays: those of the publication.
    array_bytes = parameter([4_000_000_000, 8_000_000_000])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: array, repetitions and trials of the series."""
        trials = self.trials_asked()
        self.arguments = {**self.arguments, "bytes": self.array_bytes, "repetitions": 200, "trials": trials}
        self.expected_parameters |= {"bytes": self.array_bytes, "repetitions": 200, "trials": trials}


@rfm.simple_test
class MemcopyGpu(MemcopyBase):
    """Copies within the memory of each GPU: by a kernel and by cudaMemcpy."""

    descr = "copy within GPU memory, every repetition"
    tags = MemcopyBase.tags | {"quick", "acceptance"}
    share = 10
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    arguments = {"backend": "cuda", "gpus": "all", "copies": "kernel,memcpy"}

    @run_after("init")
    def leave_the_larger_to_others(self):
        """At listing: leaves the large arrays out of modes quick and acceptance."""
        if self.array_bytes > 4_000_000_000:
            self.tags = self.tags - {"quick", "acceptance"}


@rfm.simple_test
class MemcopyPinned(MemcopyBase):
    """Copies in pinned host memory, optimised and as compiled for the publication (without optimisation)."""

    descr = "copy within pinned host memory, every repetition"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["host"]
    metrics = ["host_pinned", "host_pinned_unoptimised"]
    arguments = {"backend": "cuda", "gpus": "0", "copies": "host_pinned,host_pinned_unoptimised"}


@rfm.simple_test
class MemcopyHost(MemcopyBase):
    """Copies in pageable host memory, optimised and without optimisation."""

    descr = "copy within pageable host memory, every repetition"
    arguments = {"backend": "host"}
