"""DAXPY on the host: the worked example of docs/add-a-benchmark.md."""

from __future__ import annotations

import reframe as rfm

from tenken.reframe.base import TenkenCheck


@rfm.simple_test
class Daxpy(TenkenCheck):
    """y = a x + y in double precision on all cores; metric `daxpy` in GB/s."""

    descr = "DAXPY, host memory: the example of how to add a benchmark"
    program = "daxpy"
    tags = {"daxpy", "memory", "quick", "acceptance", "nightly"}
    share = 4
