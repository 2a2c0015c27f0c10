"""Shared by checks between GPUs and ranks: environments of launchers, NCCL, and the base of MPI checks."""

from __future__ import annotations

import shlex

from reframe.core.builtins import run_after, variable

from tenken import counters
from tenken.reframe.base import TenkenCheck

# Finds the NCCL that PyTorch or pip installed, if none is on a library path.
FIND_NCCL = """if [ -z "$TENKEN_NCCL" ]; then for python in $(type -ap python3); do
  TENKEN_NCCL=$("$python" -c 'import nvidia.nccl as n; print(n.__path__[0] + "/lib/libnccl.so.2")' 2>/dev/null) && break
done; [ -r "$TENKEN_NCCL" ] && export TENKEN_NCCL || unset TENKEN_NCCL; fi"""


#: The launcher does not bind: each rank binds itself next to its GPU, and more ranks than cores may start.
NEAR_GPU = {
    "OMP_NUM_THREADS": 1,
    "OMP_PROC_BIND": "false",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "SLURM_CPU_BIND": "none",
    # allows more ranks than cores on small machines
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class MpiBase(TenkenCheck):
    """Messages between ranks: `latency`, `bandwidth`, `bidirectional`, `message_rate`, `allreduce`, `alltoall`,
    `bcast` by size and by the memory of the buffers.

    The launcher does not bind ranks: each rank binds itself to the CPUs next to its GPU, and a binding to other CPUs is
    INVALID.
    """

    program = "mpi_p2p"
    subjects = ["ranks"]
    uses_mpi = True
    # ranks share the node's cores freely; no number is requested for each
    cores = 0

    #: Ranks may be bound far from their GPU or network adapter.
    #:
    #: :default: ``False``
    far_asked = variable(bool, value=False)

    env_vars = dict(NEAR_GPU)

    @run_after("setup")
    def ask_for_ranks(self):
        self.arguments = {"ranks": self.num_tasks, "warmup-seconds": 0.2, **self.arguments}
        if self.far_asked:
            self.arguments["stay"] = True
        self.expected_parameters |= {"ranks": self.num_tasks, "repetitions": 100}


def read_ports(check: TenkenCheck) -> None:
    """For `run_before("run")` of a check over several nodes: each port of every node is read at rest, before and after
    the command; the counts in between are judged (docs/fabric.md)."""
    job = check.job
    job.num_tasks, job.num_tasks_per_node = check.num_tasks, check.num_tasks_per_node
    reader = f"{job.launcher.run_command(job)} python3 -I {shlex.quote(counters.__file__)} line"
    check.prerun_cmds = [
        *check.prerun_cmds,
        f'tenken_ports() {{ {reader} "$1" 2> /dev/null < /dev/null || echo "{counters.UNREAD} $1"; }}',
        f"tenken_ports {counters.IDLE}; sleep 1; tenken_ports {counters.BEFORE}",
    ]
    check.postrun_cmds = [f"tenken_ports {counters.AFTER}", *check.postrun_cmds]
