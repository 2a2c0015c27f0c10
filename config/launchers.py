"""MPI launchers that ReFrame does not have."""

from __future__ import annotations

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("nqsv-mpirun")
class NqsvMpirun(JobLauncher):
    """`mpirun ${NQSV_MPIOPTS} -np N -npernode P`: NQSV names the hosts in that variable, there is no host file."""

    def command(self, job):
        return ["mpirun", "${NQSV_MPIOPTS}", "-np", str(job.num_tasks), "-npernode", str(job.num_tasks_per_node or 1)]
