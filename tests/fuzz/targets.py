"""Every parser of the suite, its valid inputs, and its own errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from reframe.core.exceptions import ReframeError

from tenken.archive.redact import Redactor
from tenken.errors import TenkenError
from tenken.history import acknowledged, record_parser
from tenken.history.detect import Detector, state
from tenken.machines import cluster, hardware, loader
from tenken.model import files, record, result
from tenken.model.catalogue import load_catalogue, load_program
from tenken.parsers import hpcg, hpl, hpl_mxp, nccl_tests, osu
from tenken.paths import ROOT
from tenken.reframe import failure_excerpt, joblines, matrices
from tenken.reframe.schedulers import gridengine, nqsv, pbs, slurm
from tenken.reframe.schedulers.command import CommandError
from tenken.report import cli, contracts, session
from tests.reframe.checks.test_hpcg import REPORT
from tests.reframe.checks.test_osu import BANDWIDTH, FULL, LATENCY, OLD_LATENCY, RATE
from tests.reframe.checks.test_xhpl import NETLIB, NVIDIA, OLD
from tests.reframe.checks.test_xhpl_mxp import PRINTED
from tests.support.documents import gpu_document, host_document
from tests.support.nccl_tests import job as nccl_job
from tests.unit.machines.conftest import CATALOGUE, GOOD
from tests.unit.reports import builder
from tests.unit.reports.test_contract import GOOD as CONTRACT
from tests.unit.test_foreign_tampering import HPCC, HPL1, OTHER, SECTION
from tools import synthetic

NOW = datetime(2026, 11, 22)


@dataclass(frozen=True)
class Target:
    """A parser: `read` takes an input and raises only `errors`. `structured`: the inputs are JSON."""

    name: str
    corpus: tuple[bytes, ...]
    read: Callable[[bytes], object]
    structured: bool = False
    errors: tuple[type[Exception], ...] = (TenkenError,)


def text(content: bytes) -> str:
    """As the suite reads the output of a job."""
    return content.decode("utf-8", "replace")


def encoded(*values: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


def a_document(content: bytes) -> None:
    found = result.parse(files.decoded(content), "result.json")
    assert all(metric.spread >= 0 for metric in found.metrics)
    assert found.links is not None


def a_record(content: bytes) -> None:
    found = record.parse(files.decoded(content))
    record_parser.parsed(found, NOW)
    assert record.parse(found.text()).check == found.check


def an_osu(content: bytes) -> None:
    made = osu.document(osu.parse_all(text(content)), "n1", 2, ["n1", "n2"], "host")
    result.validate(made, "result.json")


def an_hpl_mxp(content: bytes) -> None:
    found = hpl_mxp.parse(text(content))
    made = hpl_mxp.document(found, ["hpl-mxp.sh"], "n1", ["n1"], 2, 131072, 2048, 1, 2, "fp16")
    result.validate(made, "result.json")


def an_nccl_tests(content: bytes) -> None:
    made = nccl_tests.document(nccl_tests.parse_all(text(content)), "n1", ["n1"], 4)
    result.validate(made, "result.json")


def an_hpl(content: bytes) -> None:
    made = hpl.document(hpl.parse(text(content)), "xhpl", ["xhpl"], "n1", ["n1"], 4, 29184, 192, 2, 2)
    result.validate(made, "result.json")


def an_hpcg(content: bytes) -> None:
    made = hpcg.document(hpcg.parse(text(content)), "n1", ["n1"], "xhpcg", {"implementation": "xhpcg"})
    result.validate(made, "result.json")


def a_log(content: bytes) -> None:
    first, _, rest = files.decoded(content).partition("\n")
    reader = record_parser.LogReader(record_parser.header(first), "m", "gpu", "stream", NOW)
    for line in rest.split("\n"):
        with contextlib.suppress(record_parser.Unreadable):
            reader.line(line)


def a_job(content: bytes) -> None:
    for token in (None, "t1"):
        told = joblines.report(text(content), token)
        told.placement_fault(2)
        told.fault()
        assert told.ran_again is not None
    joblines.ran_as_root(text(content))


def last_words_of(content: bytes) -> None:
    for status in (None, 1, 127):
        assert len(failure_excerpt.why(text(content), status)) < 3000


@cache
def folder() -> Path:
    kept = tempfile.TemporaryDirectory(prefix="tenken-fuzz-")
    _kept.append(kept)
    return Path(kept.name)


_kept: list[Any] = []


def a_file(name: str, content: bytes) -> Path:
    path = folder() / name
    path.write_bytes(content)
    return path


def a_session(content: bytes) -> None:
    """The plan, the run report and the start note, each broken in turn."""
    root = _session()
    for name in ("plan.json", "run-report.json", "begun-0.json"):
        (root / ".sessions" / builder.NAME / name).write_bytes(content)
    found = session.load(root, builder.NAME)
    assert found.exit_code in (0, 1, 3) and cli.table(found)


@cache
def _session() -> Path:
    records, cases, plan = builder.every_kind()
    return builder.write_session(folder() / "archive", records[:2], cases, plan)


def a_state(content: bytes) -> None:
    path = a_file("state", content)
    path.chmod(0o600)
    state.read(path, Detector(np.ones(3, bool)), 99, lambda nights: "mark")


def states() -> Iterator[bytes]:
    rng = np.random.default_rng(1)
    detector = Detector(np.ones(3, bool))
    for night in range(60):
        detector.advance(rng.normal(100, 1, 3) - 20 * (night > 40))
    state.write(folder() / "good", "mark", 60, detector)
    yield (folder() / "good").read_bytes()
    state.write(folder() / "good", "mark", 0, Detector(np.ones(3, bool)))
    yield (folder() / "good").read_bytes()


def queues(content: bytes) -> None:
    for read in (cluster.slurm_queues, cluster.pbs_queues):
        read(lambda command: text(content))


def schedulers(content: bytes) -> None:
    table = text(content)
    for read in (slurm.listed, slurm.accounted, nqsv.requests):
        read(table)
    slurm.enough(table, 2)
    with contextlib.suppress(CommandError):
        gridengine.states(table)
    with contextlib.suppress(ValueError, AttributeError):
        pbs.seen(json.loads(table))


SHEETS = hardware.FILE.read_text(encoding="utf-8")
ACKNOWLEDGED = """acknowledged:
- system: m
  metric: triad
  node: n1
  night: 2026-01-02
  until: 2026-02-02
  reason: a fan was changed
  owner: ops
