"""YAML 1.2 with line numbers: plain data, and the line of every key.

YAML 1.2 because YAML 1.1 reads the walltime `1:30:00` as 5400 and the word `no` as false. Duplicate keys are an error
here; many readers silently keep the last one.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from pathlib import Path
from typing import Any

from tenken.machines.errors import Problem, SystemFileError
from tenken.model import files

KeyPath = tuple[str | int, ...]

#: A machine's file has some hundred lines, the data sheets 600: more than this is a mistake or an attack.
MAX_BYTES = 1 << 20
#: Keys and values; those of an alias are counted wherever it is used.
MAX_NODES = 20_000
MAX_DEPTH = 32
_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq"))


class Document:
    """Plain data (dict, list, str, int, float, bool, None) of one file, with the line of each part."""

    def __init__(self, file: str, data: Any, lines: dict[KeyPath, int]) -> None:
        self.file = file
        self.data = data
        self._lines = lines

    def line(self, path: KeyPath) -> int | None:
        """Line (from 1) of the key or item at `path`, or of the nearest part around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None

    def at(self, path: KeyPath) -> Any:
        """The value at `path`. Raises KeyError."""
        here = self.data
        for part in path:
            here = here[part]
        return here

    def problem(self, path: KeyPath, what: str) -> Problem:
        return Problem(self.file, self.line(path), what, path)


def read(file: Path, shown: str) -> Document:
    """Read one file; `shown` is its name in messages. Raises SystemFileError with file and line."""
    try:
        text = files.read_text(file, MAX_BYTES, links=True)
    except files.FileError as error:
        raise SystemFileError(Problem(shown, error.line, str(error))) from None
    return parse(text, shown)


def parse(text: str, shown: str) -> Document:
    """Reads text in memory in the same way."""
    from ruamel.yaml import YAML  # imported here, since it costs 60 ms and only a cache miss needs it
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="rt", pure=True)
    try:
        bounded(text, shown)
        tree = yaml.load(text)
    except DuplicateKeyError as error:
        match = re.search(r'duplicate key "(.*?)"', str(error.problem))
        named = f" '{match.group(1)}'" if match else ""
        raise SystemFileError(Problem(shown, _line(error), f"duplicate key{named}")) from None
    except MarkedYAMLError as error:
        what = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise SystemFileError(Problem(shown, _line(error), f"is not valid YAML: {what}")) from None
    except (YAMLError, ValueError) as error:
        what = f"is not valid YAML: {' '.join(str(error).split())}"
        raise SystemFileError(Problem(shown, None, what)) from None
    except SystemFileError:
        raise
    except Exception as error:  # errors of the reader itself, for unforeseen texts
        what = f"is not valid YAML: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise SystemFileError(Problem(shown, None, what)) from None
    if not isinstance(tree, dict):
        what = "is empty" if tree is None else "must be a map of keys to values"
        raise SystemFileError(Problem(shown, 1, what))
    lines: dict[KeyPath, int] = {(): 1}
    return Document(shown, _plain(tree, (), lines, shown), lines)


def bounded(text: str, shown: str) -> None:
    """Raises SystemFileError for content that would take long to build, detected in its events before it is built."""
    from ruamel.yaml import YAML
    from ruamel.yaml import events as kinds

    if len(text) > MAX_BYTES:
        raise SystemFileError(Problem(shown, None, f"has {len(text)} characters; at most {MAX_BYTES} are accepted"))
    events = YAML(typ="rt", pure=True).parse(text)
    #: number of values behind each anchor, and the open maps and lists as [anchor, values so far]
    sizes: dict[str, int] = {}
    within: list[tuple[str | None, list[int]]] = [(None, [0])]
    for event in events:
        line = event.start_mark.line + 1

        def refuse(what: str, line: int = line) -> SystemFileError:
            return SystemFileError(Problem(shown, line, what))

        if isinstance(event, kinds.DocumentStartEvent) and event.version not in (None, (1, 2)):
            raise refuse(f"declares YAML {'.'.join(map(str, event.version))}; it is read as YAML 1.2")
        if getattr(event, "tag", None) not in (None, "!", *_TAGS):
            raise refuse(f"has the tag {event.tag!r}, which is not allowed here")
        if isinstance(event, (kinds.MappingStartEvent, kinds.SequenceStartEvent)):
            within.append((event.anchor, [0]))
            if len(within) > MAX_DEPTH + 1:
                raise refuse(f"is nested deeper than {MAX_DEPTH} levels")
            continue
        if isinstance(event, kinds.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in within):
                raise refuse(f"the alias *{event.anchor} contains itself")
            size, anchor = sizes.get(event.anchor, 1), None
        elif isinstance(event, kinds.ScalarEvent):
            size, anchor = 1, event.anchor
        elif isinstance(event, (kinds.MappingEndEvent, kinds.SequenceEndEvent)):
            anchor, (inner,) = within.pop()
            size = inner + 1
        else:
            continue
        if anchor is not None:
            if anchor in sizes:
                raise refuse(f"the anchor &{anchor} is defined twice")
            sizes[anchor] = size
        within[-1][1][0] += size
        if within[-1][1][0] > MAX_NODES:
            raise refuse(f"contains more than {MAX_NODES} values (aliases expanded)")


def _line(error: Any) -> int | None:
    mark = error.problem_mark or error.context_mark
    return None if mark is None else mark.line + 1


def _plain(value: Any, path: KeyPath, lines: dict[KeyPath, int], shown: str) -> Any:
    """Converts ruamel's tree into plain data and records lines."""

    def refuse(what: str) -> SystemFileError:
        line = next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), None)
        return SystemFileError(Problem(shown, line, what))

    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise refuse(f"key {key!r} must be text: write it in quotes")
            inner = (*path, str(key))
            _note(lines, inner, value, "key", key)
            result[str(key)] = _plain(item, inner, lines, shown)
        return result
    if isinstance(value, list):
        items = []
        for index, item in enumerate(value):
            inner = (*path, index)
            _note(lines, inner, value, "item", index)
            items.append(_plain(item, inner, lines, shown))
        return items
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        # ruamel keeps `true` with an anchor as a subclass of int
        return bool(value) if type(value).__name__ == "ScalarBoolean" else int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise refuse(f"'{path[-1]}' must be a finite number")
        return float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise refuse(f"'{path[-1]}' has a tag or type that is not allowed")


def _note(lines: dict[KeyPath, int], path: KeyPath, parent: Any, kind: str, key: Any) -> None:
    # A key from a merge (<<) has no position: the enclosing part is named instead.
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        lines[path] = getattr(parent.lc, kind)(key)[0] + 1
