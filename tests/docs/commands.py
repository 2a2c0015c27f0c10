"""The commands shown in the documentation, and how each of them is checked.

A command is read by the parser of its program, so unknown options, values and subcommands fail. Systems, checks, tags,
modes, variables and files, which that parser cannot know, are checked separately.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from tenken.machines import loader
from tenken.machines.model import OF_MODE
from tenken.paths import ROOT
from tests.docs import pages
from tests.docs.pages import Text

#: Languages of blocks with commands; blocks in other languages are ignored.
SHELL = ("sh", "bash", "console")
ALLOWED = "make it ```sh, or ```text, ```yaml, ```python"
#: A block without a language contains commands if each of its lines begins with one that is known here.
NO_LANGUAGE = ""
#: Spans of code that begin with one of these words, and continue, are commands.
IN_TEXT = ("tenken", "reframe", "make", "pytest", "python", "python3", "mpirun", "sh", "bash")

#: Placeholders for the reader's own names.
SYSTEMS_OF_READERS = {"my-cluster", "NAME", "SYSTEM", "local"}
CHECKS_OF_READERS = {"MyLatency"}
#: Files created by a command of a page, and used by others of the page.
MADE = {
    "tests/programs/test_my_latency.py": "tenken new benchmark my_latency",
    "build/bin/daxpy": "cmake --build build",
    "kit/install.sh": "make kit",
}

#: Commands that no rule here reads, with the reason.
UNREAD = {
    "git": "of git itself; the address of the repository is the reader's",
    "cat": "shows a file that a command before it wrote",
    "echo": "of the shell",
    "export": "of the shell; variables of system files are checked by their own tests",
    "cd": "of the shell",
    ".": "activates what `make venv` or a toolchain wrote",
    "sed": "run by tests/unit/reports/test_ingest.py on a log of ReFrame 3",
    "cmake": "builds as tests/programs does",
    "apt-get": "of Debian",
    "kit/install.sh": "run by the tests of the kit",
    "apptainer": "of Apptainer itself; the recipe is read by tests/programs/test_containers.py",
    "head": "of the shell",
    "cp": "of the shell",
    "tail": "run by tests/unit/archive/test_seal.py on a record",
    "sha256sum": "run by tests/unit/archive/test_seal.py on a record",
    "ssh-keygen": "of OpenSSH; run by tests/unit/reports/test_sealed_acceptance.py",
}


@dataclass(frozen=True)
class Command:
    """One simple command: its words, without redirections and without the variables set before it."""

    place: Text
    words: tuple[str, ...]
    #: Variables set before it.
    env: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place.page.relative_to(ROOT)}:{self.place.line}: {shlex.join(self.words)}"


_PLACEHOLDER = re.compile(r"<[a-z][a-z ]*>")
_INNER = re.compile(r"\$\(([^()]*)\)")
_SEPARATORS = {"&&", "||", ";", "|", "&"}


def simple_commands(place: Text) -> Iterator[Command]:
    """Every simple command in shell text. Raises ValueError if a quote is not closed."""
    text = _PLACEHOLDER.sub("PLACEHOLDER", place.text.replace("\\\n", " "))
    for line in text.splitlines():
        rest = line
        while inner := _INNER.search(rest):
            yield from simple_commands(Text(place.page, place.line, inner[1], place.language))
            rest = rest[: inner.start()] + "INNER" + rest[inner.end() :]
        lexer = shlex.shlex(rest, posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        words: list[str] = []
        skip = False
        for word in [*lexer, ";"]:
            if word in _SEPARATORS:
                yield from _one(place, words)
                words = []
            elif set(word) <= {"<", ">", "&"}:
                skip = True
            elif skip:
                skip = False
            else:
                words.append(word)


def _one(place: Text, words: list[str]) -> Iterator[Command]:
    while words and words[0] in ("do", "then", "exec"):
        words = words[1:]
    env = []
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.S):
        env.append(words[0])
        words = words[1:]
    if words[:1] == ["mpirun"]:
        words = words[3:] if words[1:2] == ["-n"] else words[1:]
    # a span may show only the options that matter
    if words and words[0] not in ("PROGRAM", "...") and not words[0].startswith("-"):
        yield Command(place, tuple(words), tuple(env))


def programs() -> set[str]:
    return {folder.name for folder in (ROOT / "src" / "programs").iterdir() if folder.is_dir()}


def is_known(word: str) -> bool:
    return word.endswith(".sh") or bool({word, Path(word).name} & {*RULES, *MADE, *UNREAD, *programs()})


def blocks(page: Path) -> tuple[list[Text], list[str]]:
    """The blocks of commands of a page, and errors in its blocks."""
    found, wrong = [], []
    for block in pages.blocks(page):
        if block.language in SHELL:
            found.append(block)
        elif block.language == NO_LANGUAGE:
            first = [c.words[0] for c in _tolerant(block)]
            if first and all(is_known(word) for word in first):
                found.append(block)
            else:
                place = f"{page.relative_to(ROOT)}:{block.line}"
                wrong.append(f"{place}: a block without a language that is not all commands: {ALLOWED}")
    return found, wrong


def _tolerant(block: Text) -> list[Command]:
    try:
        return list(simple_commands(block))
    except ValueError:
        return []


def in_text(page: Path) -> Iterator[Text]:
    for span in pages.spans(page):
        words = span.text.split()
        # `make run`, `tenken gate`; not `reframe ...` and not the name alone
        if len(words) > 1 and words[0] in IN_TEXT and words[1] not in ("...",) and "..." not in words[0]:
            yield Text(span.page, span.line, span.text.replace("\\|", "|"))


def documented() -> tuple[list[Command], list[str]]:
    """All commands of all pages, and errors found before any of them is parsed. The release notes are left out, since
    they name former ones."""
    found: list[Command] = []
    wrong: list[str] = []
    for page in pages.pages():
        if page.name == "CHANGELOG.md":
            continue
        shell, faults = blocks(page)
        wrong += faults
        for place in [*shell, *in_text(page)]:
            try:
                found += simple_commands(place)
            except ValueError as error:
                wrong.append(f"{place}: {error}")
    return found, wrong


# -- rules: None, or what is wrong --


class Read(Exception):
    """Raised instead of running a program, after it has parsed its command line."""

    def __init__(self, namespace: argparse.Namespace) -> None:
        super().__init__()
        self.namespace = namespace


def tenken(command: Command) -> str | None:
    return _by_parser(lambda words: raising(_tenken_parser().parse_args(words)), command)


@lru_cache(maxsize=1)
def _tenken_parser() -> argparse.ArgumentParser:
    """With the commands that pyproject.toml registers, even if this checkout was installed earlier."""
    from unittest import mock

    from tenken import cli

    table = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition(f'entry-points."{cli.GROUP}"]')[2]
    registered = [
        EntryPoint(name, value, cli.GROUP)
        for name, value in re.findall(r'^(\w+) = "([\w.:]+)"$', table.partition("\n[")[0], re.M)
    ]
    assert registered
    with mock.patch.object(cli, "entry_points", lambda group: registered):
        return cli.build_parser()


def raising(namespace: argparse.Namespace) -> None:
    raise Read(namespace)


#: Messages about a command line that is right as far as it goes: text may name a command by its first words.
_UNFINISHED = re.compile(
    r"the following arguments are required|one of the arguments .* is required|expected one argument"
)
#: Messages about a word that is a placeholder.
_FOR_A_WORD = re.compile(r"invalid choice: '[A-Z]+'")


def _by_parser(parse: Callable[[list[str]], None], command: Command, begin: int = 1) -> str | None:
    """The error that a parser reports for a command line; None if it accepts it and the named system exists."""
    wrong = _refusal(parse, _without_marks(command.words[begin:]))
    if wrong and (_FOR_A_WORD.search(wrong) or (command.place.language is None and _UNFINISHED.search(wrong))):
        return None
    return wrong


def _refusal(parse: Callable[[list[str]], None], given: list[str]) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parse(given)
    except SystemExit as ended:
        return None if not ended.code else (said.getvalue().strip().splitlines() or ["?"])[-1]
    except Read as read:
        return unknown_system(getattr(read.namespace, "system", None))
    return "was not read"


def _without_marks(words: Iterable[str]) -> list[str]:
    """Without the marks of a synopsis: `...` is removed, `[TABLE] [--seeds N]` lose their brackets."""
    kept = [word.strip("[]") for word in words if word not in ("...", "…")]
    return ["1" if word in ("N", "SEED") else word for word in kept if word]


def unknown_system(name: Any) -> str | None:
    named = name.split(":")[0] if isinstance(name, str) else None
    if named is None or named in SYSTEMS_OF_READERS | set(loader.names()):
        return None
    return f"no system {named}; there are {', '.join(sorted(loader.names()))}"


def reframe(command: Command) -> str | None:
    """By ReFrame's own parser; then systems, modes, names and tags of checks, and variables."""
    from reframe.frontend import argparse as parsers
    from reframe.frontend import cli

    words = _without_marks(command.words[1:])

    def stop(self: Any, args: Any = None, namespace: Any = None, **_: Any) -> None:
        raising(self._holder.parse_args(words, None))

    original = parsers.ArgumentParser.parse_args
    try:
        parsers.ArgumentParser.parse_args = stop
        wrong = _by_parser(lambda _: cli.main(), command)
    finally:
        parsers.ArgumentParser.parse_args = original
    if wrong is None:
        wrong = next(filter(None, (_of_reframe(o, v) for o, v in zip(words, [*words[1:], ""], strict=False))), None)
    return wrong


