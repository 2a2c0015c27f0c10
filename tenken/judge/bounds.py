"""Values compared with the limits of the hardware, with the machine's references, and with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenken.model.catalogue import Metric, Program
from tenken.model.engine import Run
from tenken.model.judgement import CEILING, DEVICE, FLOOR, REFERENCE, Criterion, Finding, JudgedMetric, Limit
from tenken.model.kinds import NEAREST, Known
from tenken.model.machine import Machine
from tenken.model.result import Device, DeviceHealth, MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED

#: A value this much above a physical limit means cached data or miscounted bytes, not a fast device.
LIMIT_HEADROOM = 1.02
#: Limits of data sheet and device that differ by more than this are noted.
CLAIM_APART = 0.02
#: A driver reports the signalling rate of an NVLink, a data sheet its payload: 26.56 and 25 GB/s.
LINK_APART = 0.07
#: A device that reports a limit this far from its data sheet is another model, or faulty (`attempt`).
OF_ANOTHER = 0.25
#: The key of a data sheet's link to the host.
HOST_LINK = "host_link"
#: Figures of a data sheet that do not depend on the clock, nor do the floors of metrics that they bound.
LINKS = (HOST_LINK, "gpu_link")
#: Kinds of findings: one that decides nothing; one after which a run cannot pass.
NOTE, LIMITED_BY_OPERATOR = "note", "limited"
#: The kind of a finding on a value that misses its reference because of the variation within its run.
UNSTEADY = "unsteady"
#: A GPU is limited if its power limit is below this share of the delivered one; clocks closer together than this are
#: equal.
LIMITED = 0.98
#: An idle GPU runs at 0.06 to 0.2 of its highest clock before, during and after a run; this does not mean that its
#: clock is locked.
CLOCK_SET = 0.3
#: If at least this share of the samples is within a quarter of a reference's tolerance, a miss counts as noise: 9 or 10
#: of 20 in three runs on H200 whose 16 MiB copies to the GPU became a third slower after the tenth. If a clock falls
#: under load, only 2 of 44 samples are within it; that value is slow.
MEETING = 0.25
#: Minimum number of samples for using this share.
ENOUGH = 8


def say(
    verdict: str, result: Result, text: str, of: MetricValue | Subject | None = None, kind: str | None = None
) -> Finding:
    """A finding on a result, or with `of` on a value or subject; the text is preceded by node and place. A finding with
    verdict RECORDED and no `kind` is a note."""
    subject, metric = (of.subject, of.id) if isinstance(of, MetricValue) else (of, None)
    where = f"{result.node} {subject.place}" if subject else result.node
    note = NOTE if verdict == RECORDED else ""
    return Finding(verdict, f"{where}: {text}", metric, subject, result.node, kind=note if kind is None else kind)


def _limits(
    result: Result, metric: MetricValue, declared: Metric, sheets: Mapping[tuple[str, str], Limit]
) -> tuple[Limit, float | None]:
    """Yardstick (for efficiency) and ceiling (for plausibility) of a value. Where device and data sheet differ
    slightly, the lower limit is the yardstick and the higher one the ceiling. Where they differ more, only the data
    sheet counts.
    """
    claim = result.limits[metric.id]
    sheet = sheets.get((declared.data_sheet or "", metric.kind))
    if sheet is None or sheet.value is None or (claim.value is not None and claim.unit != sheet.unit):
        return claim, claim.value
    # for a link to the host, the driver reports what both ends support: an A100 in a Gen3 host is still an A100
    far = declared.data_sheet != HOST_LINK and abs((claim.value or 0) - sheet.value) > OF_ANOTHER * sheet.value
    if claim.value is None or claim.said_by != DEVICE or far:
        return sheet, sheet.value
    less, more = sorted((sheet, claim), key=lambda one: one.value or 0.0)
    if metric.direction == "lower":
        less, more = more, less
    return less, more.value


def notes(run: Run, machine: Machine, judged: Mapping[str, JudgedMetric]) -> list[Finding]:
    """Notes: one for each limit in which device and data sheet differ; one for values without a criterion because a
    limit of the machine is unknown; and one for GPUs without a floor, which other values cannot make pass."""
    found: dict[str, Finding] = {}
    for metric in run.result.metrics:
        declared, claim = run.program.metrics[metric.name], run.result.limits[metric.id]
        key = (declared.data_sheet or "", metric.kind)
        sheet, unknown = machine.limits.get(key), machine.unknown.get(key)
        apart = LINK_APART if declared.data_sheet == "gpu_link" else CLAIM_APART
        less, more = sheet.value if sheet else None, claim.value if claim.said_by == DEVICE else None
        if sheet and less and more and claim.unit == sheet.unit and abs(more - less) > apart * less:
            text = f"the limit is {less:.6g} {sheet.unit} by {sheet.basis}, {more:.6g} {claim.unit} by {claim.basis}"
            found.setdefault(f"{metric.place}: {text}", say(RECORDED, run.result, text, metric.subject))
        if unknown and judged[metric.id].criterion is None:
            found.setdefault(unknown, say(RECORDED, run.result, f"no limit: {unknown}", metric.subject))
        if text := limited(run.result, metric, declared, machine):
            no_floor = Finding(RECORDED, f"{run.result.node} {text}: no floor applies", node=run.result.node)
            found.setdefault(text, replace(no_floor, kind=LIMITED_BY_OPERATOR))
    return list(found.values())


def floor_of(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> tuple[float, str] | None:
    """The minimum efficiency of a value and the source of that share; None if there is none."""
    rule = declared.floors.get(metric.kind)
    if any(device.mig_enabled for gpu in metric.subject.gpus if (device := run.result.device(gpu))):
        return None  # a MIG instance with busy neighbours: the attributes are those of the whole GPU
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
    """Why a GPU's power or clock is limited below what was delivered; empty if it is not, or if no floor of the value
    depends on it (links).
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


