"""The site's STREAM 5.10 (stream.c): the memory's bandwidth by the four kernels, checked by the program itself."""

from __future__ import annotations

import reframe as rfm

from tenken.parsers import stream
from tenken.reframe.foreign import Figure, NamedProgram


@rfm.simple_test
class StreamSite(NamedProgram):
    """The best rates of the site's binary on all cores.

    `named_command` or the variable TENKEN_STREAM names the command or its folder; waived if it is not on the node.
    """

    descr = "the site's STREAM 5.10"
    program = "stream_site"
    tags = {"memory", "acceptance"}
    command = usual_command = "stream"
    named_by = "TENKEN_STREAM"
    figures = {
        kernel.lower(): Figure(f"{kernel}, best of the repetitions", "GB/s", "higher") for kernel in stream.KERNELS
    }
    version_pattern = r"STREAM version \$Revision: (\S+)"
    repetitions = 1

    def parse(self, output):
        return stream.parse(output).rates
