"""The time of a run: each check's share of it, the samples that fit, and the order.

A check states its share in seconds, of the 30 minutes of mode acceptance on a node with one or two GPUs. Other minutes
scale all shares; the duration of a check then follows by fewer or more samples. No verification is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from reframe.frontend.executors import Runner

from tenken.reframe.build import BuildPrograms

#: Minutes of a run by mode, with the build. `published` has no limit, `nightly` the duration of its history.
MINUTES = {"quick": 5.0, "acceptance": 30.0}
#: Mode acceptance on a node with more than two GPUs, where checks that measure the GPUs one by one take longer.
MINUTES_OF_MANY = 45.0
#: GPUs for which shares are stated.
FEW_GPUS = 2
#: Seconds of the budget that belong to no check: the build, and most of a second between two checks.
BESIDE = 150.0
#: Share of a budget for all file checks together.
FILES = 0.25

#: Arguments of programs that are sampling durations, and the minimum of each in seconds: that of mode quick.
#: Repetitions are reduced to what the catalogue requires (`min_count`).
SECONDS = {
    "seconds": 0.2, "decide-seconds": 0.1, "target-seconds": 1.0, "sustained-seconds": 0.6, "energy-seconds": 2.1,
}  # fmt: skip

#: Tags in the order in which their checks run: the deciding ones first. The others follow in order; those of `LATER`
#: come last whatever their other tags, and files at the very end.
LATER = {"training"}
FIRST, LAST = ("stream", "transfer", "links", "gemm", "hpl", "hpl_mxp", "hpcg"), "storage"


def scale(mode: str, minutes: float, gpus: int, one_by_one: bool) -> float:
    """Ratio of a check's samples to the stated number. `minutes`: of the whole run, 0 for the mode's default.

    A check that takes GPUs `one_by_one` has less time for each if there are more than two.
    """
    if mode not in MINUTES:
        return 1.0
    own = MINUTES_OF_MANY if mode == "acceptance" and gpus > FEW_GPUS else MINUTES[mode]
    share = minutes / own if minutes else 1.0
    many = gpus > FEW_GPUS and one_by_one and mode == "acceptance"
    return share * (MINUTES_OF_MANY / MINUTES[mode] * FEW_GPUS / gpus if many else 1.0)


def seconds_of(share: float | None, mode: str, minutes: float, gpus: int, one_by_one: bool) -> float | None:
    """The time of a check with this `share`; None if none is stated, or the mode has no budget."""
    if share is None or mode != "acceptance":
        return None
    many = gpus > FEW_GPUS
    own = MINUTES_OF_MANY if many else MINUTES[mode]
    grown = MINUTES_OF_MANY / MINUTES[mode] if many and one_by_one else 1.0
    return share * grown * (minutes / own if minutes else 1.0)


def fitted(arguments: Mapping[str, Any], by: float, fewest: int) -> dict[str, Any]:
    """The arguments scaled by `by`: durations, and repetitions, of which at least `fewest` remain."""
    found: dict[str, Any] = {}
    for name, least in SECONDS.items():
        value = arguments.get(name)
        if isinstance(value, (int, float)) and value > least:
            cut = max(least, value * by)
            found[name] = round(cut) if isinstance(value, int) else round(cut, 3)
    many = arguments.get("repetitions")
    if isinstance(many, int) and many > fewest:
        found["repetitions"] = max(fewest, round(many * by))
    return found


def rank(tags: Iterable[str]) -> int:
    """The position of a check with these tags in a run; lower is earlier."""
    found = set(tags)
    if LAST in found:
        return len(FIRST) + 1
    if found & LATER:
        return len(FIRST)
    return next((at for at, tag in enumerate(FIRST) if tag in found), len(FIRST))


def register() -> None:
    """Have ReFrame run its cases in the order of `rank`; builds that others need come first."""
    runall = Runner.runall

    def ordered(self: Any, testcases: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(word.startswith("--exec-order") for word in sys.argv):
            testcases.sort(key=lambda case: -1 if isinstance(case.check, BuildPrograms) else rank(case.check.tags))
        return runall(self, testcases, *args, **kwargs)

    Runner.runall = ordered
