"""What a released reader and a released document may rely on, and that the places that name the release agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.model.record import READABLE
from tenken.model.result import FIRST, SCHEMA
from tenken.paths import ROOT
from tests.support.schemas import narrowed
from tools import release

KEPT = sorted((ROOT / "tests" / "data" / "schemas").glob("result-*.json"))
NOW = json.loads((ROOT / "tenken" / "model" / "result.schema.json").read_text(encoding="utf-8"))
#: A result of version 1, with every keyword that a schema may use.
OLD = json.loads((KEPT[0].parent / "result-0.2.0.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.stem)
def test_documents_of_a_release_are_read_by_all_of_its_major_version(kept: Path) -> None:
    old = json.loads(kept.read_text(encoding="utf-8"))
    if old.get("$id") == "urn:tenken:result:1":  # FIRST, read by an adapter; tests/data has documents in it
        assert old["properties"]["schema"]["const"] == FIRST
        return
    broken = narrowed(old, NOW)
    assert not broken, f"a document of {kept.stem} may be refused: raise {SCHEMA}\n" + "\n".join(broken)


def test_a_key_that_becomes_required_is_found() -> None:
    newer = copy.deepcopy(NOW)
    newer["$defs"]["_Second"]["required"].append("power")
    assert narrowed(NOW, newer) == ["document: 'power' is required, and was optional or unknown"]


def test_the_schema_of_this_release_is_kept() -> None:
    """Copied when it is released: cp tenken/model/result.schema.json tests/data/schemas/result-VERSION.json."""
    assert KEPT[-1].stem == f"result-{release.version()}"


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(schema: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            schema = schema[name]
        if isinstance(schema.get(last), list) and last == "required":
            schema[last] = [*schema[last], value]
        elif value is None:
            del schema[last]
        else:
            schema[last] = value

    return apply


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (change("required", "power"), "'power' is required"),
        (change("properties/token", None), "'token' was allowed"),
        (change("properties/reason/type", "null"), "type"),
        (change("properties/status/enum", ["ok", "failed"]), "values"),
        (change("properties/command/minItems", 2), "minItems 1 became 2"),
        (change("properties/token/maxLength", 64), "maxLength 256 became 64"),
        (change("properties/reason/pattern", "^x"), "pattern None became"),
        (change("properties/host/properties/cores/type", ["integer"]), "document.host.cores: type"),
        (change("$defs/time/pattern", "^x$"), "document.started"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_refuses_more_is_found(broken: Callable[[dict[str, Any]], None], said: str) -> None:
    schema = copy.deepcopy(OLD)
    broken(schema)
    assert any(said in line for line in narrowed(OLD, schema)), narrowed(OLD, schema)


@pytest.mark.parametrize(
    "wider",
    [
        change("properties/new", {"type": "string"}),
        change("properties/status/enum", ["ok", "failed", "waived", "new"]),
        change("properties/host/properties/cores/minimum", 0),
        change("properties/reason/type", ["string", "null"]),
        change("properties/token/description", "another text"),
    ],
    ids=["property", "value", "bound", "type", "text"],
)
def test_a_schema_that_allows_more_passes(wider: Callable[[dict[str, Any]], None]) -> None:
    schema = copy.deepcopy(OLD)
    wider(schema)
    assert narrowed(OLD, schema) == []


def test_the_page_names_the_versions_that_are_there() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert f"`{SCHEMA}`" in page and f"`{READABLE[-1]}`" in page and "`tenken-request/1`" in page
    assert [name.rpartition("/")[2] for name in READABLE] == [str(n + 1) for n in range(len(READABLE))]


# -- the release --

GOOD = {
    "pyproject.toml": 'version = "0.3.1"\n',
    "CITATION.cff": 'version: 0.3.1\ndate-released: "2026-12-01"\n',
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 0.3.1 - 2026-12-01\n\n### Fixed\n- x\n\n"
    "## 0.3.0 - 2026-11-30\n\n### Added\n- y\n\n### Changed\n- z\n",
}


def sources(folder: Path, **changed: tuple[str, str]) -> Path:
    for name, text in GOOD.items():
        before, after = changed.get(name.partition(".")[0].lower(), ("", ""))
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1) if before else text)
    return folder


def test_this_release_agrees_with_itself() -> None:
    assert release.problems() == []


def test_a_release_that_agrees_may_be_tagged(tmp_path: Path) -> None:
    assert release.problems(sources(tmp_path), asked="0.3.1") == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pyproject": ("0.3.1", "0.4.0")}, "CITATION.cff: version is 0.3.1"),
        ({"pyproject": ("0.3.1", "0.4")}, "is not MAJOR.MINOR.PATCH"),
        ({"citation": ("0.3.1", "0.3.0")}, "CITATION.cff: version"),
        ({"citation": ("12-01", "12-02")}, "date-released"),
        ({"changelog": ("## Unreleased\n\n", "")}, "not 'Unreleased'"),
        ({"changelog": ("0.3.1 - 2026-12-01", "0.3.1")}, "is not of the form"),
        ({"changelog": ("## 0.3.1", "## 0.2.9")}, "no section '0.3.1"),
        ({"changelog": ("## 0.3.0", "## 0.3.5")}, "newest first"),
        ({"changelog": ("### Added", "### News")}, "0.3.0 - 2026-11-30 has News"),
        ({"changelog": ("### Changed", "### Added")}, "each once"),
        ({"changelog": ("## Unreleased\n", "## Unreleased\n\n### Added\n- later\n")}, "Unreleased is not empty"),
    ],
)
def test_a_release_that_does_not_agree_is_refused(
    changed: dict[str, tuple[str, str]], said: str, tmp_path: Path
) -> None:
    assert any(said in line for line in release.problems(sources(tmp_path, **changed), asked="0.3.1"))


def test_another_version_than_asked_is_refused(tmp_path: Path) -> None:
    assert any("requested: 0.4.0" in line for line in release.problems(sources(tmp_path), asked="0.4.0"))
