"""mpi4py: ping-pong between two ranks, every row of its table verified. PyPI: pip install mpi4py."""

import re

import reframe as rfm

from tenken.reframe.foreign import Figure, ForeignCheck, ForeignOutputError


@rfm.simple_test
class Mpi4pyPingPong(ForeignCheck):
    """Messages of 1 B to 4 MiB: each row's bandwidth must follow from its time, and no size may be missing."""

    descr, program = "mpi4py: ping-pong between two ranks", "mpi4py_pingpong"
    command = "python3 -m mpi4py.bench pingpong --array none --loop 2000 --loop-large 200 --max-size 4194304"
    needs = "python3 -c 'import mpi4py'"
    valid_systems, valid_prog_environs, subjects, uses_mpi = ["+mpi"], ["+host_mpi"], ["ranks"], True
    num_tasks = num_tasks_per_node = 2
    figures = {"latency": Figure("8 B", "us", "lower"), "bandwidth": Figure("4 MiB", "GB/s", "higher")}
    required_lines = [r"^# MPI PingPong Test$"]
    version_command = "python3 -m mpi4py --version"

    def parse(self, output):
        rows = re.findall(r"^ *(\d+) +(\S+) \| (\S+) ± \S+ +\d+$", output, re.M)
        times = {int(size): float(seconds) for size, _, seconds in rows}
        if [int(size) for size, *_ in rows] != [2**i for i in range(23)]:
            raise ForeignOutputError(f"the table has the sizes {', '.join(map(str, times))}; required: 1 to 4194304")
        if wrong := [r for r in rows if not abs(int(r[0]) / times[int(r[0])] / 1e6 - float(r[1])) < 0.01]:
            raise ForeignOutputError(f"row of {wrong[0][0]} B: {wrong[0][1]} MB/s does not follow from {wrong[0][2]} s")
        return {"latency": times[8] * 1e6, "bandwidth": 2**22 / times[2**22] / 1e9}
