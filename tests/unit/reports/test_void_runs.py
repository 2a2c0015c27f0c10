"""A run that does not count changes no figure, whichever command shows it: the figures of an archive stay as they are
when slower runs are added that are INVALID, or whose results are wrong, or that have an injected fault."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenken.history import nights, propose
from tenken.history.ingest import ingest
from tenken.history.store import Store, open_store
from tenken.paths import ROOT
from tenken.report import compare, ratios
from tools import synthetic

NIGHTS, DRIVERS = 14, ("1", "2")


def of_document(entry: dict[str, Any], **changes: Any) -> None:
    entry["document"].update(changes)


#: Why a run does not count, as its record states it.
VOID: dict[str, Callable[[dict[str, Any]], Any]] = {
    "INVALID": lambda entry: entry.update(verdict="INVALID"),
    "one value INVALID": lambda entry: [one.update(verdict="INVALID") for one in entry["judged"].values()],
    "wrong results": lambda entry: of_document(
        entry, status="failed", reason="verification: x",
        verification={"passed": False, "checks": [{"what": "x", "error": 1.0, "tolerance": 0.0, "passed": False}]}),
    "injected": lambda entry: of_document(entry, parameters={**entry["document"]["parameters"], "inject_fault": "bit"}),
}  # fmt: skip


def entries() -> list[dict[str, Any]]:
    """Nights of three nodes, half of them with another driver."""
    found = []
    for night in range(1, NIGHTS + 1):
        for node in ("n0", "n1", "n2"):
            rng = random.Random(f"{night}/{node}")
            metrics = [
                synthetic.metric("triad", {"gpu": g}, [100 + g + rng.gauss(0, 0.2) for _ in range(5)]) for g in (0, 1)
            ]
            gpus = synthetic.devices(node, driver=DRIVERS[night > NIGHTS // 2])
            when = datetime(2025, 9, night, 18)
            found.append(synthetic.record("m", node, when, "Stream", "stream", metrics, gpus))
    return found


def slower(entry: dict[str, Any], hour: int) -> dict[str, Any]:
    entry = copy.deepcopy(entry)
    stamp = entry["time"].replace("T18:", f"T{hour}:")
    entry.update(time=stamp, job_id=f"{entry['job_id']}{hour}")
    of_document(entry, started=stamp, finished=stamp)
    for metric in entry["document"]["metrics"]:
        for name in ("value", "best", "median", "p5", "p95"):
            metric[name] /= 10
        metric["samples"] = [sample / 10 for sample in metric["samples"]]
    for one in entry["judged"].values():
        one["value"] /= 10
    return entry


def compared(archive: Path, store: Store) -> Any:
    return compare.compare(store, "driver=1", "driver=2"), compare.compare(store, "node=n0", "node=n1")


def nightly(archive: Path, store: Store) -> Any:
    found = nights.load(store, "m")
    return found.values.tolist(), found.errors.tolist()


def proposed(archive: Path, store: Store) -> Any:
    found = propose.propose(nights.load(store, "m"))
    assert found and found[0].count
    return found


def provisional(archive: Path, store: Store) -> Any:
    return propose._runs_of_last_day(store, nights.load(store, "m"))


def of_ratio(archive: Path, store: Store) -> Any:
    """The best counts, so the slower ones must be the better ones: of times."""
    found = ratios.values(archive, "stream", "triad", {}, "median")
    lowest = min(m.value for one in ratios.documents(archive) for m in one.metrics)
    return found, lowest


FIGURES: dict[str, Callable[[Path, Store], Any]] = {
    "compare": compared, "gate, outliers, mornings": nightly, "propose": proposed, "propose, provisional": provisional,
    "ratio, published": of_ratio,
}  # fmt: skip
#: A set of documents has no judgement of single values, and no fault is injected into what is compared with others.
ONLY_RUNS = {"ratio, published": ("INVALID", "wrong results")}


def figures(archive: Path, store: Path) -> dict[str, Any]:
    with open_store(store, archive) as opened:
        ingest(opened, archive, now=datetime(2025, 11, 1))
        return {name: of(archive, opened) for name, of in FIGURES.items()}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("without")
    for number, entry in enumerate(entries()):
        synthetic.write(folder / "archive", entry, number)
    return figures(folder / "archive", folder / "store")


@pytest.mark.parametrize("why", VOID)
def test_a_run_that_does_not_count_changes_no_figure(why: str, without: dict[str, Any], tmp_path: Path) -> None:
    number = 0
    for entry in entries():
        synthetic.write(tmp_path / "archive", entry, number := number + 1)
        for hour in (17, 19, 20):  # more than half of all values
            void = slower(entry, hour)
            VOID[why](void)
            synthetic.write(tmp_path / "archive", void, number := number + 1)
    found = figures(tmp_path / "archive", tmp_path / "store")
    for name, figure in without.items():
        if why in ONLY_RUNS.get(name, (why,)):
            np.testing.assert_equal(found[name], figure, err_msg=name)


def test_a_run_that_counts_changes_every_figure(without: dict[str, Any], tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    for number, entry in enumerate(entries()):
        synthetic.write(tmp_path / "archive", entry, 2 * number)
        synthetic.write(tmp_path / "archive", slower(entry, 19), 2 * number + 1)
    for name, figure in figures(tmp_path / "archive", tmp_path / "store").items():
        with pytest.raises(AssertionError):
            np.testing.assert_equal(figure, without[name], err_msg=name)


#: Queries of values of the store, by file and function; each selects valid ones. Others need a reason.
QUERIES = {
    "history/propose.py _runs_of_last_day": "propose, provisional",
    "history/nights.py load": "gate, outliers, mornings",
    "report/compare.py compare": "compare",
    "history/frames.py history": "gives the column valid",
    "history/store.py": "writes them",
}


def test_every_query_of_values_is_here() -> None:
    found = set()
    for file in (ROOT / "tenken").rglob("*.py"):
        if "FROM " not in file.read_text():
            continue
        tree = ast.parse(file.read_text())
        owner = {
            id(inner): outer.name
            for outer in tree.body
            if isinstance(outer, ast.FunctionDef)
            for inner in ast.walk(outer)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                query = " ".join(node.value.split())
                if any(f"FROM {table}" in query for table in ("points", "history")):
                    name = f"{file.relative_to(ROOT / 'tenken')} {owner.get(id(node), '')}"
                    found.add("history/store.py" if file.name == "store.py" else name)
    assert found == set(QUERIES), found ^ set(QUERIES)
    assert {said for said in QUERIES.values() if " " not in said or "," in said} <= set(FIGURES)
