"""The matrix of faults: each row has its test, the document shows it, and the stated number of rows is right."""

from __future__ import annotations

import importlib
import re
import runpy
from dataclasses import replace

import pytest

from tenken.judge import verdict
from tenken.model.judgement import Judgement
from tenken.paths import ROOT
from tenken.reframe.schedulers import reasons
from tests.cluster import matrix
from tests.unit.core.test_archive import record

DOCUMENT = ROOT / "docs" / "schedulers.md"
PARAMETERS = {"P": "pbs", "N": "nqsv", "G": "gridengine"}


def found(name: str):
    """A test by `file::test`."""
    module, _, function = name.partition("::")
    return getattr(importlib.import_module(module if "." in module else f"tests.cluster.{module}"), function)


@pytest.mark.parametrize("row", matrix.ROWS, ids=lambda row: row.what)
def test_each_row_has_a_test_on_each_of_its_schedulers(row):
    for letters, name in row.tests.items():
        marks = [mark for mark in getattr(found(name), "pytestmark", []) if mark.name == "parametrize"]
        said = " ".join(map(str, (value for mark in marks for value in mark.args[1]))) if marks else name
        if len(letters) > 1:
            assert all(PARAMETERS[letter] in said for letter in letters), (name, said)
        assert ("slurm" in name) == (letters == "S")


def test_the_site_shows_the_matrix_and_every_reason_and_the_repository_neither():
    add = runpy.run_path(str(ROOT / "docs" / "conf.py"))["list_faults"]
    page = DOCUMENT.read_text()
    assert matrix.counted() not in page
    source = [page]
    add(None, "docs/schedulers", source)
    assert source[0].startswith(page) and matrix.table() in source[0] and matrix.counted() in source[0]
    assert all(f"| `{one.words}` |" in source[0] for one in (*reasons.SLURM, *reasons.PBS))
    other = ["# Another"]
    add(None, "docs/hpl", other)
    assert other == ["# Another"]


def test_the_matrix_is_as_large_as_it_must_be():
    rows = list(matrix.shown())
    assert len({row.what for row in matrix.ROWS}) >= 25
    assert sum(letter == "S" for _, letter, _ in rows) >= 25
    assert len(rows) >= 60
    assert {letter for _, letter, _ in rows} >= set("SPNGL")


def test_what_only_a_real_pbs_shows_is_marked_in_the_document():
    assert len(re.findall(r"P\\\*", matrix.table())) == sum(
        row.real for row in matrix.ROWS if "P" in "".join(row.tests)
    )


def test_a_row_that_says_what_its_test_does_not_show_is_noticed():
    """A broken run that passes, a healthy one that fails, no record, and one without a node or a reason."""
    fails = matrix.Row("x", {"S": "x"}, matrix.FAIL)
    good = replace(record(), judgement=Judgement(matrix.HEALTHY))
    named = replace(good, nodes=("n1",), judgement=verdict.failed("n1: daxpy failed"))
    assert matrix.against([fails], [named]) == []
    assert matrix.against([replace(fails, beside=True)], [named, good]) == []
    assert matrix.against([replace(fails, verdict=good.verdict)], [good]) == []
    for rows, records in (
        ([fails], [good]), ([fails], []), ([fails], [named, good]),
        ([replace(fails, verdict=good.verdict)], [good, named]),
        ([replace(fails, verdict=matrix.NONE)], [good]),
        ([fails], [replace(named, nodes=())]), ([fails], [replace(named, judgement=verdict.failed("daxpy failed"))]),
        ([replace(fails, verdict=good.verdict)], [replace(good, nodes=())]),
    ):  # fmt: skip
        assert matrix.against(rows, records), records
