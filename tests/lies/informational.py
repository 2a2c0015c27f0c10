"""Fields of a result that are recorded and decide nothing: the only ones, over all programs."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: At most this many.
MOST = 15

#: Field, as tools/sweep.py names it, and why a value of it that a machine can have is not refused.
FIELDS: dict[str, str] = {
    "host.os": "the job script and a container have distributions of their own",
    "host.virtual_machine": "what a hypervisor tells its guest",
    "devices.*.pageable_memory_access": "a setting of the host's kernel, judged where the system file claims it",
    "health.devices.*.power_w": "follows the load; bounded by 1.5 x the power limit where the driver reports one",
    "health.devices.*.utilization_percent": "a driver's average over up to a second, in which 100 can mean one kernel",
    "health.devices.*.memory_used_bytes": "includes what the driver and other processes hold",
    "health.devices.*.reasons": "an idle GPU, a power cap and set clocks are normal; slow-downs are judged",
    "health.devices.*.samples": "as many as fit into the timed part; 0 and more than can be taken are refused",
    "load.*": "explains an INVALID run; its duration and the CPU seconds of all together are judged",
    "placement.numa_nodes_of_memory": "some kernels do not report where pages are",
    "verification.checks.*.detail": "a sentence beside the error, which decides",
    "path.health_reading_ms": "what a reading of NVML costs",
    "path.passes_of_a_step.host": "follows from the caches of the host; of a GPU it is judged",
    "path.last_gosa.*": "the last residual of Himeno, which is verified cell by cell",
    "path.checksum_ms.*": "the part of a training step that reads the batch",
}


def entry(field: str) -> str | None:
    """The entry of the list that a field belongs to; None: it must decide something."""
    return next((pattern for pattern in FIELDS if fnmatchcase(field, pattern)), None)
