"""perftest's ib_write_bw and ib_read_lat between two nodes: one is the server, the other its client."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable

from tenken.parsers import perftest
from tenken.reframe.base import RESULT_FILE
from tenken.reframe.foreign import Figure, ForeignOutputError, NamedProgram


class BetweenTwo(NamedProgram):
    """One program of perftest over all sizes (-a). The client starts after the server has had time to listen.

    `named_command` or the variable TENKEN_PERFTEST names the folder; waived if the program is not on the node.
    """

    tags = {"links", "acceptance"}
    valid_systems = ["+mpi +nodes"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    uses_mpi = True
    num_tasks = 2
    num_tasks_per_node = 1
    named_by = "TENKEN_PERFTEST"
    # the file of an earlier attempt would make both nodes clients
    outputs = [RESULT_FILE, "tenken-server"]

    #: Options, such as -d mlx5_0 -x 3.
    perftest_options = variable(str, value="")

    #: What the program calls itself in its title.
    title = ""

    #: Sizes in bytes whose values are kept.
    sizes: tuple[int, ...] = ()

    def command_named(self):
        program, options = self.program_named(), f"-a -F {self.perftest_options}".strip()
        # every rank runs this: the first one to create the folder is the server, which prints what it validated alone
        return (
            f"{program} --version > /dev/null 2>&1; if mkdir tenken-server 2> /dev/null; "
            f"then uname -n > tenken-server/name; {program} {options} > tenken-server/output 2>&1; "
            'code=$?; grep "VALIDATION:" tenken-server/output; (exit $code); '
            f'else sleep 5; {program} {options} "$(cat tenken-server/name)"; fi'
        )

    def parse(self, output):
        found = {point.bytes: point.value for point in perftest.parse(self.title, output)}
        missing = [size for size in self.sizes if size not in found]
        if missing:
            raise ForeignOutputError(f"no line of {missing[0]} B: it did not run to its end")
        return {f"bytes_{size}": found[size] for size in self.sizes}


@rfm.simple_test
class IbWriteBandwidth(BetweenTwo):
    """Mean bandwidth of writes by RDMA from one node to another."""

    descr = "perftest: ib_write_bw between two nodes"
    program = "ib_write_bw"
    command = usual_command = "ib_write_bw"
    title = "RDMA_Write BW"
    sizes = (65536, 1048576, 8388608)
    figures = {f"bytes_{size}": Figure(f"writes of {size} B, mean bandwidth", "GB/s", "higher") for size in sizes}


@rfm.simple_test
class IbReadLatency(BetweenTwo):
    """Typical latency (median) of reads by RDMA from one node by another."""

    descr = "perftest: ib_read_lat between two nodes"
    program = "ib_read_lat"
    command = usual_command = "ib_read_lat"
    title = "RDMA_Read Latency"
    sizes = (2, 4096, 65536)
    figures = {f"bytes_{size}": Figure(f"reads of {size} B, typical latency", "us", "lower") for size in sizes}
