"""Builds archives of synthetic sessions: records, plan and run report as the formats require."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tenken.archive.records import safe_name
from tenken.model.catalogue import Program
from tests.support import documents
from tests.support.catalogue import make_metric

NAME = "20261121T030000Z-4f2a"


def metric(
    name: str,
    subject: dict[str, int],
    samples: list[float],
    unit: str = "GB/s",
    direction: str = "higher",
    at: dict[str, Any] | None = None,
) -> dict[str, Any]:
    made = documents.metric(name, subject, [round(s, 4) for s in samples], unit, direction, at=at)
    return {**made, "clock": "device"}


def noisy(middle: float, count: int = 200, cv: float = 0.002, seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [middle * (1 - abs(source.gauss(0, cv))) for _ in range(count)]


def health(index: int, reasons: tuple[str, ...] = ("sw_power_cap",)) -> dict[str, Any]:
    idle = documents.health_sample(
        sm_clock_mhz=345, power_w=78.4, temperature_c=29, reasons=["gpu_idle"], pcie_generation=1
    )
    worst = documents.health_sample(sm_clock_mhz=1740, power_w=695.2, temperature_c=61, reasons=list(reasons))
    after = {**idle, "temperature_c": 44}
    return {"index": index, "before": idle, "worst": worst, "after": after, "samples": 37, "xids": []}


def document(
    program: str,
    metrics: list[dict[str, Any]],
    gpus: int = 0,
    limit: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    limit = limit or {"unknown": "a virtual machine tells no memory clock"}
    changes.setdefault("started", "2026-11-21T03:00:01Z")
    changes.setdefault("finished", changes["started"].replace("01Z", "09Z"))
    made = documents.gpu_document(program, gpus=gpus)
    for device in made["devices"]:
        device.update(uuid=f"GPU-00000000-0000-0000-0000-00000000000{device['index'] % 10}", driver="580.95.05")
    made["host"].update(cpu="Xeon Platinum 8468", sockets=2, cores=96, logical_cpus=96, memory_bytes=540_000_000_000)
    made["build"].update(flags="-O3 -fopenmp", cuda_compiler="nvcc 13.0.48", cuda_architectures="90")
    return {
        **made,
        "version": "v0.1.0-12-gabc1234",
        "command": [f"./{program}", "--backend", "cuda" if gpus else "host", "--json", "result.json"],
        "parameters": {"array_bytes": 4_294_967_296, "repetitions": 200},
        "metrics": metrics,
        "limits": {m["id"]: limit for m in metrics},
        "path": {},
        "health": {
            "available": bool(gpus),
            "reason": "" if gpus else "no GPU took part",
            "devices": [health(i) for i in range(gpus)],
        },
        **changes,
    }


def judgement(
    entry: dict[str, Any], limit: dict[str, Any], reference: float | None = None, tolerance: float = 0.03,
    verdict: str = "PASS",
) -> dict[str, Any]:  # fmt: skip
    known = limit.get("value")
    efficiency = None
    if known:
        efficiency = entry["value"] / known if entry["direction"] == "higher" else known / entry["value"]
    said = None
    bounds: list[float | None] = [None, None]
    if reference is not None:
        said = {
            "value": reference,
            "lower": -tolerance,
            "upper": tolerance,
            "unit": entry["unit"],
            "source": "archive, 60 launches, 2026-11-02, driver 580.95.05",
        }
        bounds = [round(reference * (1 - tolerance), 3), round(reference * (1 + tolerance), 3)]
    elif known:
        bounds = [min(0.8 * known, entry["value"]), None] if verdict == "PASS" else [0.8 * known, None]
    return {
        "verdict": verdict, "value": entry["value"], "unit": entry["unit"], "direction": entry["direction"],
        "statistic": "median", "reference": said, "limit": limit, "efficiency": efficiency, "bounds": bounds,
        "basis": "reference" if said else "limit floor" if known else "unreferenced",
    }  # fmt: skip


def record(
    check: str,
    doc: dict[str, Any] | None,
    verdict: str = "PASS",
    judged: dict[str, Any] | None = None,
    findings: list[dict[str, Any]] | None = None,
    nodes: tuple[str, ...] = ("nid001",),
    **changes: Any,
) -> dict[str, Any]:
    if verdict == "WAIVED" and doc and doc["status"] == "ok":
        doc, judged = (
            {**doc, "status": "waived", "reason": "needs two GPUs: 1 is there", "metrics": [], "limits": {}},
            {},
        )
    if judged is None:
        judged = {m["id"]: judgement(m, doc["limits"][m["id"]]) for m in doc["metrics"]} if doc else {}
    made = {
        "record": "tenken-record/1", "session": NAME, "time": "2026-11-21T03:00:10Z", "system": "h200",
        "partition": "gpu", "environ": "cuda", "check": check, "base_check": check.split(" ")[0], "parameters": {},
        "mode": "acceptance", "nodes": list(nodes), "scheduler": "local", "job_state": None,
        "exit_code": 3 if doc and doc["status"] == "waived" else 0, "verdict": verdict, "findings": findings or [],
        "judged": judged, "document": doc, "document_error": None, **changes,
    }  # fmt: skip
    # each run is a separate job
    made.setdefault("job_id", f"{check}-{made['partition']}-{made['environ']}-{'-'.join(made['nodes'])}-{made['time']}")
    return made


def finding(verdict: str, subject: str, message: str, metric_id: str | None = None) -> dict[str, Any]:
    told = dict.fromkeys(("value", "unit", "bound", "miss"))
    return {"verdict": verdict, "metric": metric_id, "subject": subject, "message": message, **told}


def testcase(
    check: str,
    result: str = "pass",
    reason: str | None = None,
    phase: str | None = None,
    fixture: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    """One test case as in ReFrame 4.10's run report, without the fields that a page never reads."""
    return {
        "name": check.split(" %.")[0], "display_name": check, "unique_name": check.replace(" ", "_"), "system": "h200",
        "partition": "gpu", "environ": "cuda", "result": result, "fail_phase": phase, "fail_reason": reason,
        "fixture": fixture, "scheduler": "local", "job_nodelist": ["nid001"], "jobid": None, "job_exitcode": 0,
        "job_stderr": "rfm_job.err", "build_stderr": None, "stagedir": "stage/h200/gpu/cuda/x",
        "dependencies_actual": [], **changes,
    }  # fmt: skip


