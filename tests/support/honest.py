"""Kept results of every program and adapter in which faults are planted, each with its request."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any

from tenken.commands.judge import machine_of
from tenken.errors import ResultError
from tenken.judge import attempt, rejudge, verdict
from tenken.machines import loader
from tenken.machines.facts import facts
from tenken.model import catalogue
from tenken.model import result as results
from tenken.model.job import CardReading, HostReading, JobAccount
from tenken.model.judgement import Judgement
from tenken.model.machine import Machine
from tenken.model.record import Record
from tenken.model.request import Request
from tests.support import foreign_runs as foreign
from tests.support import kept

TOKEN = "0123456789abcdef0123456789abcdef"
REVISION = "3da5dc6c9385da86c8f6d4766094adea021e54dc"

#: Kept runs by a short name: session, check, whether its result is waived.
CHOSEN = {
    "access_patterns": ("942e0d", "AccessPatternsQuick"),
    "access_patterns_host": ("942e0d", "AccessPatternsHost"),
    "data_loading": ("h200five1", "DataLoadingCuda"),
    "data_loading_host": ("h200five1", "DataLoadingHost"),
    "daxpy": ("942e0d", "Daxpy"),
    "gemm": ("h200five1", "Gemm %gpus_at=one_by_one"),
    "gemm_host": ("942e0d", "GemmHost"),
    "himeno": ("942e0d", "Himeno %memory=managed"),
    "himeno_host": ("942e0d", "HimenoHost"),
    "hpcg": ("942e0d", "HpcgCuda"),
    "hpcg_ranks": ("942e0d", "HpcgHostRanks"),
    "hpcg_gpus": ("h200two", "HpcgGpus"),
    "hpl": ("942e0d", "Hpl %size=small"),
    "hpl_large": ("h200hpl", "Hpl %size=large"),
    "hpl_host": ("942e0d", "HplHost"),
    "hpl_node": ("h200four", "HplNode"),
    "hpl_mxp": ("h200gm", "HplMxp"),
    "hpl_mxp_host": ("942e0d", "HplMxpHost"),
    "memcopy": ("942e0d", "MemcopyGpu"),
    "migration": ("942e0d", "Migration %placement=managed_touch"),
    "mpi_p2p": ("h200links", "MpiDevice"),
    "mpi_p2p_host": ("942e0d", "MpiHost"),
    "mpi_mixed": ("h200links", "MpiMixed"),
    "nccl": ("h200links", "Nccl"),
    "overlap": ("942e0d", "OverlapCuda"),
    "overlap_host": ("942e0d", "OverlapHost"),
    "p2p": ("h200links", "P2P"),
    "snapshot_io": ("942e0d", "SnapshotCuda"),
    "snapshot_host": ("942e0d", "SnapshotHost"),
    "spmv": ("942e0d", "SpmvCuda"),
    "spmv_host": ("942e0d", "SpmvHost"),
    "stencil": ("942e0d", "Stencil %points=7 %precision=single"),
    "stencil_host": ("942e0d", "StencilHostRanks"),
    "stencil_gpus": ("h200stencil", "StencilGpus"),
    "storage_map": ("942e0d", "StorageMapHost"),
    "stream": ("942e0d", "StreamCuda"),
    "stream_host": ("942e0d", "StreamHost"),
    "stream_openacc": ("0acc02", "StreamOpenACC"),
    "stencil_openacc": ("0acc02", "StencilOpenACC"),
    "stream_two": ("h200links", "StreamCuda %gpus_at=at_once"),
    "spmv_two": ("h200links", "SpmvCuda"),
    "transfer": ("942e0d", "Transfer"),
    "transpose": ("942e0d", "Transpose"),
}

#: Waived ones.
WAIVED = {
    "no pageable": ("942e0d", "Migration %placement=sam"),
    "two gpus": ("942e0d", "Gemm %gpus_at=at_once"),
    "no gds": ("h200storage", "SnapshotGds"),
    "no osu": ("h200links", "MpiOsu"),
    "no hpcg": ("h200hpcg", "HpcgBinary"),
    "no pageable pattern": ("942e0d", "AccessPatternsQuick %placement=sam"),
}


@dataclass(frozen=True)
class Honest:
    """One honest run with its context: judged unchanged, it has `verdict`."""

    name: str
    text: str
    request: Request
    machine: Machine
    job: JobAccount
    status: int
    verdict: str

    def raw(self) -> Any:
        """The result as JSON, in which a fault is planted."""
        return json.loads(self.text)

    def judged(self, raw: Any, **changed: Any) -> Judgement:
        """Judges a result of this run in place of the honest one; `changed` are fields of this object."""
        known = replace(self, **changed)
        text = raw if isinstance(raw, str) else json.dumps(raw)
        try:
            result = results.parse(text, "result.json")
        except ResultError as error:
            return verdict.failed(f"node1: {error}", "node1")
        program = catalogue.program(known.request.program)
        return verdict.judge(result, program, known.request, known.machine, known.status, known.job)


@cache
def records() -> tuple[Record, ...]:
    return (*kept.all_records(), *kept.first_runs())


@cache
def _later() -> tuple[Record, ...]:
    """Sessions of another GPU, with programs that the earlier ones did not have."""
    return (*kept.two_quick(), *kept.openacc())


def _record(session: str, check: str, waived: bool) -> Record:
    found = [
        r
        for r in (*records(), *_later())
        if r.session.endswith(session)
        and (r.check == check or r.check.startswith(check + " "))
        and r.result is not None
        and (r.result.status == "waived") == waived
    ]
    healthy = ("PASS", "RECORDED")
    good = [r for r in found if waived or r.verdict in healthy]
    good = good or [r for r in found if rejudge.of_record(r).verdict in healthy]  # judged by a rule that was wrong
    assert good, f"no kept run {check} in {session}"
    return min(good, key=lambda r: len(r.result.text) if r.result else 0)


@cache
def run(name: str) -> Honest:
    """A kept run by its name in CHOSEN or WAIVED, or one of an adapter by its name in foreign_runs.py."""
    if name in foreign.RUNS:
        raw, request = foreign.RUNS[name]()
        return _honest(name, raw, request, Machine(), 0)
    chosen = {**CHOSEN, **WAIVED}[name]
    return of_record(_record(*chosen, waived=name in WAIVED), name)


def of_record(record: Record, name: str) -> Honest:
    """A kept run as today's check requests and judges it."""
    assert record.result is not None
    raw = json.loads(record.result.text)
    raw["token"] = TOKEN
    if not record.request or raw["version"] == "unknown":
        raw["version"] = REVISION
    machine = machine_of(None, record) or rejudge.as_archived(record)
    if raw["devices"] and not machine.gpu:  # a machine that was detected knows its GPUs
        card = facts(h200 := loader.load("h200"), h200.partition("gpu"), h200.environments["cuda"])
        machine = replace(
            machine,
            gpu=card.gpu,
            gpu_names=card.gpu_names,
            compute_capability=card.compute_capability,
            gpu_memory_bytes=card.gpu_memory_bytes,
            gpu_l2_bytes=card.gpu_l2_bytes,
            features=card.features,
            limits={**card.limits, **machine.limits},
        )
    return _honest(name, raw, _request(record, raw), machine, {"ok": 0, "waived": 3}[raw["status"]])


