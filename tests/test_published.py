"""Published rows: which of them a metric reproduces, and which of those are references of their machine."""

from __future__ import annotations

from tenken.machines import loader
from tenken.model.catalogue import load_catalogue

#: The rows of the five publications that the suite reproduces (docs/architecture.md has the sources).
ROWS = {
    *(f"T{i}" for i in range(1, 8)),
    *(f"S{i}" for i in range(1, 8)),
    *(f"J{i}" for i in range(1, 7)),
    *(f"R{i}" for i in range(1, 11)),
    *(f"G{i}" for i in range(1, 5)),
}


def rows_of_metrics() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for program in load_catalogue().values():
        for metric in program.metrics.values():
            for row in metric.published:
                found.setdefault(row, set()).add(f"{program.name}.{metric.name}")
    return found


def test_metrics_name_known_rows_only() -> None:
    assert set(rows_of_metrics()) <= ROWS


def test_references_belong_to_a_metric_that_says_so() -> None:
    metrics = rows_of_metrics()
    for system in loader.load_all().values():
        for reference in system.references:
            if reference.published:
                assert f"{reference.program}.{reference.metric}" in metrics[reference.published], reference


def test_links_of_reedbush_h() -> None:
    rows = {r.published for r in loader.load("reedbush-h").references}
    assert {"R3", "R4", "R5", "R6"} <= rows


def test_rows_without_a_metric_are_listed(capsys) -> None:
    """Not a failure: what is still missing, for whoever adds the next benchmark."""
    missing = sorted(ROWS - set(rows_of_metrics()), key=lambda row: (row[0], int(row[1:])))
    print("published rows without a metric:", ", ".join(missing) or "none")
    assert "published rows without a metric" in capsys.readouterr().out
    assert not {"R1", "R3", "R4", "R5", "R6"} & set(missing)
