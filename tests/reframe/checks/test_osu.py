"""The parser of the OSU Micro-Benchmarks.

The lines are made up in the format of OMB's sources (osu_latency.c, osu_mbw_mr.c and osu_util.c of versions 5.6 and
7.4); the figures are nobody's.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenken.model import result as document
from tenken.model import verdicts as verdict
from tenken.model.catalogue import program
from tenken.model.judgement import Judgement
from tenken.parsers import osu
from tests.support.judging import Expectation, judge
from tests.support.reframe import reframe

LATENCY = """\
# OSU MPI-CUDA Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)        Validation
1                       2.51              Pass
2                       2.49              Pass
4194304               520.25              Pass
"""
OLD_LATENCY = """\
# OSU MPI Latency Test v5.6.2
# Size          Latency (us)
0                       1.01
1                       1.04
"""
BANDWIDTH = """\
# OSU MPI Bandwidth Test v5.6.2
# Size      Bandwidth (MB/s)
1                       3.50
4194304             12000.00
"""
RATE = """\
# OSU MPI Multiple Bandwidth / Message Rate Test v7.4
# [ pairs: 1 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                       4.00        4000000.00
"""
FULL = """\
# OSU MPI Allreduce Latency Test v7.4
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
8                       3.00              2.50              3.50        1000
"""


def test_latency_with_validation() -> None:
    output = osu.parse("osu_latency", "srun: job 1 queued\n" + LATENCY)
    assert output.version == "7.4"
    assert [(p.bytes, p.value, p.valid) for p in output.points] == [
        (1, 2.51, True),
        (2, 2.49, True),
        (4194304, 520.25, True),
    ]


def test_older_output_has_no_validation_and_a_size_0_that_is_left_out() -> None:
    assert [(p.bytes, p.value, p.valid) for p in osu.parse("osu_latency", OLD_LATENCY).points] == [(1, 1.04, None)]


def test_units_and_columns() -> None:
    assert osu.parse("osu_bw", BANDWIDTH).points[-1].value == pytest.approx(12.0)  # MB are 10^6 bytes
    assert osu.parse("osu_mbw_mr", RATE).points[0].value == 4e6
    assert osu.parse("osu_allreduce", FULL).points[0].value == 3.0


@pytest.mark.parametrize(
    ("benchmark", "text", "says"),
    [
        ("osu_latency", "", "no title"),
        ("osu_latency", "mpirun: command not found", "its output begins 'mpirun: command not found'"),
        ("osu_latency", LATENCY.split("1   ")[0], "no line of results"),
        ("osu_mbw_mr", RATE.replace("        4000000.00", ""), "has no column 3"),
        ("osu_put_latency", LATENCY, "no parser for it; allowed: osu_latency"),
    ],
)
def test_what_is_not_osu_is_refused(benchmark: str, text: str, says: str) -> None:
    with pytest.raises(osu.OsuFormatError, match="osu") as raised:
        osu.parse(benchmark, text)
    assert says in str(raised.value)


def judged(text: str) -> Judgement:
    raw = osu.document(osu.parse_all(text), "nid001", 2, ["nid001", "nid002"], "device")
    read = document.validate(raw, "result.json")
    expect = Expectation(subjects=("ranks",), ranks=2, metrics=("osu_latency",), parameters={"implementation": "osu"})
    return judge(read, program("mpi_p2p"), expect, lambda metric: None, 0)


def test_the_document_says_which_implementation_ran_and_passes() -> None:
    found = judged("TENKEN-OSU osu_latency\n" + LATENCY + "TENKEN-OSU osu_bw\n" + BANDWIDTH)
    assert found.verdict == verdict.RECORDED
    assert found.judged["osu_bandwidth.ranks2.buffers=device.bytes=4194304"].value == pytest.approx(12.0)


def test_a_failed_validation_fails_and_names_the_size() -> None:
    wrong = LATENCY.replace("2.49              Pass", "2.49              Fail")
    found = judged("TENKEN-OSU osu_latency\n" + wrong)
    assert found.verdict == verdict.FAIL and "2 B: Fail" in found.message()


def test_output_without_any_validation_is_not_verified() -> None:
    found = judged("TENKEN-OSU osu_latency\n" + OLD_LATENCY)
    assert found.verdict == verdict.FAIL and "verified nothing" in found.message()


def test_no_output_at_all() -> None:
    with pytest.raises(osu.OsuFormatError, match="printed no output"):
        osu.parse_all("nothing")


@pytest.mark.parametrize(("session", "job", "folder"), [("", "/a b", "/a b"), ("", "", "none"), ("/c d", "/a", "/c d")])
def test_a_site_names_its_own_in_the_job_too(tmp_path: Path, session: str, job: str, folder: str) -> None:
    """A module or the system file sets TENKEN_OSU in the job alone; the session's own variable goes before it."""
    more = {"TENKEN_OSU": session} if session else {}
    outcome = reframe(
        "--dry-run", "--system", "miyabi-c", "-n", "^MpiOsu$", folder=tmp_path, TENKEN_GROUP="gz00", **more
    )
    assert outcome.code == 0, outcome.output
    (script,) = (file for file in (tmp_path / "stage").rglob("rfm_*.sh") if "MpiOsu" in str(file))
    (line,) = (one for one in script.read_text().splitlines() if one.startswith("tenken_each "))
    environment = {"PATH": "/usr/bin:/bin", **({"TENKEN_OSU": job} if job else {})}
    shell = f'tenken_each() {{ printf %s "$2"; }}; {line}'
    assert subprocess.run(["sh", "-uc", shell], capture_output=True, text=True, env=environment).stdout == folder
