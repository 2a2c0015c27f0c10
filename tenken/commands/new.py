"""`tenken new benchmark NAME`: a skeleton that builds, passes its test and detects an injected fault."""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.paths import ROOT

_TEMPLATES = Path(__file__).with_name("templates")
#: The files to write, by template; relative to the checkout.
FILES = {
    "program.cpp.txt": "src/programs/{name}/{name}.cpp",
    "metrics.yaml.txt": "src/programs/{name}/metrics.yaml",
    "check.py.txt": "checks/{name}.py",
    "doc.md.txt": "docs/{name}.md",
    "test.py.txt": "tests/programs/test_{name}.py",
    "mutants.yaml.txt": "tools/mutants/list/{name}.yaml",
}


class NewError(TenkenError):
    """The skeleton cannot be written."""


def register(subparsers: Any) -> None:
    """Adds the subcommand `new` to the `tenken` command."""
    parser = subparsers.add_parser(
        "new", help="create a benchmark: program, metrics, check, documentation page and test"
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    benchmark = kinds.add_parser("benchmark", help="a program in src/programs with everything that belongs to it")
    benchmark.add_argument("name", metavar="NAME", help="lower case letters, digits and _, starting with a letter")
    benchmark.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken new benchmark`: prints the files written and the next steps."""
    for path in write(arguments.name, ROOT):
        print(path.relative_to(ROOT))
    name = arguments.name
    print(
        f"next: make dev; TENKEN_TEST_TARGETS={name} pytest tests/programs/test_{name}.py; make golden; a line in "
        f"CHANGELOG.md; then implement your measurement in src/programs/{name} (docs/add-a-benchmark.md)"
    )
    return 0


def write(name: str, root: Path) -> list[Path]:
    """Write the skeleton below `root`; writes nothing if a file already exists. Raises NewError."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name):
        raise NewError(
            f"{name!r} is not a benchmark name; allowed: lower case letters, digits and _, starting with a letter"
        )
    texts = {
        root / file.format(name=name): filled((_TEMPLATES / template).read_text(encoding="utf-8"), name)
        for template, file in FILES.items()
    }
    texts[root / "src" / "programs" / name / "CMakeLists.txt"] = f"tenken_program({name} SOURCES {name}.cpp)\n"
    there = [path for path in texts if path.exists()]
    if there:
        raise NewError(f"{there[0].relative_to(root)} already exists; nothing was written")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def filled(template: str, name: str) -> str:
    """A template with the names of the program and of its classes."""
    words = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return template.replace("{{name}}", name).replace("{{class}}", words)