retired:
- {system: m, node: n9, reason: sold, owner: ops}
"""
LOG = (
    "job_completion_time|display_name|system|partition|environ|jobid|job_nodelist|perf_var|perf_value|perf_unit|"
    "perf_lower_thres|perf_upper_thres|result|tenken_session|tenken_verdict\n"
    + "".join(
        f"2026-11-{d:02}T03:00:00|Stream %size=1|m|gpu|gnu|{d}|n1|triad.gpu{d % 2}|{400 + d}.5|GB/s|-0.1|null|pass|s|"
        "PASS\n"
        for d in range(1, 9)
    )
)
WIDE = (
    "job_completion_time,check_name,triad_value,triad_unit,copy_value,copy_unit,\n"
    "2026-01-02T03:00:00,x,1.5,GB/s,2,GB/s,\n"
)
JOB = (
    "TENKEN-BEGIN token=t1 node=n1 time=1763773200.5 job=17\nTENKEN-NODES n1,n2\nTENKEN-NAME n1 host1\n"
    "TENKEN-GPU GPU 0: NVIDIA H200 (UUID: GPU-x)\nTENKEN-RUN begin node=n1 time=1763773201.5\nTENKEN-RANK host=host1\n"
    "TENKEN-RANK host=n2\nTENKEN-RUN end node=n1 time=1763773202.5 status=0\n"
    "TENKEN-END token=t1 status=0 nodes=n1,n2 node=n1 time=1763773203.5\n"
)
ERRORS = (
    "--------------------------------------------------------------------------\nMPI_ABORT was invoked on rank 0\n"
    "--------------------------------------------------------------------------\n"
    "/bin/sh: 1: cmake: not found\nsrun: error: n1: task 0: Exited with exit code 1\nerror: out of memory\n"
)
NAMES = (
    'n1.site.ac.jp 10.1.2.3 fe80::1%ib0 b8:59:9f:12:34:56 /gpfs/g/x/y {"serial": "123456789"} :root {} '
    "GPU-ce0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0d 0000:0b:00.1 version 4.1.5.1 0xf452140300925b10\n"
)
SINFO = "gpu|8|2|48|2|1030000|gpu:h100:4(S:0-1)|1-00:00:00|up|idle\ncpu|16|2|64|1|512000|(null)|infinite|up|mixed\n"
QSTAT = {
    "Queue": {"g": {"queue_type": "Execution", "enabled": "True", "started": "True",
                    "resources_max": {"walltime": "24:00:00"}}},
    "nodes": {"n1": {"resources_available": {"ncpus": 96, "mem": "1056768kb", "ngpus": 4, "Qlist": "g"},
                     "state": "free"}},
}  # fmt: skip
SQUEUE = "17|RUNNING|0|nid[1-3]|gpu|0|None|\n18|PENDING|0||gpu|1|Resources|\n19|CANCELLED by 1000|0:15|None assigned\n"
NQSV = "12.nq   job  user g 0 RUN - 1.0G 12.0 13 Y Y Y 1\n13.nq   job  user g 0 QUE - 0 0 0 Y Y Y 1\n"
XML = (
    "<job_info><queue_info><job_list><JB_job_number>7</JB_job_number><state>qw</state></job_list></queue_info>"
    "</job_info>"
)
PBS = {"job_state": "F", "Exit_status": -29, "comment": "x", "exec_host": "n1/0*96+n2/0*96", "substate": 91}


def a_system(content: bytes) -> None:
    loader.load_file(a_file("machine.yaml", content), src=_catalogue(), cache_folder=None)


@cache
def _catalogue() -> Path:
    inner = folder() / "src" / "stream"
    inner.mkdir(parents=True)
    (inner / "metrics.yaml").write_text(CATALOGUE)
    return inner.parent


def a_catalogue(content: bytes) -> None:
    path = folder() / "programs" / "stream" / "metrics.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    load_program(path)


def a_contract(content: bytes) -> None:
    path = a_file("contract.yaml", content)
    contracts.load(str(path), load_catalogue(), ("h200",))


def first_sheets() -> bytes:
    """The first GPU and the first host of the data sheets: small enough to be parsed often."""
    parts = re.split(r"^(?=  ?[A-Za-z]|[a-z])", SHEETS, flags=re.M)
    tops = [i for i, part in enumerate(parts) if part.startswith(("gpus:", "hosts:"))]
    return "".join(parts[top] + parts[top + 1] for top in tops).encode()


def targets() -> list[Target]:
    """All of them."""
    unreadable = (TenkenError, record_parser.Unreadable)
    document, gpus = host_document(), gpu_document(gpus=1)
    gpus["metrics"] = gpus["metrics"][:2]
    kept, _, _ = builder.every_kind()
    entry = synthetic.record("m", "n1", datetime(2026, 11, 1), "Stream", "stream",
                             [synthetic.metric("triad", {"gpu": 0}, [1.0, 2.0])], synthetic.devices("n1"))  # fmt: skip
    records = encoded(entry, *sorted(kept, key=lambda one: len(json.dumps(one)))[:4])
    latency = f"TENKEN-OSU osu_latency\n{LATENCY}TENKEN-OSU osu_bw\n{BANDWIDTH}"
    rest = f"TENKEN-OSU osu_latency\n{OLD_LATENCY}TENKEN-OSU osu_mbw_mr\n{RATE}TENKEN-OSU osu_allreduce\n{FULL}"
    run = builder.run_report([builder.testcase("stream"), builder.testcase("hpl", "fail", "killed", "run_wait")])
    all_: list[Target] = [
        Target("document", encoded(document, gpus), a_document, True),
        Target("record", records, a_record, True, unreadable),
        Target("osu", (latency.encode(), rest.encode()), an_osu),
        Target("hpl_mxp", (PRINTED.encode(),), an_hpl_mxp),
        Target("nccl-tests", (nccl_job("all_reduce_perf", "sendrecv_perf").encode(), nccl_job(version="").encode()),
               an_nccl_tests),
        Target("hpl", tuple(one.encode() for one in (NETLIB, NVIDIA, OLD, HPL1, HPCC.format(SECTION))), an_hpl),
        Target("hpcg", (REPORT.encode(), OTHER.encode()), an_hpcg),
        Target("log", (LOG.encode(), WIDE.encode()), a_log, errors=unreadable),
        Target("job", (JOB.encode(), (JOB + JOB.replace("n1", "n3")).encode()), a_job),
        Target("last words", (ERRORS.encode(), (ERRORS + JOB).encode()), last_words_of),
        Target("yaml", (GOOD.encode(), b"a: &a {b: [1, x]}\nc: {<<: *a, d: '2'}\n"), a_system),
        Target("sheets", (first_sheets(),), lambda c: hardware.load.__wrapped__(a_file("hardware.yaml", c), None)),
        Target("acknowledged", (ACKNOWLEDGED.encode(),), lambda c: acknowledged.read_all(a_file("a.yaml", c))),
        Target("catalogue", (CATALOGUE.encode(),), a_catalogue),
        Target("contract", (CONTRACT.encode(),), a_contract),
        Target("session", encoded(run, builder.PLAN), a_session, True),
        Target("state", tuple(states()), a_state),
        Target("redaction", (NAMES.encode(), LOG.encode()), lambda c: Redactor(["n1"], ["alice"]).text(text(c))),
        Target("queues", (SINFO.encode(), *encoded(QSTAT)), queues),
        Target("schedulers", tuple(x.encode() for x in (SQUEUE, NQSV, XML, json.dumps(PBS))), schedulers,
               errors=(TenkenError, ReframeError)),
        Target("index", (INDEX.encode(),), lambda c: matrices.parse_index(text(c))),
    ]  # fmt: skip
    assert len({one.name for one in all_}) == len(all_)
    return all_


INDEX = "2\nx\nHB,1138_bus,1138,1138,4054,1,0,1,1,1.0,1.0,power network problem,2596\nHB,a,3,3,9,0,0,0,0,0.5,0.5,x,9\n"
assert (ROOT / "tests").is_dir() and os.name == "posix"
