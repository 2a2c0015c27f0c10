"""The parser of the OSU Micro-Benchmarks.

The lines are made up in the format of OMB's sources (osu_latency.c, osu_mbw_mr.c and osu_util.c of versions 5.6 and
7.4); the figures are invented. Finally real programs run through the check: the ports among mpi4py's demos.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from checks.osu import MpiOsu
from tenken.model import verdicts as verdict
from tenken.parsers import osu
from tenken.paths import ROOT
from tests.programs.conftest import mpi  # noqa: F401 -- a fixture
from tests.support import mpi4py_source
from tests.support.reframe import Outcome, reframe


def test_a_benchmark_that_did_not_end_is_named_with_its_last_line() -> None:
    one = SimpleNamespace(osu_seconds=60)
    text = "# OSU\n8   2.51\n\nTENKEN-OSU-LATE osu_bw\nTENKEN-OSU osu_bibw\n"
    assert MpiOsu.late(one, text) == (
        "osu_bw did not end within 60 s (osu_seconds; osu_max_bytes makes it shorter); it last printed '8   2.51'"
    )
    for other in ("no TENKEN-OSU-LATE osu_bw", "TENKEN-OSU-LATE osu_bw and more", ""):
        assert MpiOsu.late(one, f"8   2.51\n{other}\n") == ""


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
#: OMB's own ports to Python, and those among mpi4py's demos.
OMB_PY = """\
# OMB-Py MPI Bandwidth Test
# Size (B)  Bandwidth (MB/s)
1                       0.94
4194304              9876.54
"""
PORT = """\
# MPI Latency Test
# Size [B]        Latency [us]
         0                0.49
         8                0.54
