"""The cost of a campaign before anything runs: node hours, waves, its end, the power of a start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from tenken.campaign.file import Campaign
from tenken.campaign.queue import Limits

#: A second run is planned for this share of the nodes.
RETESTED = 0.02


@dataclass(frozen=True)
class Plan:
    """`at_once`: jobs in the queue or running; `waves`: their number of rounds through the queue; hours are maxima,
    since jobs may end sooner."""

    jobs: int
    at_once: int
    waves: int
    node_hours: float
    retest_node_hours: float
    seconds: float
    start_seconds: float
    why_at_once: str

    def lines(self, campaign: Campaign, now: datetime) -> list[str]:
        end = now.astimezone(timezone.utc) + timedelta(seconds=self.seconds)
        found = [
            f"{len(campaign.nodes)} nodes x {campaign.rounds} "
            f"round{'s' if campaign.rounds > 1 else ''} = {self.jobs} whole-node jobs of at most "
            f"{campaign.seconds / 60:g} min (not one per check)",
            f"at most {self.node_hours:.1f} node hours, {self.retest_node_hours:.1f} more for second runs of suspects"
            + (f"; the budget is {campaign.budget_node_hours:g}" if campaign.budget_node_hours else ""),
            f"{self.at_once} jobs at once ({self.why_at_once}): {self.waves} wave{'s' if self.waves > 1 else ''}, "
            f"{self.seconds / 3600:.1f} h if the nodes are free; expected end: {end:%Y-%m-%d %H:%M} UTC",
        ]
        if campaign.ramp_kw_per_s is not None:
            found.append(
                f"starts {campaign.seconds_between_starts:.2f} s apart: {campaign.node_kw:g} kW per node within "
                f"{campaign.ramp_kw_per_s:g} kW/s, {self.start_seconds / 60:.1f} min until a wave has started"
            )
        return found


def at_once(campaign: Campaign, limits: Limits) -> tuple[int, str]:
    """Jobs that may be in the queue together, and the reason for this number."""
    found = min(campaign.concurrency, len(campaign.nodes))
    why = "'concurrency' of the file" if campaign.concurrency <= len(campaign.nodes) else "all nodes"
    if limits.queued is not None and limits.queued < found:
        found, why = max(limits.queued, 1), limits.says
    return found, why


def plan(campaign: Campaign, limits: Limits) -> Plan:
    """The estimate assumes free nodes."""
    together, why = at_once(campaign, limits)
    jobs = len(campaign.nodes) * campaign.rounds
    waves = math.ceil(jobs / together)
    start = (together - 1) * campaign.seconds_between_starts
    again = max(1, round(RETESTED * len(campaign.nodes))) * campaign.retest_runs
    hours = campaign.seconds / 3600
    return Plan(
        jobs, together, waves, jobs * hours, again * hours, waves * campaign.seconds + start + campaign.seconds,
        start, why,
    )  # fmt: skip


def delay(campaign: Campaign, place: int, together: int, jitter: float) -> float:
    """Seconds that the job at `place` waits before it loads its node. Even if a whole wave starts at one moment, the
    power ramp is kept, and no two jobs begin in phase. `jitter`: 0 to 1."""
    if campaign.in_phase or together <= 1:
        return 0.0
    apart = campaign.seconds_between_starts
    # without a ramp the starts are spread over a minute, or a tenth of a short job
    spread = apart or min(60.0, campaign.seconds / 10) / max(together, 1)
    return (place % max(together, 1)) * spread + (0.0 if apart else jitter * spread)