def locked(entry: DeviceHealth, device: Device) -> float | None:
    """The clock of a GPU that is below its maximum before, during and after the run; this is a setting, not
    throttling."""
    clocks = [one.sm_clock_mhz for one in (entry.before, entry.worst, entry.after)]
    known, top = [clock for clock in clocks if clock], device.sm_clock_max_mhz
    same = len(known) == len(clocks) and min(known) >= LIMITED * max(known)
    return known[1] if same and top and CLOCK_SET < max(known) / top < LIMITED else None


def _within(part: MetricValue, metric: MetricValue) -> bool:
    """Whether a metric was measured at the coordinates that it shares with another one."""
    return all(metric.at.get(key) == value for key, value in part.at.items())


def hold(
    result: Result, metric: MetricValue, declared: Metric, sheets: Mapping[tuple[str, str], Limit],
    known: Criterion | None, reach: float = 1.0, floor: tuple[float, str] | None = None,
    kind: Criterion | None = None,
) -> tuple[JudgedMetric, list[Finding]]:  # fmt: skip
    """Compare one value with its physical limit and its criterion (otherwise the floor). `reach`: factor by which the
    limit itself may be exceeded (`yardstick`). `floor`: the minimum efficiency (`floor_of`) and its source. `kind`:
    what other devices of the model reached; used if it is stricter than the floor.
    """
    limit, highest = _limits(result, metric, declared, sheets)
    for unit, name in ((limit.unit or metric.unit, "limit"), (known.unit if known else metric.unit, "reference")):
        if unit != metric.unit:
            found = say(FAIL, result, f"{metric.id} is in {metric.unit} but its {name} in {unit}", metric)
            without = Limit(None, unknown=found.message)
            return _judged(FAIL, metric, metric.value, metric.statistic, None, without, None), [found]

    higher = metric.direction == "higher"
    # beyond it a measurement is impossible
    ceiling = None if highest is None else highest * LIMIT_HEADROOM * reach if higher else highest / LIMIT_HEADROOM
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
            f"{metric.id} = {metric.value:.6g} {metric.unit} is beyond {LIMIT_HEADROOM} of the physical "
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
    anchor, source = f"{criterion.value:.6g} {criterion.unit}", criterion.source
    why = f": {source}: {anchor}" if criterion.kind == FLOOR else f" {anchor}, {source}"
    text = (
        f"{metric.id} = {number:.6g} {metric.unit} ({statistic}) is {side} {bound:.6g} {metric.unit} by "
        f"{100 * missed:.1f} % ({criterion.kind}{why})"
    )
    return [miss(result, metric, text, number, bound, criterion.kind)]


def _unless_unsteady(finding: Finding, metric: MetricValue, criterion: Criterion, statistic: str) -> Finding:
    """A median that misses a reference is INVALID, and is measured again, if the run varies by more than the
    reference's tolerance and a quarter of its samples meets the reference.

    Only for values without a maximum spread; the others are INVALID when they exceed it.
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


def below_kind(known: Known | None, result: Result, metric: MetricValue, name: str) -> list[Finding]:
    """A note on a value below all known devices, if these are too few for a criterion."""
    if known is None or known.decides or not metric.value < (1 - NEAREST) * min(known.values):
        return []
    below = 100 * (1 - metric.value / known.middle)
    text = (
        f"{metric.id} = {metric.value:.6g} {metric.unit} is {below:.1f} % below the {len(known.values)} {name} known, "
        f"whose median is {known.middle:.6g} and whose lowest is {min(known.values):.6g}"
    )
    return [say(RECORDED, result, text, metric)]


def miss(result: Result, metric: MetricValue, text: str, number: float, bound: float, kind: str = "") -> Finding:
    """A FAIL of one value against a bound."""
    missed = abs(number - bound) / abs(bound) if bound else None
    found = say(FAIL, result, text, metric, kind)
    return replace(found, value=number, unit=metric.unit, bound=bound, miss=missed)


def yardstick(result: Result, metric: MetricValue, program: Program, sheets: Mapping[tuple[str, str], Limit]) -> float:
    """For a ratio (`of_run: device_copy`): the attainable value of its denominator divided by the measured one.

    A ratio of two copies exceeds 1 if the other copy had the better placement in memory (H200: 0.98 to 1.021 in 14
    runs); it is impossible only above this factor. 1: not such a ratio, or the limit is unknown.
    """
    of_run = program.metrics[metric.name].of_run
    if of_run is None or of_run[1] is not None:
        return 1.0
    for part in result.metrics:
        if part.name == of_run[0] and part.subject == metric.subject and _within(part, metric):
            limit, _ = _limits(result, part, program.metrics[part.name], sheets)
            return max(1.0, limit.value / part.value) if limit.value and part.value > 0 else 1.0
    return 1.0


def _judged(
    verdict: str, metric: MetricValue, number: float, statistic: str, criterion: Criterion | None, limit: Limit,
    ceiling: float | None,
) -> JudgedMetric:  # fmt: skip
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
