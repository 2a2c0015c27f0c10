"""Parser of `dcgmi diag -j`, the JSON of DCGM 3 and of DCGM 4.

The format is that of its sources (dcgmi/Diag.cpp, nvvs JsonResult, 2.4 to 4.5) and of public outputs: a title, `DCGM
GPU Diagnostic` (to 3) or `DCGM Diagnostic` (4), with `test_categories`, each with `tests`, each with `results`. A
result has a status (Pass, Fail, Warn, Skip, Not Run) and names its GPU by `gpu_ids` or `gpu_id` (to DCGM 3) or by
`entity_group` and `entity_id` (DCGM 4). Warnings are text, or objects with `warning` (`warnings` in Deployment of 3),
`error_id`, `error_category` and `error_severity`. Lists have `null` in place of what was not run. DCGM 4 adds a
`test_summary` for what belongs to no entity, and the version in `metadata` next to the title. It passes a memory test
although its warnings have an error (NVIDIA/DCGM#284), which becomes a warning here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers.printed import naming_the_cause, plain

TITLES = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
_STATES = {
    "pass": "Pass", "passed": "Pass", "fail": "Fail", "failed": "Fail", "warn": "Warn", "warning": "Warn",
    "skip": "Skip", "skipped": "Skip", "not run": "Skip", "notrun": "Skip",
}  # fmt: skip


class DcgmFormatError(TenkenError):
    """The output is not the JSON of dcgmi diag, or reports an error."""


@dataclass(frozen=True)
class Test:
    """One test on one entity: `where` is `GPU 3`, or empty for the host; `code` is the vendor's error number."""

    name: str
    where: str
    state: str
    code: str = ""
    message: str = ""

    def told(self) -> str:
        """In words: `memory GPU 3: Fail, error 12: ...`."""
        code = f", error {self.code}" if self.code else ""
        return f"{self.name}{' ' + self.where if self.where else ''}: {self.state}{code}: {self.message}".rstrip(": ")


@dataclass(frozen=True)
class Output:
    """The tests in printed order and DCGM's version."""

    version: str
    tests: tuple[Test, ...]

    def of(self, state: str) -> tuple[Test, ...]:
        return tuple(test for test in self.tests if test.state == state)


@naming_the_cause
def parse(text: str) -> Output:
    """Read the JSON; lines around it are ignored. Raises DcgmFormatError if anything is missing."""
    text = plain(text)
    begin = re.search(r"^\s*\{", text, re.M)
    if begin is None:
        raise DcgmFormatError(f"no JSON (dcgmi diag -j); the output begins {text.strip()[:80]!r}")
    try:
        whole, end = json.JSONDecoder().raw_decode(text, text.index("{", begin.start()))
    except ValueError as error:
        raise DcgmFormatError(f"its JSON cannot be read, or is cut short: {error}") from None
    if '"test_categories"' in text[end:]:
        raise DcgmFormatError("two documents: two outputs in one")
    title = next((title for title in TITLES if isinstance(whole, dict) and isinstance(whole.get(title), dict)), "")
    if not title:
        raise DcgmFormatError(f"its JSON has no {' or '.join(TITLES)}")
    root = whole[title]
    told = root.get("runtime_error") or root.get("error") or whole.get("runtime_error")
    if told:
        raise DcgmFormatError(f"it reports an error: {' '.join(str(told).split())[:120]!r}")
    tests = [
        test for category in _list(root.get("test_categories"), "test_categories") if category
        for test in _category(category)
    ]  # fmt: skip
    if not tests:
        raise DcgmFormatError("no test has a result")
    metadata = whole.get("metadata") if isinstance(whole.get("metadata"), dict) else {}
    version = next((str(of["version"]) for of in (metadata, root, whole) if "version" in of), "")
    return Output(version or "unknown", tuple(tests))


def _list(found: Any, what: str) -> list[Mapping[str, Any]]:
    """The objects of a list; empty if there is a `null` instead."""
    if not isinstance(found, list) or not all(one is None or isinstance(one, dict) for one in found):
        raise DcgmFormatError(f"{what} is not a list of objects")
    return [one or {} for one in found]


def _category(category: Mapping[str, Any]) -> Iterator[Test]:
    for test in _list(category.get("tests"), f"tests of {str(category.get('category'))[:40]}"):
        if not test:
            continue
        name = " ".join(str(test.get("name", "")).split())[:60]
        if not name:
            raise DcgmFormatError(f"a test of {str(category.get('category'))[:40]} without a name")
        for result in _results(name, test):
            said = str(result.get("status", "")) if result else "Not Run"
            state = _STATES.get(said.strip().lower())
            if state is None:
                raise DcgmFormatError(
                    f"{name}: status {said[:40]!r}; allowed: {', '.join(sorted(set(_STATES.values())))}"
                )
            codes, message = _warning(result)
            state = "Warn" if state == "Pass" and codes else state
            yield Test(name, _where(result), state, ", ".join(codes)[:60], message)


def _results(name: str, test: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of a test, and its summary if that states something that no result does."""
    summary = test.get("test_summary")
    # DCGM 4 writes only the name of a test that was not run
    results = _list(test.get("results", [] if isinstance(summary, dict) else [None]), f"results of {name}")
    if isinstance(summary, dict):
        known = {code for result in results for code in _warning(result)[0]}
        if summary.get("status") not in [one.get("status") for one in results] or set(_warning(summary)[0]) - known:
            return [*results, summary]
    if not results:
        raise DcgmFormatError(f"{name}: no result")
    return results


def _where(result: Mapping[str, Any]) -> str:
    """The entity of a result. Raises DcgmFormatError for numbers that none can have."""
    group = result.get("entity_group", "entity") if "entity_id" in result else "GPU"
    number = str(result.get("entity_id", result.get("gpu_ids", result.get("gpu_id", "")))).strip()
    if number and not re.fullmatch(r"\d{1,6}(?: ?, ?\d{1,6})*", number):
        raise DcgmFormatError(f"{str(group)[:40]} {number[:40]!r}; allowed: whole numbers, 0 or above")
    return f"{group} {number}" if number else ""


def _warning(result: Mapping[str, Any]) -> tuple[list[str], str]:
    """The vendor's error codes and text from all warnings of a result; in DCGM 3 the code may be next to them."""
    said = result.get("warnings", result.get("warning"))
    every = said if isinstance(said, list) else [said] if said else []
    every = [one for one in every if one is not None]
    codes = [str(one["error_id"]) for one in every if isinstance(one, dict) and "error_id" in one]
    codes += [str(result[key]) for key in ("error_id", "error_code") if key in result]
    words = [str(one.get("warning", one.get("warnings", ""))) if isinstance(one, dict) else str(one) for one in every]
    info = result.get("info") or []
    words += [str(one) for one in (info if isinstance(info, list) else [info])] if not words else []
    return [code for code in dict.fromkeys(codes) if code != "0"], " ".join("; ".join(words).split())[:160]
