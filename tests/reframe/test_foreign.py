"""Third-party programs: real ones from Debian, and the result for faulty ones."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.archive import seal, verify
from tenken.errors import CatalogueError
from tenken.model import catalogue
from tenken.model.verdicts import FAIL, RECORDED, WAIVED
from tenken.paths import ROOT
from tenken.reframe.foreign import Figure, ForeignCheck, ForeignOutputError, without_folder
from tests.programs.conftest import mpi  # noqa: F401 -- a fixture
from tests.support import debian, mpi4py_source
from tests.support.reframe import Outcome, reframe


def figure(**changes: Any) -> Figure:
    return Figure(**{"what": "w", "unit": "us", "direction": "lower", "pattern": r"took (?P<value>\S+)", **changes})


@pytest.mark.parametrize(
    ("changes", "line", "expected"),
    [
        ({}, "took 1.5", [1.5]),
        ({}, "took 1,234.5\nelse\ntook 2e3", [1234.5, 2000.0]),
        ({}, "took 1,234,567\nranks 0,1,2", [1234567.0]),
        ({"printed": "ns"}, "took 1500", [1.5]),
        ({"pattern": r"took (\d+)(?P<unit>\w+)"}, "took 3ms", [3000.0]),
    ],
)
def test_a_figure_is_read_in_its_unit(changes, line, expected):
    assert figure(**changes).samples("time", line) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("command", "series"),
    [
        ("mbw -n 3 64", "mbw -n 3 64"),
        ("/opt/nvbandwidth/0.8/nvbandwidth -t 1", "nvbandwidth -t 1"),
        ("A=1 /opt/burn 5 $(dirname /opt/burn)", "A=1 burn 5 $(dirname burn)"),
        ("cd /data && ./run it's", "cd /data && ./run it's"),
    ],
)
def test_a_new_release_in_another_folder_continues_the_series(command, series):
    assert without_folder(command) == series


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ({}, "nothing", r"metric time: no line of the output matches 'took .*'"),
        ({}, "took long", "metric time: 'long' in 'took long' is not a number"),
        ({}, "took nan", "is not a number"),
        ({}, "took 20,5", "'20,5' in 'took 20,5' is not a number; a comma may only group three digits"),
        ({}, "took 1,2345", "a comma may only group three digits"),
        ({}, "took 1,23,456", "a comma may only group three digits"),
        # 190,048 could be a thousand times as much: another number in the output decides
        ({}, "3,9 GB read\ntook 190,048", "'190,048' in an output with the decimal comma of '3,9'"),
        ({"pattern": r"took (\d+)(?P<unit>\w+)"}, "took 3GB", "unit 'GB' measures B, 'us' measures s"),
    ],
)
def test_what_is_no_figure_is_told(changes, line, said):
    with pytest.raises(ForeignOutputError, match=said):
        figure(**changes).samples("time", line)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no command": ({"command": " "}, "command is empty"),
    "no figures": ({"figures": {}}, "figures is empty"),
    "name of a figure": ({"figures": {"Rate": figure()}}, "metric Rate: the name must be lower case letters"),
    "pattern": ({"figures": {"rate": figure(pattern="(x")}}, "metric rate: pattern '(x' is not a regular expression: "),
    "no group": ({"figures": {"rate": figure(pattern="x")}}, "metric rate: pattern 'x' has no group"),
    "unit as printed": (
        {"figures": {"rate": figure(printed="msec")}},
        "metric rate: printed: unit 'msec' is not known",
    ),
    "kind of unit": ({"figures": {"rate": figure(printed="MB")}}, "metric rate: printed: unit 'MB' measures B, 'us' "),
    "required line": ({"required_lines": ["(x"]}, "required_lines '(x' is not a regular expression"),
    "forbidden line": ({"forbidden_lines": ["(x"]}, "forbidden_lines '(x' is not a regular expression"),
    "version": ({"version_pattern": "(x"}, "version_pattern '(x' is not a regular expression"),
    "misspelt": ({"requird_lines": ["x"]}, "unknown attribute 'requird_lines'; did you mean 'required_lines'?"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_of_a_declaration_is_one_line_before_anything_runs(case):
    changes, said = MISTAKES[case]
    honest: dict[str, Any] = {
        "command": "true", "figures": {"rate": figure()}, "required_lines": ["x"], "forbidden_lines": [],
        "version_pattern": "x", "helper": 1,
    }  # fmt: skip

    def made(**more: Any) -> list[str]:
        stated = {**honest, **more}
        of: Any = SimpleNamespace(**stated, own_names=lambda: list(stated))
        return list(ForeignCheck.mistakes(of))

    assert made() == []
    (line,) = made(**changes)
    assert line.startswith(said), line


@pytest.mark.parametrize(
    ("name", "said"),
    [("stream", "stream is a program of this suite; choose another name"), ("Fio", "allowed: lower case letters")],
)
def test_a_foreign_program_has_a_name_of_its_own(name, said):
    with pytest.raises(CatalogueError, match=said):
        catalogue.declare({"program": name}, "here")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, mpi: dict[str, str]) -> Outcome:  # noqa: F811
    debian.need(*debian.FOREIGN)
    folder = tmp_path_factory.mktemp("foreign")
    more = ("-c", "tests/reframe/foreign", "--system", "local", "-r")
    more_env = {name: value for name, value in mpi.items() if os.environ.get(name) != value}
    more_env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), mpi["PATH"]])
    return reframe(
        *more, folder=folder, checks="examples/foreign", **more_env, PYTHONPATH=mpi4py_source.pythonpath(folder)
    )


pytestmark = pytest.mark.xdist_group("foreign")


def record(session: Outcome, check: str):
    (found,) = [one for one in session.records if one.check == check]
    return found


@pytest.mark.foreign
@pytest.mark.parametrize(("check", "metrics", "version"), [
    ("FioRead", {"bandwidth": "MB/s", "latency": "us"}, r"fio-\d.*"),
    ("StressMatrix", {"rate": "op/s"}, "stress-ng, version .*"),
    ("Mpi4pyPingPong", {"latency": "us", "bandwidth": "GB/s"}, r"mpi4py 4\.\d.*"),
])  # fmt: skip
def test_real_programs_give_their_figures(session, check, metrics, version):
    one = record(session, check)
    assert one.verdict == RECORDED, one.judgement.message()
    assert {m.name: m.unit for m in one.result.metrics} == metrics
    assert all(m.count == (1 if check == "Mpi4pyPingPong" else 3) and m.value > 0 for m in one.result.metrics)
    assert re.fullmatch(version, one.result.version)
    assert one.result.locks.held == ("host",) and one.result.load.seconds > 0


#: The table of mpi4py.bench, with a message per microsecond and 1 GB/s.
PING_PONG = "# MPI PingPong Test\n" + "".join(
    f"{2**i:10d}{2**i / (1e-6 + 2**i / 1e9) / 1e6:18.2f} | {1e-6 + 2**i / 1e9:.7e} ± 1.0000e-08      200\n"
    for i in range(23)
)


def ping_pong(output: str) -> dict[str, float]:
    module = runpy.run_path(str(ROOT / "examples" / "foreign" / "mpi4py_bench.py"))
    return module["Mpi4pyPingPong"].parse(None, output)


def test_the_table_of_mpi4py_is_read():
    assert ping_pong(PING_PONG) == pytest.approx({"latency": 1.008, "bandwidth": 0.99976}, rel=1e-4)


@pytest.mark.parametrize(
    ("line", "other", "said"),
    [
        ("\n      1024", "\n      1025", "the table has the sizes .*, 512, 1025, 2048, .*; required: 1 to 4194304"),
        ("4194304", "2097152", "; required: 1 to 4194304"),
        ("505.93", "605.93", "row of 1024 B: 605.93 MB/s does not follow from"),
    ],
)
def test_a_wrong_table_of_mpi4py_is_refused(line, other, said):
    assert line in PING_PONG
    with pytest.raises(Exception, match=said):
        ping_pong(PING_PONG.replace(line, other))


def test_an_unsuccessful_run_of_stress_ng_is_not_a_successful_one():
    """Newer releases add a column and, below the table, figures of one number."""
    check = runpy.run_path(str(ROOT / "examples" / "foreign" / "stress_ng.py"))["StressMatrix"]
    (ended,) = check.required_lines
    for word, found in (("successful", True), ("unsuccessful", False)):
        assert (re.search(ended, f"stress-ng: info:  [77] {word} run completed in 1.00 sec") is not None) == found
    rows = "stress-ng: metrc: [77] matrix   {}\n".format
    table = rows("692  1.00  3.99  0.01  690.12  173.00  99.96  6200")
    table += rows("206.08 prod matrix ops per sec (geometic mean of 1 instances)")
    assert re.findall(check.figures["rate"].pattern, table, re.M) == ["690.12"]


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "foreign").glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_one_file_of_30_lines_that_the_page_shows(file):
    assert len(file.read_text().splitlines()) <= 30
    assert file.name in (ROOT / "docs" / "foreign-programs.md").read_text()
    if file.name == "fio.py":
        assert file.read_text() in (ROOT / "docs" / "foreign-programs.md").read_text()


@pytest.mark.foreign
def test_what_it_printed_is_archived_beside_its_record_and_sealed(session):
    one = record(session, "Good")
    printed = one.path.with_suffix(".tenken-foreign.out")
    assert "rate: 2048 MiB/s\n" in printed.read_text()
    assert one.job.facts["sha256"] == {"tenken-foreign.out": seal.sha256(printed.read_bytes())}
    found = verify.check(session.archive)
    assert (found.faults, found.unsealed) == ([], []) and found.sealed > len(session.records)


@pytest.mark.foreign
def test_what_is_declared_travels_with_the_record(session):
    one = record(session, "FioRead")
    assert one.request.declared["metrics"]["bandwidth"]["unit"] == "MB/s"
    assert catalogue.load_catalogue()["fio_read"].metrics["latency"].direction == "lower"


@pytest.mark.foreign
def test_an_honest_tool_is_recorded(session):
    one = record(session, "Good")
    assert one.verdict == RECORDED, one.judgement.message()
    assert one.result.metrics[0].samples == pytest.approx((2.147483648, 3.0))
    assert one.result.version == "1.2"
    assert [c.what for c in one.result.verification.checks][:2] == [
        "exit status", "a line of the output matches ^all is well$",
    ]  # fmt: skip
    assert record(session, "ParsesItself").result.metrics[0].value == pytest.approx(100 * 2048 / 3)
    repeated = record(session, "RunsThreeTimes").result.metrics[0]
    assert repeated.samples == (3000.0,) * 3 and repeated.value == 3000


@pytest.mark.foreign
@pytest.mark.parametrize(("check", "verdict", "said"), [
    ("ExitsWith2", FAIL, "exited with 2"),
    ("LacksALine", FAIL, "verification of a line of the output matches ^all is very well$ failed"),
    ("HasAForbiddenLine", FAIL, "verification of no line of the output matches ^error failed"),
    ("GivesNoFigure", FAIL, "metric rate: no line of the output matches"),
    ("GivesAnotherUnit", FAIL, "unit 'MiB' measures B, 'GB/s' measures B/s"),
    ("IsNotThere", WAIVED, "library missing: no command tool-that-nobody-has on the node"),
    ("LacksAPart", WAIVED, "library missing: test -e /a/part fails on the node"),
])  # fmt: skip
def test_what_is_wrong_is_told(session, check, verdict, said):
    one = record(session, check)
    assert one.verdict == verdict and said in one.judgement.message(), one.judgement.message()
    assert "truncated or not JSON" not in one.judgement.message()


@pytest.mark.parametrize(("said", "code"), [("PASSED", 0), ("FAILED", 0), ("FAILED", 1)])
def test_what_the_server_of_perftest_validated_is_printed(said, code, tmp_path):
    """It has the data that a client wrote; its figures are those of the client."""
    program = tmp_path / "ib_write_bw"
    program.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exit\necho '#bytes'; echo 'VALIDATION: {said}'; exit {code}\n"
    )
    program.chmod(0o755)
    check = SimpleNamespace(program_named=lambda: str(program), perftest_options="")
    command = runpy.run_path(str(ROOT / "checks/perftest.py"))["BetweenTwo"].command_named(check)
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"VALIDATION: {said}\n", code)
