"""Constants of the sources by file and name: numbers, and tables of numbers and words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tenken.paths import ROOT

#: Up to three words, as they are printed or requested; longer texts may be reworded.
_WORD = re.compile(r"(?:[\w.+*/:=,%()-]+(?: [\w.+*/:=,%()-]+){0,2})?")
_OF_CPP = re.compile(
    r"constexpr\s+(?:const\s+)?[\w:]+(?:\s+(?:int|long))*\s+(\w+)(?:\[\w*\])?\s*(?:=\s*([^;]+);|\{([^;]+)\};)"
)
#: A member with an initial number or word, and an option with its permitted range.
_MEMBER = re.compile(r'^ {4}[\w:<>]+ (\w+_?) = (-?[\d.][\w.+-]*|true|"\w+");$', re.MULTILINE)
_OPTION = re.compile(r'arguments\.(?:integer|real|bytes)\("([\w-]+)", ([^";]+)(?:"s", ([^";]+))?')
_SOURCES = (".h", ".cpp", ".cu", ".cuh")


def of_python(file: Path) -> Iterator[str]:
    """Constants of the module and its classes, including fields with a default."""
    place = file.relative_to(ROOT)
    yield from (f"{place} {row}" for row in _of_body(ast.parse(file.read_text()).body, ""))


def _of_body(body: list[ast.stmt], owner: str) -> Iterator[str]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield from _of_body(one.body, f"{owner}{one.name}.")
        elif isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None and _is_constant(one.value):
            name = ast.unparse(one.targets[0] if isinstance(one, ast.Assign) else one.target)
            if name != "__all__" and "ROOT" not in ast.unparse(one.value):
                yield f"{owner}{name} = {ast.unparse(_Sentences().visit(one.value))}"


class _Sentences(ast.NodeTransformer):
    """Replaces texts for readers and patterns by `...`."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        word = not isinstance(node.value, str) or _WORD.fullmatch(node.value)
        return node if word else ast.Constant("...")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("...")


def _is_constant(value: ast.expr) -> bool:
    """Whether it is a table or a number; a text by itself does not count."""
    if isinstance(value, ast.Constant):
        return not isinstance(value.value, str) and value.value not in (None, False, True, 0, b"")
    known = (
        ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop,
        ast.Load, ast.Name, ast.Attribute, ast.JoinedStr, ast.FormattedValue, ast.Lambda, ast.arguments, ast.arg,
    )  # fmt: skip
    parts = list(ast.walk(value))
    others = [one for one in parts if not isinstance(one, known)]
    tables = all(isinstance(one, ast.Call) and ast.unparse(one.func) in _TABLES for one in others)
    return (
        tables
        and not isinstance(value, ast.Lambda)
        and any(isinstance(one, ast.Constant) for one in parts)
        and not isinstance(value, ast.JoinedStr)
    )


_TABLES = ("frozenset", "MappingProxyType", "dict", "float", "dict.fromkeys")


def of_cpp(file: Path) -> Iterator[str]:
    """`constexpr`, members and options that have a number."""
    place, text = file.relative_to(ROOT), re.sub(r"//[^\n]*", "", file.read_text())
    rows = [(name, value or braced) for name, value, braced in _OF_CPP.findall(text)]
    rows += [one for one in _MEMBER.findall(re.sub(r" +$", "", text, flags=re.MULTILINE)) if one[1] not in ("0", "0.0")]
    rows += [(f"--{name}", first + more) for name, first, more in _OPTION.findall(text)]
    for name, value in rows:
        if re.search(r"\w", value):
            yield f"{place} {name} = {' '.join(value.split()).rstrip(' ,')}"


def every() -> Iterator[str]:
    """Of checks only numbers: job scripts show them for one mode and machine, and all else for any."""
    for folder in ("tenken", "src/programs"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from of_python(file)
    for file in sorted((ROOT / "checks").glob("*.py")):
        yield from (row for row in of_python(file) if re.search(r" = .*\b\d", row))
    for file in sorted((ROOT / "src").rglob("*")):
        if file.suffix in _SOURCES:
            yield from of_cpp(file)
