"""What metrics.yaml says of points and parameters can be true of a run: a wrong name is unknown, and bounds nothing."""

from __future__ import annotations

import re

import pytest

from tenken.model import catalogue
from tenken.paths import PROGRAMS

NAMES = sorted(file.parent.name for file in PROGRAMS.glob("*/metrics.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_formula_has_the_coordinates_of_what_it_is_formed_over(name: str) -> None:
    program = catalogue.program(name)
    at = {metric: set(entry.at) for entry in program.contract.points for metric in entry.metrics}
    for metric in program.metrics.values():
        if metric.derive is not None and metric.derive.formula is not None:
            expected = at.get(metric.derive.over, set()) - set(metric.derive.without)
            assert at.get(metric.name, set()) == expected, metric.name


@pytest.mark.parametrize("name", NAMES)
def test_metrics_that_must_have_the_same_points_can(name: str) -> None:
    """Those of one entry: they are formed at the same coordinates, or at all of them."""
    program = catalogue.program(name)
    for entry in program.contract.points:
        derived = {metric: program.metrics[metric].derive for metric in entry.metrics}
        where = {metric: dict(one.where) if one else {} for metric, one in derived.items()}
        assert all(one == where[entry.metrics[0]] for one in where.values()), where


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_formulas_are_options_of_the_program(name: str) -> None:
    folder = PROGRAMS / name
    said = "".join(file.read_text() for file in folder.iterdir() if file.suffix in (".cpp", ".cu", ".h", ".py"))
    program = catalogue.program(name)
    known = {"backend", "repetitions", *program.identity, *program.contract.defaults}
    for parameter in re.findall(r"\bparameter\.(\w+)", (folder / "metrics.yaml").read_text()):
        assert parameter in known or f'"{parameter.replace("_", "-")}"' in said, parameter
