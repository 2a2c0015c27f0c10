"""Judging in tests: the request and the knowledge about the machine in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tenken.judge import completeness, relations, verdict, waivers
from tenken.machines import loader
from tenken.machines.facts import facts
from tenken.model import catalogue, engine
from tenken.model import result as results
from tenken.model.catalogue import Program
from tenken.model.contract import Contract
from tenken.model.judgement import REFERENCE, Criterion, Finding, Judgement, Limit
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result

Reference = Callable[[MetricValue], "Criterion | None"]


@dataclass(frozen=True)
class Expectation:
    """Request and machine of a test; see tenken.model.request and tenken.model.machine."""

    subjects: tuple[str, ...]
    gpus: int | None = None
    cores: int | None = None
    ranks: int | None = None
    metrics: tuple[str, ...] | None = None
    capabilities: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[tuple[str, str], Limit] = field(default_factory=dict)
    links_per_pair: int | None = None
    token: str | None = None
    points: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    arguments: tuple[str, ...] = ()
    mode: str = ""


def no_reference(_: MetricValue) -> Criterion | None:
    return None


def reference(value: float, low: float | None, high: float | None, unit: str, statistic: str, source: str) -> Criterion:
    """A reference as in a system file."""
    return Criterion(REFERENCE, value, low, high, unit, statistic, source)


def values_of(program: Program) -> Program:
    """The program without requirements on its runs other than values: for test results with only a few values."""
    said = program.contract
    kept = Contract(
        libraries=said.libraries, paths=said.paths, watched_by=said.watched_by, counts=said.counts, on_gpu=said.on_gpu,
        points=tuple(entry for entry in said.points if entry.subjects == "some"),
    )  # fmt: skip
    return replace(program, contract=kept)


def judge(
    result: Result,
    program: Program,
    expect: Expectation,
    known: Reference = no_reference,
    exit_status: int | None = None,
) -> Judgement:
    """`tenken.judge.verdict.judge` by an Expectation."""
    request = Request(
        expect.token, program.name, subjects=expect.subjects, metrics=expect.metrics, parameters=expect.parameters,
        points=expect.points, gpus=expect.gpus, cores=expect.cores, ranks=expect.ranks, arguments=expect.arguments,
        mode=expect.mode,
    )  # fmt: skip
    machine = Machine(expect.capabilities, expect.limits, lambda _, metric: known(metric), expect.links_per_pair)
    return verdict.judge(result, values_of(program), request, machine, exit_status)


def related(result: Result, mode: str = "", *claimed: str) -> tuple[list[Finding], dict[str, Criterion]]:
    """metrics.yaml's expectations on the values of a result relative to each other: findings, and bounds by their
    ids."""
    request = Request(None, result.program, mode=mode)
    return relations.of(
        engine.Run(result, catalogue.program(result.program), again=False), request, Machine(frozenset(claimed))
    )


def incomplete(document: Mapping[str, Any]) -> list[str]:
    """Missing or unrequested points and verifications of a document."""
    result, program = results.validate(document, "result.json"), catalogue.program(document["program"])
    request = Request(None, program.name, subjects=tuple({metric.kind for metric in result.metrics}))
    return [*completeness.points(result, program, request), *completeness.verifications(result, program)]


def refused(result: Result, program: Program) -> list[str]:
    """Why metrics.yaml refuses a run, whatever it measured: what its samples count, its points, its waiver."""
    bare = Request(None, program.name, subjects=tuple({metric.kind for metric in result.metrics}))
    if result.reason.startswith("library missing: "):
        return [one.message for one in waivers.judge(result, program, bare, Machine()).structural]
    if result.status != "ok" and not result.reason.startswith("verification: "):
        return []
    run = engine.Run(result, program, again=False)
    found, _ = relations.of(run, bare, Machine())
    counts = [one.message for one in found if one.message.endswith("the program miscounts")]
    return [*counts, *completeness.points(result, program, bare)]


def on_system(
    raw: Mapping[str, Any], name: str, subjects: tuple[str, ...], partition: str = "gpu", environ: str = "cuda",
    machine: Machine | None = None, exit_status: int | None = None, any_card: bool = False, **asked: Any,
) -> Judgement:  # fmt: skip
    """A result's JSON judged as on a described machine; `asked` are fields of the request.

    `any_card`: the result is of another GPU than the system has, and only its values are compared."""
    system = loader.load(name)
    known = machine or facts(system, system.partition(partition), system.environments[environ])
    if any_card:
        known = replace(known, gpu="", gpu_names=(), gpu_memory_bytes=None, compute_capability="")
    result = results.validate(raw, "result.json")
    status = {"ok": 0, "failed": 1, "waived": 3}[result.status] if exit_status is None else exit_status
    request = Request(None, result.program, subjects=subjects, **asked)
    return verdict.judge(result, values_of(catalogue.program(result.program)), request, known, status)
