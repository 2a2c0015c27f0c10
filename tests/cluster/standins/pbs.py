"""PBS Professional as run on Miyabi and Reedbush; several chunks share a node unless `place` is scatter."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from tests.cluster.standins.cluster import Cluster, directives, refuse, seconds, serve

SERVER = "opbs"
NODES = ["mg0001", "mg0002", "mg0003", "mg0004"]
QUEUES = {"regular-g": 48 * 3600, "short-g": 8 * 3600, "debug-g": 1800, "h-small": 48 * 3600, "l-small": 48 * 3600}
GROUPS = {"gz00"}
CHUNK = {"mpiprocs", "ompthreads", "ncpus", "ngpus", "host"}


def qsub(cluster: Cluster, arguments: list[str]) -> None:
    """One argument, the script; the options are those documented."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        refuse("qsub", "illegal option", 2)
    if cluster.use_up("qsub_fails"):
        refuse("qsub", "cannot connect to server opbs (errno=111)", 111)
    job = {"queue": None, "group": None, "select": None, "place": "", "seconds": None, "stdout": None, "stderr": None}
    joined = False
    for option in directives(Path(arguments[0]), "#PBS"):
        name, _, value = option.partition(" ")
        if name == "-N" and re.fullmatch(r"[A-Za-z]\w{0,14}", value):
            job["name"] = value
        elif name == "-o":
            job["stdout"] = value
        elif name == "-e":
            job["stderr"] = value
        elif option == "-j oe":
            joined = True
        elif name == "-q":
            job["queue"] = value
        elif name == "-W" and value.startswith("group_list="):
            job["group"] = value.removeprefix("group_list=")
        elif name == "-l" and value.startswith("walltime="):
            job["seconds"] = seconds(value.removeprefix("walltime="))
        elif name == "-l" and value.startswith("select="):
            job["select"] = value.removeprefix("select=")
        elif option == "-r n":
            job["rerun"] = False
        elif name == "-v" and re.fullmatch(r"TENKEN_JOB=[\w/.-]+", value):
            job["variables"] = value
        elif name == "-l" and value in ("place=scatter", "place=excl", "place=scatter:excl"):
            job["place"] = value.removeprefix("place=")
        else:
            refuse("qsub", f"illegal option: {option}", 2)
    if job["queue"] not in QUEUES:
        refuse("qsub", "Unknown queue", 170)
    if job["group"] not in GROUPS:
        refuse("qsub", "Bad GID for job execution", 160)
    if job["seconds"] > QUEUES[str(job["queue"])]:
        refuse("qsub", "Job violates queue and/or server resource limits", 188)
    number = cluster.submit(
        "pbs", **{**job, "stderr": None if joined else job["stderr"]}, script=str(Path(arguments[0]).resolve()),
        folder=os.getcwd(), start_in=str(cluster.folder),
        nodes=nodes_of(str(job["select"]), "scatter" in str(job["place"])),
    )  # fmt: skip
    if cluster.use_up("qsub_answers_lost"):
        refuse("qsub", "cannot connect to server opbs (errno=111)", 111)
    print(f"{number}.{SERVER}")


def nodes_of(select: str, scatter: bool) -> list[str]:
    """The node of each rank."""
    found, free = [], list(NODES)
    for chunk in select.split("+"):
        count, *resources = chunk.split(":")
        given = dict(resource.split("=", 1) for resource in resources)
        if not set(given) <= CHUNK or not count.isdigit():
            refuse("qsub", f"Unknown resource: {chunk}", 179)
        for _ in range(int(count)):
            node = given.get("host") or (free.pop(0) if scatter and free else free[0] if free else NODES[0])
            found += [node] * int(given.get("mpiprocs", 1))
    return found


