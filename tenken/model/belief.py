"""Whether a record can be what the suite wrote: its words, its times, its job, and its verdict compared with its parts.

These are properties of every record that the suite archived, of any version, and no rules of judging: a record that
lacks one was changed afterwards. A record that was changed consistently in all places cannot be refuted: records are
not signed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from tenken.model import ending, verdicts
from tenken.model.agreement import agreeing
from tenken.model.judgement import CRITERIA, DATA_SHEET, DEVICE, RESULT, SAME_RUN, JudgedMetric
from tenken.model.result import WAIVER_REASONS, MetricValue, Result

if TYPE_CHECKING:
    from tenken.model.record import Record

#: Verdicts that a changed record would have: a FAIL or INVALID that contradicts itself stays one.
GOOD = (verdicts.PASS, verdicts.RECORDED, verdicts.WAIVED)
_BAD = (verdicts.FAIL, verdicts.INVALID)
#: A result may end this long after its record was written: by the clocks of two hosts. Clocks of nodes without a time
#: server lie minutes apart; an hour is a time zone.
CLOCKS = timedelta(hours=1)
#: A record is written this soon after its result: by the scheduler that reports the end of the job, at the latest by
#: the next session, which adopts it with the time of the job.
WRITTEN_WITHIN = timedelta(days=14)
#: Figures are archived with all their digits.
_SAME = 1e-9
_STATISTICS = ("best", "median", "p5", "p95", "mean", "total", "")
_DIRECTIONS = ("higher", "lower", "")
_SOURCES = (DATA_SHEET, DEVICE, SAME_RUN, RESULT)
#: Of a judged value: verdict, direction, statistic, source of its limit, kind of its criterion.
_WORDS = frozenset(itertools.product(verdicts.VERDICTS, _DIRECTIONS, _STATISTICS, _SOURCES, CRITERIA))


def doubt(record: Record) -> str:
    """Why a record cannot be believed: the field, its value and what is allowed; empty if nothing is against it."""
    return next(_doubts(record), "")


def moment(text: str) -> datetime | None:
    """A time of a record or a result, in UTC where it names no zone; None for one that does not exist."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        try:  # nanoseconds
            time = datetime.fromisoformat(text.rstrip("Z").partition(".")[0])
        except ValueError:
            return None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def waived_before_start(record: Record) -> bool:
    """Whether a check was waived when it was set up, for a reason of the closed list: it has no job and no result."""
    reason = record.judgement.message()
    return record.verdict == verdicts.WAIVED and any(f": {known}" in f": {reason}" for known in WAIVER_REASONS)


def _doubts(record: Record) -> Iterator[str]:
    yield from _words(record)
    if record.verdict not in GOOD:
        return
    yield from _verdict(record)
    yield from _times(record)
    yield from _job(record)
    yield from _request(record)
    if record.result is not None and record.result.status == "ok":
        yield from _values(record, record.result)


def _words(record: Record) -> Iterator[str]:
    allowed = ", ".join(verdicts.VERDICTS)
    for number, finding in enumerate(record.findings):
        if finding.verdict not in verdicts.VERDICTS:
            yield f"findings/{number}/verdict is {finding.verdict[:40]!r}; allowed: {allowed}"
    for name, one in record.judgement.judged.items():
        kind = one.criterion.kind if one.criterion else CRITERIA[0]
        if (one.verdict, one.direction, one.statistic, one.limit.said_by, kind) in _WORDS:
            continue
        for field, said, words in (
            ("verdict", one.verdict, verdicts.VERDICTS),
            ("direction", one.direction, _DIRECTIONS),
            ("statistic", one.statistic, _STATISTICS),
            ("limit/said_by", one.limit.said_by, _SOURCES),
            ("criterion/kind", kind, CRITERIA),
        ):
            if said not in words:
                known = ", ".join(word for word in words if word)
                yield f"judged/{name[:80]}/{field} is {said[:40]!r}; allowed: {known}"


def _verdict(record: Record) -> Iterator[str]:
    """A verdict better than FAIL and INVALID is that of its findings, values and result."""
    said, result = f"verdict is {record.verdict}", record.result
    for finding in record.findings:
        if finding.verdict in _BAD:
            yield f"{said}; a finding is {finding.verdict}: {finding.message[:100]}"
    for name, one in record.judgement.judged.items():
        if one.verdict in _BAD:
            yield f"{said}; judged {name[:80]} is {one.verdict}"
    if record.verdict == verdicts.WAIVED:
        if result is None and not waived_before_start(record):
            yield f"{said} without a result; no finding gives a reason of: {', '.join(WAIVER_REASONS)}"
        elif result is not None and result.status != "waived":
            yield f"{said}; status of its result is {result.status}; allowed: waived"
        return
    if result is None:
        yield f"{said} without a result; allowed: FAIL, INVALID, WAIVED"
        return
    if result.status != "ok":
        yield f"{said}; status of its result is {result.status}"
    drill = result.parameters.get("inject_fault", "none") != "none"  # what became of it is for the drill's reader
    if not result.verification.passed and not drill:
        yield f"{said}; verification of its result failed"
    if record.result_error:
        yield f"{said}; result_error is {record.result_error[:100]!r}; allowed: none"


