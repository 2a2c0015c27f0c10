"""Access patterns: copies from and to host or device memory by the CPU or the GPU, by placement method."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck

#: Bytes of each of the two arrays, repetitions and trials, by mode.
SERIES = {
    "quick": (256_000_000, 60, 1),
    "acceptance": (512_000_000, 100, 1),
    "nightly": (512_000_000, 200, 1),
}

#: What happens if the CPU cannot access device memory.
WITHOUT_CPU_ON_DEVICE = [
    "host_by_cpu", "remote_by_gpu", "device_by_gpu", "device_copy", "ramp", "before", "plateau", "relative",
]  # fmt: skip


class AccessPatternsBase(TenkenCheck):
    """Eight patterns, each a series of repetitions, all recorded, with the ramp caused by page migration."""

    program = "access_patterns"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]

    def ask(self, placement: str, size: int, repetitions: int, trials: int) -> None:
        self.expected_parameters = {
            "backend": "cuda", "placement": placement, "bytes": size, "repetitions": repetitions, "trials": trials,
        }  # fmt: skip
        self.arguments = {**self.expected_parameters, "gpus": "all"}


@rfm.simple_test
class AccessPatterns(AccessPatternsBase):
    """The eight patterns for each placement method; waived if the GPU has no managed or pageable access."""

    descr = "access patterns across host and device memory"
    tags = {"access_patterns", "memory", "acceptance", "nightly"}
    share = 18
    #: How arrays are placed.
    placement = parameter(["explicit", "managed_touch", "managed_prefetch", "managed_advise", "sam"])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: the array size of the mode, without options that explicit placement lacks."""
        self.ask(self.placement, *SERIES.get(self.size_mode, SERIES["acceptance"]))
        if self.placement == "explicit":
            self.metrics = WITHOUT_CPU_ON_DEVICE


@rfm.simple_test
class AccessPatternsQuick(AccessPatternsBase):
    """The patterns of managed and of malloc memory at a small size."""

    descr = "access patterns across host and device memory, small"
    tags = {"access_patterns", "memory", "quick"}
    #: How arrays are placed.
    placement = parameter(["managed_touch", "sam"])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: the array of mode quick."""
        self.ask(self.placement, *SERIES["quick"])


@rfm.simple_test
class AccessPatternsSeries(AccessPatternsBase):
    """The published series: 200 repetitions, 4 and 8 GB, the CPU's copy without optimisation.

    Ten trials in mode `published`, else one.
    """

    descr = "access patterns across host and device memory, as published"
    tags = {"access_patterns", "memory", "published"}
    time_limit = "2h"
    #: How arrays are placed.
    placement = parameter(["managed_touch", "sam"])
    #: Bytes of each of the two arrays.
    array_bytes = parameter([4_000_000_000, 8_000_000_000])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: one size of the published series, with the copy as published."""
        self.ask(self.placement, self.array_bytes, 200, self.trials_asked())
        self.arguments = {**self.arguments, "cpu-copy": "unoptimised"}


@rfm.simple_test
class AccessPatternsHost(TenkenCheck):
    """Pattern 1 alone: host to host by the CPU, in malloc memory."""

    descr = "access pattern 1, host to host by the CPU"
    program = "access_patterns"
    tags = {"access_patterns", "memory", "quick", "acceptance", "nightly"}
    share = 2
    arguments = {"backend": "host", "bytes": 256_000_000, "repetitions": 60}
    expected_parameters = dict(arguments)
