"""What records of a campaign become: figures with their times and what explains them, and who is accused of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tenken.campaign import findings, standin
from tenken.campaign.file import Campaign
from tenken.campaign.journal import Unit
from tenken.model.result import typed

NODES = tuple(f"n{i:03d}" for i in range(60))
CAMPAIGN = Campaign(
    "c", "standin", "gpu", NODES, 600.0, groups={"rack": {n: f"r{i // 10}" for i, n in enumerate(NODES)}}
)


def table(change, unit="GB/s"):
    """Two figures a GPU of each node; `change` alters a node's document, which is given with the node's number."""
    world = standin.StandIn(NODES, gpus=2)
    found = findings.Table({})
    rng = np.random.default_rng(5)
    for at, node in enumerate(NODES):
        record = world._record("s", node, 0)
        assert record.result is not None
        document = json.loads(record.result.text)
        kept = [m for m in document["metrics"] if m["name"] in ("copy", "triad")]
        document["metrics"], document["limits"] = kept, {}
        for metric in kept:
            metric["unit"] = unit
        time = change(document, at, rng) or record.time
        for metric in kept:
            # what follows from the samples
            for key in ("value", "best", "median", "p5", "p95"):
                metric[key] *= metric.get("factor", 1)
            metric["samples"] = [v * metric.pop("factor", 1) for v in metric["samples"][:1]]
        found.take(replace(record, result=typed(document), time=time), Unit(node))
    return found


def accused(found):
    return {one.name for one in _judged(found).not_again}


def _judged(found):
    result = findings.Findings()
    findings.judge(found, result, CAMPAIGN)
    return result


def test_what_the_room_does_meanwhile_accuses_nobody_and_a_slow_device_is_still_found():
    def warming(document, at, rng):
        for metric in document["metrics"]:
            metric["factor"] = 1 - 0.2 * (at / len(NODES)) + 0.0005 * rng.standard_normal()
            if at == 30 and metric["subject"]["gpu"] == 1:
                metric["factor"] *= 0.8
        return f"2026-01-01T{at // 6:02d}:{at % 6}0:00.000000Z"

    found = table(warming)
    assert accused(found) == {"n030 GPU 1"}
    times, explained_by = found.conditions("Check00 copy", [(n, "GPU 0") for n in NODES], 1, {})
    assert explained_by == () and (np.diff(times) > 0).all()


@pytest.mark.parametrize("own", [False, True])
def test_under_a_power_cap_the_air_of_the_rack_explains_and_a_device_s_own_heat_does_not(own):
    def hot(document, at, rng):
        of_rack = 30 + 3.0 * (at // 10)
        for gpu in document["health"]["devices"]:
            gpu["before"] = {
                **gpu["before"],
                "temperature_c": of_rack + rng.standard_normal(),
                "power_w": 75.0 + rng.random(),
            }
            if own and at == 33 and gpu["index"] == 0:
                gpu["before"]["temperature_c"] += 40
        for metric in document["metrics"]:
            metric["factor"] = 1 - 0.002 * (of_rack - 30) + 0.002 * rng.standard_normal()
            if own and at == 33 and metric["subject"]["gpu"] == 0:
                metric["factor"] *= 0.6

    found = table(hot, "GFLOP/s")
    _, (drawn, air) = found.conditions("Check00 copy", [(n, "GPU 0") for n in NODES], 1, CAMPAIGN.groups["rack"])
    assert np.isfinite(drawn).all() and len(np.unique(air)) == 6
    assert accused(found) == ({"n033 GPU 0"} if own else set())
