"""Migration: a copy from host to device memory by the GPU, by the CPU, and by the GPU again."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck


class MigrationBase(TenkenCheck):
    """Three phases of repetitions, all recorded; reports whether the last phase shows a new ramp."""

    program = "migration"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    metrics = ["gpu_first", "cpu", "gpu_last", "ramp", "plateau", "new_ramp"]
    #: How arrays are placed.
    placement = parameter(["managed_touch", "sam"])

    def ask(self, size: int, repetitions: int, trials: int) -> None:
        self.expected_parameters = {
            "backend": "cuda", "placement": self.placement, "bytes": size, "repetitions": repetitions,
            "trials": trials,
        }  # fmt: skip
        self.arguments = {**self.expected_parameters, "gpus": "all"}


@rfm.simple_test
class Migration(MigrationBase):
    """100 repetitions per phase (60 in mode `quick`), one trial."""

    descr = "migration between host and device memory"
    tags = {"migration", "memory", "quick", "acceptance", "nightly"}
    share = 4

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: the array of the mode."""
        quick = self.size_mode == "quick"
        self.ask(256_000_000 if quick else 512_000_000, 60 if quick else 100, 1)


@rfm.simple_test
class MigrationSeries(MigrationBase):
    """The published series: 100 repetitions per phase, 4 and 8 GB, the CPU's copy without optimisation.

    Ten trials in mode `published`, else one.
    """

    descr = "migration between host and device memory, as published"
    tags = {"migration", "memory", "published"}
    time_limit = "2h"
    #: Bytes of each of the two arrays.
    array_bytes = parameter([4_000_000_000, 8_000_000_000])

    @run_after("setup")
    def set_series(self):
        """Once the partition is known: one size of the published series, with the copy as published."""
        self.ask(self.array_bytes, 100, self.trials_asked())
        self.arguments = {**self.arguments, "cpu-copy": "unoptimised"}


@rfm.simple_test
class MigrationHost(TenkenCheck):
    """The three phases on the host alone, where nothing migrates."""

    descr = "the three phases of migration on the host alone"
    program = "migration"
    tags = {"migration", "memory", "quick", "acceptance", "nightly"}
    share = 4
    arguments = {"backend": "host", "bytes": 256_000_000, "repetitions": 50}
    expected_parameters = dict(arguments)