"""


#: Parses options as the benchmarks do: none after the first word that is not an option; the rest are the buffers.
READS_OPTIONS = r"""#!/bin/sh
while getopts cd:T:m:i:x: of; do [ "$of" != "?" ] || exit 9; done
shift $((OPTIND - 1)); echo "$#:$*"
"""


@pytest.mark.parametrize(("buffers", "rest"), [("", "0:"), (" -d cuda D D", "2:D D")])
def test_every_option_comes_before_the_memory_of_the_buffers(tmp_path: Path, buffers: str, rest: str) -> None:
    from checks.osu import MpiOsu

    program = tmp_path / "osu_latency"
    program.write_text(READS_OPTIONS)
    program.chmod(0o755)
    check = SimpleNamespace(osu_takes_sizes=True, osu_max_bytes=65536, osu_benchmarks=["osu_latency"], osu_seconds=9)
    lines = MpiOsu.runs(check, "-c -T mpi_int", buffers, "")
    script = "\n".join(
        [*lines, f'IFS="|"; for tenken_part in $tenken_parts_osu_latency; do IFS=" "; tenken_run {program}; done']
    )
    run = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [rest] * 2


def test_older_output_has_no_validation_and_a_size_0_that_is_left_out() -> None:
    assert [(p.bytes, p.value, p.valid) for p in osu.parse("osu_latency", OLD_LATENCY).points] == [(1, 1.04, None)]


@pytest.mark.parametrize(("title", "version"), [
    ("# OMB-Py MPI Bandwidth Test", "(OMB-Py, version not stated)"),
    ("# OMB Python MPI Bandwidth Test", "(OMB-Py, version not stated)"),
    ("# MPI Bandwidth Test", "(a port, version not stated)"),
])  # fmt: skip
def test_ports_to_python_state_no_version(title: str, version: str) -> None:
    output = osu.parse("osu_bw", OMB_PY.replace("# OMB-Py MPI Bandwidth Test", title))
    assert (output.version, output.points[-1].value) == (version, pytest.approx(9.87654))
    assert [(p.bytes, p.value, p.valid) for p in osu.parse("osu_latency", PORT).points] == [(8, 0.54, None)]


@pytest.mark.parametrize(
    ("benchmark", "text", "says"),
    [
        # the header of mpi4py's osu_bw names a latency, while its figures are MB/s
        ("osu_bw", PORT.replace("Latency Test", "Bandwidth Test"), "its columns are in us; required: MB/s"),
        ("osu_bw", BANDWIDTH.replace("MB/s", "GB/s"), "its columns are in GB/s; required: MB/s"),
        ("osu_latency", OMB_PY, "its columns are in MB/s; required: us"),
        ("osu_latency", LATENCY.replace("(us)", "(ns)"), "its columns are in ns; required: us"),
        ("osu_latency", PORT.replace("# Size [B]        Latency [us]\n", ""), "no line '# Size' with the unit"),
        ("osu_latency", PORT.replace(" [us]", ""), "no line '# Size' with the unit"),
        ("osu_latency", PORT + PORT, "a second title '# MPI Latency Test': two outputs in one"),
    ],
)
def test_columns_of_another_unit_are_refused(benchmark: str, text: str, says: str) -> None:
    with pytest.raises(osu.OsuFormatError, match=f"^{benchmark}: ") as raised:
        osu.parse(benchmark, text)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("benchmark", "text", "says"),
    [
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


def test_two_parts_of_a_benchmark_are_one_output() -> None:
    small, large = LATENCY.replace("4194304  ", "4  "), LATENCY.split("1     ")[0]
    large += "4194304               520.25              Pass\n"
    (output,) = osu.parse_all(f"TENKEN-OSU osu_latency\n{small}TENKEN-OSU-PART\n{large}")
    assert [point.bytes for point in output.points] == [1, 2, 4, 4194304]
    seconds = {
        "the size 1 again": LATENCY, "another version": large.replace("v7.4", "v7.3"), "no title": "",
        "only one of its parts": large.replace("              Pass", ""),
    }  # fmt: skip
    for says, second in seconds.items():
        with pytest.raises(osu.OsuFormatError, match=says):
            osu.parse_all(f"TENKEN-OSU osu_latency\n{small}TENKEN-OSU-PART\n{second}")


@pytest.mark.parametrize(("benchmark", "most", "options"), [
    ("osu_latency", 4194304, ["-m 1:8192 -i 1000 -x 100", "-m 16384:4194304 -i 50 -x 5"]),
    ("osu_bibw", 65536, ["-m 1:8192 -i 100 -x 10", "-m 16384:65536 -i 5 -x 1"]),
    ("osu_allreduce", 8192, ["-m 1:8192 -i 1000 -x 100"]),
    ("osu_bw", 1024, ["-m 1:1024 -i 100 -x 10"]),
])  # fmt: skip
def test_large_messages_are_timed_less_often(benchmark: str, most: int, options: list[str]) -> None:
    assert osu.parts(benchmark, most) == options


@pytest.mark.sessions
@pytest.mark.parametrize(("session", "job", "folder"), [("", "/a b", "/a b"), ("", "", "none"), ("/c d", "/a", "/c d")])
def test_a_site_names_its_own_in_the_job_too(tmp_path: Path, session: str, job: str, folder: str) -> None:
    """A module or the system file sets TENKEN_OSU only in the job; the session's own variable takes precedence."""
    more = {"TENKEN_OSU": session} if session else {}
    two = ["-S", "MpiOsu.osu_benchmarks=osu_latency,osu_bibw"]
    outcome = reframe(
        "--dry-run", "--system", "miyabi-c", "-n", "^MpiOsu$", *two, folder=tmp_path, checks="checks/osu.py",
        TENKEN_GROUP="gz00", **more,
    )  # fmt: skip
    assert outcome.code == 0, outcome.output
    (script,) = (file for file in (tmp_path / "stage").rglob("rfm_*.sh") if "MpiOsu" in str(file))
    (line,) = (one for one in script.read_text().splitlines() if one.startswith("tenken_each "))
    assert line.endswith(" osu_latency osu_bibw")
    environment = {"PATH": "/usr/bin:/bin", **({"TENKEN_OSU": job} if job else {})}
    shell = f'tenken_each() {{ printf %s "$2"; }}; {line}'
    assert subprocess.run(["sh", "-uc", shell], capture_output=True, text=True, env=environment).stdout == folder


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, mpi: dict[str, str]) -> Outcome:  # noqa: F811
    """MpiOsu with the port of osu_latency among mpi4py's demos, in place of a site's binaries."""
    folder = tmp_path_factory.mktemp("ports")
    port = folder / "osu_latency"
    file = ROOT / "tests" / "support" / "osu_port.py"
    demo = mpi4py_source.demos() / "osu_latency.py"
    port.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{file}' '{demo}' \"$@\"\n")
    port.chmod(0o755)
    more = {name: value for name, value in mpi.items() if os.environ.get(name) != value}
    more["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), mpi["PATH"]])
    more["PYTHONPATH"] = mpi4py_source.pythonpath(folder)
    return reframe("-r", "--system", "local", folder=folder, checks="tests/reframe/osu", TENKEN_OSU=str(folder), **more)


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.xdist_group("foreign")
@pytest.mark.parametrize(("check", "found", "says"), [
    ("PortCompared", verdict.RECORDED, ""),
    ("PortAsItIs", verdict.FAIL, "the program verified nothing"),
    ("PortChanged", verdict.FAIL, "64 B: Fail"),
])  # fmt: skip
def test_real_ports_with_and_without_validation(ports: Outcome, check: str, found: str, says: str) -> None:
    """Ports verify nothing by themselves, and the check states so; with every message compared they are recorded."""
    (record,) = [one for one in ports.records if one.check == check]
    assert record.verdict == found, ports.output
    assert says in " ".join(finding.message for finding in record.findings)
    assert record.result is not None and record.result.path["implementation"] == (
        "OSU Micro-Benchmarks (a port, version not stated)"
    )
    sizes = [metric.at["bytes"] for metric in record.result.metrics]
    assert sizes == [1 << power for power in range(17)]
    assert all(metric.name == "osu_latency" and metric.value > 0 for metric in record.result.metrics)
