"""Values compared with the limits of the hardware, with the machine's references, and with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tenken.model.catalogue import RATE, Metric, Program
from tenken.model.engine import Run
from tenken.model.formula import pcie
from tenken.model.judgement import CEILING, DEVICE, FLOOR, REFERENCE, SAME_RUN, Criterion, Finding, JudgedMetric, Limit
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
    sheet counts. The rate of products is that of the attributes, unless its maker holds it down (H20, FP64 of H800).
    """
    claim = result.limits[metric.id]
    sheet = _sheet(result, metric, declared, sheets)
    if declared.data_sheet == RATE:
        return sheet if sheet and _held_down(claim, sheet) else claim, claim.value
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


def _sheet(
    result: Result, metric: MetricValue, declared: Metric, sheets: Mapping[tuple[str, str], Limit]
) -> Limit | None:
    """What the data sheet states; of products of several GPUs together, for each of them."""
    key, every = declared.sheet_key(metric.at, result.parameters), declared.data_sheet == RATE and result.devices
    if metric.kind != "ranks" or not every:
        return sheets.get((key, metric.kind))
    one = sheets.get((key, "gpu"))
    return replace(one, value=metric.subject.first * one.value) if one and one.value else None


def _held_down(claim: Limit, sheet: Limit | None) -> bool:
    """Whether a GPU computes far less than its attributes say."""
    return bool(sheet and sheet.value and (claim.value or 0.0) > (1 + OF_ANOTHER) * sheet.value)


def notes(run: Run, machine: Machine, judged: Mapping[str, JudgedMetric]) -> list[Finding]:
    """Notes: one for each limit in which device and data sheet differ; one for values without a criterion because a
    limit of the machine is unknown; and one for GPUs without a floor, which other values cannot make pass."""
    found: dict[str, Finding] = {}
    for metric in run.result.metrics:
        declared, claim = run.program.metrics[metric.name], run.result.limits[metric.id]
        key = (declared.sheet_key(metric.at, run.result.parameters), metric.kind)
        sheet, unknown = _sheet(run.result, metric, declared, machine.limits), machine.unknown.get(key)
        apart = LINK_APART if declared.data_sheet == "gpu_link" else CLAIM_APART
        less, more = sheet.value if sheet else None, claim.value if claim.said_by == DEVICE else None
        if declared.data_sheet == RATE and not _held_down(claim, sheet):
            less = None  # boards run above the clock of their data sheet
        if sheet and less and more and claim.unit == sheet.unit and abs(more - less) > apart * less:
            text = f"the limit is {less:.6g} {sheet.unit} by {sheet.basis}, {more:.6g} {claim.unit} by {claim.basis}"
            found.setdefault(f"{metric.place}: {text}", say(RECORDED, run.result, text, metric.subject))
        if unknown and judged[metric.id].criterion is None:
            found.setdefault(unknown, say(RECORDED, run.result, f"no limit: {unknown}", metric.subject))
        if cap := limited(run, metric, declared, machine):
            no_floor = Finding(RECORDED, f"{run.result.node} {cap.text}: no floor applies", node=run.result.node)
            found.setdefault(cap.text, replace(no_floor, kind=LIMITED_BY_OPERATOR))
    return list(found.values())