def _of_reframe(option: str, value: str) -> str | None:
    names, tags, variables = known_checks()
    if option == "--system":
        return unknown_system(value)
    if option == "--mode":
        return None if value in OF_MODE else f"no mode {value}; there are {', '.join(OF_MODE)}"
    if option in ("-c", "--checkpath"):
        return None if value.startswith("~") or (ROOT / value).exists() else f"no folder {value}"
    if option in ("-t", "--tag"):
        return None if any(re.match(value, tag) for tag in tags) else f"no check has the tag {value}"
    if option in ("-n", "--name"):
        # `Hpl%` is Hpl with any parameters, `Gemm%at=once` with this one
        pattern = re.sub(r"%[^|)$]*", "$", value)
        unknown = [one for one in re.findall(r"%([\w.]+)=", value) if one.rpartition(".")[2] not in variables]
        if unknown:
            return f"no check has a parameter {unknown[0]}"
        known = any(re.search(pattern, name) for name in (*names, *CHECKS_OF_READERS))
        return None if known else f"no check is called {value}"
    if option in ("-S", "--setvar"):
        name = value.partition("=")[0].rpartition(".")[2]
        return None if name in variables else f"no check has a variable {name}"
    return None


@lru_cache(maxsize=1)
def known_checks() -> tuple[set[str], set[str], set[str]]:
    """Names of the checks, their tags, and the names that a class of checks assigns: variables and parameters."""
    names, tags, variables = set(), set(), set()
    for file in [*(ROOT / "checks").glob("*.py"), *(ROOT / "tenken" / "reframe").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            if any("simple_test" in ast.dump(decorator) for decorator in node.decorator_list):
                names.add(node.name)
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else []
                for target in (t.id for t in targets if isinstance(t, ast.Name)):
                    variables.add(target)
                    if target == "tags":
                        tags |= {n.value for n in ast.walk(part) if isinstance(n, ast.Constant)}
    assert "StreamHost" in names and tags
    return names, tags, {*variables, "max_pending_time"}


def make(command: Command) -> str | None:
    """By make itself, without running anything; variables must be those of the Makefile or of a program that it
    calls."""
    words = [word for word in command.words[1:] if word not in ("...",)]
    for word in words:
        name, is_setting, value = word.partition("=")
        if is_setting and name not in make_variables():
            return f"nothing reads the variable {name}"
        if is_setting and name == "MODE" and value not in OF_MODE:
            return f"no mode {value}"
        wrong = unknown_system(value) if is_setting and name == "SYSTEM" else None
        if wrong:
            return wrong
    return _make_dry(tuple(words))


@cache
def _make_dry(words: tuple[str, ...]) -> str | None:
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


@lru_cache(maxsize=1)
def make_variables() -> set[str]:
    from toolchains import kit

    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    source = Path(kit.__file__).read_text(encoding="utf-8")
    fields = {f"KIT_{name.upper()}" for name in kit.Settings.__dataclass_fields__}
    return (
        set(re.findall(r"\$\(?(?:or \$\()?([A-Z]+)\)", text)) | fields | set(re.findall(r"KIT_[A-Z]+", text + source))
    )


#: Modules that parse their few words themselves; and what their documentation must name.
WITHOUT_PARSER = {
    "tests.support.debian": {"slurm", "hpcc", "foreign", "browser", "engine"},
    "tests.fuzz.sanitized": None,
    "pytest": None,
}


def python(command: Command) -> str | None:
    """`python -m MODULE` and `python FILE`: by the parser of the module, which ends after parsing."""
    words = list(command.words[1:])
    if words[:1] == ["-m"]:
        module, words = words[1], words[2:]
        if module == "pytest":
            return pytest(Command(command.place, ("pytest", *words)))
        spec = importlib.util.find_spec(module)
        main = importlib.util.find_spec(f"{module}.__main__") if spec and spec.submodule_search_locations else spec
        if spec is None or main is None or main.origin is None:
            return f"no module {module}"
        file = Path(main.origin)
    else:
        module, file, words = "", ROOT / words[0], words[1:]
        if not file.is_file():
            return f"no file {file.relative_to(ROOT)}"
    source = file.read_text(encoding="utf-8")
    if "ArgumentParser" not in source and "wheels.command(" not in source:
        if module not in WITHOUT_PARSER and words and "argv" not in source:
            return f"{module} takes no arguments"
        allowed = WITHOUT_PARSER.get(module)
        return None if allowed is None or set(words) <= allowed else f"{module} takes {', '.join(sorted(allowed))}"

    def run(given: list[str]) -> None:
        original, before = argparse.ArgumentParser.parse_args, sys.argv
        sys.argv = [str(file), *given]
        argparse.ArgumentParser.parse_args = lambda self, *a, **k: raising(original(self, *a, **k))  # type: ignore[method-assign, assignment]
        try:
            with warnings.catch_warnings():
                # a module that tests have already imported is run a second time
                warnings.simplefilter("ignore", RuntimeWarning)
                if module:
                    runpy.run_module(module, run_name="__main__", alter_sys=False)
                else:
                    runpy.run_path(str(file), run_name="__main__")
        finally:
            argparse.ArgumentParser.parse_args = original  # type: ignore[method-assign]
            sys.argv = before

    return _by_parser(run, command, len(command.words) - len(words))


def pytest(command: Command) -> str | None:
    """Files and folders must exist, and -k must match the name of a test in them."""
    words = list(command.words[1:])
    places = [word for word in words if "/" in word]
    missing = [place for place in places if not (ROOT / place).exists() and place not in MADE]
    if missing:
        return f"no {missing[0]}"
    if "-k" in words:
        asked = words[words.index("-k") + 1]
        files = [f for p in places for f in ([ROOT / p] if (ROOT / p).is_file() else (ROOT / p).rglob("test_*.py"))]
        if not any(re.search(rf"def test_\w*{re.escape(asked)}", file.read_text(encoding="utf-8")) for file in files):
            return f"no test fits -k {asked}"
    return None


def script(command: Command) -> str | None:
    """A script of this repository: the shell must be able to parse it."""
    words = [w for w in command.words if w not in ("sh", "bash")]
    file = ROOT / words[0]
    if not file.is_file():
        return f"no file {words[0]}"
    done = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True, check=False)
    return done.stderr.strip() or None


