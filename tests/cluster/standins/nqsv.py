"""NEC NQSV as run on Pegasus: a request that ended is no longer listed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cluster.standins.cluster import Cluster, directives, refuse, seconds, serve

NODES = ["pg001", "pg002", "pg003", "pg004"]
QUEUES = {"gen_S": 24 * 3600, "gen_M": 24 * 3600, "gen_L": 24 * 3600, "gpu": 24 * 3600}
PROJECTS = {"gz00"}


def qsub(cluster: Cluster, arguments: list[str]) -> None:
    """One argument, the script; the options are those documented."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        refuse("qsub", "illegal option", 1)
    script = Path(arguments[0])
    if script.read_text().splitlines()[0] != "#!/bin/bash":
        refuse("qsub", "the job shell must be /bin/bash", 1)
    if cluster.use_up("qsub_fails"):
        refuse("qsub", "Connection refused", 1)
    job = {"queue": None, "project": None, "count": 1, "seconds": 3600, "version": "", "stdout": None, "stderr": None}
    for option in directives(script, "#PBS"):
        name, _, value = option.partition(" ")
        if name == "-N" and not re.fullmatch(r"[A-Za-z]\w{0,14}", value):
            refuse("qsub", f"Invalid request name: {value}", 1)
        elif name in ("-N", "-q", "-A", "-o", "-e"):
            job[{"-N": "name", "-q": "queue", "-A": "project", "-o": "stdout", "-e": "stderr"}[name]] = value
        elif name == "-b" and value.isdigit():
            job["count"] = int(value)
        elif name == "-l" and value.startswith("elapstim_req="):
            job["seconds"] = seconds(value.removeprefix("elapstim_req="))
        elif option in ("-T openmpi", "-r n"):
            pass
        elif name == "-v" and value.startswith("NQSV_MPI_VER="):
            job["version"] = value.removeprefix("NQSV_MPI_VER=")
        elif re.fullmatch(r"--[cg]punum-lhost=\d+", option):
            pass
        else:
            refuse("qsub", f"Invalid option: {option}", 1)
    if job["queue"] not in QUEUES:
        refuse("qsub", f"Queue not found: {job['queue']}", 1)
    if job["project"] not in PROJECTS:
        refuse("qsub", f"Invalid project: {job['project']}", 1)
    if int(job["seconds"]) > QUEUES[str(job["queue"])]:
        refuse("qsub", "Elapse time limit exceeds the limit of the queue", 1)
    number = cluster.submit(
        "nqsv", **job, script=str(script.resolve()), folder=os.getcwd(), start_in=str(cluster.folder),
        nodes=NODES[: int(job["count"])],
    )  # fmt: skip
    if cluster.use_up("qsub_answers_lost"):
        refuse("qsub", "Connection refused", 1)
    print(f"Request {number}.nqsv submitted to queue: {job['queue']}.")


def qstat(cluster: Cluster, arguments: list[str]) -> None:
    if arguments:
        refuse("qstat", "Invalid option", 1)
    faults = cluster.faults()
    if faults.get("qstat_always_fails") or cluster.use_up("qstat_fails"):
        refuse("qstat", "Batch server is not running: Connection refused", 1)
    print("RequestID       ReqName  UserName Queue     Pri STT S   Memory      CPU    Elapse R H M Jobs")
    print("--------------- -------- -------- -------- ---- --- - -------- -------- --------- - - - ----")
    if cluster.use_up("not_listed"):
        return
    for number, job in cluster.jobs().items():
        if job["state"] == "ended":
            continue
        state = {"queued": "QUE", "running": "RUN"}[job["state"]]
        for odd in faults.get("odd_states", []):
            if cluster.use_up(f"odd_{odd}"):
                state = odd
                break
        name = (job.get("name") or Path(job["script"]).name)[:8]
        rest = "-    0.00B     0.00         1 Y Y Y    1"
        print(f"{number + '.nqsv':15} {name:8} user     {job['queue']:8}    0 {state} {rest}")


def qdel(cluster: Cluster, arguments: list[str]) -> None:
    (one,) = arguments
    job = cluster.job(one.split(".")[0])
    if job is None or job["state"] == "ended":
        refuse("qdel", f"No such request: {one}", 1)
    cluster.delete(one.split(".")[0])
    print(f"Request {one} was deleted.")


def variables(cluster: Cluster, number: str, job: dict) -> dict[str, str]:
    return {
        "PBS_JOBID": f"0:{number}.nqsv", "PBS_NODEFILE": str(cluster.folder / "jobs" / f"{number}.nodes"),
        "PBS_O_WORKDIR": job["folder"], "NQSV_MPI_VER": job["version"], "NQSV_MPIOPTS": "--from-nqsv",
    }  # fmt: skip


if __name__ == "__main__":
    serve({"qsub": qsub, "qstat": qstat, "qdel": qdel}, variables)
