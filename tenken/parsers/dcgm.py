"""Parser of `dcgmi diag -j`, the JSON of DCGM 3 and of DCGM 4.

The format is that of public outputs: a title, `DCGM GPU Diagnostic` (3) or `DCGM Diagnostic` (4), which contains
`test_categories`, each with `tests`, each with `results`. A result has a status (Pass, Fail, Warn, Skip, Not Run), in
DCGM 3 `gpu_ids` or `gpu_id`, in DCGM 4 `entity_group` and `entity_id`; warnings are text, or objects with `warning`,
`error_id`, `error_category` and `error_severity`. DCGM 4 adds a `test_summary`.
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
    """Read the JSON; lines around it are ignored. Raises DcgmFormatError: what is missing."""
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
    categories = root.get("test_categories")
    tests = [test for category in _list(categories, "test_categories") for test in _category(category)]
    if not tests:
        raise DcgmFormatError("no test has a result")
    metadata = root.get("metadata") if isinstance(root.get("metadata"), dict) else {}
    version = next(
        (str(of[key]) for of in (metadata, root, whole) for key in ("version", "DCGM Version") if key in of), ""
    )
    return Output(version or "unknown", tuple(tests))


def _list(found: Any, what: str) -> list[Mapping[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DcgmFormatError(f"{what} is not a list of objects")
    return found


def _category(category: Mapping[str, Any]) -> Iterator[Test]:
    for test in _list(category.get("tests"), f"tests of {str(category.get('category'))[:40]}"):
        name = " ".join(str(test.get("name", "")).split())[:60]
        if not name:
            raise DcgmFormatError(f"a test of {str(category.get('category'))[:40]} without a name")
        results = _list(test.get("results", []), f"results of {name}")
        summary = test.get("test_summary")
        if not results and isinstance(summary, dict):
            results = [summary]
        if not results:
            raise DcgmFormatError(f"{name}: no result")
        if isinstance(summary, dict) and not any(result.get("status") == summary.get("status") for result in results):
            results = [*results, summary]  # the summary is worse than each of them, or states something else
        for result in results:
            said = str(result.get("status", ""))
            state = _STATES.get(said.strip().lower())
            if state is None:
                raise DcgmFormatError(
                    f"{name}: status {said[:40]!r}; allowed: {', '.join(sorted(set(_STATES.values())))}"
                )
            code, message = _warning(result)
            yield Test(name, _where(result), state, code, message)


def _where(result: Mapping[str, Any]) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'entity')} {result['entity_id']}"
    gpus = str(result.get("gpu_ids", result.get("gpu_id", ""))).strip()
    return f"GPU {gpus}" if gpus else ""


def _warning(result: Mapping[str, Any]) -> tuple[str, str]:
    """The vendor's error code and text, of all warnings of a result; in DCGM 3 the code may be next to them."""
    said = result.get("warnings", result.get("warning"))
    every = said if isinstance(said, list) else [said] if said else []
    codes = [str(one["error_id"]) for one in every if isinstance(one, dict) and "error_id" in one]
    codes += [str(result[key]) for key in ("error_id", "error_code") if key in result]
    words = [str(one.get("warning", "")) if isinstance(one, dict) else str(one) for one in every]
    words += [str(result["info"])] if not words and result.get("info") else []
    return ", ".join(dict.fromkeys(codes))[:60], " ".join("; ".join(words).split())[:160]
