"""Waivers: the capability that each reason denies, and its evidence in the result or the machine's description."""

from __future__ import annotations

import re
from collections.abc import Callable

from tenken.model.catalogue import Program
from tenken.model.judgement import Finding, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import EVIDENCE, WAIVER_REASONS, Device, Result
from tenken.model.verdicts import FAIL, WAIVED

_COUNTS = re.compile(r"(\d+)\D+?(\d+)")


def judge(result: Result, program: Program, request: Request, machine: Machine) -> Judgement:
    """WAIVED if the machine does not support it, for a reason from the closed list that nothing contradicts;
    otherwise FAIL.
    """
    reason, _, detail = (part.strip() for part in result.reason.partition(":"))
    node = result.node
    if reason not in WAIVER_REASONS:
        allowed = ", ".join(WAIVER_REASONS)
        return _failed(node, f"waived because of {result.reason!r}, which is not a known reason; allowed: {allowed}")
    denied = WAIVER_REASONS[reason]
    if denied == "two_gpus" and request.gpus is not None and request.gpus >= 2:
        return _failed(node, f"{result.reason}, but the system file claims {request.gpus} GPUs")
    if denied in machine.capabilities:
        return _failed(node, f"{result.reason}, but the system file claims {denied!r}")
    if not detail:
        return _failed(node, f"waived because of {reason!r} without details; expected a colon and what was found")
    against = _PROOFS[reason](result, program, request, machine, detail)
    if against:
        return _failed(node, f"{result.reason}, but {against}")
    if result.metrics:
        return _failed(node, f"{result.reason}, but the result contains {len(result.metrics)} metrics: it was measured")
    return Judgement(WAIVED, (Finding(WAIVED, f"{node}: {result.reason}", node=node),))


def _failed(node: str, text: str) -> Judgement:
    finding = Finding(FAIL, f"{node}: {text}", node=node, kind="waiver")
    return Judgement(FAIL, (finding,), (finding,))


Proof = Callable[[Result, Program, Request, Machine, str], str]


def _by_device(attribute: str) -> Proof:
    """Every GPU listed in the result must lack it."""

    def proof(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
        having = [d for d in result.devices if getattr(d, attribute) is True]
        if result.devices and len(having) == len(result.devices):
            return f"{attribute} of {_gpus(having)} is true"
        return ""

    return proof


def _gpus(devices: list[Device]) -> str:
    return ", ".join(f"GPU {d.index}" for d in devices)


def _by_path(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    """What the program reports that it did cannot be what it says cannot be done."""
    reason = result.reason.partition(":")[0].strip()
    for key, said in result.path.items():
        if (key.partition(".")[0], said) in EVIDENCE.get(reason, ()):
            return f"path {key} is {str(said).lower() if isinstance(said, bool) else said}"
    return ""


def _two_gpus(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    return f"the result lists {len(result.devices)} GPUs" if len(result.devices) >= 2 else ""


def _more_ranks(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    """ "4 needed, 2 given": more needed than given, and given as requested."""
    found = _COUNTS.search(detail)
    if found is None:
        return "it does not state the number needed and the number available"
    needed, given = int(found[1]), int(found[2])
    if given >= needed:
        return f"{given} are available and {needed} are needed"
    return ""


def _library(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    """Only libraries declared as optional at the start may be missing: the reason names one of them."""
    allowed = program.contract.libraries
    if any(name.lower() in detail.lower() for name in allowed):
        return ""
    return f"the program {program.name} can be waived only for a lack of: {', '.join(allowed) or 'nothing'}"


def _by_the_device(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    """A device that lacks something must exist, and is named with what it has."""
    if "cuda" in machine.features or request.gpus:
        if re.search(r"no (cuda|gpu)|no device", detail, re.I):
            return (
                "the system file claims 'cuda'" if "cuda" in machine.features else f"{request.gpus} GPUs are requested"
            )
        if not result.devices:
            return "the result lists no GPU to which it could apply"
    return ""


def _by_the_file_system(result: Result, program: Program, request: Request, machine: Machine, detail: str) -> str:
    if not result.file_system:
        return "the result does not name the file system"
    named = any(key in detail.lower() for keys in EVIDENCE.values() for key, _ in keys)
    return _by_path(result, program, request, machine, detail) if named else ""


_PROOFS: dict[str, Proof] = {
    "no peer access": _by_path,
    "no managed memory": _by_device("managed_memory"),
    "no pageable memory access": _by_device("pageable_memory_access"),
    "no device-buffer MPI": lambda *_: "",
    "no GPUDirect Storage": _by_path,
    "needs two GPUs": _two_gpus,
    "needs more ranks": _more_ranks,
    "library missing": _library,
    "not supported by the device": _by_the_device,
    "not supported by the file system": _by_the_file_system,
}
