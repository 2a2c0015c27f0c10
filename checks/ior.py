"""IOR over several nodes: what they write to a shared file system and read from it, all at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.parsers import ior
from tenken.reframe.base import RESULT_FILE
from tenken.reframe.foreign import Figure, ForeignOutputError, NamedProgram
from tenken.reframe.links import NEAR_GPU

_TRUE = "every word read is the one written, and every file has its size"


@rfm.simple_test
class IorBetweenNodes(NamedProgram):
    """All nodes write at once, then read what another node wrote: two nodes, or as many as `-S
    IorBetweenNodes.num_nodes=64` gives.

    One file per rank, synced before its time ends. After the timed repetitions, one more read is verified. `-S
    storage_path=DIR` names the file system (default: that of the stage folder), `named_command` or TENKEN_IOR the
    program or its folder. Waived without it.
    """

    descr = "IOR: a shared file system, all nodes at once"
    program = "ior"
    command = usual_command = "ior"
    named_by = "TENKEN_IOR"
    tags = {"storage", "acceptance"}
    valid_systems = ["+mpi +nodes"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    uses_mpi = True
    env_vars = dict(NEAR_GPU)
    outputs = [RESULT_FILE]
    time_limit = "1h"
    own_verifications = (_TRUE,)
    figures = {
        "write": Figure("all nodes write at once", "GB/s", "higher"),
        "read": Figure("all nodes read at once, each what another one wrote", "GB/s", "higher"),
    }

    #: Nodes.
    num_nodes = variable(int, value=2)
    #: Ranks on each.
    ior_ranks = variable(int, value=8)
    #: What each rank writes, and in what pieces, in IOR's notation of sizes.
    ior_block = variable(str, value="1g")
    ior_transfer = variable(str, value="4m")
    #: Timed repetitions.
    ior_repetitions = variable(int, value=3)
    #: A folder of the file system that is measured; empty: the stage folder's.
    storage_path = variable(str, value="")

    @run_after("init")
    def need_so_many(self):
        """When it is listed: needs that many nodes."""
        self.need_nodes(self.num_nodes)

    @run_after("setup")
    def place_ranks(self):
        """Once the partition is known: ranks per node."""
        if min(self.ior_ranks, self.ior_repetitions) < 1:
            raise ReframeError(f"{self.unique_name}: ior_ranks and ior_repetitions: allowed: 1 or above")
        self.num_tasks_per_node = self.ior_ranks
        self.num_tasks = self.num_nodes * self.ior_ranks

    def options(self):
        # reading is shifted by one node, so that nothing comes from the memory of the node that wrote it
        named = shlex.quote(str(Path(self.storage_path, "tenken-ior")))
        return f"-a POSIX -F -C -e -g -b {self.ior_block} -t {self.ior_transfer} -o {named} -f ior.tests"

    @run_before("run")
    def write_tests(self):
        """Just before the job script is written: the two tests, as IOR reads them, in a folder of this run."""
        place = shlex.quote(self.storage_path) if self.storage_path else '"$PWD"'
        tests = (
            "IOR START\\ntestFile=%s/data\\nsetTimeStampSignature=%d\\nwriteFile=1\\nreadFile=1\\nkeepFile=1\\n"
            f"repetitions={self.ior_repetitions}\\nRUN\\nwriteFile=0\\nreadFile=1\\ncheckRead=1\\nkeepFile=0\\n"
            "repetitions=1\\nRUN\\nIOR STOP\\n"
        )
        self.prerun_cmds = [
            *self.prerun_cmds,
            f"tenken_ior=$(mktemp -d {place}/.tenken-ior-XXXXXX) || exit",
            # each run has its own data pattern
            f"printf '{tests}' \"$tenken_ior\" $(( $(date +%s) % 1000000000 )) > ior.tests",
        ]
        self.postrun_cmds = [*self.postrun_cmds, 'rm -rf "$tenken_ior"']

    def parse(self, output):
        found = ior.parse(output)
        if (found.nodes, found.tasks) != (self.num_nodes, self.num_tasks):
            raise ForeignOutputError(
                f"{found.tasks} tasks on {found.nodes} nodes measured; requested: {self.num_tasks} on {self.num_nodes}"
            )
        return {"write": found.write, "read": found.read}

    def wrong(self, output):
        said = ior.parse(output).wrong
        return {_TRUE: said} if said else {}
