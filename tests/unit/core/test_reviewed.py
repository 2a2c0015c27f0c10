"""The catalogue and the constants of the sources are stated a second time, so that any accidental change fails.

tests/data/catalogue.txt has each unit, direction, statistic, tolerance, limit, floor and formula,
tests/data/constants.txt each constant, tests/data/machines.txt what each shipped machine has and its published bounds.
The direction of a figure follows from its unit. `make reviewed` rewrites the files; review the difference."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenken.machines import loader
from tenken.model import cache, catalogue
from tenken.paths import PROGRAMS, ROOT, SYSTEMS
from tenken.reframe.foreign import Figure
from tests.support import catalogue_rows, constants

#: Units of rates, where higher is better, except for the distance of one rate from another.
RATES = {"GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s", "samples/s", "tokens/s", "MHz"}
#: Units of times, heat and energy, where lower is better, except for the power of a load and the time without errors.
COSTS = {"s", "ms", "us", "ns", "W", "J", "mJ", "kJ", "degC"}
OTHERWISE = {"himeno.behind_explicit", "himeno.behind_managed", "burn.power", "burn.clean"}
#: Counts, shares and ratios where lower is better: iterations, errors, waits, ramps, losses; one time over another.
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


def machines() -> Iterator[str]:
    """Of the shipped ones, which have golden scripts; not of those that a site adds."""
    shipped = [file.name for file in sorted((ROOT / "tests" / "reframe" / "config" / "golden").iterdir())]
    for name in shipped:
        file = SYSTEMS / f"{name}.yaml"
        for partition, one in cache.yaml(file, file.read_text(), None)["partitions"].items():
            stated = {key: one[key] for key in ("features", "capabilities", "node") if key in one}
            yield from catalogue_rows.of_file(stated, f"{name} {partition}")
        for one in loader.load(name).references:
            if one.published:
                at = " ".join(f"{key}={value}" for key, value in sorted(one.parameters.items()))
                what = f"{one.published} {one.program}.{one.metric} {one.subject} {at}".strip()
                yield f"{name} {one.partition} {','.join(one.environ)} {what}: {one.bounds} {one.unit} {one.statistic}"


@pytest.mark.parametrize(
    ("name", "found"), [("catalogue", said), ("constants", constants.every), ("machines", machines)]
)
def test_nothing_has_changed_since_it_was_reviewed(name: str, found: Callable[[], Iterator[str]]) -> None:
    file, rows = ROOT / "tests" / "data" / f"{name}.txt", list(found())
    if "TENKEN_WRITE_REVIEWED" in os.environ:
        file.write_text("\n".join(rows) + "\n")
    kept = file.read_text().splitlines()
    changes = difflib.unified_diff(kept, rows, f"{file.name} as reviewed", "as found", lineterm="", n=0)
    assert rows == kept, "\n".join(["if this was meant: make reviewed, and review the difference", *changes])


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("constexpr double tie = 0.02;", "tie = 0.02"),
        ("    static constexpr std::size_t block = std::size_t{1} << 18;  // why", "block = std::size_t{1} << 18"),
        ("    long repetitions = 100;", "repetitions = 100"),
        ('    std::string backend_ = "host";', 'backend_ = "host"'),
        ('arguments.integer("n", n_, 0, 40, "what")', "--n = n_, 0, 40"),
        ('arguments.real("seconds", s_, "s", 0.1, 60,\n "what")', "--seconds = s_, 0.1, 60"),
        ("constexpr unsigned words[arrays] = {4, 2};", "words = {4, 2}"),
    ],
)
def test_a_constant_of_cpp_is_a_row(text: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ROOT", tmp_path)
    (tmp_path / "x.h").write_text(text)
    assert list(constants.of_cpp(tmp_path / "x.h")) == [f"x.h {row}"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("A, B = 1.5, 2\nC: int = 3\nclass K:\n    x: int = 4\n", ["(A, B) = (1.5, 2)", "C = 3", "K.x = 4"]),
        ("M = {'UP': 'it is: ^x', 'is down': 2}", ["M = {'UP': '...', 'is down': 2}"]),
        ("S = {'UP', 'DOWN'}\nF = frozenset({'a'})", ["S = {'UP', 'DOWN'}", "F = frozenset({'a'})"]),
        ("T = 'a word'\nN = None\nV = lambda: 1\ndef f():\n    x = 3\n", []),
    ],
)  # fmt: skip
def test_constants_of_python_are_rows(
    text: str, rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ROOT", tmp_path)
    (tmp_path / "x.py").write_text(text)
    assert list(constants.of_python(tmp_path / "x.py")) == [f"x.py {row}" for row in rows]
