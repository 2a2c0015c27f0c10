"""Grid Engine (Univa), as TSUBAME3.0 ran it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import reframe.utility.osext as osext
from reframe.core.backends import register_scheduler

from tenken.machines.model import fill
from tenken.reframe.schedulers.batch import Batch
from tenken.reframe.schedulers.command import CommandError, run
from tenken.reframe.schedulers.polling import Answer, PatientJob, Seen, Waiting, hms, num_nodes

#: `sge` is ReFrame's own, which drops the partition's options and waits without end for a job in error.
NAME = "gridengine"


@register_scheduler(NAME)
class GridEngine(Batch):
    """Whole nodes by the site's own resource; a job that has ended is no longer listed."""

    prefix = "#$"

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        words = [f"-N {job.name}", f"-o {job.stdout}", f"-e {job.stderr}"]
        words += [] if job.may_run_again else ["-r n"]
        words += [fill(text, {"num_nodes": num_nodes(job)}) for text in self.settings.get("node_request", ())]
        if job.time_limit is not None:
            words.append(f"-l h_rt={hms(job.time_limit)}")
        return [*words, *options]

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^Your job (\d+) ", answer, re.M)
        return found[1] if found else None

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        return states(run(["qstat", "-xml", "-u", osext.osuser()], self.timeout))


def states(answer: str) -> dict[str, Seen]:
    """Jobs by number from `qstat -xml`. Raises CommandError if it is not XML."""
    try:
        root = ET.fromstring(answer)
    except ET.ParseError as error:
        raise CommandError(f"qstat printed no XML: {error}") from None
    entries = ((entry.findtext("JB_job_number"), entry.findtext("state") or "") for entry in root.iter("job_list"))
    return {number: seen(letters) for number, letters in entries if number}


def seen(letters: str) -> Seen:
    """A job's state: E error, h held, q queued, d being deleted, s S T suspended, r t R running."""
    why = f"state {letters}"
    if "E" in letters:
        return Seen("ERROR", lost=True, why=f"{why}, see qstat -j")
    if "q" in letters:
        held = "h" in letters
        waiting = Waiting.MENDED if held else Waiting.RUNS
        return Seen("HELD" if held else "PENDING", pending=True, waiting=waiting, why=why)
    if "d" in letters:
        return Seen("DELETING")
    suspended = bool(set(letters) & set("sST"))
    return Seen("SUSPENDED" if suspended else "RUNNING", suspended=suspended)
