"""Each row of "it passes silently where it should fail", through a real ReFrame: verdict, reason and exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tenken.archive import seal, verify
from tenken.reframe.plan import describe_checks
from tenken.report.session import load
from tests.support.documents import around, host_document, metric, spoiled
from tests.support.reframe import reframe

#: The floor that follows from the document's own limit: daxpy at 20 GB/s of a limit of 25.
LIMIT = {"daxpy.host": {"value": 25.0, "unit": "GB/s", "basis": "test"}}


def good():
    document = host_document("daxpy")
    document["limits"] = {k: dict(v) for k, v in LIMIT.items()}
    return document


def write_case(folder: Path, document=None, command="true", time_limit="1m") -> Path:
    folder.mkdir(parents=True)
    if document is not None:
        (folder / "document.json").write_text(document if isinstance(document, str) else json.dumps(document))
    (folder / "command").write_text(command)
    (folder / "time_limit").write_text(time_limit)
    return folder


def doctored(tmp_path: Path, name: str, *arguments: str, **env):
    return reframe(
        "-r", "--system", "local", "-n", f"^{name}$|^{name}%", *arguments,
        folder=tmp_path, checks="tests/reframe/checks/doctored", **env,
    )  # fmt: skip


def run(tmp_path: Path, document=None, command="true"):
    """A session of one run."""
    case = write_case(tmp_path / "case", document, command)
    more = {"TENKEN_TEST_DOCUMENT": str(case / "document.json")} if document is not None else {}
    return doctored(tmp_path, "Doctored", TENKEN_TEST_COMMAND=command, **more)


def test_a_good_run_passes_and_is_logged(tmp_path):
    outcome = run(tmp_path, good())
    assert outcome.code == 0, outcome.output
    (record,) = outcome.records
    assert (record.verdict, record.judgement.judged["daxpy.host"].value) == ("RECORDED", pytest.approx(20.0))
    assert list(record.result.metrics[0].samples) == good()["metrics"][0]["samples"]
    assert record.nodes and record.job.exit_code == 0
    (log,) = outcome.archive.glob("local/*/Doctored.log")
    header, row = log.read_text().splitlines()
    line = dict(zip(header.split("|"), row.split("|"), strict=True))
    assert (line["perf_var"], float(line["perf_value"]), line["perf_unit"]) == (
        "daxpy.host",
        pytest.approx(20.0),
        "GB/s",
    )
    assert line["tenken_session"] == record.session


def edit(change):
    return spoiled(good(), change)


def truncated():
    text = json.dumps(good())
    return text[: len(text) // 2]


SPOILED = {
    "missing metric": (
        edit(lambda d: (d["metrics"].clear(), d["limits"].clear())), "true", "metric daxpy of host is missing",
    ),
    "belongs to another attempt": (edit(lambda d: d.update(token="of-yesterday")), "true", "it belongs to another "
    "attempt"),
    "wrong unit": (edit(lambda d: d["metrics"][0].update(unit="MB/s")), "true", "unit is 'MB/s'; expected 'GB/s'"),
    "infinite": (  # not a JSON number, but what a careless program prints
        json.dumps(good()).replace('"value": 20.0', '"value": 1e999'), "true", "out of range",
    ),
    "NaN": (json.dumps(good()).replace('"value": 20.0', '"value": NaN'), "true", "not JSON"),
    "truncated": (truncated(), "true", "not JSON"),
    "half again the limit": (
        edit(lambda d: d["metrics"].__setitem__(0, metric("daxpy", {"host": 0}, around(37.5)))), "true",
        "beyond 1.02 of the physical limit 25 GB/s",
    ),
    "exit 1": (good(), "exit 1", "exited with 1 although the status of its result is 'ok'"),
    "killed": (good(), "kill -9 $PPID", "did not run to its end: no end mark"),
    "no document": (None, "true", "wrote no result"),
    "crashed": (
        None, "echo out of paper >&2; exit 134",
        "exited with 134: result.json: the program wrote no result: out of paper",
    ),
    "empty document": ("", "true", "is empty"),
    "verification failed": (
        edit(lambda d: d["verification"]["checks"][0].update(error=1.0, passed=False)), "true",
        "verification of y, every element, against runs x a x failed",
    ),
    "other parameters": (
        edit(lambda d: d["parameters"].update(repetitions=10)), "true", "repetitions is 10; requested: 100",
    ),
    "waived for nothing": (edit(lambda d: d.update(status="waived", reason="tired")), "exit 3", "not a known reason"),
}  # fmt: skip


#: Prints everything that its job script prints at its end, and kills it.
FORGES_THE_END = (
    """t=$(sed -n 's/.*"token": "\\(.*\\)".*/\\1/p' request.json); """
    'echo "TENKEN-END token=$t status=0 nodes=$(uname -n) node=$(uname -n) time=$(date +%s)"; kill -9 $PPID'
)
#: False statements about the job, the request, place and time, and in JSON: one real job each.
SPOILED |= {
    "left with 7 behind its end mark": (
        good(),
        "true",
        "exited with 7 according to the scheduler (state FAILURE); its end mark",
    ),
    "rank 0 is late": (good(), "true", "result.json had the SHA-256 "),
    "rank 0 writes all of it late": (good(), "mv result.json late", "result.json did not exist when the job ended"),
    "prints the end mark and is killed": (good(), FORGES_THE_END, "did not run to its end: no end mark"),
    "more than was asked": (
        edit(lambda d: (d["metrics"].append({**d["metrics"][0], "id": "copy.host", "name": "copy"}),
                        d["limits"].update({"copy.host": {"unknown": "-"}}))),
        "true", "metric copy.host is not in daxpy's metrics.yaml",
    ),
    "on another node": (edit(lambda d: d["host"].update(name="node2")), "true", "host.name is 'node2'; the job ran on"),
    "of yesterday": (edit(lambda d: d.update(started="2026-01-01T00:00:00Z")), "true", "before the job began"),
    "a link": (good(), "mv result.json other.json; ln -s other.json result.json", "link"),
    "nested deep": ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "true", "cannot be read"),
}  # fmt: skip
#: Commands that a site has after the check's own.
BEHIND = {
    "left with 7 behind its end mark": "trap 'exit 7' EXIT\n",
    "rank 0 is late": "trap 'echo >> result.json' EXIT\n",
    "rank 0 writes all of it late": "trap 'mv late result.json' EXIT\n",
}

#: Those that do not fail, or fail for another reason than what the program wrote.
OTHER = {
    "void conditions": (edit(lambda d: d["placement"].update(allowed_cores=1)), "true"),
    "void once": (
        good(), """mkdir ../void_once && sed -i 's/"allowed_cores": [0-9]*/"allowed_cores": 1/' result.json; true""",
    ),
    "void, then wrong": (
        edit(lambda d: d["placement"].update(allowed_cores=1)), "mkdir ../void_then || exit 1",
    ),
    "a waiver": (
        edit(lambda d: d.update(status="waived", reason="needs more ranks: 2 needed, 1 given", metrics=[], limits={})),
        "exit 3",
    ),
    "over its time limit": (good(), "sleep 60", "2s"),
    "good": (good(), "true"),
}  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Every case in one session, since starting ReFrame takes most of the time."""
    folder = tmp_path_factory.mktemp("doctored")
    for name, (document, command, *more) in {**{k: v[:2] for k, v in SPOILED.items()}, **OTHER}.items():
        case = write_case(folder / "cases" / name.replace(" ", "_"), document, command, *more)
        if name in BEHIND:
            (case / "behind").write_text(BEHIND[name])
    return doctored(folder, "DoctoredCases", TENKEN_TEST_CASES=str(folder / "cases"))