def qstat(cluster: Cluster, arguments: list[str]) -> None:
    """`-f -F json` (all running and queued jobs) and `-xf -F json ID...`, which answers only for the first id, as in
    2024."""
    if arguments[0] not in ("-f", "-xf") or arguments[1:3] != ["-F", "json"]:
        refuse("qstat", "illegal option", 2)
    faults = cluster.faults()
    if faults.get("qstat_always_fails") or cluster.use_up("qstat_fails"):
        refuse("qstat", "cannot connect to server opbs (errno=111)", 255)
    if cluster.use_up("qstat_garbage"):
        print('{"timestamp": 1, "Jobs": {"10')
        return
    if arguments[0] == "-xf" and faults.get("no_history"):
        refuse("qstat", "PBS is not configured to maintain job history", 36)
    shown, unknown = {}, False
    asked = arguments[3:4] or [f"{number}.{SERVER}" for number in cluster.jobs()]
    for one in asked:
        job = cluster.job(one.split(".")[0])
        if job is None or (job["state"] == "ended" and faults.get("no_history")):
            print(f"qstat: Unknown Job Id {one}", file=sys.stderr)
            unknown = True
        elif arguments[0] == "-xf" or job["state"] != "ended":
            shown[one] = describe(cluster, job)
        elif arguments[3:]:
            refuse("qstat", f"{one} Job has finished, use -x or -H to obtain historical job information", 35)
    print(json.dumps({"timestamp": 1, "pbs_version": "2024.1", "pbs_server": SERVER, "Jobs": shown}))
    if unknown and arguments[3:]:
        raise SystemExit(153)


def describe(cluster: Cluster, job: dict) -> dict:
    faults = cluster.faults()
    letter = {"queued": "Q", "running": "R", "ended": "F"}[job["state"]]
    found = {
        "Job_Name": job["name"], "job_state": letter, "queue": job["queue"],
        "Variable_List": {"PBS_O_WORKDIR": job["folder"], **dict([job["variables"].split("=")])},
        "run_count": faults.get("run_count", 1), "substate": {"Q": 10, "R": 42, "F": 92}[letter],
    }  # fmt: skip
    if job["state"] == "queued" and "comment" in faults:
        found["comment"] = faults["comment"]
    if job["state"] != "queued":
        found["exec_host"] = "+".join(f"{node}/{i}" for i, node in enumerate(job["nodes"]))
    if letter == "F" and not faults.get("no_exit_status"):
        # observed: a deleted job ended with 0 or with 271 and substate 91, one over its walltime with -29
        deleted = faults.get("deleted_status", 0)
        found["Exit_status"] = {"walltime": -29, "deleted": deleted}.get(job["ended"], job["ended"])
        if job["ended"] == "deleted" and deleted:
            found |= {"substate": 91, "comment": "Job run at Sun Nov 22 and terminated by user@login1"}
    for odd in faults.get("odd_states", []):
        if cluster.use_up(f"odd_{odd}"):
            return {**found, "job_state": odd}
    return found


def qdel(cluster: Cluster, arguments: list[str]) -> None:
    (one,) = arguments
    job = cluster.job(one.split(".")[0])
    if job is None:
        refuse("qdel", f"Unknown Job Id {one}", 153)
    elif job["state"] == "ended":
        refuse("qdel", f"Job has finished {one}", 35)
    cluster.delete(one.split(".")[0])


def pbsnodes(cluster: Cluster, arguments: list[str]) -> None:
    """`-a -F json` alone."""
    if arguments != ["-a", "-F", "json"]:
        refuse("pbsnodes", "illegal option", 2)
    states = {"mg0003": "job-busy", **cluster.faults().get("node_states", {})}
    nodes = {
        node: {"Mom": node, "state": states.get(node, "free"), "resources_available": {"host": node, "ncpus": 72}}
        for node in NODES
    }
    nodes["login1"] = {
        "state": states.get("login1", "free"),
        "resources_available": {"host": "login1", "Qlist": "interact-g"},
    }
    print(json.dumps({"timestamp": 1, "nodes": nodes}))


def variables(cluster: Cluster, number: str, job: dict) -> dict[str, str]:
    nodefile = cluster.folder / "jobs" / f"{number}.nodes"
    return {"PBS_JOBID": f"{number}.{SERVER}", "PBS_NODEFILE": str(nodefile), "PBS_O_WORKDIR": job["folder"]}


if __name__ == "__main__":
    serve({"qsub": qsub, "qstat": qstat, "qdel": qdel, "pbsnodes": pbsnodes}, variables)
