"""The cost of a campaign before it runs, calculated by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from tenken.campaign import plan
from tenken.campaign.file import Campaign
from tenken.campaign.queue import Limits

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
NODES = tuple(f"n{at}" for at in range(200))
#: Two rounds of half an hour over 200 nodes, 50 jobs at once; two more runs of 2 %.
TWO = Campaign("c", "s", "gpu", NODES, 1800.0, rounds=2, concurrency=50, retest_runs=2)


def test_hours_waves_and_the_end_by_hand() -> None:
    found = plan.plan(TWO, Limits())
    assert (found.jobs, found.at_once, found.waves, found.node_hours) == (400, 50, 8, 200.0)
    # 2 % of 200 nodes, each twice, half an hour; the last wave of second runs takes one more
    assert (found.retest_node_hours, found.seconds) == (4.0, 9 * 1800.0)
    assert found.lines(TWO, NOW) == [
        "200 nodes x 2 rounds = 400 whole-node jobs of at most 30 min (not one per check)",
        "at most 200.0 node hours, 4.0 more for second runs of suspects",
        "50 jobs at once ('concurrency' of the file): 8 waves, 4.5 h if the nodes are free; expected end: "
        "2026-03-01 16:30 UTC",
    ]
    one = replace(TWO, nodes=NODES[:1], rounds=1, budget_node_hours=3.0)
    assert plan.plan(one, Limits()).lines(one, NOW) == [
        "1 nodes x 1 round = 1 whole-node jobs of at most 30 min (not one per check)",
        "at most 0.5 node hours, 1.0 more for second runs of suspects; the budget is 3",
        "1 jobs at once (all nodes): 1 wave, 1.0 h if the nodes are free; expected end: 2026-03-01 13:00 UTC",
    ]


def test_a_ramp_of_power_delays_the_starts_of_a_wave() -> None:
    """Nodes of 5 kW within 10 kW/s: one every half second; 50 of them have started after 24.5 s."""
    ramp = replace(TWO, node_kw=5.0, ramp_kw_per_s=10.0)
    found = plan.plan(ramp, Limits())
    assert (found.start_seconds, found.seconds) == (24.5, 9 * 1800 + 24.5)
    assert found.lines(ramp, NOW)[3] == (
        "starts 0.50 s apart: 5 kW per node within 10 kW/s, 0.4 min until a wave has started"
    )


@pytest.mark.parametrize(("place", "together", "jitter", "changes", "found"), [
    (3, 4, 0.9, {"node_kw": 5.0, "ramp_kw_per_s": 10.0}, 1.5),
    (5, 4, 0.9, {"node_kw": 5.0, "ramp_kw_per_s": 10.0}, 0.5),
    (1, 4, 0.5, {}, 22.5), (4, 4, 0.5, {}, 7.5), (1, 4, 0.0, {"seconds": 100.0}, 2.5),
    (1, 4, 0.0, {"seconds": 600.0}, 15), (1, 4, 0.5, {"in_phase": True}, 0), (1, 1, 0.5, {}, 0), (1, 2, 0.0, {}, 30),
])  # fmt: skip
def test_starts_are_apart_by_the_ramp_or_spread_over_a_minute_or_a_tenth_of_a_short_job(
    place: int, together: int, jitter: float, changes: dict[str, Any], found: float
) -> None:
    assert plan.delay(replace(TWO, **changes), place, together, jitter) == found


@pytest.mark.parametrize(("nodes", "concurrency", "queued", "found"), [
    (200, 50, None, (50, "'concurrency' of the file")), (200, 50, 50, (50, "'concurrency' of the file")),
    (200, 50, 49, (49, "x")), (200, 50, 0, (1, "x")), (50, 50, None, (50, "'concurrency' of the file")),
    (49, 50, None, (49, "all nodes")), (49, 50, 48, (48, "x")),
])  # fmt: skip
def test_the_smallest_limit_of_jobs_at_once_counts(nodes: int, concurrency: int, queued: int | None, found) -> None:
    one = replace(TWO, nodes=NODES[:nodes], concurrency=concurrency)
    assert plan.at_once(one, Limits(queued, "x")) == found
