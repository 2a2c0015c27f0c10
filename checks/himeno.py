"""Himeno: Jacobi iterations with 19 points, in device, managed and malloc memory, and on the host."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck

#: Each kind of memory, and the kinds it is compared with in the same run.
MEMORIES = {"explicit": "explicit", "managed": "explicit,managed", "sam": "explicit,managed,sam"}


@rfm.simple_test
class Himeno(TenkenCheck):
    """XL (512x512x1024) in device memory; L for memory that the host must write first, and for small GPUs.

    Mode `published`: XL and 3000 iterations for all, official data, explicit arrays copied from the host.
    """

    descr = "Himeno on GPUs by kind of memory"
    program = "himeno"
    tags = {"himeno", "memory", "quick", "acceptance", "nightly", "published"}
    share = 5
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    #: Where the arrays lie.
    memory = parameter(list(MEMORIES))

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: the size that fits, and the data of the mode."""
        published = self.size_mode == "published"
        large = self.memory == "explicit" or published
        # XL takes 14 GiB, managed memory at most half of what is free
        room = self.machine.gpu_memory_gib >= (16 if self.memory == "explicit" else 32)
        self.expected_parameters = {
            "backend": "cuda",
            "size": "XL" if large and room and self.size_mode != "quick" else "L",
            "repetitions": 3000 if published else 300,
            "memory": MEMORIES[self.memory],
            "data": "official" if published else "varied",
            "init": "host" if published else "device",
        }
        self.arguments = {**self.expected_parameters, "gpus": "all"}


@rfm.simple_test
class HimenoHost(TenkenCheck):
    """The same iterations on all cores of a node, at size S (M on nodes with many cores)."""

    descr = "Himeno on the host, OpenMP on all cores"
    program = "himeno"
    tags = {"himeno", "memory", "quick", "acceptance", "nightly"}
    share = 3

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a size by the number of cores."""
        self.expected_parameters = {
            "backend": "host",
            "size": "M" if (self.cores or 1) >= 16 else "S",
            "repetitions": 200,
        }
        self.arguments = dict(self.expected_parameters)
