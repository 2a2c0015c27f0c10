"""Values compared with the limits of the hardware, with the machine's references, and with each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tenken.model.catalogue import Metric, Program
from tenken.model.engine import Run
from tenken.model.judgement import CEILING, DEVICE, FLOOR, REFERENCE, Criterion, Finding, JudgedMetric, Limit
from tenken.model.machine import Machine
from tenken.model.result import Device, DeviceHealth, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED

#: A value this much above a physical limit means cached data or miscounted bytes: wrong, not fast.
LIMIT_HEADROOM = 1.02
#: Limits of data sheet and device that differ by more than this are noted.
CLAIM_APART = 0.02
#: A driver reports the signalling rate of an NVLink, a data sheet its payload: 26.56 and 25 GB/s.
LINK_APART = 0.07
#: A device that reports a limit this far from that of its data sheet is another one, or at fault (`attempt`).
OF_ANOTHER = 0.25
#: The key of a data sheet's link to the host.
HOST_LINK = "host_link"
#: Floors of what these figures of a data sheet bound hold at any clock.
LINKS = (HOST_LINK, "gpu_link")
#: The kind of a finding that decides nothing; of one after which a run cannot pass.
NOTE, LIMITED_BY_OPERATOR = "note", "limited"
#: The kind of a finding on a value that misses its reference because it is unsteady within its run.
UNSTEADY = "unsteady"
#: Below this share of what it was delivered with a GPU's power is limited; clocks closer together are the same.
LIMITED = 0.98
#: An idle GPU, before, during and after, has 0.06 to 0.2 of its highest clock: that is no locked clock of one at work.
CLOCK_SET = 0.3
#: Share of the samples that lie within a quarter of a reference's tolerance where its miss is a matter of noise: 9 or
#: 10 of 20 in three runs of H200, in which copies of 16 MiB to the GPU became slower by a third after the tenth. Of a
#: clock that falls under load 2 of 44 do: that value is slow.
MEETING = 0.25
#: Samples from which a share of them says something.
ENOUGH = 8


def limit_of(result: Result, metric: MetricValue, declared: Metric, sheets: Mapping[tuple[str, str], Limit]) -> Limit:
    """The yardstick of a value: of data sheet and device the one that permits less, else the result's own claim."""
    return _limits(result, metric, declared, sheets)[0]


def _limits(
    result: Result, metric: MetricValue, declared: Metric, sheets: Mapping[tuple[str, str], Limit]
) -> tuple[Limit, float | None]:
    """Yardstick and ceiling of a value. A device that reports somewhat less or more than its data sheet is a device of
    that kind: the lower one is the yardstick, the higher one the ceiling. Further apart the data sheet alone counts.
    """
    claim = result.limits[metric.id]
    sheet = sheets.get((declared.data_sheet or "", metric.kind))
    if sheet is None or sheet.value is None or (claim.value is not None and claim.unit != sheet.unit):
        return claim, claim.value
    # of a link to the host the driver reports what both ends can: an A100 in a host of Gen3 is no other device
    far = declared.data_sheet != HOST_LINK and abs((claim.value or 0) - sheet.value) > OF_ANOTHER * sheet.value
    if claim.value is None or claim.said_by != DEVICE or far:
        return sheet, sheet.value
    less, more = sorted((sheet, claim), key=lambda one: one.value or 0.0)
    if metric.direction == "lower":
        less, more = more, less
    return less, more.value


