"""Layout: the installed files, which package may import which, and a check that is kept elsewhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support.oracles import small_caches
from tests.support.reframe import reframe

#: What each part may import besides itself: docs/architecture.md draws it. Some are of everybody.
BELOW = {"model"}
BETWEEN = BELOW | {"judge", "machines", "archive", "parsers"}
MAY_KNOW = {
    "model": set(),
    "judge": BELOW,
    "machines": BELOW,
    "archive": BELOW,
    "parsers": BELOW,
    "reframe": BETWEEN,
    "history": BETWEEN,
    # runs as root before each job: the standard library, and the system files for `node expect` alone
    "node": {"model", "machines", "archive"},
    "campaign": BETWEEN,
    # pages are drawn from the history too
    "report": BETWEEN | {"history", "campaign"},
    # each subcommand combines the parts that it needs
    "commands": BETWEEN | {"reframe", "history", "campaign", "report"},
}
EVERYBODYS = {"errors", "paths", "cli", "counters", "venv"}
#: Checks are written with `tenken.reframe`; a check of a foreign program, or one that compares numbers itself, uses the
#: pure parts directly.
CHECKS_MAY_KNOW = {"reframe", "judge", "parsers", "model"}
OUTSIDE = ("checks", "config", "reports", "systems", "perflogs", "tests", "tools", "toolchains")


def imports(file: Path) -> Iterator[str]:
    """Full names of all modules that a file imports, wherever it does."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += [node.module] if node.module else []
            yield from (".".join([*base, name.name]) for name in node.names)


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found
    return found


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_arrows_go_one_way() -> None:
    wrong = []
    for file in files("tenken"):
        parts = file.relative_to(ROOT / "tenken").with_suffix("").parts
        here = parts[0]
        if here in EVERYBODYS | {"__init__"}:
            continue
        assert here in MAY_KNOW, f"tenken/{here} is not in docs/architecture.md and not in this test"
        for name in imports(file):
            there = name.split(".")
            if there[0] == "tenken" and len(there) > 1 and there[1] not in MAY_KNOW[here] | EVERYBODYS | {here}:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
            if there[0] in OUTSIDE:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}, which is not installed")
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """No import cycle among modules, neither in a function nor under TYPE_CHECKING."""
    modules = {
        ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in files("tenken")
    }
    known: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{name.name}" for name in node.names}
        # a module of a package, or a name of a module
        known[module] = {name if name in modules else name.rpartition(".")[0] for name in names} & set(modules) - {
            module
        }
    done: set[str] = set()

    def follow(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join([*way[way.index(module) :], module])
        if module not in done:
            for one in sorted(known[module]):
                follow(one, (*way, module))
            done.add(module)

    for module in sorted(known):
        follow(module, ())


def test_checks_know_tenken_alone_and_no_check_imports_a_check() -> None:
    wrong = []
    for file in files("checks"):
        for name in imports(file):
            there = name.split(".")
            part = there[1] if there[0] == "tenken" and len(there) > 1 else None
            if there[0] in OUTSIDE or (part and part not in CHECKS_MAY_KNOW | {"errors", "paths"}):
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_systems_and_checks_hold_data_and_test_classes_alone() -> None:
    tracked = git("ls-files", "systems", "checks", "perflogs", "reports").split()
    assert {Path(name).suffix for name in tracked if name.startswith("systems/")} <= {".yaml", ".md"}
    assert {Path(name).suffix for name in tracked if name.startswith("checks/")} <= {".py", ".md"}
    assert not [name for name in tracked if name.startswith(("perflogs/", "reports/")) and name.endswith(".py")]
    for file in files("checks"):
        classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        assert classes, f"{file} holds no test class"


def without_the_checkout(**more: str) -> dict[str, str]:
    """The environment of commands started by `make`, in which only the installed package can be imported."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_", "PYTHON"))}
    return {**kept, **more}


def python(code: str, folder: Path, **env: str) -> str:
    command = [sys.executable, "-c", code]
    environment = without_the_checkout(**env)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_tenken_can_be_imported_from_elsewhere(tmp_path: Path) -> None:
    code = f"""
import importlib
import tenken
for name in {OUTSIDE!r}:
    try:
        importlib.import_module(name)
        print(name)
    except ModuleNotFoundError:
        pass
"""
    assert python(code, tmp_path).split() == []


OUTSIDE_CHECK = """
import reframe as rfm

from tenken.reframe.base import TenkenCheck


@rfm.simple_test
class OurDaxpy(TenkenCheck):
    descr = "a site's own check"
    program = "daxpy"
    arguments = {"repetitions": 100}
"""


@pytest.mark.slow
@pytest.mark.build
def test_a_check_outside_of_the_checkout_runs(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "ours.py").write_text(OUTSIDE_CHECK)
    outcome = reframe("-r", "--system", "local", folder=tmp_path, checks=str(folder), **small_caches(tmp_path))
    # on a loaded machine a measurement may be INVALID, and is repeated: the check ran, and was judged
    assert {one.check for one in outcome.records} == {"OurDaxpy"}
    assert {one.verdict for one in outcome.records} <= {"PASS", "RECORDED", "INVALID"}, outcome.output


def test_the_walk_of_one_number_names_types_that_are_there() -> None:
    """docs/architecture.md: seven steps, each with one type and the file that defines it, in this order of packages."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| (\d) (\w+) \| `(\w+)` \| `([\w/.]+)` \|", text, re.M)
    assert [name for _, name, _, _ in steps] == ["request", "program", "result", "judgement", "record", "table", "page"]
    for number, _, kind, file in steps:
        assert re.search(rf"^class {kind}\b", (ROOT / file).read_text(encoding="utf-8"), re.M), f"step {number}"
    assert len({kind for _, _, kind, _ in steps}) == len(steps)
