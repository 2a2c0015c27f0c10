"""NVIDIA's nvbandwidth: copies between host and GPUs and between GPUs, each test case of the site's binary."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable

from tenken.parsers import nvbandwidth
from tenken.reframe.foreign import Figure, NamedProgram

#: In every version, on every machine with a GPU.
ALWAYS = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce")


def figure(name: str) -> Figure:
    of = "pair of GPUs" if name in nvbandwidth.PAIR_TESTS else "GPU"
    optional = name not in ALWAYS
    if nvbandwidth.is_latency(name):
        return Figure(f"{name}, longest of all {of}s", "ns", "lower", optional=optional)
    return Figure(f"{name}, slowest {of}", "GB/s", "higher", optional=optional)


@rfm.simple_test
class NvBandwidth(NamedProgram):
    """The value of the slowest GPU or pair of each test case. It verifies its copies (unless that is turned off).

    `named_command` or the variable TENKEN_NVBANDWIDTH names the command or its folder; waived if it is not on the node.
    """

    descr = "nvbandwidth: copies between host and GPUs, and between GPUs"
    program = "nvbandwidth"
    tags = {"links", "acceptance"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    on_gpus = True
    command = usual_command = "nvbandwidth"
    named_by = "TENKEN_NVBANDWIDTH"
    figures = {name: figure(name) for name in (*nvbandwidth.HOST_TESTS, *nvbandwidth.PAIR_TESTS)}
    version_pattern = r"nvbandwidth Version:\s+v?(\S+)|\"version\" : \"v?([^\"]+)\""

    #: Options: -j prints JSON, -t names test cases, -s a buffer size.
    nvbandwidth_options = variable(str, value="")

    def options(self):
        return self.nvbandwidth_options

    def parse(self, output):
        # a later release has test cases that are not known here
        return {name: value for name, value in nvbandwidth.parse(output).worst().items() if name in self.figures}
