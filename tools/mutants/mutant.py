"""One mutant, and the list of them in list/*.yaml."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tenken.model import cache

LIST = Path(__file__).with_name("list")
_KEYS = ("name", "file", "old", "new", "tests", "why")
_MORE = ("build",)


class MutantError(Exception):
    """The list or one of its mutants does not match the sources."""


@dataclass(frozen=True)
class Mutant:
    """`old`, which occurs exactly once in `file`, is replaced by `new`; one of `tests` (pytest's names) must then fail.

    `build`: the programs that these tests run, if many use the file; otherwise everything that changes is built."""

    name: str
    group: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str
    build: tuple[str, ...] = ()

    def applied(self, text: str) -> str:
        """The text with the mistake. Raises MutantError if `old` does not occur exactly once."""
        found = text.count(self.old)
        if found != 1:
            raise MutantError(f"{self.name}: {self.file} contains {self.old!r} {found} times; expected: exactly once")
        return text.replace(self.old, self.new)


def load(folder: Path = LIST) -> tuple[Mutant, ...]:
    """All mutants in the order of the files' names. Raises MutantError: file, mutant, key and allowed values."""
    mutants = tuple(mutant for file in sorted(folder.glob("*.yaml")) for mutant in _read(file))
    names = [mutant.name for mutant in mutants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise MutantError(f"{twice}: two mutants have this name")
    return mutants


def _read(file: Path) -> Iterator[Mutant]:
    try:
        entries = cache.yaml(file, file.read_text(encoding="utf-8"))
    except (OSError, YAMLError) as error:
        raise MutantError(f"{file.name}: {' '.join(str(error).split())}") from error
    for number, entry in enumerate(entries or [], start=1):
        if not isinstance(entry, dict) or set(entry) - set(_MORE) != set(_KEYS):
            raise MutantError(f"{file.name}, mutant {number}: keys must be {', '.join(_KEYS)}, and may be build")
        texts = {key: entry[key] for key in _KEYS if key != "tests"}
        build = tuple(str(target) for target in entry.get("build", ()))
        tests = entry["tests"]
        where = f"{file.name}: {entry['name']}"
        wrong = next((key for key, text in texts.items() if not isinstance(text, str)), None)
        if wrong:
            raise MutantError(f"{where}: {wrong} is {texts[wrong]!r}; allowed: text")
        if not isinstance(tests, list) or not tests or not all(isinstance(test, str) for test in tests):
            raise MutantError(f"{where}: tests is {tests!r}; allowed: a list of at least one test")
        if texts["old"] == texts["new"] or not texts["old"]:
            raise MutantError(f"{where}: old is empty, or the same as new")
        yield Mutant(group=file.stem, tests=tuple(tests), build=build, **texts)


def chosen(mutants: Sequence[Mutant], patterns: Sequence[str]) -> tuple[Mutant, ...]:
    """Those whose name, group or file matches a pattern; without patterns, all. Raises MutantError if none does."""
    if not patterns:
        return tuple(mutants)
    found = tuple(
        mutant
        for mutant in mutants
        if any(fnmatch(text, pattern) for pattern in patterns for text in (mutant.name, mutant.group, mutant.file))
    )
    if not found:
        raise MutantError(f"--only {' '.join(patterns)}: no mutant has such a name, group or file (see --list)")
    return found


def check(mutants: Sequence[Mutant], root: Path) -> list[str]:
    """Mismatches with the sources below `root`.

    A missing file, a text that does not occur exactly once, invalid Python after the change, a missing test.
    """
    wrong = []
    tests: dict[str, set[str]] = {}
    for mutant in mutants:
        try:
            text = mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
            if mutant.file.endswith(".py"):
                ast.parse(text)
        except OSError as error:
            wrong.append(f"{mutant.name}: {mutant.file}: {error.strerror}")
        except MutantError as error:
            wrong.append(str(error))
        except SyntaxError as error:
            wrong.append(f"{mutant.name}: {mutant.file} is no longer valid Python: line {error.lineno}: {error.msg}")
        for test in mutant.tests:
            file, _, name = test.partition("::")
            if file not in tests:
                tests[file] = _tests_of(root / file)
            known = tests[file]
            if (name.split("[")[0] not in known) if name else not known:
                wrong.append(f"{mutant.name}: there is no {test}")
    return wrong


def _tests_of(file: Path) -> set[str]:
    """The names of the tests of one file; none if it is missing."""
    if not file.is_file():
        return set()
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {one.name for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}
