"""Univa Grid Engine as run on TSUBAME3.0: whole nodes by f_node, the group on qsub's command line."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.standins.cluster import Cluster, directives, refuse, seconds, serve

NODES = ["r1i0n0", "r1i0n1", "r1i0n2", "r1i0n3"]
GROUPS = {"gz00"}
LIMIT = 24 * 3600


def qsub(cluster: Cluster, arguments: list[str]) -> None:
    """`-g GROUP SCRIPT`; the directives are those documented."""
    if len(arguments) != 3 or arguments[0] != "-g":
        refuse("qsub", "ERROR! give the group with -g", 1)
    if arguments[1] not in GROUPS:
        refuse("qsub", f"ERROR: you are not a member of group {arguments[1]}", 1)
    if cluster.use_up("qsub_fails"):
        refuse("qsub", "unable to contact qmaster using port 6444 on host qmaster", 1)
    script = Path(arguments[2])
    job = {"count": 0, "seconds": None, "stdout": None, "stderr": None, "cwd": False, "name": "", "variables": ""}
    for option in directives(script, "#$"):
        name, _, value = option.partition(" ")
        if name in ("-N", "-o", "-e"):
            job[{"-N": "name", "-o": "stdout", "-e": "stderr"}[name]] = value
        elif option == "-cwd":
            job["cwd"] = True
        elif option == "-r n":
            pass
        elif name == "-v":
            job["variables"] = ",".join(filter(None, (str(job["variables"]), value)))
        elif name == "-l" and value.startswith("f_node="):
            job["count"] = int(value.removeprefix("f_node="))
        elif name == "-l" and value.startswith("h_rt="):
            job["seconds"] = seconds(value.removeprefix("h_rt="))
        else:
            refuse("qsub", f"Unknown option {option}", 7)
    if not job["count"] or not job["seconds"] or int(str(job["seconds"])) > LIMIT:
        refuse("qsub", "Unable to run job: f_node and h_rt up to 24:00:00 are needed", 1)
    number = cluster.submit(
        "gridengine", **job, script=str(script.resolve()), folder=os.getcwd(),
        start_in=os.getcwd() if job["cwd"] else str(cluster.folder), nodes=NODES[: int(str(job["count"]))],
    )  # fmt: skip
    if cluster.use_up("qsub_answers_lost"):
        refuse("qsub", "error: commlib error: got read error (closing connection)", 1)
    print(f'Your job {number} ("{job["name"]}") has been submitted')


def qstat(cluster: Cluster, arguments: list[str]) -> None:
    if arguments[0] == "-j" and cluster.faults().get("unseen") != "error":
        job = cluster.job(arguments[1])
        if job is None or job["state"] == "ended":
            refuse("qstat", f"Following jobs do not exist:\n{arguments[1]}", 1)
        print(f"{'=' * 62}\njob_number:                 {arguments[1]}\njob_name:                   {job['name']}\n"
              f"env_list:                   TERM=NONE,{job['variables']}")  # fmt: skip
        return
    if arguments[0] == "-j" and cluster.faults().get("unseen") == "error":
        # not observed: in the form of the manual, for a job in state Eqw
        folder = (cluster.job(arguments[1]) or {})["folder"]
        print(f"job_number:                 {arguments[1]}")
        print("error reason          1:          11/22/2026 14:01:12 [1000:4711]: "
              f"error: can't chdir to {folder}: No such file or directory")  # fmt: skip
        return
    if arguments[:2] != ["-xml", "-u"]:
        refuse("qstat", "Unknown option", 1)
    faults = cluster.faults()
    if faults.get("qstat_always_fails") or cluster.use_up("qstat_fails"):
        refuse("qstat", "error: unable to contact qmaster using port 6444", 1)
    if cluster.use_up("qstat_garbage"):
        print("<?xml version='1.0'?><job_info><queue_in")
        return
    entries = {"running": "", "queued": ""}
    for number, job in cluster.jobs().items():
        if job["state"] in entries:
            odd = next((one for one in faults.get("odd_states", []) if cluster.use_up(f"odd_{one}")), None)
            letters = odd or faults.get("error_state") or {"running": "r", "queued": "qw"}[job["state"]]
            entries[job["state"]] += (
                f'<job_list state="{job["state"]}"><JB_job_number>{number}</JB_job_number>'
                f"<JB_name>{job['name']}</JB_name><JB_owner>{arguments[2]}</JB_owner><state>{letters}</state></job_list>\n"
            )
    print(
        f"<?xml version='1.0'?>\n<job_info>\n<queue_info>\n{entries['running']}</queue_info>\n"
        f"<job_info>\n{entries['queued']}</job_info>\n</job_info>"
    )


def qacct(cluster: Cluster, arguments: list[str]) -> None:
    """`-j NUMBER`: jobs that ended, and jobs that a node could not start."""
    job = cluster.job(arguments[1])
    failed = cluster.faults().get("unseen") == "error"
    if arguments[0] != "-j" or job is None or not (failed or job["state"] == "ended"):
        refuse("qacct", f"error: job id {arguments[1]} not found", 1)
    status = 0 if failed else {"walltime": 137, "deleted": 137}.get(job["ended"], job["ended"])
    print("=" * 62)
    for name, value in {
        "qname": "all.q", "hostname": job["nodes"][0], "owner": "user", "jobname": job["name"],
        "jobnumber": arguments[1], "failed": "28  : changing into working directory" if failed else 0,
        "exit_status": status,
    }.items():  # fmt: skip
        print(f"{name:12} {value}")


def qdel(cluster: Cluster, arguments: list[str]) -> None:
    (number,) = arguments
    job = cluster.job(number)
    if job is None or job["state"] == "ended":
        refuse("qdel", f'denied: job "{number}" does not exist', 1)
    cluster.delete(number)
    print(f"user has registered the job {number} for deletion")


def variables(cluster: Cluster, number: str, job: dict) -> dict[str, str]:
    hosts = cluster.folder / "jobs" / f"{number}.hosts"
    hosts.write_text("".join(f"{node} 28 all.q@{node} UNDEFINED\n" for node in job["nodes"]))
    return {"JOB_ID": number, "PE_HOSTFILE": str(hosts)}


if __name__ == "__main__":
    serve({"qsub": qsub, "qstat": qstat, "qacct": qacct, "qdel": qdel}, variables)