def floor_of(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> tuple[float, str] | None:
    """The minimum efficiency of a value and the source of that share; None if there is none. Of a limited GPU only what
    its limit does not explain."""
    known, cap = _share(run, metric, declared, machine), limited(run, metric, declared, machine)
    if known is None or cap is None:
        return known
    share, source = cap.scale * known[0], f"{known[1]}; {cap.text}"
    reached = _reached(run.result, metric, declared, machine)
    return (share, source) if reached is not None and reached < share else None


def _reached(result: Result, metric: MetricValue, declared: Metric, machine: Machine) -> float | None:
    limit = _limits(result, metric, declared, machine.limits)[0]
    return _judged(RECORDED, metric, metric.value, metric.statistic, None, limit, None).efficiency


def _share(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> tuple[float, str] | None:
    """The minimum efficiency of a value on a GPU that nothing limits."""
    rule = declared.floors.get(metric.kind)
    if rule is None:
        share = declared.floor.get(metric.kind)
        return (share, "") if share else None
    times = rule.times if rule.formula is None else run.first((rule.formula,), metric)
    if not rule.of or not times:
        return (times, "") if times else None
    kind = "pair" if rule.of == "gpu_link" else "gpu"
    device = run.result.device(metric.subject.first) if rule.of == HOST_LINK else None
    which = f"PCIe Gen{device.pcie_generation_max}" if device is not None else ""
    if kind == "pair":
        ends = {metric.subject.first, metric.subject.second}
        joined = [one.kind for one in run.result.links if {one.first, one.second} == ends]
        which = "NVLink" if joined and all("NVLink" in one for one in joined) else ""
    known = machine.attained.get((rule.of, which)) or machine.attained.get((rule.of, kind))
    attained, source = known or (run.program.tables["attained"][rule.of], "")
    return times * attained, f"; {source}" if source else ""


@dataclass(frozen=True)
class Cap:
    """What limits a GPU below what was delivered, and the share of its rate that remains at least (0: not known)."""

    text: str
    scale: float


def limited(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> Cap | None:
    """How a GPU's power, clock or slot is limited below what was delivered; None if it is not, or if no floor of the
    value depends on it (links).

    Products take all the power that is permitted, and at a lower limit at least the same share of their rate remains:
    0.5 of the power left 0.7 (H100 PCIe over SXM). Clocks that an application set are a limit only if the value misses
    its floor: they are the default of P100 and V100.
    """
    result, rule = run.result, declared.floors.get(metric.kind)
    floored = rule is not None or bool(declared.floor.get(metric.kind))
    members = [one for one in result.devices if metric.kind == "ranks" or one.index in metric.subject.gpus]
    if floored and (parts := [one.index for one in members if one.mig_enabled]):
        return Cap(f"GPU {parts[0]}: it is a MIG instance, and its attributes are those of the whole GPU", 0.0)
    if declared.crosses_pcie and floored:
        return _slot(result, metric)
    if metric.kind == "host" and floored:
        return _cores(run, metric, declared, machine)
    if not (result.devices and floored) or (rule is not None and rule.of in LINKS):
        return None
    fp64 = machine.limits.get(("rate fp64", "gpu"))
    of_run = result.limits[metric.id].said_by == SAME_RUN
    computes_fp64 = declared.rate_of(metric.at, result.parameters) == "rate fp64"
    for device in members:
        gpu = device.index
        entry = next((one for one in result.health.devices if one.index == gpu), None)
        held = fp64.value if fp64 and of_run and computes_fp64 else None
        if held and (units := fp64_peak(run.program, device)) > (1 + OF_ANOTHER) * held:
            text = f"GPU {gpu}: its data sheet has {held:g} of the {units:.3g} TFLOP/s of FP64 by its attributes"
            return Cap(text, 0.0)
        power, delivered, what = device.power_limit_w, machine.gpu_power_w, "W"
        if not delivered and declared.by_power:
            per_unit = run.program.tables["board_w"].get(device.compute_capability)
            delivered = per_unit * device.multiprocessors if per_unit and device.multiprocessors else None
            what = "W that the largest board with this chip takes; no data sheet states that of this one"
        if power and delivered and power < LIMITED * delivered:
            scale = power / delivered if declared.by_power else 0.0
            return Cap(f"GPU {gpu}: the power is limited to {power:g} of {round(delivered)} {what}", scale)
        top = device.sm_clock_max_mhz or 0.0
        if entry is not None and (clock := locked(entry, device)):
            text = f"GPU {gpu}: the clock is locked at {clock:g} of {top:g} MHz"
            return Cap(text, clock / top if declared.by_power else 0.0)
        if entry is not None and not of_run and (clock := _set(entry, top)):
            share, reached = _share(run, metric, declared, machine), _reached(result, metric, declared, machine)
            if share is not None and reached is not None and reached < share[0]:
                return Cap(f"GPU {gpu}: an application set the clock, {clock:g} of {top:g} MHz", clock / top)
    return None


def _cores(run: Run, metric: MetricValue, declared: Metric, machine: Machine) -> Cap | None:
    """A run that had few of the cores of its sockets (a container, a shared node) and missed a floor of all of them."""
    given, most = run.result.placement.cores, machine.host_cores or 0
    share, reached = _share(run, metric, declared, machine), _reached(run.result, metric, declared, machine)
    if not 0 < given < most or share is None or reached is None or reached >= share[0]:
        return None
    return Cap(f"it had {given} of {most} cores", given / most)


def _slot(result: Result, metric: MetricValue) -> Cap | None:
    """A slot with fewer lanes, or of an older generation, than the driver reports, if the link is as fast as the slot;
    a guest's is emulated."""
    for entry in result.health.devices:
        device = result.device(entry.index) if entry.index in metric.subject.gpus else None
        if device is None or result.host.virtual_machine:
            continue
        ends = (
            entry.worst.pcie_generation, device.pcie_generation_bridge, device.pcie_generation_max,
            entry.worst.pcie_width, device.pcie_width_bridge, device.pcie_width_max,
        )  # fmt: skip
        known = [number for number in ends if number]
        if len(known) < len(ends):
            continue
        speed, slot, most, width, lanes, widest = known
        if (speed, width) == (min(slot, most), min(lanes, widest)) != (most, widest):
            text = f"its slot has PCIe Gen{slot} x{lanes}, its driver reports Gen{most} x{widest}"
            return Cap(f"GPU {entry.index}: {text}", pcie(speed, width) / pcie(most, widest))
    return None


def fp64_peak(program: Program, device: Device) -> float:
    """TFLOP/s of FP64 without tensor cores by a GPU's attributes; 0: not known."""
    a_cycle = program.tables["operations_per_cycle"].get(device.chip, {}).get("fp64", 0)
    return a_cycle * (device.multiprocessors or 0) * (device.sm_clock_max_mhz or 0) * 1e-6


def _set(entry: DeviceHealth, top: float) -> float | None:
    """The clock of a GPU under load whose driver reports that nothing but a setting lowers it."""
    worst = entry.worst
    alone = set(worst.reasons or ()) - {"gpu_idle"} == {"applications_clocks_setting"}
    clock = worst.sm_clock_mhz or 0.0
    return clock if alone and top and CLOCK_SET < clock / top < LIMITED else None


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
