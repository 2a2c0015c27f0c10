"""Values of one result compared with each other and with the machine's claims: which rules apply to which program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenken.judge import file_cross_checks as files
from tenken.judge import limit_cross_checks as limits
from tenken.judge import link_cross_checks as links
from tenken.judge import model_cross_checks as models
from tenken.judge import path_cross_checks as paths
from tenken.judge import ratio_cross_checks as ratios
from tenken.judge import sample_cross_checks as samples
from tenken.judge import solver_cross_checks as solvers
from tenken.judge import stated_cross_checks as stated
from tenken.judge.hpcg_cross_checks import rating_above_raw
from tenken.judge.stencil_cross_checks import ahead_of_alone
from tenken.model.judgement import Criterion, Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID

CrossChecks = Callable[[Result, Request, Machine], "list[Finding]"]


def _p2p(result: Result, request: Request, machine: Machine) -> list[Finding]:
    claimed = "peer" in machine.capabilities
    return [
        *links.asymmetric(result),
        *links.outliers(result),
        *links.slow_copies(result, claimed),
        *links.inactive_links(result, machine.links_per_pair, claimed),
    ]


def _transfer(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return links.faster_together(result)


def _mpi_p2p(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return links.of_ranks(result, "device_mpi" in machine.capabilities, "--stay" in request.arguments)


def _hpcg(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return rating_above_raw(result)


def _hpl(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return [
        *solvers.parts_of_lu(result, "hpl"),
        *solvers.slow_updates(result),
        *solvers.over_library(result, "hpl"),
        *([] if result.parameters.get("sweep") else _beside(result, request, "hpl", "dgemm", _above_nb)),
    ]


#: The energy pass of gemm repeats its sustained product: 39 results of H200 have 0.963 to 1.0002 of that rate in it.
ENERGY_RATE = 0.15


def _gemm(result: Result, request: Request, machine: Machine) -> list[Finding]:
    """Power times operations per joule is the rate of the energy pass, which is the sustained one."""
    found = []
    values = {(m.name, m.subject, m.at.text): m for m in result.metrics}
    sustained = {
        (m.subject, tuple((k, v) for k, v in sorted(m.at.items()) if k not in ("data", "phase"))): m.median
        for m in result.metrics
        if m.name == "gemm" and (m.at.get("phase"), m.at.get("data")) == ("sustained", "random")
    }
    for metric in result.metrics:
        power = values.get(("power", metric.subject, metric.at.text))
        rate = sustained.get((metric.subject, tuple(sorted(metric.at.items()))))
        if metric.name != "per_watt" or power is None or not rate:
            continue
        share = metric.value * power.value / 1e3 / rate
        if not 1 - ENERGY_RATE <= share <= 1 + ENERGY_RATE:
            found.append(
                Finding(
                    INVALID,
                    f"{result.node} {metric.place}: {metric.id} x power is {share:.3g} of the sustained rate; "
                    f"required: {1 - ENERGY_RATE:g} to {1 + ENERGY_RATE:g}",
                    metric.id,
                    metric.subject,
                    result.node,
                )
            )
    return found


def _above_nb(metric: MetricValue) -> bool:
    """Whether a matrix has a trailing part, whose product is also measured."""
    n, nb = metric.at.get("n"), metric.at.get("nb")
    return isinstance(n, int) and isinstance(nb, int) and n > nb


def _beside(
    result: Result, request: Request, name: str, other: str, where: Callable[[MetricValue], bool]
) -> list[Finding]:
    """A metric that the current program of this suite always reports with another one; other implementations may lack
    it, and so may earlier versions, which did not repeat a token.
    """
    if request.token is None or "implementation" in result.parameters:
        return []
    have = {(metric.subject, metric.at.text) for metric in result.metrics if metric.name == other}
    return [
        Finding(
            FAIL, f"{result.node} {m.place}: metric {other} is missing next to {m.id}", m.id, m.subject, result.node
        )
        for m in result.metrics
        if m.name == name and where(m) and (m.subject, m.at.text) not in have
    ]


def _hpl_mxp(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return [*solvers.parts_of_lu(result, "hpl_mxp"), *solvers.slow_updates(result)]


def _stencil(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return ahead_of_alone(result)


def _snapshot_io(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return files.decisive([*_overlap(result, request, machine), *files.slow_layouts(result)])


def _storage_map(result: Result, request: Request, machine: Machine) -> list[Finding]:
    found = [*_overlap(result, request, machine), *files.slow_reads(result)]
    if request.mode != "quick":
        found += files.bad_choices(result)
    return files.decisive(found)


def _overlap(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return files.claimed_gds(result, "gds" in machine.capabilities)


def floors(result: Result, request: Request) -> dict[str, Criterion]:
    """The bounds of the cross-checks that compare single values with others of the same run, by the values' ids."""
    if result.program == "snapshot_io":
        return files.layout_floors(result)
    if result.program == "storage_map":
        return {**files.read_floors(result), **({} if request.mode == "quick" else files.choice_floors(result))}
    return models.floors(result)


BY_PROGRAM: Mapping[str, CrossChecks] = {
    "p2p": _p2p,
    "transfer": _transfer,
    "mpi_p2p": _mpi_p2p,
    "hpcg": _hpcg,
    "hpl": _hpl,
    "hpl_mxp": _hpl_mxp,
    "gemm": _gemm,
    "stencil": _stencil,
    "snapshot_io": _snapshot_io,
    "storage_map": _storage_map,
    "overlap": _overlap,
    "data_loading": _overlap,
}


def of(result: Result, request: Request, machine: Machine) -> list[Finding]:
    """Findings of the cross-checks of the result's program, of its models, its claims of path, and its limits."""
    cross_checks = BY_PROGRAM.get(result.program)
    found = [] if cross_checks is None else cross_checks(result, request, machine)
    checked = [
        *paths.of(result, machine),
        *limits.of(result, machine, request.revision is not None),
        *ratios.of(result),
        *samples.of(result),
        *stated.of(result, request, machine),
    ]
    return [*found, *models.of(result), *checked]
