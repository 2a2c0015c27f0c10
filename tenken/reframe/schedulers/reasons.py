"""Reasons for which a job waits, in each scheduler's words, and whether waiting helps.

The site appends these tables to docs/schedulers.md. The first entry whose words occur in the reason counts (ignoring
case). For an unknown reason the long waiting time applies, and the reason is shown. `NODES` marks ambiguous words. The
states of the nodes on which the job may run then decide: it waits unless too few of them are available.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenken.reframe.schedulers.polling import Waiting

_SQUEUE = "Slurm: squeue(1), JOB REASON CODES"
_SLURM_SEEN = "Slurm 22.05, observed"
_SLURMCTLD = "Slurm: text of slurmctld in place of a code"
_PBS_SEEN = "OpenPBS 23.06 and master, observed"
_PBS_SOURCE = "OpenPBS, src/scheduler/job_info.cpp"
_PBS_GUIDE = "PBS Professional Administrator's Guide, job comments"


@dataclass(frozen=True)
class Reason:
    """Words of a scheduler. `waiting` None: the states of the nodes decide."""

    words: str
    waiting: Waiting | None
    source: str


NODES = None
_RUNS, _MENDED, _NEVER = Waiting.RUNS, Waiting.MENDED, Waiting.NEVER

SLURM = (
    Reason("ReqNodeNotAvail, May be reserved for other job", _RUNS, _SLURM_SEEN + ": before a maintenance reservation"),
    Reason("ReqNodeNotAvail, Reserved for maintenance", _RUNS, _SQUEUE),
    Reason("ReqNodeNotAvail", NODES, _SLURM_SEEN + ": also when a job of higher priority has planned the idle node"),
    Reason("Nodes required for job are DOWN", NODES, _SLURM_SEEN),
    Reason("NodeDown", NODES, _SQUEUE),
    Reason("Priority", _RUNS, _SQUEUE),
    Reason("Resources", _RUNS, _SQUEUE),
    Reason("ReservationDeleted", _NEVER, _SQUEUE),
    Reason("ReservationInvalid", _NEVER, _SLURMCTLD),
    Reason(" was deleted", _NEVER, _SLURMCTLD + ": Reservation NAME was deleted"),
    Reason(" is invalid", _NEVER, _SLURMCTLD + ": Reservation NAME is invalid"),
    Reason("Reservation", _RUNS, _SQUEUE),
    Reason("BeginTime", _RUNS, _SQUEUE),
    Reason("Licenses", _RUNS, _SQUEUE),
    Reason("Cleaning", _RUNS, _SQUEUE),
    Reason("Prolog", _RUNS, _SQUEUE),
    Reason("PartitionDown", _MENDED, _SQUEUE),
    Reason("PartitionInactive", _MENDED, _SQUEUE),
    Reason("JobHeldAdmin", _MENDED, _SQUEUE),
    Reason("JobHeldUser", _MENDED, _SQUEUE),
    Reason("requeued held", _MENDED, _SLURM_SEEN + ": after a failed launch, or if the user's environment is not read"),
    Reason("requeued in held state", _MENDED, _SLURMCTLD),
    Reason("BurstBufferOperation", _MENDED, _SQUEUE + ": the job is held"),
    Reason("InvalidAccount", _MENDED, _SQUEUE),
    Reason("InvalidQOS", _MENDED, _SQUEUE),
    Reason("PartitionNodeLimit", _MENDED, _SQUEUE + ": also of a partition whose nodes are down"),
    Reason("PartitionTimeLimit", _NEVER, _SQUEUE),
    Reason("MaxWallDurationPerJobLimit", _NEVER, _SQUEUE + " (of a QOS or an association)"),
    Reason("BadConstraints", _NEVER, _SQUEUE),
    Reason("AccountNotAllowed", _NEVER, _SQUEUE),
    Reason("QOSNotAllowed", _NEVER, _SQUEUE),
    Reason("DependencyNeverSatisfied", _NEVER, _SQUEUE),
    Reason("Dependency", _RUNS, _SQUEUE),
    Reason("PartitionConfig", _MENDED, _SQUEUE + ": the partition or its QOS permits no such job"),
    Reason("permitted to use this partition", _NEVER, _SLURMCTLD + ": the group or the QOS is not"),
    Reason("PerNode", _NEVER, _SQUEUE + ": the job requests more of a node than a QOS or an association permits"),
    Reason("MaxMemPerLimit", _NEVER, _SQUEUE),
    Reason("AssociationTimeLimit", _NEVER, _SQUEUE),
    Reason("MinutesPerJob", _NEVER, _SQUEUE),
    Reason("PerJob", _NEVER, _SQUEUE + ": the job itself is above the limit"),
    Reason("RunMinutes", _RUNS, _SQUEUE + ": other jobs of the group end"),
    Reason("Minutes", _MENDED, _SQUEUE + ": the budget is spent"),
    Reason("GrpWall", _MENDED, _SQUEUE + ": the budget is spent"),
    Reason("group wall limit", _MENDED, _SLURMCTLD + ": the budget is spent"),
    Reason("QOSUsageThreshold", _MENDED, _SQUEUE),
    Reason("QOSMin", _NEVER, _SQUEUE + ": the job requests less than the QOS requires"),
    Reason("QOSTimeLimit", _NEVER, _SQUEUE),
    Reason("DeadLine", _NEVER, _SQUEUE),
    Reason("JobHoldMaxRequeue", _MENDED, _SQUEUE),
    Reason("InactiveLimit", _MENDED, _SQUEUE),
    Reason("FrontEndDown", _MENDED, _SQUEUE),
    Reason("QOSMax", _RUNS, _SQUEUE + ": other jobs of the user end"),
    Reason("AssocGrp", _RUNS, _SQUEUE + ": other jobs of the group end"),
)

PBS = (
    Reason("Can Never Run", _NEVER, _PBS_SEEN),
    Reason("Queue not started", _MENDED, _PBS_SEEN),
    Reason("Queue not enabled", _MENDED, _PBS_GUIDE),
    Reason("Job held", _MENDED, _PBS_GUIDE),
    Reason("Job is in the hold state", _MENDED, _PBS_GUIDE),
    Reason("ineligible state", NODES, _PBS_GUIDE),
    Reason("Not enough free nodes", NODES, _PBS_SEEN),
    Reason("Insufficient amount of resource", NODES, _PBS_SEEN + "; never, if it requests more than exists"),
    Reason("Not enough total nodes", NODES, _PBS_GUIDE),
    Reason("No available resources on nodes", NODES, _PBS_GUIDE),
    Reason("right type of nodes", NODES, _PBS_SOURCE),
    Reason("Nodes not available", NODES, _PBS_SOURCE),
    Reason("zero shares for fairshare", _MENDED, _PBS_SOURCE),
    Reason("no PBS license", _MENDED, _PBS_SOURCE),
    Reason("Server is not scheduling", _MENDED, _PBS_GUIDE),
    Reason("exclusive node and node is in use", _RUNS, _PBS_GUIDE),
    Reason("conflict with reservation or top job", _RUNS, _PBS_GUIDE),
    Reason("edicated time", _RUNS, _PBS_GUIDE),
    Reason("job limit", _RUNS, _PBS_GUIDE),
    Reason("Draining system", _RUNS, _PBS_GUIDE),
)

_SIZE = r"(\d{1,18})([kmgtp]?b)?\b"
_SHORT_OF = re.compile(rf"Insufficient amount of resource: \S+ \(R: {_SIZE}.*?\bT: {_SIZE}", re.I)


def slurm(text: str) -> Waiting | None:
    """The kind of squeue's reason; None: the states of the nodes decide."""
    return _of(SLURM, text)


#: A reservation has its own queue, which does not start before the reservation begins.
_RESERVATION = re.compile(r"[RSM]\d+(\..*)?")


def pbs(comment: str, queue: str = "") -> Waiting | None:
    """The kind of qstat's comment on a queued job; None: the states of the nodes decide."""
    if _RESERVATION.fullmatch(queue) and "queue not started" in comment.lower():
        return _RUNS
    numbers = _SHORT_OF.search(comment)
    if numbers and _amount(*numbers.group(1, 2)) > _amount(*numbers.group(3, 4)):
        return _NEVER
    return _of(PBS, comment)


def _amount(number: str, unit: str | None) -> int:
    return int(number) * 1024 ** "bkmgtp".index((unit or "b")[0].lower())


def _of(table: tuple[Reason, ...], text: str) -> Waiting | None:
    # scontrol writes the blanks of squeue's words as underscores
    said = text.replace("_", " ").lower()
    found = next((reason for reason in table if reason.words.lower() in said), None)
    return _RUNS if found is None else found.waiting