def of_case(session, name):
    """The last record of a case and its entry in ReFrame's run report."""
    case = name.replace(" ", "_")
    entries = [case for run in session.report["runs"] for case in run["testcases"]]
    (entry,) = [one for one in entries if one["name"] == f"DoctoredCases %case={case}"]
    records = attempts_of(session, name)
    return records[-1] if records else None, entry


def attempts_of(session, name):
    of = [r for r in session.records if r.parameters["case"] == name.replace(" ", "_")]
    return sorted(of, key=lambda record: record.time)


@pytest.mark.xdist_group("fail closed")
@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_run_fails_and_is_archived(name, session):
    says = SPOILED[name][2]
    record, entry = of_case(session, name)
    assert (entry["result"], len(attempts_of(session, name))) == ("fail", 1)
    assert record.verdict == "FAIL"
    text = " ".join(f.message for f in record.findings)
    assert says in text
    assert says in session.output.replace("\n", " ")
    assert text.split(":")[0], "the message begins with the node"


def test_a_session_with_a_spoiled_run_is_not_green(tmp_path):
    outcome = run(tmp_path, SPOILED["verification failed"][0])
    assert outcome.code != 0
    assert SPOILED["verification failed"][2] in outcome.output.replace("\n", " ")
    assert [r.verdict for r in outcome.records] == ["FAIL"]


@pytest.mark.xdist_group("fail closed")
def test_void_conditions_are_reported_as_invalid(session):
    record, entry = of_case(session, "void conditions")
    assert (record.verdict, entry["result"]) == ("INVALID", "fail")
    assert "INVALID: " in session.output and "bound to 1 cores" in session.output


