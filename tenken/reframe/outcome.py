"""The results of a job: its stage folder, and the scheduler's report. This is sufficient to judge it, also in a later
session."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reframe.utility import nodelist_expand

from tenken.archive import disk, seal
from tenken.counters import FACT, UNREAD, changes_of
from tenken.errors import CatalogueError, ResultError
from tenken.judge import verdict
from tenken.judge.bounds import NOTE
from tenken.model import engine, job_exit, verdicts
from tenken.model import result as results
from tenken.model.catalogue import program as catalogue_program
from tenken.model.job import short
from tenken.model.judgement import Finding, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.paths import archive_root
from tenken.reframe import fingerprints, joblines, locks, node_errors
from tenken.reframe.failure_excerpt import why

RESULT_FILE = "result.json"
REQUEST_FILE = "request.json"
#: The record keeps this many characters of an unreadable result.
_KEPT = 100_000
#: A job's output of more bytes is not judged; the largest kept one has 0.1 MB. Only its first and last parts are read.
MAX_OUTPUT, PART = 64 * 2**20, 2**20


@dataclass(frozen=True)
class Outcome:
    """One run of one request. `known`: the nodes by the scheduler, otherwise the requested ones; `pinned`: those that
    it was created for; `place`: the text in place of the nodes if none was named.
    """

    folder: Path
    stdout: str
    stderr: str
    token: str | None
    uses_mpi: bool
    state: str = ""
    exit_code: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    may_run_again: bool = False
    known: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    place: str = "any node"

    @cached_property
    def told(self) -> joblines.JobReport:
        """What the job printed about itself."""
        return joblines.report(self.text(), self.token)

    def text(self, stream: str = "stdout") -> str:
        """The job's standard output or error; empty if there is none."""
        path = self.folder / (self.stdout if stream == "stdout" else self.stderr)
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= MAX_OUTPUT:
                content = file.read(MAX_OUTPUT)
            else:
                content = file.read(PART)
                file.seek(-PART, os.SEEK_END)
                content += b"\n" + file.read(PART)
        return content.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    def too_large(self) -> str | None:
        """Why the job's output is not judged: it is too large to come from what was requested."""
        path = self.folder / self.stdout
        size = path.stat().st_size if path.is_file() else 0
        return f"the job's output has {size} bytes; at most {MAX_OUTPUT} are read" if size > MAX_OUTPUT else None

    def last_words(self, status: int | None = None) -> str:
        """Why it failed, with a leading colon, from standard error (which a site may merge with the output); and
        whether the disk is full.
        """
        said = why(self.text("stderr"), status) or why(self.text(), status)
        return (f": {said}" if said else "") + disk.room(self.folder)

    @property
    def nodes(self) -> tuple[str, ...]:
        """As printed by the job, since the scheduler's list may be incomplete; otherwise what is known without the
        output."""
        return tuple(dict.fromkeys(map(short, self.told.nodes or self.known or self.told.unseen)))

    @property
    def where(self) -> str:
        """The nodes, or what was requested."""
        return ",".join(self.nodes) or self.place

    @cached_property
    def unseen(self) -> str | None:
        """Which node does not see the stage folder; None: the script entered it everywhere. The job itself often cannot
        report this. Then the scheduler's record names the nodes, the first of which runs the script.
        """
        told = self.told
        if told.status == 0 or not (told.unseen or ("unseen" in self.facts and not told.attempts)):
            return None
        nodes = self.known if len(self.known) == 1 else told.unseen or self.known[:1]
        where, why = ",".join(nodes), self.facts.get("unseen")
        said = f"{f'node {where}' if where else 'its node'} does not see {self.folder}{f': {why}' if why else ''}"
        return said + disk.room(self.folder)

    def exit_status(self, ranks: int | None) -> tuple[int | None, str | None]:
        """The program's exit status as printed by the job, and what voids the job: it was cut short, or ran on other
        nodes than requested.
        """
        told = self.told
        if self.unseen is not None:
            return told.status, self.unseen
        if (cut := job_exit.killed(self.state)) is not None:
            return None, cut
        if told.status is None:
            return None, (
                f"the job did not run to its end: no end mark in its output "
                f"(state {self.state or 'unknown'}, exit code {self.exit_code}){self.last_words()}"
            )
        if (wrong := job_exit.fault(self.state, self.exit_code, told.status)) is not None:
            return told.status, f"{wrong}{self.last_words(told.status)}"
        if (wrong := self.too_large() or told.fault()) is not None:
            return told.status, f"the job cannot be trusted: {wrong}"
        command = told.commands[-1].status if told.commands else None
        if command is not None and command != told.status:
            return told.status, f"the job's command ended with status {command}; its end mark has {told.status}"
        if self.uses_mpi and told.status == 0 and (fault := told.placement_fault(ranks or 1)):
            return told.status, fault
        return told.status, None

    def own_facts(self) -> dict[str, Any]:
        """Data about the job in a record, in addition to the scheduler's report."""
        found: dict[str, Any] = {"may_run_again": True} if self.may_run_again else {}
        if changes := changes_of(self.text().splitlines()):
            found[FACT] = [one.as_json() for one in changes]
        attempts = self.told.attempts
        if len(attempts) > 1:
            found["attempts"] = len(attempts)
        if attempts and (len(attempts) > 1 or str(self.facts.get("run_count", 1)) != "1"):
            found["began_on"] = ", then ".join(attempt.node for attempt in attempts)
        if self.told.nodes and (elsewhere := {*map(short, self.pinned)} - {*self.nodes}):
            instead = f"{', '.join(self.nodes)} and not on {', '.join(sorted(elsewhere))}"
            found["moved"] = f"ran on {instead}, which it was made for"
        return found

    def digests(self) -> dict[str, Any]:
        """Digests of the end mark in a record: `sha256` by file, or else why the result is `unsealed`."""
        told = {name: digest for name, digest in self.told.digests.items() if digest != "none"}
        if not told:
            return {"unsealed": "the end mark has no digest"} if self.told.status is not None else {}
        if "unknown" in told.values():
            return {"unsealed": "no program of the node computes SHA-256"}
        return {"sha256": told}

    def changed(self, result: results.Result | None) -> str | None:
        """How a file differs from what it was at the end of the job: a rank was still running, or somebody changed
        it."""
        for name, digest in self.told.digests.items():
            path = self.folder / name
            if name == RESULT_FILE and result is not None:
                now = seal.sha256(result.text.encode())
            else:
                now = seal.sha256(path.read_bytes()) if path.is_file() else "none"
            if digest not in (now, "unknown"):
                was = "did not exist" if digest == "none" else f"had the SHA-256 {digest}"
                return f"{name} {was} when the job ended, and {'is gone' if now == 'none' else f'has {now}'} now"
        return None

    def disturbance(self) -> list[Finding]:
        """A job that the scheduler restarted or suspended measured something, but not what was requested."""
        facts = {**self.facts, **self.own_facts()}
        how = job_exit.disturbed(facts)
        where = ",".join(map(short, self.pinned)) if "moved" in facts else self.where
        found = [Finding(verdicts.INVALID, f"{where}: {how}", node=where)] if how else []
        return [*found, *(Finding(verdicts.RECORDED, f"{self.where}: {one}", kind=NOTE) for one in self._beside())]

    def _beside(self) -> list[str]:
        """What the scheduler and the clocks report about the nodes, in addition to the reason."""
        return [self.facts[name] for name in ("not_in_order", "clock") if name in self.facts]

    def judgement(self, request: Request, machine: Machine) -> tuple[Judgement, results.Result | None, str | None, str]:
        """The judgement of the run, the result (or None), the reason if there is none, and in that case its raw
        text."""
        path = self.folder / RESULT_FILE
        result, error, text = None, None, ""
        try:
            result = results.load(path)
        except ResultError as raised:
            error = str(raised)
            if path.is_file() and not path.is_symlink():
                with path.open(encoding="utf-8", errors="replace") as stream:
                    text = stream.read(_KEPT)
        status, killed = self.exit_status(request.ranks)
        where = self.where
        held = locks.told(self.text()) if request.foreign else None
        if result is None and held is not None and held["shared_with"]:
            # the script gave up before the program was started
            said = Finding(verdicts.INVALID, f"{where}: {held['shared_with']}", node=where)
            return Judgement(verdicts.INVALID, (said,), (said,)), None, error, text
        what = killed or self.changed(result)
        if what is None and result is None:
            name = request.parameters.get("implementation", request.program)
            what = f"{name} exited with {status}: {error}{self.last_words(status)}"
            if request.foreign and text and not text.lstrip().startswith("{"):
                # parts of the output that the adapter could not read
                what = f"{name}{f' exited with {status}' if status else ''}: {' '.join(text.split())}"
                if status and (words := self.last_words(status)) and words.strip(": ") not in what:
                    what += words
        if what is not None or result is None:
            judgement = verdict.failed("; ".join([f"{where}: {what}", *self._beside()]), where)
            if killed is not None and (how := job_exit.lost(self.facts)):
                # a job lost by its scheduler is no evidence about its node
                judgement = verdict.invalid(f"{where}: {how}", where)
            room = disk.room(self.folder)
            if room and room in str(what):
                # a job that cannot write is not evidence about its node
                judgement = verdict.invalid(judgement.message(), where)
            return judgement, result, error, text
        try:
            declared = catalogue_program(request.program)
        except CatalogueError as raised:
            return verdict.failed(f"{where}: {raised}", where), result, error, text
        result = engine.completed(result, declared)
        judgement = verdict.judge(result, declared, request, machine, status, joblines.account(self.told))
        stale = engine.stale(result, declared)
        built = [Finding(verdicts.FAIL, f"{result.node}: {stale}", node=result.node)] if stale else []
        recalled = fingerprints.recalled(result, self.token or "", archive_root())
        lines = self.text().splitlines()
        unread = any(line.startswith(UNREAD) for line in lines)
        changes = changes_of(lines)
        ports = [*verdict.of_ports(changes, unread), *verdict.of_path(result, changes)]
        counted = node_errors.findings(self.folder, result.node)
        judgement = verdict.extended(judgement, [*built, *self.disturbance(), *recalled, *counted, *ports])
        return judgement, result, error, text


