from __future__ import annotations

import numpy as np
import pytest

from tenken.history.detect import Event, fleet_outliers, group_events
from tenken.model.numbers import student_quantile


@pytest.mark.parametrize("p, degrees, expected", [(0.975, 10, 2.2281), (0.99, 3, 4.5407), (0.95, 30, 1.6973)])
def test_student_quantile_as_in_the_tables(p, degrees, expected):
    assert student_quantile(p, degrees) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("siblings", [5, 8, 64])
def test_siblings_that_are_alike_are_left_alone(siblings):
    rng = np.random.default_rng(1)
    named = [len(fleet_outliers(np.exp(rng.normal(0, 0.03, siblings)), True).order) > 0 for _ in range(400)]
    assert np.mean(named) < 0.04


def test_identical_siblings_and_one_that_differs_by_less_than_the_floor():
    values = np.full(16, 100.0)
    assert len(fleet_outliers(values, True).order) == 0
    values[3] = 99.5
    assert len(fleet_outliers(values, True).order) == 0
    values[3] = 97.0
    assert fleet_outliers(values, True).order.tolist() == [3]
    with pytest.raises(ValueError, match="dimensions"):
        fleet_outliers(np.zeros((2, 2)), True)


def _event(series, night=100, worse=True):
    return Event(series, "step", worse, night, night + 1, -0.05, -0.06, -0.04, 9.0, 1e-4)


NODE = [f"n{series // 8}" for series in range(64)]
GPU = [f"n{series // 8}.gpu{series // 2 % 4}" for series in range(64)]
LABELS = {"node": NODE, "gpu": GPU}


def test_one_gpu_one_node_all():
    (gpu,) = group_events([_event(10), _event(11, 101)], LABELS)
    assert (gpu.label, gpu.name, len(gpu.events)) == ("gpu", "n1.gpu1", 2)
    (node,) = group_events([_event(series) for series in range(8, 15)], LABELS)
    assert (node.label, node.name, node.of) == ("node", "n1", 8)
    (fleet,) = group_events([_event(series) for series in range(60)], LABELS)
    assert fleet.label == "fleet"


def test_what_moved_apart_stays_apart():
    groups = group_events([_event(0), _event(1, 120), _event(9), _event(40, worse=False)], LABELS)
    assert [group.label for group in groups] == ["series"] * 4
    assert sum(len(group.events) for group in groups) == 4


def test_two_causes_on_one_night():
    events = [_event(series) for series in (*range(8, 16), 32, 33)]
    groups = group_events(events, LABELS)
    assert [(group.label, group.name) for group in groups] == [("node", "n1"), ("gpu", "n4.gpu0")]
