"""Each unit, direction, statistic, tolerance, limit, floor and formula of the catalogue is stated a second time, in
tests/data/catalogue.txt, so that what is changed by mistake fails, whatever it is. The direction follows from the unit.

TENKEN_WRITE_CATALOGUE=1 rewrites the file; whoever does so reads the difference."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterator

from tenken.model import cache, catalogue
from tenken.paths import PROGRAMS, ROOT
from tenken.reframe.foreign import Figure
from tests.support import catalogue_rows

FILE = ROOT / "tests" / "data" / "catalogue.txt"

#: A rate: the more the better, but how far one rate is behind another.
RATES = {"GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s", "samples/s", "tokens/s", "MHz"}
#: Times, heat and energy: the less the better, but what a load reaches (its power) and how long it was without errors.
COSTS = {"s", "ms", "us", "ns", "W", "J", "mJ", "kJ", "degC"}
OTHERWISE = {"himeno.behind_explicit", "himeno.behind_managed", "burn.power", "burn.clean"}
#: Of shares and ratios: iterations, errors, waits, ramps and what is lost; one time over another.
LESS = {
    "access_patterns.ramp", "burn.masked", "dali.waits", "data_loading.waits", "dcgm.failed", "dcgm.skipped",
    "dcgm.warned", "gpu_burn.errors", "hpcg.iterations", "hpl.difference", "hpl.residual",
    "hpl_mxp.factor_error", "hpl_mxp.refinements", "hpl_mxp.residual", "hpl_mxp.small_share",
    "migration.new_ramp", "migration.ramp", "stencil.share", "training.determinism_cost",
    "training.flips_masked", "training.imbalance", "transpose.check_ratio", "transpose.kernel_growth",
    "transpose.kernel_over_managed", "transpose.kernel_ratio",
}  # fmt: skip


def better(name: str, unit: str) -> str:
    rate = unit.removesuffix("/W") in RATES
    assert rate or unit in COSTS | {"1", "%"}, f"{name}: is more or less of {unit} better?"
    less = name in LESS if unit in {"1", "%"} else rate == (name in OTHERWISE)
    return "lower" if less else "higher"


def test_the_direction_of_a_figure_follows_from_its_unit() -> None:
    metrics: dict[str, catalogue.Metric | Figure] = {
        f"{p.name}.{m.name}": m for p in catalogue.of_suite().values() for m in p.metrics.values()
    }
    metrics |= dict(of_checks())
    wrong = {name: m.direction for name, m in metrics.items() if m.direction != better(name, m.unit)}
    assert not wrong
    assert metrics.keys() >= OTHERWISE | LESS


def of_checks() -> Iterator[tuple[str, Figure]]:
    """What checks of the field's programs declare."""
    for file in sorted((ROOT / "checks").glob("*.py")):
        module = importlib.import_module(f"checks.{file.stem}")
        for check in filter(lambda one: getattr(one, "__module__", "") == module.__name__, vars(module).values()):
            figures = getattr(check, "figures", None)
            if isinstance(figures, dict) and not any(
                getattr(one, "figures", 0) == figures for one in check.__mro__[1:]
            ):
                yield from ((f"{file.stem}.{name}", figure) for name, figure in figures.items())


def said() -> Iterator[str]:
    programs = catalogue.of_suite()
    for name in sorted(programs):
        yield from catalogue_rows.of_program(programs[name])
    for file in (PROGRAMS / "common.yaml", PROGRAMS / "side_by_side.yaml"):
        yield from catalogue_rows.of_file(cache.yaml(file, file.read_text(), None), file.stem)
    yield from (f"check {name} {catalogue_rows.figure(one)}" for name, one in of_checks())


def test_the_catalogue_is_what_was_reviewed() -> None:
    found = list(said())
    if "TENKEN_WRITE_CATALOGUE" in os.environ:
        FILE.write_text("\n".join(found) + "\n")
    reviewed = FILE.read_text().splitlines()
    assert found == reviewed, "\n".join(difflib.unified_diff(reviewed, found, "reviewed", "found", lineterm="", n=0))
