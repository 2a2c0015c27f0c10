"""The five verdicts, their order and what each means for a command's exit status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PASS, RECORDED, FAIL, INVALID, WAIVED = "PASS", "RECORDED", "FAIL", "INVALID", "WAIVED"

#: Worst first.
VERDICTS = (FAIL, INVALID, RECORDED, PASS, WAIVED)

#: Exit status of `tenken judge`; 2 is a wrong command line.
EXIT_CODES: Mapping[str, int] = {PASS: 0, FAIL: 1, INVALID: 3, WAIVED: 4, RECORDED: 5}

#: Verdicts of a run in which nothing is wrong: `make run`, `tenken report` and ReFrame end with 0.
HEALTHY = (RECORDED, PASS, WAIVED)


def known(word: object) -> str:
    """The verdict of a name read from a file. ValueError for another word."""
    if word not in VERDICTS:
        raise ValueError(f"unknown verdict {str(word)[:40]!r}; allowed: {', '.join(VERDICTS)}")
    return str(word)


def worst(verdicts: Iterable[str]) -> str:
    """The combined verdict of several. Without any verdict it is FAIL, since nothing was shown. An unknown word counts
    as FAIL."""
    found = {verdict if verdict in VERDICTS else FAIL for verdict in verdicts}
    return next((verdict for verdict in VERDICTS if verdict in found), FAIL)


def of_criteria(verdicts: Iterable[str]) -> str:
    """The verdict of a run from those of its values: the worst, ignoring RECORDED if any value had a criterion.

    A run with a value that met its criterion is PASS even if other values were only recorded.
    """
    found = list(verdicts)
    return worst(v for v in found if v != RECORDED) if set(found) - {RECORDED} else RECORDED
