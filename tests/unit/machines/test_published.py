"""Every published row of the memory system is a reference of a machine, tied to its metric."""

from __future__ import annotations

import pytest

from tenken.machines import loader
from tenken.machines.model import Reference
from tenken.model.catalogue import load_catalogue

#: Rows of the publications and the machines that they were measured on.
ROWS = {
    **{f"T{i}": {"miyabi"} for i in range(1, 7)},
    "T7": {"miyabi"},
    "J1": {"jetson-xavier"},
    "J2": {"jetson-tx2"},
    "J3": {"v100"},
    "J4": {"jetson-xavier", "jetson-tx2", "v100"},
    "J5": {"jetson-xavier", "jetson-tx2", "v100"},
    "J6": {"jetson-xavier"},
}


def references(row: str) -> list[tuple[str, Reference]]:
    found = []
    for name in loader.names():
        found += [(name, r) for r in loader.load(name).references if r.published == row]
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_references_where_it_was_measured(row: str) -> None:
    assert {name for name, _ in references(row)} == ROWS[row]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_tied_to_metrics_that_name_it(row: str) -> None:
    catalogue = load_catalogue()
    for name, reference in references(row):
        metric = catalogue[reference.program].metrics[reference.metric]
        assert row in metric.published, f"{name}: {reference.program}.{reference.metric} does not name {row}"
        assert reference.source and reference.date


def test_a_metric_names_no_row_without_a_reference() -> None:
    known = {r.published for name in loader.names() for r in loader.load(name).references}
    for program in load_catalogue().values():
        for metric in program.metrics.values():
            missing = [row for row in metric.published if row in ROWS and row not in known]
            assert not missing, f"{program.name}.{metric.name}: {missing}"
