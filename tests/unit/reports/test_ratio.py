"""`tenken ratio`: two machines compared, from documents and from records."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken import cli
from tenken.report import plots
from tenken.report import ratios as ratio
from tenken.report.rows import Row
from tests.unit.reports import builder

POINTS = {"small": (2_000, 0.7), "middle": (3_000_000, 0.5), "large": (40_000_000, 0.3)}


def document(scale: bool) -> dict[str, Any]:
    """A schema-valid document of spmv; the second machine's times are the first's over the ratio of POINTS."""
    metrics = []
    for name, (nnz, share) in POINTS.items():
        for variant in ("cusparse_csr_alg1", "sell"):
            samples = [100.0, 90.0, 80.0]
            if scale:
                samples = [s * share for s in samples]
            at = {"matrix": name, "nnz": nnz, "variant": variant}
            metrics.append(builder.metric("spmv", {"gpu": 0}, samples, "GFLOP/s", at=at))
    return {
        "schema": "tenken-result/1", "program": "spmv", "version": "v", "command": ["spmv"],
        "started": "2026-11-21T00:00:00Z", "finished": "2026-11-21T00:00:01Z",
        "host": {
            "name": "n", "os": "", "kernel": "", "architecture": "", "cpu": "", "sockets": 1, "cores": 1,
            "logical_cpus": 1, "numa_nodes": 1, "memory_bytes": 1, "last_level_cache_bytes": None,
            "virtual_machine": None,
        },
        "build": {"compiler": "c", "flags": "", "type": "", "backends": []},
        "status": "ok", "reason": "", "parameters": {},
        "placement": {"threads": 1, "allowed_cpus": [0], "binding": "", "numa_nodes_of_memory": [], "ranks": 1},
        "devices": [], "metrics": metrics, "limits": {m["id"]: {"unknown": "test"} for m in metrics},
        "verification": {"passed": True, "checks": []}, "path": {}, "health": {"available": False, "devices": []},
    }  # fmt: skip


@pytest.fixture
def sets(tmp_path: Path) -> tuple[Path, Path]:
    """A document, and a folder with a record and something else; the first machine is the faster one."""
    one, two = tmp_path / "p100.json", tmp_path / "k40"
    two.mkdir()
    one.write_text(json.dumps(document(False)))
    (two / "record.json").write_text(json.dumps(builder.record("SpmvCuda", document(True))))
    (two / "other.json").write_text("{}")
    return one, two


def test_a_run_that_failed_or_is_invalid_is_not_compared(tmp_path: Path) -> None:
    one, two = document(True), document(False)
    (tmp_path / "a.json").write_text(json.dumps(one))
    expected = ratio.values(tmp_path, "spmv", "spmv", {}, "median")
    (tmp_path / "b.json").write_text(json.dumps(two | {"status": "failed", "reason": "verification"}))
    (tmp_path / "c.json").write_text(json.dumps(builder.record("SpmvCuda", two, "INVALID")))
    assert ratio.values(tmp_path, "spmv", "spmv", {}, "median") == expected


def test_the_ratio_of_two_machines_is_drawn_and_printed(
    sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "ratio.html"
    where = ["--where", "variant=cusparse_csr_alg1", "--names", "P100", "K40", "--output", str(page)]
    assert cli.main(["ratio", str(sets[0]), str(sets[1]), *where]) == 0
    said = capsys.readouterr().out
    assert "spmv.spmv: time on P100 over time on K40" in said
    assert "nnz from 1e3: 0.700 (1 points" in said and "nnz from 1e7: 0.300 (1 points" in said
    text = page.read_text()
    assert text.count("<svg") == 1 and "matrix large, nnz 40000000" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--metric", "spmv.absent"], "no metric absent of program spmv"),
        (["--where", "variant=none"], "no metric spmv of program spmv, variant=none"),
        (["--over", "matrix"], "share no point with a number for 'matrix'"),
    ],
)
def test_nothing_to_compare_is_said(
    sets: tuple[Path, Path], capsys: pytest.CaptureFixture[str], change: list[str], message: str
) -> None:
    assert cli.main(["ratio", str(sets[0]), str(sets[1]), *change]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_document_and_an_empty_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text("[1]")
    assert cli.main(["ratio", str(tmp_path / "x.json"), str(tmp_path)]) == 2
    assert "x.json: no result document" in capsys.readouterr().err
    assert cli.main(["ratio", str(tmp_path), str(tmp_path)]) == 2
    assert "no valid result document with status ok" in capsys.readouterr().err


@pytest.mark.parametrize(("direction", "best"), [("higher", 9.0), ("lower", 3.0)])
def test_of_several_gpus_and_runs_the_best_counts(
    direction: str, best: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(*figures: float, program: str = "spmv", name: str = "spmv", nnz: int = 5) -> SimpleNamespace:
        metrics = [
            SimpleNamespace(name=name, at={"nnz": nnz}, direction=direction, statistic_named=lambda _, x=one: x)
            for one in figures
        ]
        return SimpleNamespace(program=program, metrics=metrics)

    runs = [run(4.0, 9.0), run(3.0, 0.0), run(1.0, 20.0, program="hpl"), run(1.0, 20.0, name="dot"), run(1.0, nnz=6)]
    monkeypatch.setattr(ratio, "documents", lambda _: runs)
    found = ratio.values(tmp_path, "spmv", "spmv", {"nnz": "5"}, "median")
    assert found == {(("nnz", 5),): (best, direction)}


def test_decades_have_their_geometric_mean_and_range() -> None:
    points = [
        ratio.Point(over, {}, value) for over, value in ((0.0, 3.0), (1.0, 2.0), (9.9, 8.0), (10.0, 0.5), (99.0, 0.5))
    ]
    assert list(ratio.table(points, "nnz", "T")) == [
        "T", "  nnz from 1e0: 3.634 (3 points, 2.000 to 8.000)", "  nnz from 1e1: 0.500 (2 points, 0.500 to 0.500)",
        "  all: 1.644 (5 points)",
    ]  # fmt: skip


def test_lower_is_better_turns_the_ratio_round() -> None:
    key = (("nnz", 100),)
    (point,) = ratio.pair({key: (2.0, "lower")}, {key: (8.0, "lower")}, "nnz")
    assert point.ratio == 0.25
    (point,) = ratio.pair({key: (8.0, "higher")}, {key: (2.0, "higher")}, "nnz")
    assert point.ratio == 0.25


def test_words_that_name_the_points_of_a_sweep_make_no_lines() -> None:
    base = ratio._row(ratio.Point(1.0, {"nnz": 1}, 0.5), "nnz")

    def row(nnz: int, **at: str) -> Row:
        changed = copy.copy(base)
        changed.at = {"nnz": nnz, **at}
        return changed

    rows = [row(n, matrix=f"m{n}", variant=v) for n in (1, 2, 3) for v in ("a", "b")]
    assert plots._labels(rows, "nnz") == {"matrix"}
    assert plots._labels([row(1, matrix="m"), row(2, matrix="m")], "nnz") == set()
