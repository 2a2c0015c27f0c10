"""MpiOsu with ports of the OSU benchmarks: unchanged, with every message compared, and with one byte changed."""

from __future__ import annotations

import reframe as rfm

from checks.osu import MpiOsu


class Port(MpiOsu):
    osu_takes_sizes = False
    osu_benchmarks = ["osu_latency"]


@rfm.simple_test
class PortAsItIs(Port):
    descr = "a port that verifies nothing"
    osu_options = ""


@rfm.simple_test
class PortCompared(Port):
    descr = "a port with every message compared"


@rfm.simple_test
class PortChanged(Port):
    descr = "a port of which one size is changed"
    osu_options = "-c --fault"
