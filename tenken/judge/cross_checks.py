"""Values of one result compared with each other and with the machine's claims: which rules apply to which program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenken.judge import file_cross_checks as files
from tenken.judge import link_cross_checks as links
from tenken.judge import model_cross_checks as models
from tenken.judge import path_cross_checks as paths
from tenken.judge import solver_cross_checks as solvers
from tenken.judge.stencil_cross_checks import ahead_of_alone
from tenken.judge.stream_cross_checks import cached_arrays
from tenken.model.judgement import Criterion, Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Result

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


def _lu(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return solvers.slow_updates(result)


def _stream(result: Result, request: Request, machine: Machine) -> list[Finding]:
    return cached_arrays(result)


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
    "hpl": _lu,
    "hpl_mxp": _lu,
    "stencil": _stencil,
    "stream": _stream,
    "snapshot_io": _snapshot_io,
    "storage_map": _storage_map,
    "overlap": _overlap,
    "data_loading": _overlap,
}


def of(result: Result, request: Request, machine: Machine) -> list[Finding]:
    """Findings of the cross-checks of the result's program, of its models, its clocks and its pages."""
    cross_checks = BY_PROGRAM.get(result.program)
    found = [] if cross_checks is None else cross_checks(result, request, machine)
    return [*found, *models.of(result), *paths.of(result, machine)]
