"""A check as one line of the archive (`tenken.archive.chained`), which `tenken gate` reads like other series. A GPU
that loses one per cent in a month is found there, not before a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken.archive import chained
from tenken.node.state import StateError, replaceable

#: Names the series, as the check's name does in ReFrame.
CHECK = "node_check"
_VERDICTS = ("PASS", "FAIL", "RECORDED")


def append(
    wanted: Mapping[str, Any], node: str, status: int, said: str, time: float, values: Mapping[str, float]
) -> None:
    """Adds a check to `<archive>/<system>/<partition>/node_check.<node>.log`. `time`: seconds since 1970; `values`: as
    named by tenken.node.measure, in GB/s and TFLOP/s. Raises OSError, ArchiveError, StateError.
    """
    folder = Path(wanted["archive"]) / wanted["system"] / wanted["partition"]
    if why := replaceable(folder):
        raise StateError(why)
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "job_completion_time": f"{datetime.fromtimestamp(time, timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "system": wanted["system"],
        "partition": wanted["partition"],
        "name": CHECK,
        "nodelist": node,
        "tenken_session": CHECK,
        "tenken_verdict": _VERDICTS[status],
        "line": said,
    }
    # series of the archive are named by metric and subject, and the five programs share no metric
    chained.append(folder / f"{CHECK}.{node}.log", about, {name.partition(".")[2]: v for name, v in values.items()})
