"""Waivers: the capability that each reason denies, and the evidence for it in the result or the machine's
description."""

from __future__ import annotations

import re

from tenken.judge.bounds import say
from tenken.model.catalogue import Program
from tenken.model.judgement import Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import EVIDENCE, WAIVER_REASONS, Result
from tenken.model.verdicts import FAIL, WAIVED

#: Attributes that no GPU may have.
_LACKING = {"no managed memory": "managed_memory", "no pageable memory access": "pageable_memory_access"}
#: "4 needed, 2 given": more needed than given.
_COUNTS = re.compile(r"(\d+)\D+?(\d+)")


def judge(result: Result, program: Program, request: Request, machine: Machine) -> Judgement:
    """WAIVED if the reason is listed and nothing contradicts it; otherwise FAIL."""
    against = _against(result, program, request, machine)
    found = say(FAIL, result, against, kind="waiver") if against else say(WAIVED, result, result.reason)
    return Judgement(found.verdict, (found,), (found,) if against else ())


def _against(result: Result, program: Program, request: Request, machine: Machine) -> str:
    """What is wrong with a waiver; empty if nothing is."""
    reason, _, detail = (part.strip() for part in result.reason.partition(":"))
    if reason not in WAIVER_REASONS:
        allowed = ", ".join(WAIVER_REASONS)
        return f"waived because of {result.reason!r}, which is not a known reason; allowed: {allowed}"
    denied, but = WAIVER_REASONS[reason], f"{result.reason}, but"
    if denied == "two_gpus" and request.gpus is not None and request.gpus >= 2:
        return f"{but} the system file claims {request.gpus} GPUs"
    if denied in machine.capabilities:
        return f"{but} the system file claims {denied!r}"
    if not detail:
        return f"waived because of {reason!r} without details; expected a colon and what was found"
    if proof := _proof(reason, detail, result, program, request, machine):
        return f"{but} {proof}"
    return f"{but} the result contains {len(result.metrics)} metrics: it was measured" if result.metrics else ""


def _proof(reason: str, detail: str, result: Result, program: Program, request: Request, machine: Machine) -> str:
    """What in result, request or system file contradicts the reason; empty if nothing does."""
    if attribute := _LACKING.get(reason):
        if result.devices and all(getattr(device, attribute) is True for device in result.devices):
            return f"{attribute} of {', '.join(f'GPU {device.index}' for device in result.devices)} is true"
    elif reason == "needs two GPUs" and len(result.devices) >= 2:
        return f"the result lists {len(result.devices)} GPUs"
    elif reason == "needs more ranks":
        found = _COUNTS.search(detail)
        if found is None:
            return "it does not state the number needed and the number available"
        needed, given = int(found[1]), int(found[2])
        return f"{given} are available and {needed} are needed" if given >= needed else ""
    elif reason == "library missing" and not any(one.lower() in detail.lower() for one in program.contract.libraries):
        # only libraries declared as optional at the start may be missing
        allowed = ", ".join(program.contract.libraries) or "nothing"
        return f"the program {program.name} can be waived only for a lack of: {allowed}"
    elif reason == "not supported by the device" and ("cuda" in machine.features or request.gpus):
        # a device that lacks something must exist, and is named with what it has
        if re.search(r"no (cuda|gpu)|no device", detail, re.I):
            claimed = "the system file claims 'cuda'" if "cuda" in machine.features else ""
            return claimed or f"{request.gpus} GPUs are requested"
        return "" if result.devices else "the result lists no GPU to which it could apply"
    elif reason == "not supported by the file system":
        if not result.file_system:
            return "the result does not name the file system"
        if not any(key in detail.lower() for keys in EVIDENCE.values() for key, _ in keys):
            return ""
    for key, said in result.path.items():
        if (key.partition(".")[0], said) in EVIDENCE.get(reason, ()):
            return f"path {key} is {str(said).lower() if isinstance(said, bool) else said}"
    return ""