def _request(record: Record, raw: Any) -> Request:
    """The request of the check: for records older than requests, as today's checks would write it."""
    foreign_run = "implementation" in raw["parameters"] or (not raw["devices"] and raw["build"]["type"] == "binary")
    asked = record.request or Request(
        TOKEN,
        record.program,
        record.check,
        record.subjects,
        tuple(dict.fromkeys(m["name"] for m in raw["metrics"])) or None,
        arguments=() if foreign_run else attempt.without_files(tuple(raw["command"][1:])),
        gpus=len(raw["devices"]) or None,
        ranks=raw["placement"]["ranks"],
        mode=record.mode,
    )
    return replace(asked, token=TOKEN, revision=None if foreign_run else raw["version"], foreign=foreign_run)


def _honest(name: str, raw: Any, request: Request, machine: Machine, status: int) -> Honest:
    begin, end = (
        datetime.fromisoformat(raw[key][:19]).replace(tzinfo=timezone.utc).timestamp()
        for key in ("started", "finished")
    )
    uuids = frozenset(d["uuid"] for d in raw["devices"] if d["uuid"])
    nodes = frozenset({raw["host"]["name"], *raw["placement"].get("nodes", ())})
    job = JobAccount(nodes, raw["host"]["name"], begin - 1, end + 1, uuids)
    honest = Honest(name, json.dumps(raw), request, machine, job, status, "")
    return replace(honest, verdict=honest.judged(honest.raw()).verdict)


def account(run: Honest, **changed: Any) -> JobAccount:
    """The data of a run's job whose script read host and GPUs: as in the result, except for `changed`."""
    raw = run.raw()
    host = {name: raw["host"][name] for name in ("architecture", "kernel", "logical_cpus", "memory_bytes")}
    host["cpu"] = raw["host"]["cpu"].replace(" ", "_")
    read = ("uuid", "driver", "pci_bus_id", "vbios", "mig_enabled", "ecc_enabled", "serial", "persistence_mode")
    of_cards = {key: value for key, value in changed.items() if key not in host}
    cards = tuple(CardReading(**{**{name: one.get(name) for name in read}, **of_cards}) for one in raw["devices"])
    of_host = {key: value for key, value in changed.items() if key in host}
    return replace(run.job, host=HostReading(**{**host, **of_host}), cards=cards)
