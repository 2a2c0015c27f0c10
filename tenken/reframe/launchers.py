"""MPI launchers that ReFrame lacks."""

from __future__ import annotations

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("nqsv-mpirun")
class NqsvMpirun(JobLauncher):
    """`mpirun ${NQSV_MPIOPTS} -np N -npernode P`: NQSV passes the hosts in that variable; there is no host file."""

    def command(self, job):
        return ["mpirun", "${NQSV_MPIOPTS}", "-np", str(job.num_tasks), "-npernode", str(job.num_tasks_per_node or 1)]


@register_launcher("openmpi-hosts")
class OpenMpiHosts(JobLauncher):
    """Open MPI without support for the scheduler, like Debian's on PBS, which by itself starts all ranks on one node.

    The nodes are those found by the job script (`tenken_nodes`); remote daemons are started by ssh, or by the agent
    in `launcher_options`: `--mca plm_rsh_agent pbs_tmrsh`.
    """

    def command(self, job):
        each = job.num_tasks_per_node or 1
        hosts = f'$(echo "$tenken_nodes" | sed "s/,/:{each},/g; s/$/:{each}/")'
        return ["mpirun", "-np", str(job.num_tasks), "--host", hosts, "--map-by", f"ppr:{each}:node"]
