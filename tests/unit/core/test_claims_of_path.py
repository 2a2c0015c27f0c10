"""Every key of path that a program can write is declared, so that an unknown one is a lie."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tenken.errors import CatalogueError
from tenken.judge.completeness import NOTES
from tenken.model import catalogue, contract
from tenken.paths import ROOT

#: `path("key", ...)`, or `path("key." + ...)`, which goes on with what differs.
WRITTEN = re.compile(r'\bpath\(\s*(?:std::string\()?"([^"]+)"\)?\s*(\+|,)')
SOURCES = (".cpp", ".cu", ".h", ".cuh")


def written(folder: Path) -> set[tuple[str, bool]]:
    """Keys that sources write, and whether more follows."""
    files = [file for file in folder.rglob("*") if file.suffix in SOURCES]
    return {(key, more == "+") for file in files for key, more in WRITTEN.findall(file.read_text(encoding="utf-8"))}


def declared(key: str, more: bool, patterns: tuple[str, ...]) -> bool:
    """Whether a key, or all that begin so, fall under one of the patterns."""
    return any(
        fnmatchcase(key + ("0" if more else ""), pattern) or (more and pattern.startswith(key)) for pattern in patterns
    )


@pytest.mark.parametrize("name", sorted(catalogue.load_catalogue()))
def test_a_program_declares_every_key_that_it_writes(name: str) -> None:
    of = catalogue.program(name).contract
    patterns = (*of.paths, *of.notes, *NOTES)
    lost = [key for key, more in written(ROOT / "src" / "programs" / name) if not declared(key, more, patterns)]
    assert not lost, f"{name}: neither in paths nor in notes of its metrics.yaml: {lost}"


def test_keys_that_the_library_writes_are_declared_by_those_who_use_it() -> None:
    everywhere = {
        p
        for name in sorted(catalogue.load_catalogue())
        for p in (*catalogue.program(name).contract.paths, *catalogue.program(name).contract.notes)
    }
    keys = {(key, more) for key, more in written(ROOT / "src" / "lib") if key != "stores"}
    assert len(keys) > 15
    lost = [key for key, more in keys if not declared(key, more, (*everywhere, *NOTES))]
    assert not lost, lost
    used = {"data_loading", "overlap", "snapshot_io", "storage_map"}
    files = {key for key, _ in written(ROOT / "src" / "lib" / "file_io")}
    for name in used:
        of = catalogue.program(name).contract
        assert not [key for key in files if not declared(key, False, (*of.paths, *of.notes, *NOTES))]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"paths": {"x": "yes"}}, "expected a map"),
        ({"paths": {"x": {"word": ["a"]}}}, "unknown key 'word'"),
        ({"paths": {"x": {"required": True}}}, "words is None; expected a list"),
        ({"notes": "a"}, "notes is 'a'; expected a list"),
    ],
)
def test_a_declaration_that_cannot_be_read_names_its_place(raw: dict[str, object], says: str) -> None:
    with pytest.raises(CatalogueError, match=re.escape(says)):
        contract.read(raw, {}, {}, "metrics.yaml")


def test_both_forms_of_a_claim() -> None:
    read = contract.read(
        {"paths": {"a": ["x", 1], "b": {"words": ["y"], "required": True, "where": {"p": "q"}}}}, {}, {}, "-"
    )
    assert read.paths["a"] == contract.Claim(("x", 1))
    assert read.paths["b"] == contract.Claim(("y",), True, {"p": ("q",)})
