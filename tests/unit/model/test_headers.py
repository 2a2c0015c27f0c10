"""What the C++ programs are built with: tolerances and the digest, as the catalogue has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenken.errors import CatalogueError
from tenken.judge import rejudge
from tenken.model import catalogue, engine, headers
from tenken.model import result as results
from tenken.paths import PROGRAMS
from tests.support.documents import host_document

SUITE = sorted(path.parent.name for path in PROGRAMS.glob("*/metrics.yaml"))


def test_each_verification_of_each_program_is_in_its_header_with_its_tolerance(tmp_path: Path) -> None:
    headers.write(PROGRAMS, tmp_path / "catalogue")
    for name in SUITE:
        text = (tmp_path / "catalogue" / f"{name}.h").read_text()
        stated = re.findall(r'^constexpr tenken::Verified (\w+)\(\) \{ return \{"(\w+)", (\S+)\}; \}$', text, re.M)
        declared = catalogue.program(name)
        assert declared.contract.verifications
        assert [(one, float(number)) for one, same, number in stated if one == same] == [
            (one.name, one.tolerance) for one in declared.contract.verifications
        ]
        assert f'return "{declared.digest}";' in (tmp_path / "catalogue" / f"{name}.cpp").read_text()


def test_what_does_not_change_is_not_written_again(tmp_path: Path) -> None:
    headers.write(PROGRAMS, tmp_path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    (tmp_path / "daxpy.h").write_text("other")
    headers.write(PROGRAMS, tmp_path)
    after = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert {file.name for file in before if before[file] != after[file]} == {"daxpy.h"}


def program(folder: Path, old: str = "", new: str = "") -> catalogue.Program:
    """daxpy's with a change of its metrics.yaml."""
    file = folder / "daxpy" / "metrics.yaml"
    file.parent.mkdir(exist_ok=True)
    text = (PROGRAMS / "daxpy" / "metrics.yaml").read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return catalogue.load_program(file)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("tolerance: 0", "tolerance: 1.0e-300", False),
        ("unit: GB/s", "unit: s", False),
        ("version: 1", "version: 2", False),
        ("name: y", "name: z", False),
        ("title: daxpy", "title: other", True),
        ("min_count: 100", "min_count: 99", True),
    ],
)
def test_the_digest_is_of_names_units_tolerances_and_version(tmp_path: Path, old: str, new: str, same: bool) -> None:
    assert (program(tmp_path, old, new).digest == catalogue.program("daxpy").digest) is same


def test_a_name_that_is_no_word_of_cpp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="daxpy: verifications: name is 'a b'; allowed: lower case letters, _"):
        headers.texts(program(tmp_path, "name: y", 'name: "a b"'))


@pytest.mark.parametrize(("digest", "noted"), [("", False), ("same", False), ("0123456789abcdef", True)])
def test_a_build_of_another_catalogue_is_noted_when_it_is_judged_again(digest: str, noted: bool) -> None:
    declared = catalogue.program("daxpy")
    stated = declared.digest if digest == "same" else digest
    raw = {**host_document(), "schema": results.SCHEMA, "series": [], "provenance": {}, "catalogue": stated}
    result = results.validate({**raw, "verification": []}, "x")
    found = [
        f
        for f in rejudge.of_result(result, None, rejudge.Machine(), rejudge.JobFacts()).findings
        if "stale" in f.message
    ]
    assert [(one.verdict, one.kind) for one in found] == [("RECORDED", "note")] * noted
    assert (engine.stale(result, declared) is not None) is noted