def differing(result: Result, program: Program, sheets: Mapping[tuple[str, str], Limit]) -> list[Finding]:
    """Notes on limits that a device reports otherwise than its data sheet, each once."""
    texts: dict[str, MetricValue] = {}
    for metric in result.metrics:
        declared, claim = program.metrics[metric.name], result.limits[metric.id]
        sheet = sheets.get((declared.data_sheet or "", metric.kind))
        if sheet is None or not sheet.value or claim.value is None or claim.said_by != DEVICE:
            continue
        apart = LINK_APART if declared.data_sheet == "gpu_link" else CLAIM_APART
        if claim.unit == sheet.unit and abs(claim.value - sheet.value) > apart * sheet.value:
            text = (
                f"{result.node} {metric.place}: the limit is {sheet.value:.6g} {sheet.unit} by {sheet.basis}, "
                f"{claim.value:.6g} {claim.unit} by {claim.basis}"
            )
            texts.setdefault(text, metric)
    return [Finding(RECORDED, text, None, metric.subject, result.node, kind=NOTE) for text, metric in texts.items()]


def floor_of(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> tuple[float, str] | None:
    """The minimum efficiency of a value and the source of that share; None: none."""
    rule = declared.floors.get(metric.kind)
    if any(device.mig_enabled for gpu in metric.subject.gpus if (device := run.result.device(gpu))):
        return None  # a part of a GPU, whose neighbours are at work: the attributes are those of the whole
    if limited(run.result, metric, declared, machine):
        return None
    if rule is None:
        share = declared.floor.get(metric.kind)
        return (share, "") if share else None
    times = rule.times if rule.formula is None else run.first((rule.formula,), metric)
    if not rule.of or not times:
        return (times, "") if times else None
    kind = "pair" if rule.of == "gpu_link" else "gpu"
    device = run.result.device(metric.subject.first) if rule.of == HOST_LINK else None
    generation = f"PCIe Gen{device.pcie_generation_max}" if device is not None else ""
    known = machine.attained.get((rule.of, generation)) or machine.attained.get((rule.of, kind))
    attained, source = known or (run.program.tables["attained"][rule.of], "")
    return times * attained, f"; {source}" if source else ""


def limited(result: Result, metric: MetricValue, declared: Metric, machine: Machine) -> str:
    """How power or clock of a GPU of the value are limited below what it was delivered with; empty: they are not, or
    it has no floor that depends on them: links do not.
    """
    rule = declared.floors.get(metric.kind)
    floored = rule is not None or bool(declared.floor.get(metric.kind))
    if not (result.devices and floored) or declared.crosses_pcie or (rule is not None and rule.of in LINKS):
        return ""
    for gpu in metric.subject.gpus or tuple(device.index for device in result.devices):
        device, entry = result.device(gpu), next((one for one in result.health.devices if one.index == gpu), None)
        if device is None:
            continue
        power, delivered = device.power_limit_w, machine.gpu_power_w
        if power and delivered and power < LIMITED * delivered:
            return f"GPU {gpu}: the power is limited to {power:g} of {delivered:g} W"
        if entry is not None and (clock := locked(entry, device)):
            return f"GPU {gpu}: the clock is locked at {clock:g} of {device.sm_clock_max_mhz:g} MHz"
    return ""


def unlimited(result: Result, program: Program, machine: Machine, without: Collection[str]) -> list[Finding]:
    """Notes on values `without` a criterion, by their ids, because a limit of the machine is not known."""
    found: dict[str, MetricValue] = {}
    for metric in result.metrics:
        reason = machine.unknown.get((program.metrics[metric.name].data_sheet or "", metric.kind))
        if reason and metric.id in without:
            found.setdefault(reason, metric)
    return [
        Finding(RECORDED, f"{result.node} {one.place}: no limit: {reason}", None, one.subject, result.node, kind=NOTE)
        for reason, one in found.items()
    ]


def limits_set(result: Result, program: Program, machine: Machine) -> list[Finding]:
    """Notes on GPUs whose floors do not apply: such a run passes nothing by its other values."""
    found = {limited(result, m, program.metrics[m.name], machine) for m in result.metrics} - {""}
    return [
        Finding(RECORDED, f"{result.node} {text}: no floor applies", None, None, result.node, kind=LIMITED_BY_OPERATOR)
        for text in sorted(found)
    ]


def locked(entry: DeviceHealth, device: Device) -> float | None:
    """The clock of a GPU that has it below its highest before, during and after the run: a setting, no throttling."""
    clocks = [one.sm_clock_mhz for one in (entry.before, entry.worst, entry.after)]
    known, top = [clock for clock in clocks if clock], device.sm_clock_max_mhz
    same = len(known) == len(clocks) and min(known) >= LIMITED * max(known)
    return known[1] if same and top and CLOCK_SET < max(known) / top < LIMITED else None


def _within(part: MetricValue, metric: MetricValue) -> bool:
    """Whether a metric was measured at the same coordinates as another, as far as it has them."""
    return all(metric.at.get(key) == value for key, value in part.at.items())


def hold(
    result: Result,
    metric: MetricValue,
    declared: Metric,
    sheets: Mapping[tuple[str, str], Limit],
    known: Criterion | None,
    reach: float = 1.0,
    floor: tuple[float, str] | None = None,
    kind: Criterion | None = None,
) -> tuple[JudgedMetric, list[Finding]]:
    """Compare one value with its physical limit and its criterion (otherwise the floor). `reach`: factor by which the
    limit itself may be exceeded (`yardstick`). `floor`: the minimum efficiency (`floor_of`) and its source. `kind`:
    what other devices of the model reached, which counts where it permits less.
    """
    where = f"{result.node} {metric.place}"
    limit, highest = _limits(result, metric, declared, sheets)
    for unit, name in ((limit.unit or metric.unit, "limit"), (known.unit if known else metric.unit, "reference")):
        if unit != metric.unit:
            text = f"{where}: {metric.id} is in {metric.unit} but its {name} in {unit}"
            judged = _judged(FAIL, metric, metric.value, metric.statistic, None, Limit(None, unknown=text), None)
            return judged, [Finding(FAIL, text, metric.id, metric.subject, result.node)]

    higher = metric.direction == "higher"
    ceiling = _beyond(highest, higher)
    if ceiling is not None and higher:
        ceiling *= reach
    criterion = known
    if criterion is None and limit.value is not None and floor:
        share, why = floor
        bound = limit.value * share if higher else limit.value / share
        source = f"{100 * share:.0f} % of the limit, {limit.basis}{why}"
        low, high = (bound, None) if higher else (None, bound)
        criterion = Criterion(FLOOR, limit.value, low, high, metric.unit, metric.statistic, source)
    if known is None and kind is not None and (criterion is None or (kind.low or 0) > (criterion.low or 0)):
        criterion = kind

    statistic = metric.statistic if criterion is None else criterion.statistic
    number = metric.statistic_named(statistic)
    findings: list[Finding] = []
    if ceiling is not None and ((metric.value > ceiling) if higher else (metric.value < ceiling)):
        text = (
            f"{where}: {metric.id} = {metric.value:.6g} {metric.unit} is beyond {LIMIT_HEADROOM} of the physical "
            f"limit {reach * (highest or 0.0):.6g} {limit.unit} ({limit.basis}): cached data or miscounted bytes"
        )
        findings.append(miss(result, metric, text, metric.value, ceiling, CEILING))
    elif criterion is not None:
        findings += _held(result, metric, criterion, number, statistic)
        if declared.allowed_spread(metric.kind, metric.at) is None:
            findings = [_unless_unsteady(finding, metric, criterion, statistic) for finding in findings]
    verdict = findings[0].verdict if findings else RECORDED if criterion is None else PASS
    return _judged(verdict, metric, number, statistic, criterion, limit, ceiling), findings


def _held(result: Result, metric: MetricValue, criterion: Criterion, number: float, statistic: str) -> list[Finding]:
    if criterion.low is not None and number < criterion.low:
        side, bound = "below", criterion.low
    elif criterion.high is not None and number > criterion.high:
        side, bound = "above", criterion.high
    else:
        return []
    missed = abs(number - bound) / abs(bound) if bound else float("inf")
    text = (
        f"{result.node} {metric.place}: {metric.id} = {number:.6g} {metric.unit} ({statistic}) is {side} "
        f"{bound:.6g} {metric.unit} by {100 * missed:.1f} % ({in_words(criterion)})"
    )
    return [miss(result, metric, text, number, bound, criterion.kind)]


def _unless_unsteady(finding: Finding, metric: MetricValue, criterion: Criterion, statistic: str) -> Finding:
    """A miss of a reference by the median becomes INVALID where the run itself varies by more than the reference
    permits between runs, and a quarter of its samples is as it should be: it is to be measured again.

    For values without a maximum spread; the others are INVALID by that.
    """
    bound, reference = finding.bound, criterion.value
    if criterion.kind != REFERENCE or statistic != "median" or bound is None or not reference:
        return finding
    permitted = abs(bound / reference - 1)
    near = reference + (bound - reference) / 4
    good = sum((sample >= near) if bound == criterion.low else (sample <= near) for sample in metric.samples)
    if len(metric.samples) < ENOUGH or good < MEETING * len(metric.samples) or metric.spread <= permitted:
        return finding
    text = (
        f"{finding.message}; not measured: {good} of {len(metric.samples)} samples reach {near:.6g} {metric.unit}, and "
        f"median and best are {100 * metric.spread:.1f} % apart, more than the {100 * permitted:.1f} % permitted"
    )
    return replace(finding, verdict=INVALID, message=text, kind=UNSTEADY)


def in_words(criterion: Criterion) -> str:
    """The criterion of a value: kind, underlying figure and source."""
    name = criterion.kind
    if criterion.kind == FLOOR:
        return f"{name}: {criterion.source}: {criterion.value:.6g} {criterion.unit}"
    return f"{name} {criterion.value:.6g} {criterion.unit}, {criterion.source}"


def miss(result: Result, metric: MetricValue, text: str, number: float, bound: float, kind: str = "") -> Finding:
    """A FAIL of one value against a bound."""
    missed = abs(number - bound) / abs(bound) if bound else None
    return Finding(
        FAIL, text, metric.id, metric.subject, result.node, number, metric.unit, bound, missed, kind
    )  # fmt: skip


def _beyond(limit: float | None, higher: bool) -> float | None:
    """The value above which a measurement is impossible; None without a known limit."""
    if limit is None:
        return None
    return limit * LIMIT_HEADROOM if higher else limit / LIMIT_HEADROOM


def yardstick(result: Result, metric: MetricValue, program: Program, sheets: Mapping[tuple[str, str], Limit]) -> float:
    """The attainable value of the run's own yardstick over its measured one, for a ratio to it (`of_run: device_copy`).

    A ratio of two copies is above 1 if the other one had the better placement in memory (measured on H200: 0.98 to
    1.021 over 14 runs); it is impossible only beyond the attainable value of the yardstick. 1: no such ratio, or the
    yardstick is unknown.
    """
    of_run = program.metrics[metric.name].of_run
    if of_run is None or of_run[1] is not None:
        return 1.0
    for part in result.metrics:
        if part.name == of_run[0] and part.subject == metric.subject and _within(part, metric):
            limit = limit_of(result, part, program.metrics[part.name], sheets)
            return max(1.0, limit.value / part.value) if limit.value and part.value > 0 else 1.0
    return 1.0


def _judged(
    verdict: str,
    metric: MetricValue,
    number: float,
    statistic: str,
    criterion: Criterion | None,
    limit: Limit,
    ceiling: float | None,
) -> JudgedMetric:
    higher = metric.direction == "higher"
    efficiency = None
    if limit.value is not None and metric.value:
        efficiency = metric.value / limit.value if higher else limit.value / metric.value
    low, high = (criterion.low, criterion.high) if criterion else (None, None)
    if ceiling is not None:
        low, high = (low, min(high or ceiling, ceiling)) if higher else (max(low or ceiling, ceiling), high)
    return JudgedMetric(
        verdict, number, metric.unit, metric.direction, statistic, criterion, limit, efficiency, (low, high)
    )  # fmt: skip
