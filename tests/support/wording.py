"""Texts that users read, and what they must not contain: the last column of the glossary, and the expressions below."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenken.paths import ROOT


@dataclass(frozen=True)
class Expression:
    """`pattern` (case-insensitive) is rejected, `write` proposed; `example` contains it, `right` states the same
    without it."""

    pattern: str
    write: str
    example: str
    right: str

    def found(self, text: str) -> Iterator[re.Match[str]]:
        return re.finditer(self.pattern, text, re.IGNORECASE)


#: Literal translations. A new one needs an example, and the same sentence in the field's words.
EXPRESSIONS = (
    Expression(
        r"\bt(?:ell|ells|old)\b",
        "report, show, distinguish",
        "the driver tells no clock",
        "the driver reports no clock",
    ),
    Expression(r"\banew\b", "again", "the check makes A anew", "the check regenerates A"),
    Expression(
        r"\bof (?:its|their) own\b(?! (?:output|samples))", "own, separate", "a thread of its own", "a separate thread"
    ),
    Expression(
        r"\bfor so long\b|\bso many\b|\bso much\b", "N, this many, this long", "after so many steps", "after N steps"
    ),
    Expression(
        r"\b(?:held|hold|holds|holding)(?: it| them| each)? against\b",
        "compared with",
        "held against the peak",
        "compared with the peak",
    ),
    Expression(r"\bgo(?:es)? on\b", "continue", "`resume` goes on from here", "`resume` continues from here"),
    Expression(r"\bbeside\b", "next to, with, in addition to", "a page beside this one", "a page next to this one"),
    Expression(
        r"\bnobody\b|\bwhoever\b|\bwhom\b", "no node, no user, anyone who", "nobody is accused", "no node is reported"
    ),
    Expression(r"\bmend(?:s|ed|ing)?\b", "fix, repair", "mend what failed", "repair what failed"),
    Expression(r"\bstands\b(?!-| out)", "is", "the reason stands in the log", "the reason is in the log"),
    Expression(r"\bat the most\b", "at most", "three jobs at the most", "at most three jobs"),
    Expression(r"(?<!there )\bis no (?!longer\b|more\b)", "is not a", "'x' is no number", "'x' is not a number"),
    Expression(r"\ballowed (?:is|are)\b(?! None)", "allowed:", "allowed is 1 to 4", "allowed: 1 to 4"),
    Expression(
        r"\bis there (?:already|twice)\b",
        "already exists, is listed twice",
        "the file is there already",
        "the file already exists",
    ),
    Expression(
        r"\b(?:GPUs?|cores?|threads?|lines?|files?|jobs?|rows?|samples?|ranks?|values|bytes|B|nodes|folder|page|links?|GB|GB/s)"
        r" an? (?:node|check|machine|core|GPU|rank|cell|element|trial|benchmark|phase|metric|session|line|row|second"
        r"|night)\b",
        "per",
        "four GPUs a node",
        "four GPUs per node",
    ),
    Expression(r"\bby looking\b", "detected", "described by looking", "detected automatically"),
    Expression(
        r"\bboth ways at once\b|\bthere and back\b",
        "bidirectional, in both directions",
        "copies both ways at once",
        "bidirectional copies",
    ),
    Expression(
        r"\bstrangers?\b|\bbear with\b|\bbears with\b|\bin peace\b|\bsurely\b",
        "",
        "surely at most 3",
        "upper confidence bound 3",
    ),
    Expression(
        r"\bmakes? of it\b", "the result, the description", "what the suite makes of it", "the resulting description"
    ),
    Expression(
        r"\bsa(?:y|ys|id)\b",
        "reports, states, shows",
        "what the device says of itself",
        "what the device reports",
    ),
    Expression(r"\basked(?: for)?\b", "requested", "two GPUs were asked for", "two GPUs were requested"),
    Expression(r"\bcards?\b", "GPU, device, adapter", "a run on two cards", "a run on two GPUs"),
    Expression(
        r"\b(?:is|are|was) wanted\b|\bwants\b", "required, requested", "if a page is wanted", "if a page is requested"
    ),
)

#: Modules whose docstrings are published (docs/api.md) or printed by `--help`.
PUBLIC = ("tenken/history/__init__.py", "tenken/model/*.py", "tenken/reframe/*.py", "tenken/commands/*.py")

#: Pages outside of docs/.
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

#: Text that contains such an expression for a reason.
KEPT = {
    # names of verifications: records of earlier releases are checked for them
    "||b||) N), A made anew": "||b||) N), A generated again",
    "scaled residual as {} says": "scaled residual as {} reports",
    "scaled residual as {version} says": "scaled residual as {version} reports",
    # a key of publications.yaml
    "needs check and asked": "needs check and values",
}


def of_glossary() -> tuple[Expression, ...]:
    """The terms of the last column of docs/glossary.md, each as an expression."""
    found = []
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[2] not in ("not", "---", ""):
            for term in cells[2].split(","):
                pattern = rf"\b{re.escape(term.strip())}\b"
                found.append(Expression(pattern, cells[0], term.strip(), cells[0]))
    return tuple(found)


def wrong(text: str, expressions: tuple[Expression, ...]) -> Iterator[tuple[int, str, str]]:
    """Line (from 1), expression found and what to write, for all of a text."""
    for kept, instead in KEPT.items():
        text = text.replace(kept, instead)
    for expression in expressions:
        for match in expression.found(text):
            yield text.count("\n", 0, match.start()) + 1, match[0], expression.write


def _blank(match: re.Match[str]) -> str:
    """Replaces words by the same number of line breaks."""
    return "\n" * match[0].count("\n") or " "


def markdown(text: str) -> str:
    """Prose, headings and tables of a page: without code and addresses of links."""
    text = re.sub(r"^```.*?^```", _blank, text, flags=re.M | re.S)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]*`", _blank, text)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def html(text: str) -> str:
    """What a template shows: without comments, scripts, styles, tags and expressions."""
    for pattern in (r"\{#.*?#\}", r"<style.*?</style>", r"<script.*?</script>", r"<code>.*?</code>", r"\{%.*?%\}"):
        text = re.sub(pattern, _blank, text, flags=re.S)
    return re.sub(r"\{\{.*?\}\}|<[^>]*>", _blank, text, flags=re.S)


def strings(source: str) -> Iterator[tuple[int, str]]:
    """String constants of Python code of more than two words, with their line; not docstrings and not patterns."""
    tree = ast.parse(source)
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if text.count(" ") > 1 and "\\" not in text:
            yield node.lineno, text


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings of a module and its public names, without code, with their line."""
    tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and not getattr(node, "name", "").startswith("_") and ast.get_docstring(node):
            body = node.body[0]
            assert isinstance(body, ast.Expr) and isinstance(body.value, ast.Constant)
            yield body.lineno, re.sub(r"`[^`]*`", _blank, str(body.value.value))