def run_report(testcases: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "session_info": {
            "data_version": "4.2", "hostname": "nid001", "cmdline": "reframe -c checks -r", "version": "4.10.4",
            "time_start_unix": 1795230000.0, "time_elapsed": 222.0, "num_cases": len(testcases),
        },
        "runs": [{"num_cases": len(testcases), "run_index": 0, "testcases": testcases}],
        "restored_cases": [],
    }  # fmt: skip


PLAN = {"system": "h200", "applicable": [], "not_applicable": [], "load_errors": []}


def write_session(
    perflogs: Path,
    records: list[dict[str, Any]],
    testcases: list[dict[str, Any]] | None = None,
    plan: dict[str, Any] | None = None,
    name: str = NAME,
) -> Path:
    """Writes an archive. Without `testcases` every record gets a matching one; [] writes an empty report."""
    if testcases is None:
        results = {"PASS": "pass", "WAIVED": "skip"}
        testcases = [
            testcase(
                r["check"],
                results.get(r["verdict"], "fail"),
                partition=r["partition"],
                environ=r["environ"],
                fail_reason=None if r["verdict"] in results else "sanity error: x",
            )
            for r in records
        ]
    for number, entry in enumerate(records):
        day, clock = entry["time"][:10], entry["time"][11:19].replace(":", "")
        folder = perflogs / entry["system"] / entry["partition"] / day / safe_name(entry["check"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{clock}-{name}-{number:08x}.json").write_text(json.dumps({**entry, "session": name}))
    session = perflogs / ".sessions" / name
    session.mkdir(parents=True, exist_ok=True)
    (session / "plan.json").write_text(json.dumps(plan or PLAN))
    (session / "run-report.json").write_text(json.dumps(run_report(testcases)))
    return perflogs


def _program(name: str, title: str, plot: str, group: str, **metrics: str) -> Program:
    described = {m: make_metric(m, title=text, plot=plot, group=group) for m, text in metrics.items()}
    return Program(name, title, f"docs/{name}.md", described)


#: Titles and kinds of the synthetic programs, as metrics.yaml would have them.
CATALOGUE: dict[str, Program] = {
    program.name: program
    for program in (
        _program(
            "stream", "STREAM memory bandwidth", "bars", "kernel",
            **{n: n.capitalize() for n in ("copy", "scale", "add", "triad", "dot")},
        ),
        _program(
            "memcopy", "Memory copy, every repetition", "series", "copy", kernel="Copy kernel", host="Host copy"
        ),
        _program(
            "access_patterns", "Access patterns", "series", "patterns",
            **{f"p{i}": f"({i}) pattern" for i in range(1, 9)},
        ),
        _program(
            "transfer", "Transfers against size", "sweep", "size", htod="HtoD pinned", dtoh="DtoH pinned",
            pageable="HtoD pageable",
        ),
        _program("p2p", "GPU to GPU", "matrix", "peer", peer="Peer copy", staged="Host staged"),
        _program(
            "transpose", "Transpose by transfer method", "phases", "phases", init="Host init", htod="HtoD",
            kernel="Kernel", dtoh="DtoH",
        ),
    )
}  # fmt: skip


def every_kind() -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """A session with every verdict, every plot kind and every kind of failure: (records, test cases, plan)."""
    hbm = {"value": 4814.0, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}
    nvlink = {"value": 450.0, "unit": "GB/s", "basis": "18 active NVLinks x 25 GB/s"}
    pcie = {"value": 63.0, "unit": "GB/s", "basis": "PCIe generation 5 x 16 lanes"}
    records = []

    peaks = {"copy": 4253, "scale": 4250, "add": 4398, "triad": 4401, "dot": 4536}
    metrics = [
        metric(n, {"gpu": g}, noisy(v * (0.93 if (g, n) == (2, "triad") else 1), seed=g * 7 + len(n)))
        for n, v in peaks.items()
        for g in range(4)
    ]
    doc = document("stream", metrics, 4, hbm)
    judged = {m["id"]: judgement(m, hbm, peaks[m["name"]], 0.02) for m in metrics}
    judged["triad.gpu2"]["verdict"] = "FAIL"
    says = "nid001 GPU 2: triad 4089 GB/s is below the lower bound 4313 GB/s of its reference 4401 GB/s by 5.2 %"
    slow = finding("FAIL", "nid001 GPU 2", says, "triad.gpu2")
    records.append(record("stream %backend=cuda", doc, "FAIL", judged, [slow]))

    metrics = [
        metric(n, {"host": 0}, noisy(280 * f, cv=0.01, seed=len(n)))
        for n, f in (("copy", 1.0), ("scale", 0.98), ("add", 1.02), ("triad", 1.03), ("dot", 1.2))
    ]
    records.append(record("stream %backend=host", document("stream", metrics), environ="gnu"))

    metrics = [metric("kernel", {"gpu": g}, noisy(4252 - g * 3, seed=g)) for g in range(2)]
    host = noisy(330, cv=0.02, seed=9)
    host[60:80] = [s - 90 for s in host[60:80]]
    metrics.append(metric("host", {"host": 0}, host))
    throttled = document("memcopy", metrics, 2, hbm)
    throttled["health"]["devices"][1] = health(1, ("hw_thermal_slowdown", "sw_power_cap"))
    says = "nid001 GPU 1: hardware thermal slowdown during the timed part; 1740 MHz SM clock at 61 °C"
    records.append(record("memcopy", throttled, "INVALID", findings=[finding("INVALID", "nid001 GPU 1", says)]))

    patterns = []
    for i in range(1, 9):
        plateau = 4200 if i in (5, 6, 7, 8) else 50 * i
        for trial in range(3):
            samples = noisy(plateau, 200, 0.004, seed=i * 10 + trial)
            if i in (5, 6, 7):
                samples[:55] = [s * (0.05 + 0.95 * n / 55) for n, s in enumerate(samples[:55])]
            patterns.append(metric(f"p{i}", {"gpu": 0}, samples, at={"trial": trial}))
    records.append(record("access_patterns %memory=managed", document("access_patterns", patterns, 1)))

    sweep = []
    for name, rate, start in (("htod", 55.5, 2e-6), ("dtoh", 55.3, 2.2e-6), ("pageable", 11, 6e-6)):
        for power in range(10, 31):
            count = 2**power
            samples = noisy(count / (start + count / rate / 1e9) / 1e9, 100, seed=power)
            sweep.append(metric(name, {"gpu": 0}, samples, at={"bytes": count}))
    records.append(record("transfer", document("transfer", sweep, 1, pcie)))

    pairs = [
        metric(n, {"from": a, "to": b}, noisy(v * (1 - 0.5 * ((n, a, b) == ("peer", 1, 3))), 100, seed=a * 4 + b))
        for n, v in (("peer", 395.8), ("staged", 46.2))
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    doc = document("p2p", pairs, 4, nvlink)
    judged = {m["id"]: judgement(m, nvlink) for m in pairs}
    judged["peer.gpu1-gpu3"]["verdict"] = "FAIL"
    doc["path"] = {"peer": "NVLink, 18 links", "staged": "pinned host memory, 4 MiB chunks"}
    says = "nid001 GPU 1 → 3: peer copy 197.8 GB/s, while the pairs of its link class reach 395.5 GB/s (50 % less)"
    records.append(record("p2p", doc, "FAIL", judged, [finding("FAIL", "nid001 GPU 1 → 3", says, "peer.gpu1-gpu3")]))

    phases = [
        metric(n, {"gpu": 0}, noisy(v * f, 20, seed=len(n)), "ms", "lower", {"kernel": k, "memory": m})
        for k in ("naive", "tile")
        for m, f in (("pageable", 2.6), ("pinned", 1.0), ("zero-copy", 0.7), ("managed", 1.3))
        for n, v in (("init", 3.0), ("htod", 1.2), ("kernel", 0.3 if k == "tile" else 0.6), ("dtoh", 1.3))
    ]
    records.append(record("transpose %n=4096", document("transpose", phases, 1)))

    says = "no pageable memory access: cudaDevAttrPageableMemoryAccess is 0"
    waived = document("access_patterns", [], 1, status="waived", reason=says)
    skipped = [finding("WAIVED", "nid001 GPU 0", says)]
    records.append(record("access_patterns %memory=sam", waived, "WAIVED", findings=skipped))

    results = {"PASS": "pass", "WAIVED": "skip"}
    cases = [
        testcase(
            r["check"],
            results.get(r["verdict"], "fail"),
            environ=r["environ"],
            fail_reason=None if r["verdict"] in results else "sanity error: see the record",
        )
        for r in records
    ]
    cases.insert(0, testcase("build ~h200:gpu+cuda", fixture=True, unique_name="build_cuda"))
    nvhpc = {"environ": "nvhpc", "job_nodelist": []}
    of_build = "build error: build job failed with exit code: 2"
    of_submission = "spawned process error: command 'sbatch' failed with exit code 1: Invalid account"
    needed = [["build_nvhpc", "h200:gpu", "nvhpc"]]
    cases += [
        testcase("build ~h200:gpu+nvhpc", "fail", of_build, "compile_wait", True, unique_name="build_nvhpc", **nvhpc),
        testcase("stream %backend=openacc", "fail_deps", stagedir=None, dependencies_actual=needed, **nvhpc),
        testcase("hpl", "fail", of_submission, "run", job_nodelist=[]),
    ]
    lacking = [
        {"check": "mpi_p2p", "lacks": ["mpi"], "text": "the partition gpu offers no MPI environment"},
        {"check": "snapshot_io_gds", "lacks": ["gds"], "text": "no partition of h200 has GPUDirect Storage"},
    ]
    plan = {"system": "h200", "applicable": ["stream", "himeno"], "not_applicable": lacking,
            "load_errors": []}  # fmt: skip
    return records, cases, plan