def _times(record: Record) -> Iterator[str]:
    times = {"time": moment(record.time)}
    if record.result is not None:
        times |= {name: moment(getattr(record.result, name)) for name in ("started", "finished")}
    for name, found in times.items():
        if found is None:
            said = record.time if name == "time" else getattr(record.result, name)
            yield f"{name} is {said[:40]!r}: not a valid time"
    written, started, finished = times["time"], times.get("started"), times.get("finished")
    if written is None or started is None or finished is None:
        return
    if finished < started:
        yield f"finished is {finished:%Y-%m-%d %H:%M:%S}, before started {started:%Y-%m-%d %H:%M:%S}"
    if not -CLOCKS <= written - finished <= WRITTEN_WITHIN:
        yield (
            f"finished is {finished:%Y-%m-%d %H:%M:%S}; the record was written at {written:%Y-%m-%d %H:%M:%S}; "
            f"allowed: from {WRITTEN_WITHIN.days} days before to {CLOCKS.seconds // 3600} hour after that"
        )


def _job(record: Record) -> Iterator[str]:
    job, result = record.job, record.result
    if result is None:
        return
    if not any(node.strip() for node in record.nodes):
        yield "nodes is empty: the record names no node on which its job ran"
    for why in (
        ending.lost(job.facts),
        ending.disturbed(job.facts) if result.status == "ok" else None,
        ending.fault(job.state, job.exit_code, ending.EXPECTED[result.status], "its result"),
    ):
        if why:
            yield f"verdict is {record.verdict}; {why}"


def _request(record: Record) -> Iterator[str]:
    """The request is of this record, and the result answers it."""
    request, result = record.request, record.result
    if request is None:
        return
    if request.check and request.check not in (record.check, record.base_check):
        yield f"check is {record.check[:80]!r}; its request is of {request.check[:80]!r}"
    if request.program != record.program:
        yield f"program is {record.program!r}; its request is of {request.program!r}"
    if request.mode and record.mode and request.mode != record.mode:
        yield f"mode is {record.mode!r}; its request is of {request.mode!r}"
    if result is not None and request.token is not None and result.token != request.token:
        yield f"the result's token is {result.token!r}; its request's is {request.token!r}"


def _values(record: Record, result: Result) -> Iterator[str]:
    """Every value was judged, by the figure that its samples give, and passes what it was compared with."""
    judged = record.judgement.judged
    metrics = {metric.id: metric for metric in result.metrics}
    if metrics.keys() != judged.keys():
        name = next(name for name in (*metrics, *judged) if name not in judged or name not in metrics)
        missing = "judged" if name in metrics else "its result"
        yield f"verdict is {record.verdict}; {name[:80]} is not in {missing}"
        return
    good = agreeing(result.metrics)
    for name, one in judged.items():
        metric = metrics[name]
        if metric.samples and name not in good:
            yield from (f"{name[:80]}: {text}" for text in metric.inconsistencies())
        yield from _value(name[:80], one, metric)
    # the first version had no verdict for a run none of whose values has a criterion
    passes = record.verdict == verdicts.PASS and record.request is not None
    if passes and not any(one.verdict == verdicts.PASS for one in judged.values()):
        yield f"verdict is {record.verdict}; no value met a criterion; allowed: {verdicts.RECORDED}"


def _value(name: str, one: JudgedMetric, metric: MetricValue) -> Iterator[str]:
    if one.unit != metric.unit:
        yield f"judged/{name}/unit is {one.unit!r}; its result has {metric.unit!r}"
    if one.direction and one.direction != metric.direction:
        yield f"judged/{name}/direction is {one.direction}; its result has {metric.direction}"
    statistic = one.statistic or metric.statistic
    figure = metric.statistic_named(statistic)
    if not math.isnan(figure) and not _same(one.value, figure):
        yield f"judged/{name}/value is {one.value:.9g}; the {statistic} of its result is {figure:.9g}"
    criterion, passes = one.criterion, one.verdict == verdicts.PASS
    if passes and criterion is None:
        yield f"judged/{name}/verdict is PASS without a criterion; allowed: RECORDED"
    if not passes and criterion is not None:
        yield f"judged/{name}/verdict is {one.verdict}; it has a criterion; allowed: FAIL, PASS"
    if criterion is not None:
        if criterion.low is not None and one.value < criterion.low:
            yield f"judged/{name}/value is {one.value:.9g}; its {criterion.kind} allows from {criterion.low:.9g} on"
        if criterion.high is not None and one.value > criterion.high:
            yield f"judged/{name}/value is {one.value:.9g}; its {criterion.kind} allows up to {criterion.high:.9g}"
        if criterion.unit != one.unit:
            yield f"judged/{name}/criterion/unit is {criterion.unit!r}; its value is in {one.unit!r}"
    yield from _bounds(name, one, metric)


def _bounds(name: str, one: JudgedMetric, metric: MetricValue) -> Iterator[str]:
    """Bounds are those of the criterion and, on the side of the physical limit, of the ceiling: of the value itself."""
    low, high = one.bounds
    own_low, own_high = (one.criterion.low, one.criterion.high) if one.criterion else (None, None)
    agreed, own, side = (high, own_high, "high") if metric.direction == "lower" else (low, own_low, "low")
    if agreed is not None and agreed != own:  # that of a comparison within the run has none
        yield f"judged/{name}/criterion/{side} is {own}; its bounds have {agreed}"
    if low is not None and low != own_low and metric.value < low:
        yield f"{name} is {metric.value:.9g}; judged/{name}/bounds allow from {low:.9g} on"
    if high is not None and high != own_high and metric.value > high:
        yield f"{name} is {metric.value:.9g}; judged/{name}/bounds allow up to {high:.9g}"
    limit = one.limit.value
    if one.efficiency is not None and limit and metric.value:
        share = metric.value / limit if metric.direction == "higher" else limit / metric.value
        if not _same(one.efficiency, share):
            yield f"judged/{name}/efficiency is {one.efficiency:.9g}; value and limit give {share:.9g}"


def _same(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=_SAME, abs_tol=1e-12)