def literals(source: str) -> Iterator[tuple[int, str]]:
    """String literals of C++ code, adjacent ones joined, with their line."""
    source = re.sub(r"//[^\n]*", "", source)
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', source):
        yield source.count("\n", 0, match.start()) + 1, re.sub(r'"\s*"', "", match[0]).strip('"')


def _files(*patterns: str) -> list[Path]:
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split()]


def texts() -> Iterator[tuple[str, int, str]]:
    """All text that a user reads: where (file), its first line there, the text."""
    for file in (*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("*.md"))):
        text = file.read_text(encoding="utf-8")
        if file.name == "glossary.md":  # its last column lists terms that are not used
            text = re.sub(r"^(\|[^|]*\|[^|]*\|).*", r"\1", text, flags=re.M)
        yield file.relative_to(ROOT).as_posix(), 1, markdown(text)
    for file in _files("tenken/**/*.py", "checks/*.py"):
        for line, text in strings(file.read_text(encoding="utf-8")):
            yield file.relative_to(ROOT).as_posix(), line, text
    for file in _files("checks/*.py", *PUBLIC):
        for line, text in docstrings(file.read_text(encoding="utf-8")):
            yield file.relative_to(ROOT).as_posix(), line, text
    for file in _files("src/*.h", "src/*.cpp", "src/*.cu", "src/*.cuh"):
        for line, text in literals(file.read_text(encoding="utf-8")):
            yield file.relative_to(ROOT).as_posix(), line, text
    for file in _files("tenken/report/templates/*.html"):
        yield file.relative_to(ROOT).as_posix(), 1, html(file.read_text(encoding="utf-8"))
    for file in _files("src/programs/*/metrics.yaml"):
        yield file.relative_to(ROOT).as_posix(), 1, file.read_text(encoding="utf-8")
    for number, line in enumerate((ROOT / "Makefile").read_text(encoding="utf-8").splitlines(), 1):
        if "## " in line:
            yield "Makefile", number, line.split("## ", 1)[1]
