"""Every command in the documentation is valid: parsed by the program's own parser, and run if that is cheap."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tenken.paths import ROOT
from tests.docs import commands, pages
from tests.docs.pages import Text

HERE = ROOT / "docs" / "gate.md"


def test_every_command_can_be_given() -> None:
    found, wrong = commands.documented()
    wrong += [f"{command}: {said}" for command in found if (said := commands.problem(command))]
    assert not wrong, "\n" + "\n".join(wrong)
    assert len(found) > 200


def without_tools(found: list[commands.Command]) -> set[str]:
    """Pages that show pytest, which `make venv` does not install, but not how to install it."""
    tested = {command.place.page.name for command in found if command.words[0] == "pytest"}
    return tested - {command.place.page.name for command in found if command.words == ("make", "dev")}


def test_a_page_that_shows_pytest_shows_how_to_get_it() -> None:
    found, _ = commands.documented()
    assert not without_tools(found)
    assert "add-a-benchmark.md" in without_tools([one for one in found if one.words != ("make", "dev")])


def test_no_reason_is_left_over() -> None:
    """Commands listed as unread occur in the documentation, and no rule would read them."""
    found, _ = commands.documented()
    heads = {name for command in found for name in (command.words[0], Path(command.words[0]).name)}
    assert not sorted(set(commands.UNREAD) - heads)
    assert not sorted(set(commands.UNREAD) & set(commands.RULES))


def said(text: str) -> list[str | None]:
    return [commands.problem(command) for command in commands.simple_commands(Text(HERE, 1, text, "sh"))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tenken gaet", "invalid choice"),
        ("tenken report --sesion X", "unrecognized arguments"),
        ("tenken checks --system miyaby", "no system miyaby"),
        ("reframe -c checks -r --sytem h200", "unrecognized arguments"),
        ("reframe -c checks -r --system h2000", "no system h2000"),
        ("reframe -c checks -r --mode nightlies", "no mode nightlies"),
        ("reframe -c checkz -r", "no folder checkz"),
        ("reframe -c checks -r -n StreamHots", "no check is called"),
        ("reframe -c checks -r -n '^Gemms%gpus_at=at_once'", "no check is called"),
        ("reframe -c checks -r -n '^Gemm%gpu_at=at_once'", "no check has a parameter gpu_at"),
        ("reframe -c checks -r -t memorie", "no check has the tag"),
        ("reframe -c checks -r -S hpl_m=3", "no check has a variable"),
        ("make runn", "No rule to make target"),
        ("make run MOED=quick", "nothing reads the variable MOED"),
        ("make run MODE=quicker", "no mode quicker"),
        ("python -m tools.mutant", "no module"),
        ("python -m tools.mutants --lits", "unrecognized arguments"),
        ("python scripts/compare.py", "no file"),
        ("pytest tests/unit/cores", "no tests/unit/cores"),
        ("pytest tests/cluster/test_slurm.py -k overheads", "no test fits"),
        ("stream --array-byte 3", "no option"),
        ("mpirun -n 2 stencil --exchanges mpi", "no option"),
        ("sh scripts/no.sh", "no file"),
        ("curl example.com", "no rule of"),
        ("x=$(python -m tools.none) && tenken report", "no module"),
        ("tenken report | tenken gaet", "invalid choice"),
    ],
)
def test_a_wrong_command_is_found(text: str, reason: str) -> None:
    assert any(reason in (one or "") for one in said(text)), said(text)


@pytest.mark.parametrize(
    "text",
    [
        "tenken gate --archive DIR --max-age 0   # as every morning",
        "TENKEN_GROUP=g reframe -c checks -r --system miyabi --mode nightly -n '^Hpl%|^HplSweep$'",
        "reframe -c checks -r -n '^Gemm%gpus_at=one_by_one'",
        "make run SYSTEM=my-cluster MODE=quick && tenken report > page.txt",
        "option=$(python -m toolchains.kvikio 13 .cache/kvikio)",
        "mpirun -n 4 stencil --exchange mpi --ranks 4",
        "python -m tools.mutants --list",
    ],
)
def test_a_good_command_passes(text: str) -> None:
    assert said(text) and not any(said(text))


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("    frame = history()\n", True),
        ("```\nTENKEN-BEGIN token=1\n```\n", True),
        ("```text\nTENKEN-BEGIN token=1\n```\n", False),
        ("    tenken report\n    make run\n", False),
    ],
)
def test_a_block_says_what_it_is(text: str, is_wrong: bool) -> None:
    """A block without a language that mixes commands and other text would never be checked."""
    # below the root, to which paths are relative; every process of the tests writes a separate page
    page = ROOT / "output" / f"{uuid.uuid4().hex}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"# Page\n\n{text}")
    try:
        assert bool(commands.blocks(page)[1]) == is_wrong
    finally:
        page.unlink()


def unreadable(block: Text) -> str | None:
    """Why a block of YAML or Python cannot be parsed; None if it can, or is in another language."""
    try:
        if block.language == "python":
            compile(block.text, str(block.page), "exec")
        elif block.language == "yaml":
            YAML(typ="safe", pure=True).load(block.text)
    except (SyntaxError, YAMLError) as error:
        return f"{block.page.relative_to(ROOT)}:{block.line}: {error}"
    return None


def test_every_block_of_yaml_and_python_can_be_read() -> None:
    shown = [block for page in pages.pages() for block in pages.blocks(page) if block.language in ("yaml", "python")]
    assert len(shown) > 5
    assert not list(filter(None, map(unreadable, shown)))


@pytest.mark.parametrize(
    ("text", "language", "is_wrong"),
    [
        ("gpus: [1, 2\n", "yaml", True),
        ("a: 1\na: 2\n", "yaml", True),
        ("gpus: [1, 2]\n", "yaml", False),
        ("frame = history(\n", "python", True),
        ("frame = history()\n", "python", False),
    ],
)
def test_a_block_that_cannot_be_read_is_found(text: str, language: str, is_wrong: bool) -> None:
    assert bool(unreadable(Text(HERE, 1, text, language))) == is_wrong
