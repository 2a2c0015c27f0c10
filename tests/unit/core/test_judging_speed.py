"""The cost of judging, as a ratio within one process: seconds depend on the machine."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable

from tenken.judge import rejudge
from tenken.model import record as records
from tests.support import kept


def seconds(work: Callable[[], object], times: int = 5) -> float:
    """CPU seconds, the best of several."""
    best = float("inf")
    gc.collect()  # once: a worker holds millions of objects of other tests
    for _ in range(times):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def test_parsing_and_judging_cost_a_few_times_what_reading_json_does() -> None:
    """About 9 times; a rule that compares every pair of metrics makes it hundreds."""
    path = max((r.path for r in kept.first_runs()), key=lambda one: one.stat().st_size)
    text = path.read_text(encoding="utf-8")
    assert len(text) > 150_000
    rejudge.of_record(records.parse(text, path))  # the catalogue is read once
    whole = seconds(lambda: rejudge.of_record(records.parse(text, path)))
    assert whole < 60 * seconds(lambda: json.loads(text))
