"""Whether a run had the machine to itself: its locks, and other activity on the host."""

from __future__ import annotations

from collections.abc import Sequence

from tenken.model.judgement import Finding
from tenken.model.request import Request
from tenken.model.result import Result
from tenken.model.verdicts import INVALID

#: Other processes that use fewer CPUs than this are not named: system daemons.
CPUS_NAMED = 0.2


def gave_up(result: Result) -> Finding | None:
    """For a run that measured nothing because another measurement held the machine."""
    if result.status != "failed" or result.locks is None or result.locks.shared_with is None:
        return None
    return Finding(INVALID, f"{result.node}: {result.locks.shared_with}", node=result.node)


def conditions(result: Result, request: Request) -> list[Finding]:
    """INVALID without evidence that no other measurement ran at the same time. Results that predate locks contain
    none.
    """
    locks, node = result.locks, result.node
    if locks is None:
        return []
    if locks.shared_with is not None:
        text = locks.shared_with
    elif locks.none_because is not None:
        text = (
            f"no lock against other measurements could be taken: {locks.none_because}; set TENKEN_LOCKS to a folder "
            f"that all users of the node may write to"
        )
    else:
        wanted = ["host"]
        # with several ranks reported by the first one, for a third-party program by the script of the first node
        if result.placement.ranks == 1 and not request.foreign:
            wanted += [device.uuid for device in result.devices if device.uuid]
        missing = [name for name in wanted if name not in locks.held]
        if not missing:
            return []
        text = f"no lock on {', '.join(missing)} was held: other measurements may have run at the same time"
    return [Finding(INVALID, f"{node}: {text}", node=node)]


def named(result: Result, found: Sequence[Finding]) -> list[Finding]:
    """In addition to the reasons that invalidate a run: other load, if any."""
    load = result.load
    if load is None or not any(f.verdict == INVALID for f in found):
        return []
    if load.others_cpu_seconds + load.steal_cpu_seconds < CPUS_NAMED * load.seconds:
        return []
    return [Finding(INVALID, f"{result.node}: load from elsewhere: {load.text()}", node=result.node)]
