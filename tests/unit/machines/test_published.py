"""Every published row is a reference of a machine, tied to its metric and with the number that was printed."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tenken.machines import loader, publications
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


#: References whose numbers are not printed beside their row: of another row or figure, or computed. Floating-point
#: operations of a cell: 35.
FIGURE_5_1, FIGURE_5_2, FIGURE_5_4 = (310, 360), (3200,), (300 - 60, 300)
ELSEWHERE = {
    ("T4", "300 GB/s, or in some trials about 60 GB/s less from some repetition on; 4 and 8 GB alike"): FIGURE_5_4,
    ("T5", "at least figure 5.1"): FIGURE_5_1,
    ("T5", "equal to device to host of figure 5.4"): FIGURE_5_4,
    ("T5", "near figure 5.2"): FIGURE_5_2,
    ("T5", "about 500 to 1000 GB/s below figure 5.2"): (3200 - 1000, 3200 - 500),
    ("T5", "about 500 to 1000 GB/s of 3.2 TB/s lower"): (round(2.2 / 3.2, 2), round(2.7 / 3.2, 2)),
    ("T6", "rises as (5)-(7)"): (3000,),
    ("T6", "equal to (4)"): FIGURE_5_4,
    ("T6", "at least the best of the first phase"): (3000,),
    ("T6", "differs by about 200 to 500 GB/s from the first phase in some trials"): (2300, 2500),
    ("S2", "83.4 %"): (70.5,),  # 11.0 / 15.6; the 83.4 % are 15.6 / 18.7
    ("S5", "32751 GFLOP/s"): (round(32751 / 35, 1),),
    ("S5", "37817 GFLOP/s"): (round(37317 / 35, 1),),
    ("S5", "3434 GFLOP/s"): (round(3434 / 35, 1),),
    # a share less of time is 1 / (1 - share) of the rate
    ("S6", "about 28 % less time"): (38.4,),
    ("S6", "about 12 % less time"): (13.9,),
    ("S6", "about 19 % less time"): (23.5,),
    ("S6", 'about 17 % less time, "64 nodes"'): (20.5,),
    ("S7", "about 50 %"): (40, 60),
    ("S7", "nearly negligible"): (5,),
    ("R1", "73.4 % of 732 GB/s"): (537.2,),
    ("R1", "534 GB/s"): (536.9,),  # of table 4
    ("R3", "about 68 % of 16 GB/s"): (11.0,),
    ("R4", "about 93 % of 40 GB/s"): (37.0,),
    ("R5", "4.8 us"): (2.5, 4.8),
    ("R5", "2.5 us"): (2.5, 4.8),
    ("R6", "about 8 GB/s"): (6.3, 9.5),
    ("R6", "6.3 GB/s"): (6.3, 9.5),
    ("R6", "9.5 GB/s; the second rail from 512 KB"): (6.3, 9.5),
    ("R7", "85 % of 11.8 TFLOP/s"): (10.04,),
}
#: The bounds of the references of a row: of words, the side that they allow (None: open); of figures, the distance.
BOUNDS: dict[str, set[tuple[float | None, float | None]]] = {
    "T1": {(-0.3, 0.05)},
    "T2": {(-0.05, None)},
    "T3": {(-0.05, 0.05)},
    "T4": {(-0.05, 0.1)},
    "T5": {(-0.05, None), (-0.1, 0.15), (-0.1, 0.2), (-0.1, 0.35), (-0.1, None), (-0.2, 0.2), (-0.3, 0.3)},
    "T6": {(-0.1, 0.2), (-0.1, None), (-0.2, None), (None, 4)},
    "T7": {(-0.5, 0.5)},
    **{row: {(-0.05, None), (None, 0.05)} for row in ("S1", "S2", "S3", "S4", "R4")},
    **{row: {(-0.05, None)} for row in ("S5", "S6", "R3", "R6", "R7", "R8", "R9", "R10")},
    "S7": {(-0.05, 0.05), (None, 0)},
    "J1": {(-0.15, 0.3), (-0.25, 0.25), (0, None), (None, 0)},
    "J2": {(-0.15, 0.15), (-0.3, 0.3), (0, None), (None, 0)},
    "J3": {(-0.07, 0.15), (-0.15, 0.25), (0, None)},
    "J4": {(-0.5, 1), (-0.2, 1)},
    "J5": {(-0.5, 1), (-0.12, 1)},
    "J6": {(-0.25, 0.25), (0, None)},
    "R1": {(-0.03, None)},
    "R5": {(None, 0.05)},
    "G1": {(0, None), (None, 0)},
    "G2": {(-0.2, 0), (0, None), (None, 0)},
    "G3": {(-0.02, 0.05), (-0.5, 0.05)},
}


def printed(text: str) -> set[float]:
    """The numbers of a row, those of TB/s also in GB/s; 1 for words, which compare two sides."""
    numbers = {float(one) for one in re.findall(r"(?<![\w^.])\d+(?:\.\d+)?", text)}
    return {1, *numbers, *(round(1000 * one, 6) for one in numbers if "TB/s" in text)}


def test_a_reference_has_the_number_that_was_printed() -> None:
    wrong = []
    bounds = defaultdict(set)
    for row in (one for one in publications.load().rows if one.metric):
        references = row.references(loader.load(row.system))
        assert references, row.name
        for reference in references:
            bounds[row.row].add((reference.lower, reference.upper))
            numbers = reference.range if reference.value is None else (reference.value,)
            assert numbers is not None
            expected = ELSEWHERE.get((row.row, row.value))
            if not (set(numbers) <= printed(row.value) if expected is None else tuple(numbers) == expected):
                wrong.append(f"{row.system} {row.name}: {row.value}: {numbers}")
    assert wrong == []
    assert bounds == BOUNDS


#: Coordinates of metrics that neither the job nor the row names.
COORDINATES = {
    ("bytes", 1), ("bytes", 4194304), ("kernel", "naive"), ("kernel", "tile"), ("layout", "asis"), ("method", "gds"),
    ("method", "hdf5_gds"), ("n", 2048), ("n", 4096), ("pattern", 6), ("phase", "last"),
}  # fmt: skip


def test_a_reference_is_of_the_job_that_its_row_names() -> None:
    wrong = []
    for row in (one for one in publications.load().rows if one.run and one.metric):
        assert row.run is not None
        job = {"nodes": row.run.nodes, "ranks": row.run.ranks}
        for reference in row.references(loader.load(row.system)):
            for key, value in reference.parameters.items():
                named = [source[key] for source in (row.run.asked, row.at, job) if key in source]
                lists = [one if isinstance(one, list) else str(one).split(",") for one in named]
                if any(str(value) not in map(str, one) for one in lists) or (
                    not lists and (key, value) not in COORDINATES
                ):
                    wrong.append(f"{row.system} {row.name}: {key}={value}, expected {named}")
    assert wrong == []


def test_a_published_reference_belongs_to_a_row() -> None:
    rows = publications.load().rows
    for name in loader.names():
        system = loader.load(name)
        named = [one for row in rows if row.system == name and row.metric for one in row.references(system)]
        assert [one for one in system.references if one.published and one not in named] == []


def test_a_machine_is_what_the_publications_print() -> None:
    wrong = []
    for row in publications.load().rows:
        if row.fact is not None:
            found = publications.fact(loader.load(row.system), row.fact)
            if found != pytest.approx(row.number, rel=1e-3):
                wrong.append(f"{row.system} {row.name}: {found}, expected {row.number}")
    assert wrong == []
