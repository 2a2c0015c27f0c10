"""Matrix transpose by kernel and kind of memory, with each phase timed separately, and the bandwidth of the kernels."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck

#: Kinds of memory that are measured together; malloc memory separately, since a GPU may not reach it.
MEMORIES = {"cuda": "pageable,pinned,zero_copy,managed", "sam": "pageable,sam"}


@rfm.simple_test
class Transpose(TenkenCheck):
    """Squares of 1024, 2048 and 4096 (1024 and 2048 in mode `quick`), and one of 16384 in device memory."""

    descr = "matrix transpose by transfer method"
    share = 14
    fewest = 5
    program = "transpose"
    tags = {"transpose", "memory", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    #: Which kinds of memory: those of CUDA, or malloc memory in addition to pageable memory.
    kinds = parameter(list(MEMORIES))

    @run_after("setup")
    def set_tasks(self):
        """Once the partition is known: sizes and memories of the mode, the large one only if it fits."""
        sizes = "1024,2048" if self.size_mode == "quick" else "1024,2048,4096"
        # three GiB and more: not in the memory of a Jetson
        bandwidth = self.kinds == "cuda" and self.machine.gpu_memory_gib >= 12
        self.expected_parameters = {
            "backend": "cuda",
            "sizes": sizes,
            "memory": MEMORIES[self.kinds],
            "repetitions": {"quick": 5, "acceptance": 10}.get(self.size_mode, 20),
            "init": "published" if self.size_mode == "published" else "write",
            "bandwidth_n": 16384 if bandwidth else 0,
        }
        self.arguments = {**{k.replace("_", "-"): v for k, v in self.expected_parameters.items()}, "gpus": "all"}


@rfm.simple_test
class TransposeHost(TenkenCheck):
    """Transposes on the host: row by row and by blocks."""

    descr = "matrix transpose on the host"
    share = 1
    program = "transpose"
    tags = {"transpose", "memory", "quick", "acceptance", "nightly"}
    arguments = {"backend": "host", "sizes": "1024,2048,4096", "repetitions": 10}
    expected_parameters = dict(arguments)