def program(command: Command) -> str | None:
    """Options of a benchmark program must occur in its sources; for the built ones tests/programs/test_documented.py
    passes the whole command line."""
    name = Path(command.words[0]).name
    sources = [*(ROOT / "src" / "programs" / name).rglob("*"), *(ROOT / "src" / "lib").rglob("*")]
    text = "".join(file.read_text(encoding="utf-8") for file in sources if file.suffix in (".cpp", ".cu", ".cuh", ".h"))
    for word in command.words[1:]:
        if word.startswith("--") and f'"{word[2:].partition("=")[0]}"' not in text:
            return f"{name} has no option {word}"
    return None


RULES: dict[str, Callable[[Command], str | None]] = {
    "tenken": tenken,
    "/opt/tenken/bin/tenken": tenken,
    "reframe": reframe,
    "make": make,
    "python": python,
    "python3": python,
    "pytest": pytest,
    "sh": script,
    "bash": script,
}


def rule(command: Command) -> Callable[[Command], str | None] | None:
    head = command.words[0]
    if head.endswith(".sh") and head not in UNREAD:
        return script
    return RULES.get(head) or (program if Path(head).name in programs() else None)


def problem(command: Command) -> str | None:
    """The error of a command; None if it may appear in the documentation."""
    found = rule(command)
    if found is not None:
        return found(command)
    head = command.words[0]
    if {head, Path(head).name} & set(UNREAD):
        return None
    return f"{head}: no rule of tests/docs/commands.py reads it, and UNREAD does not say why"
