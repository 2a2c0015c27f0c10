"""Transfers between host and device memory: directions, kinds of memory, sizes, latency."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck

#: By mode: bytes of an array, repetitions, end of the sweep in bytes.
SIZES = {
    "quick": (256_000_000, 100, 64 * 2**20),
    "acceptance": (512_000_000, 100, 256 * 2**20),
    "nightly": (512_000_000, 100, 256 * 2**20),
    "published": (4_000_000_000, 100, 8_000_000_000),
}


@rfm.simple_test
class Transfer(TenkenCheck):
    """Every kind of transfer on every GPU in turn; pinned copies in both directions are compared with the link.

    Metrics: `htod_pinned`, `dtoh_pinned`, `both_pinned`, `dtod`, further kinds, latency in us, and a sweep by size.
    """

    descr = "transfers between host and device memory"
    share = 18
    program = "transfer"
    tags = {"transfer", "memory", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: sizes of the mode."""
        size, repetitions, maximum = SIZES[self.size_mode]
        self.arguments = {
            "backend": "cuda",
            "gpus": "all",
            "bytes": size,
            "repetitions": repetitions,
            "sweep-max-bytes": maximum,
        }
        self.expected_parameters = {"backend": "cuda", "bytes": size, "repetitions": repetitions}


@rfm.simple_test
class TransferSeries(TenkenCheck):
    """The published series: 200 repetitions from and to pinned memory, 4 and 8 GB.

    Ten trials in mode `published`, else one.
    """

    descr = "transfers from and to pinned memory, every repetition"
    program = "transfer"
    tags = {"transfer", "memory", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    metrics = ["htod_pinned", "dtoh_pinned"]
    #: Bytes of the array.
    array_bytes = parameter([4_000_000_000, 8_000_000_000])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: one size of the published series."""
        self.expected_parameters = {
            "backend": "cuda",
            "bytes": self.array_bytes,
            "repetitions": 200,
            "trials": self.trials_asked(),
        }
        self.arguments = {**self.expected_parameters, "gpus": "all", "kinds": "pinned"}


@rfm.simple_test
class TransferHost(TenkenCheck):
    """memcpy within host memory by one thread, by size: as a driver does to stage pageable memory."""

    descr = "memcpy within host memory, one thread, by size"
    share = 1
    program = "transfer"
    tags = {"transfer", "memory", "quick", "acceptance", "nightly"}
    arguments = {"backend": "host", "repetitions": 20}
    expected_parameters = {"backend": "host"}
