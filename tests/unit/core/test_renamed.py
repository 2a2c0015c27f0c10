"""Names that options, coordinates and metrics had in earlier releases: a new name breaks no history."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tenken.history import record_parser
from tenken.history.record_parser import SeriesKey, Unreadable
from tenken.model.catalogue import Program, load_catalogue
from tenken.model.record import Record
from tenken.paths import ROOT
from tests.support import kept

SOURCES = ROOT / "src"
CATALOGUE = load_catalogue()
#: Names of options under which figures of our own and of third-party programs are stored; `ranks` of the latter is not
#: an option.
OF_FOREIGN = {"implementation", "ranks"}
OPTION = re.compile(r"\.(?:integer|bytes|real|choice|text|flag)\(([^,]*),")
FORMER = re.compile(r'former_name\(\s*"([a-z0-9-]+)",\s*"([a-z0-9-]+)"')
#: A kind of fault with the option that made it before: {"name", "help", "option", "value"}.
FAULT = re.compile(r'\{\s*"[a-z0-9-]+",\s*"[^"]*",\s*"([a-z-]+)",\s*"[a-z-]*"')


def text_of(*folders: Path) -> str:
    files = [
        f for folder in folders for f in sorted(folder.rglob("*")) if f.suffix in (".cpp", ".cu", ".h", ".cuh", ".py")
    ]
    assert files
    return "\n".join(f.read_text(encoding="utf-8") for f in files)


LIBRARY = text_of(SOURCES / "lib")
# an archive next to the checkout declares third-party programs, which have no folder
PROGRAMS = {name: text_of(SOURCES / "programs" / name) for name in CATALOGUE if (SOURCES / "programs" / name).is_dir()}
PARSERS = "\n".join(f.read_text(encoding="utf-8") for f in sorted((ROOT / "tenken" / "parsers").glob("*.py")))


def options_in(text: str) -> set[str]:
    """Options that a program declares, as parameters are named."""
    names = re.findall(r'"([a-z][a-z0-9-]*)"', " ".join(OPTION.findall(text)))
    return {name.replace("-", "_") for name in names}


def unknown(record: Record, program: Program) -> list[str]:
    """Names in a record that its program no longer has and that are not listed as former ones."""
    assert record.result is not None
    text = PROGRAMS[program.name] + LIBRARY
    options = options_in(text) | {"inject_fault"} | OF_FOREIGN
    wrong = [p for p in record.result.parameters if program.current_name(p) not in options]
    for metric in record.result.metrics:
        if program.metric_named(metric.name) is None:
            wrong.append(metric.name)
        wrong += [k for k in metric.at if f'"{program.current_name(k)}"' not in text + PARSERS]
    return sorted(set(wrong))


def by_program() -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in kept.all_records() + kept.first_runs():
        if record.result is not None:
            found[record.result.program].append(record)
    return found


def test_every_name_in_a_kept_record_is_known_today_or_listed_as_a_former_one() -> None:
    wrong = {
        name: n for name, rs in by_program().items() if (n := {u for r in rs for u in unknown(r, CATALOGUE[name])})
    }
    assert not wrong, f"add them to `was:` of metrics.yaml: {wrong}"


@pytest.mark.parametrize(
    ("program", "lost"),
    [
        ("stencil", {"steps_a_pass", "spoil", "die"}),
        ("mpi_p2p", {"least_bytes", "most_bytes", "most_collective_bytes", "die"}),
        ("hpl", {"carrier", "sweep_most_n", "break_matrix"}),
    ],
)
def test_without_its_list_the_former_names_are_found(program: str, lost: set[str]) -> None:
    forgetful = replace(CATALOGUE[program], was={})
    assert {name for record in by_program()[program] for name in unknown(record, forgetful)} == lost


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_programs_accept_the_names_that_the_catalogue_lists(name: str) -> None:
    """A hidden alias on the command line and a former name of the history are the same list."""
    was = CATALOGUE[name].was
    options = options_in(PROGRAMS[name])  # the others are coordinates
    aliases = {(a.replace("-", "_"), b.replace("-", "_")) for a, b in FORMER.findall(PROGRAMS[name])}
    options |= {now for _, now in aliases}  # some are declared in src/lib
    listed = {(before, now) for now, names in was.items() for before in names if now in options}
    assert aliases == listed
    kinds = "".join(re.findall(r"faults\(\) const(?: override)? \{.*?\n(?:    )?\}\n", PROGRAMS[name], re.S))
    faults = {option.replace("-", "_") for option in FAULT.findall(kinds)}
    assert faults <= set(was.get("inject_fault", ()))
    assert bool(faults) == bool(set(was.get("inject_fault", ())) - {"die"}), "of rank_faults() comes --die alone"


def test_a_fault_injected_under_its_former_option_is_one() -> None:
    stencil = CATALOGUE["stencil"]
    harmless = {"inject_fault": "none", "spoil": "no", "die": "no", "steps_a_pass": 0}
    assert stencil.parameters_today(harmless) == {"inject_fault": "none", "temporal_block": 0}
    assert stencil.parameters_today({**harmless, "spoil": "stale"})["inject_fault"] == "stale"
    assert stencil.parameters_today({"temporal_block": 2, "inject_fault": "cell-nan"})["inject_fault"] == "cell-nan"


# ---- one series per measure -------------------------------------------------------------------------------

NOW = datetime(2026, 12, 1)


def series_of(records: list[Record]) -> dict[tuple[Any, ...], set[SeriesKey]]:
    """Series by measure: the check with its own parameters, the environment, the metric as the record names it."""
    found: dict[tuple[Any, ...], set[SeriesKey]] = defaultdict(set)
    for record in records:
        try:
            points = record_parser.parsed(record, NOW).points
        except Unreadable:  # two sessions that were named after the hour of their records
            continue
        for point in points:
            measure = (record.base_check, tuple(sorted(record.parameters.items())), record.environ, point.id)
            found[measure].add(point.series)
    return found


def test_the_kept_archive_gives_one_series_a_measure() -> None:
    found = series_of(kept.all_records())
    assert len({(check, ident) for check, _, _, ident in found}) == 1631, "the measures of this archive"
    split = {measure[0] for measure, series in found.items() if len(series) > 1}
    assert not split


def test_a_run_by_todays_names_goes_on_where_the_former_ones_ended() -> None:
    """The same record, once as it was written and once with today's names: the same series, no mark."""
    for name, renamed in (("stencil", "steps_a_pass"), ("mpi_p2p", "least_bytes"), ("snapshot_io", "most_particles")):
        program = CATALOGUE[name]
        old = next(r for r in by_program()[name] if r.result is not None and renamed in r.result.parameters)
        assert old.result is not None
        metrics = tuple(
            replace(m, at=type(m.at).of({program.current_name(k): v for k, v in m.at.items()}))
            for m in old.result.metrics
        )
        today = replace(old.result, parameters=program.parameters_today(old.result.parameters), metrics=metrics)
        runs = [record_parser._points(r, record_parser.parsed(replace(r, session="none"), NOW).run, r.result)[0]
                for r in (old, replace(old, result=today)) if r.result is not None]  # fmt: skip
        assert [p.series for p in runs[0]] == [p.series for p in runs[1]]
        assert [p.fingerprint for p in runs[0]] == [p.fingerprint for p in runs[1]]
        assert renamed in old.result.parameters and renamed not in today.parameters
