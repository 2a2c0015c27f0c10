"""STREAM: sustainable memory bandwidth of the host (and, by back end, of what the compiler offloads to)."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import run_after

from checks.base import TenkenCheck


class StreamBase(TenkenCheck):
    """copy, scale, add, triad and dot in double precision; the value is the median of the repetitions.

    Metrics: `copy`, `scale`, `add`, `triad`, `dot` in GB/s per subject. Checked analytically after the timed part.
    """

    program = "stream"
    tags = {"stream", "memory", "quick", "acceptance", "nightly", "published"}

    @run_after("setup")
    def set_repetitions(self):
        repetitions = {"quick": 100, "acceptance": 200, "nightly": 200, "published": 200}[self.tenken_mode]
        self.arguments = {**self.arguments, "repetitions": repetitions}
        self.asked = {**self.asked, "repetitions": repetitions}


@rfm.simple_test
class StreamHost(StreamBase):
    """STREAM in host memory with OpenMP on all cores of a node."""

    descr = "STREAM, host memory, OpenMP on all cores"
    arguments = {"backend": "host"}
    asked = {"backend": "host"}


@rfm.simple_test
class StreamOpenACC(StreamBase):
    """STREAM by OpenACC, the way the Reedbush-H figures of 2017 were measured."""

    descr = "STREAM, OpenACC"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+openacc"]
    arguments = {"backend": "openacc"}
    asked = {"backend": "openacc"}