def captured(folder: Path, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """The output files of a third-party program by name, if they match the digests of the end mark in a record's
    `facts`."""
    found = {}
    for name, digest in facts.get("sha256", {}).items():
        path = folder / name
        if name != RESULT_FILE and path.is_file() and path.stat().st_size <= MAX_OUTPUT:
            content = path.read_bytes()
            if seal.sha256(content) == digest:
                found[name] = content
    return found


def known_nodes(job: Any, pinned: tuple[str, ...], partition: Any) -> tuple[str, ...]:
    """The nodes of a ReFrame job by its scheduler; for a job that never started, the requested ones.

    `pinned`: the node for which the test was created; the job may still be None.
    """
    if partition.scheduler.registered_name == "local":
        return (short(os.uname().nodename),)
    if job is None:
        return pinned or _asked(list(partition.access))
    return tuple(map(short, job.nodelist or ())) or requested_nodes(job, pinned)


def requested_nodes(job: Any, pinned: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes that a ReFrame job was created for, by --distribute or its options; empty: any node."""
    return tuple(map(short, job.pin_nodes or pinned)) or _asked([*job.sched_access, *job.options, *job.cli_options])


def _asked(options: list[str]) -> tuple[str, ...]:
    """The nodes named in scheduler options, except patterns; of several equivalent options the last one counts."""
    found: list[str] = []
    for option in options:
        listed = re.search(r"(?:--nodelist[= ]|^-w ?)([^\s\"']+)", option)
        named = expand(listed[1]) if listed else _HOST.findall(option)
        found = named or found
    return tuple(dict.fromkeys(map(short, found)))


_HOST = re.compile(r"\b(?:host|vnode|hostname|h)=([\w.-]+)(?![\w.*?|\[-])")


def expand(nodes: str) -> list[str]:
    """`nid[1-2],nid5` as a list; unchanged if it cannot be parsed or has more nodes than ClusterShell expands."""
    try:
        return [str(node) for node in nodelist_expand(nodes)]
    except (ValueError, AssertionError):
        return [nodes]
