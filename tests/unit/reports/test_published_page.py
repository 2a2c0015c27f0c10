"""The page of published and measured values: which values share an axis."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from tenken.commands import publications as command
from tenken.machines import loader, publications
from tenken.model import result
from tenken.model.result import Result
from tenken.parsers import foreign
from tenken.report import published

KNOWN = publications.load()
SYSTEMS = loader.load_all()


def stencil(seconds: float, nz: int = 128) -> Result:
    """A run of the stencil of figure 12 on one node, both exchanges."""
    totals = [
        foreign.metric("total", {"ranks": 1}, "s", "lower", [seconds], "total", exchange=way) for way in ("host", "p2p")
    ]
    size = {"points": 27, "precision": "double", "nx": 2048, "ny": 2048, "nz": nz, "bt": 4, "steps": 128, "nodes": 1}
    size["scaling"] = "weak"
    return result.typed(foreign.document("stencil", "x", "1", [], "node7", ["node7"], 1, size, totals, [], "none"))


def panel(found: list[published.Panel], place: str, unit: str) -> published.Panel:
    (one,) = [p for p in found if (p.place, p.unit) == (place, unit)]
    return one


@pytest.fixture(scope="module")
def none_measured() -> list[published.Panel]:
    return published.panels(KNOWN, SYSTEMS, [])


def test_every_row_with_a_metric_is_drawn_once_and_in_the_order_of_the_list(none_measured) -> None:
    for key in KNOWN.titles:
        drawn = [line.row for p in none_measured if p.publication == key for line in p.lines]
        wanted = [row for row in KNOWN.rows if row.publication == key and row.metric]
        assert {id(row) for row in drawn} == {id(row) for row in wanted}
    assert not any(line.measured for p in none_measured for line in p.lines)


@pytest.mark.parametrize(("place", "unit", "axis"), [
    ("figure 5.1", "GB/s", "repetition"), ("figure 12 (a)", "s", "nodes"), ("section 3.5.2", "GFLOP/s", "ranks"),
    ("table 5", "TFLOP/s", "n"), ("table 4", "GB/s", ""), ("table 1", "1", ""), ("figure 5.8", "GFLOP/s", ""),
])  # fmt: skip
def test_a_figure_has_the_axis_that_it_was_drawn_on(none_measured, place: str, unit: str, axis: str) -> None:
    assert panel(none_measured, place, unit).sweep == axis


def test_what_was_measured_with_the_published_size_lies_beside_and_nothing_else_does() -> None:
    found = published.panels(KNOWN, SYSTEMS, [stencil(4.25), stencil(2.0, nz=64)])
    beside = {
        (p.place, line.row.row, one.value)
        for p in found if p.unit == "s" for line in p.lines for one in line.measured
    }  # fmt: skip
    # Reedbush-L and TSUBAME3, each through the host and by peer copies; nothing for the thinner slab
    assert beside == {("figure 12 (a)", "S1", 4.25), ("figure 12 (b)", "S2", 4.25), ("figure 13 (a)", "S3", 4.25),
                      ("figure 13 (b)", "S4", 4.25)}  # fmt: skip


@pytest.mark.parametrize(("size", "lies"), [(4_000_000_000, True), (8_000_000_000, True), (256_000_000, False)])
def test_a_size_that_the_reference_does_not_name_is_that_of_its_job(size: int, lies: bool) -> None:
    """4 and 8 GB with the same value: one reference without a size, with which a copy of 256 MB is not comparable."""
    rate = foreign.metric("htod_pinned", {"gpu": 0}, "GB/s", "higher", [55.0], "median")
    made = foreign.document("transfer", "x", "1", [], "node7", ["node7"], 1, {"bytes": size}, [rate], [], "none")
    found = published.panels(KNOWN, SYSTEMS, [result.typed(made)])
    (line,) = [line for p in found for line in p.lines if line.row.row == "T3"]
    assert [one.value for one in line.measured] == ([55.0] if lies else [])
    assert published.counted(found).startswith(f"{int(lies)} of ") and "none is published" not in published.counted(
        found
    )


def test_rates_of_another_back_end_are_not_compared() -> None:
    def stream(backend: str) -> Result:
        triad = foreign.metric("triad", {"gpu": 0}, "GB/s", "higher", [530.0], "median")
        size = {"backend": backend}
        return result.typed(foreign.document("stream", "x", "1", [], "node7", ["node7"], 1, size, [triad], [], "none"))

    def compared(*results: Result) -> int:
        lines = [line for p in published.panels(KNOWN, SYSTEMS, results) for line in p.lines if line.measured]
        return sum(line.reference.environ == ("openacc",) for line in lines)

    assert compared(stream("cuda"), stream("host")) == 0
    assert compared(stream("openacc")) > 0


def test_a_row_tells_published_and_measured() -> None:
    (one,) = [
        p for p in published.panels(KNOWN, SYSTEMS, [stencil(4.25)]) if (p.place, p.unit) == ("figure 12 (a)", "s")
    ]
    text = published.page(KNOWN, [one])
    assert "1 of 2 published values were measured in the results given, with the published sizes." in text
    assert re.search(r"<td>13\.6 s</td><td>13\.6</td><td>4\.25 \(node7\)</td>", text)
    assert re.search(r"<td>18\.7</td><td>not measured</td>", text)
    assert text.count("<svg") == 1 and "<script" not in text


@pytest.mark.parametrize("place", ["figure 5.1", "table 4"])
def test_each_kind_is_drawn_without_measured_values(none_measured, place: str) -> None:
    (one,) = [p for p in none_measured if p.place == place]
    drawn = published.draw(one, "x")
    assert "published" in drawn and ">measured<" not in drawn


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    parsed = parser.parse_args(["publications", *arguments])
    return parsed.func(parsed)


def test_a_folder_without_results_is_refused_and_no_page_is_written(tmp_path: Path) -> None:
    with pytest.raises(command.TenkenError, match="no valid result document with status ok"):
        run("--page", str(tmp_path / "page.html"), "--measured", str(tmp_path))
    assert not (tmp_path / "page.html").exists()