@pytest.mark.xdist_group("fail closed")
def test_what_is_invalid_is_measured_once_more_at_the_end_and_the_second_attempt_decides(session):
    others = max(r.time for r in session.records if not r.parameters["case"].startswith("void"))
    expected = {
        "void conditions": ("INVALID", "INVALID", "fail"),
        "void once": ("INVALID", "RECORDED", "pass"),
        "void, then wrong": ("INVALID", "FAIL", "fail"),
    }
    for name, (*verdicts, result) in expected.items():
        attempts = attempts_of(session, name)
        assert [one.verdict for one in attempts] == verdicts
        assert attempts[0].request.token != attempts[1].request.token and attempts[1].time > others
        assert of_case(session, name)[1]["result"] == result
    cases = [c["name"] for run in session.report["runs"] for c in run["testcases"]]
    assert len(cases) == len(set(cases))
    page = load(session.archive, "20260101T000000Z-test")
    assert [(c.attempt, c.superseded) for c in page.cases if "void_once" in c.check] == [(1, True), (2, False)]


@pytest.mark.xdist_group("fail closed")
def test_a_waiver_is_archived_and_skipped(session):
    record, entry = of_case(session, "a waiver")
    assert (record.verdict, entry["result"]) == ("WAIVED", "skip")
    assert "needs more ranks: 2 needed, 1 given" in session.output


@pytest.mark.xdist_group("fail closed")
def test_a_job_over_its_time_limit_fails(session):
    record, entry = of_case(session, "over its time limit")
    assert entry["result"] == "fail"
    # ReFrame may end it before it is judged
    assert record is None or record.verdict == "FAIL"
    assert "did not run to its end" in session.output or "timed out" in session.output.lower()


@pytest.mark.xdist_group("fail closed")
def test_a_good_run_among_spoiled_ones_is_not_touched_by_them(session):
    record, entry = of_case(session, "good")
    assert (record.verdict, entry["result"]) == ("RECORDED", "pass")


@pytest.mark.xdist_group("fail closed")
def test_each_record_is_sealed_and_its_result_is_what_the_job_wrote(session):
    found = verify.check(session.archive)
    assert (found.faults, found.notes, found.unsealed, found.sealed) == ([], [], [], len(session.records))
    content = of_case(session, "good")[0].path.read_bytes()
    raw = json.loads(content)
    written = content[-raw["result_bytes"] - 1 : -1]
    assert raw["job"]["facts"]["sha256"] == {"result.json": seal.sha256(written)}


def test_a_number_below_its_floor_is_logged_and_fails_with_node_and_miss(tmp_path):
    """The catalogue gives daxpy no floor on a host, so it can only miss its upper limit."""
    outcome = run(tmp_path, SPOILED["half again the limit"][0])
    (log,) = outcome.archive.glob("local/*/Doctored.log")
    assert "37.5" in log.read_text()
    assert f"{os.uname().nodename} host: daxpy.host = 37.5 GB/s" in outcome.output


def test_a_read_only_archive_is_one_line_before_anything_runs(tmp_path):
    (tmp_path / "perflogs").write_text("a file where the folder should be")
    outcome = run(tmp_path, good())
    assert outcome.code != 0
    assert "cannot write to the archive" in outcome.output


def test_arguments_of_a_program_cannot_be_set_from_the_command_line(tmp_path):
    """ReFrame takes a text for a dictionary, drops the whole file and ends with 0."""
    outcome = doctored(tmp_path, "Doctored", "-S", "Doctored.arguments=most-bytes=64")
    assert outcome.code != 0
    assert "tenken: -S cannot set the arguments of a program ('most-bytes=64'): they are set in the" in outcome.output


def test_a_case_that_fails_in_set_up_leaves_a_record_with_node_and_reason(tmp_path):
    (tmp_path / "broken.py").write_text(
        "import reframe as rfm\n"
        "from reframe.core.builtins import run_after\n"
        "from tests.reframe.checks.doctored.doctored import Doctored\n\n"
        "@rfm.simple_test\n"
        "class Broken(Doctored):\n"
        "    @run_after('setup')\n"
        "    def break_it(self):\n"
        "        raise ValueError('no such matrix')\n"
    )
    outcome = reframe("-r", "--system", "local", "-n", "Broken", folder=tmp_path, checks=str(tmp_path / "broken.py"))
    (record,) = outcome.records
    assert (record.verdict, record.nodes, record.request) == ("FAIL", (os.uname().nodename,), None)
    assert "no such matrix" in record.findings[0].message
    assert record.job.id is None


def test_a_check_file_that_does_not_import_is_in_the_plan(tmp_path):
    (tmp_path / "broken.py").write_text(
        "import no_such_module\nimport reframe as rfm\n\n@rfm.simple_test\nclass Broken: pass\n"
    )
    found, errors = describe_checks(None, str(tmp_path))
    assert found == []
    assert len(errors) == 1
    assert "broken.py" in errors[0]
    assert "no_such_module" in errors[0]
