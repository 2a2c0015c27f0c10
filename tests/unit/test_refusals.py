"""What must be refused is refused in one line that says what is wrong: refusals that no other test reaches.

Each row changes one thing in an input that is accepted.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.campaign import file
from tenken.errors import CatalogueError, TenkenError
from tenken.history import acknowledged, record_parser
from tenken.machines import publications
from tenken.model import catalogue, derivation, files, formula, result
from tenken.model.judgement import Criterion, JudgedMetric
from tenken.parsers import dcgm, foreign, hpcg, hpl, hpl_mxp, nccl_tests, nvbandwidth, osu, perftest
from tenken.paths import PROGRAMS
from tenken.report import bundle, compare
from tests.support.documents import host_document
from tests.unit.parsers.test_outputs import LATENCY, kept
from tests.unit.parsers.test_programs import LATENCIES, NVBANDWIDTH, PERFTEST, as_json, of_dcgm4

MXP, NCCL, HPL = kept("mxp-format-by-name"), kept("nccl-from-8-bytes"), kept("hpl-netlib")
SWEEP, MEAN = NCCL[NCCL.index("# nThread") : NCCL.index("# Avg bus")], "# Avg bus bandwidth    : 0.338522 \n"


def of_nccl(text: str) -> Any:
    return nccl_tests.parse("all_reduce_perf", text)


def all_of_nccl(text: str) -> Any:
    """With two ranks the bus bandwidth of both collectives is their rate."""
    first = NCCL.replace("all_reduce", "broadcast")
    return nccl_tests.parse_all(f"TENKEN-NCCL-TESTS broadcast_perf\n{first}TENKEN-NCCL-TESTS all_reduce_perf\n{text}")


def of_rates(text: str) -> Any:
    return perftest.parse("RDMA_Write BW", text)


def of_latencies(text: str) -> Any:
    return perftest.parse("RDMA_Read Latency", text)


def of_osu(text: str) -> Any:
    """Both parts of a benchmark."""
    return osu.parse_all(f"TENKEN-OSU osu_latency\n{LATENCY}TENKEN-OSU-PART\n{text}")


HIGHER = "".join(
    f"{line}\n" for line in LATENCY.replace("4194304 ", "8388608 ").splitlines() if not re.match(r"\d+ ", line)
    or line.startswith("8388608")
)  # fmt: skip

#: How it is read, the accepted text, what is replaced, by what, the message.
OUTPUTS: tuple[tuple[Callable[[str], Any], str, str, str, str], ...] = (
    (hpcg.parse, kept("hpcg-reference"), "Final Summary::HPCG result is VALID", "Final Summary::x=INVALID\n"
     "Final Summary::HPCG result is VALID", "contains both VALID and INVALID"),
    (hpl.parse, HPL, "Finished      1 tests", "Finished      2 tests", "1 results but 'Finished 2 tests'"),
    (hpl_mxp.parse, MXP, "NPROW = 2", "NPROW = 0", "none of them may be 0"),
    (hpl_mxp.parse, MXP, "   Threshold ", "   EPS           . . .   =    2.0E-16\n   Threshold ", "EPS: 2 lines of"),
    (hpl_mxp.parse, MXP, "160000.00", "150000.00", "GFLOPS = 640000 of 4 GPUs and 150000 per GPU are inconsistent"),
    (hpl_mxp.parse, MXP, "LU GFLOPS = 1.9000e+06, per GPU =  475000.00", "LU GFLOPS = 6.3000e+05, per GPU =  157500.00",
     "which is a part of it"),
    (hpl_mxp.parse, MXP, "2.000000E-16", "0.000000E+00", "all 0, or an EPS of 0"),
    (hpl_mxp.parse, MXP, "1.907349E-03", "1.907549E-03", "residual 0.00190755 does not follow from its norm"),
    (of_nccl, NCCL, MEAN, 2 * MEAN, "2 times the line '# Avg bus bandwidth"),
    (of_nccl, NCCL, f"{SWEEP}{MEAN}", f"{MEAN}{SWEEP}", "its lines are not in order"),
    (of_nccl, NCCL, "minBytes 8 maxBytes 1048576", "minBytes 32 maxBytes 4194304", "line 13 is 32768; announced"),
    (of_nccl, NCCL, "minBytes 8 maxBytes 1048576", "minBytes 4 maxBytes 524288", "line 1 is 8; announced: 4"),
    (of_nccl, NCCL, "          16             4 ", "           8             2 ", "size 8 follows 8: two outputs are"),
    (all_of_nccl, NCCL, "version 2.17.1", "version 2.17.2", "_reduce_perf: version .*2.17.2.*cast_perf has .*2.17.1"),
    (all_of_nccl, NCCL, " node1 ", " node2 ", "all_reduce_perf: hosts .*node2.*broadcast_perf has .*node1"),
    (all_of_nccl, NCCL, "iters: 100", "iters: 50", "all_reduce_perf: asked .*50.*broadcast_perf has .*100"),
    (nvbandwidth.parse, as_json(NVBANDWIDTH), '"testcases"', '"tests"', "has no nvbandwidth.testcases"),
    (nvbandwidth.parse, as_json(NVBANDWIDTH), "device_to_host_memcpy_ce", "host_to_device_memcpy_ce", "_ce: twice"),
    (nvbandwidth.parse, as_json(NVBANDWIDTH), "bandwidth_matrix", "matrix", "no bandwidth_matrix"),
    (nvbandwidth.parse, as_json(NVBANDWIDTH), '"Passed"', '"Waived"', "no test case has a result"),
    (of_osu, HIGHER, "v7.5", "v7.4", "another version in a second part"),
    (of_osu, HIGHER, "8388608", "4194304", "the size 4194304 again in a second part"),
    (of_osu, HIGHER, "  Pass", "", "only one of its parts has Pass or Fail"),
    (of_rates, PERFTEST, "BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]", "x y z", "allowed: those"),
    (of_rates, PERFTEST, PERFTEST[PERFTEST.index(" 2     ") : PERFTEST.index("0.005865") + 9], "",
     "no line of results"),
    (of_latencies, LATENCIES, "1.68                1.69", "1.61                1.69", "typical latency is outside"),
    (of_latencies, LATENCIES, "1.68                1.69", "5.11                1.69", "typical latency is outside"),
    (of_latencies, LATENCIES, "1.68                1.69", "1.68                5.11", "typical latency is outside"),
    (dcgm.parse, of_dcgm4(), '"name": "software"', '"name": " "', "without a name"),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(OUTPUTS)))
def test_an_output_that_contradicts_itself_is_refused(at: int) -> None:
    parse, text, old, new, says = OUTPUTS[at]
    assert old in text
    parse(text)
    refused(lambda: parse(text.replace(old, new)), says)


def refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises((TenkenError, ValueError, TypeError, record_parser.Unreadable), match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


#: A program's metrics.yaml: what is replaced, by what, the message.
METRICS = (
    ("daxpy:\n    title", "daxpy: [1]\n  other:\n    title", "metric daxpy: not a mapping"),
    ("    title: daxpy", "    like: other", "metric daxpy: like is 'other'; allowed: "),
    ("    title: daxpy", "    tittle: daxpy", "metric daxpy: unknown key 'tittle'"),
    ("    unit: GB/s", "", "metric daxpy: key 'unit' is missing"),
    ("section: docs", "sections: docs", "keys must be "),
    ("program: daxpy", "program: other", "program is 'other'; it must be the folder's name"),
    ("timed: 0.1", "counts: 7", "counts is 7; expected a list"),
    ("name: y, what", "named: y, what", "verifications: unknown key 'named'"),
    ("of: [daxpy]", "of: [other]", "'other' is not a metric of the program"),
    ("defaults: {", "points: [{subjects: all}]\ndefaults: {", "subjects is 'all'; allowed: each, first, some"),
    ("defaults: {", "points: [{metrics: [daxpy], at: {n: 7}}]\ndefaults: {", "n is 7; allowed: own, a list of values"),
    ("defaults: {", "points: [{metrics: [daxpy], at: {n: {from: 1, to: 2}}}]\ndefaults: {", "n is .*allowed: own"),
    ("defaults: {", "paths: {n: {allowed: [1], verdict: PASS}}\ndefaults: {", "verdict is 'PASS'; allowed: FAIL"),
    ("what: \"y, every element, against runs x a x\"", "what: 7", "each has a text `what` and a number `tolerance`"),
    ("clock: host", "clock: host\n    derive: function", "derive: function, but there is no derived.py next to it"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), METRICS)
def test_a_metrics_file_that_does_not_fit_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = (PROGRAMS / "daxpy" / "metrics.yaml").read_text()
    path = tmp_path / "daxpy" / "metrics.yaml"
    path.parent.mkdir()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    refused(lambda: catalogue.load_program(path), says)


@pytest.mark.parametrize(("common", "says"), [("[1]", "allowed keys"), ("{more: 1}", "allowed keys"), ("{", "yaml: ")])
def test_what_programs_share_is_refused(common: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "daxpy" / "metrics.yaml"
    path.parent.mkdir()
    path.write_text((PROGRAMS / "daxpy" / "metrics.yaml").read_text())
    (tmp_path / catalogue.COMMON).write_text(common)
    refused(lambda: catalogue.load_program(path), says)


def test_a_program_of_others_cannot_take_a_name_of_ours() -> None:
    for name, says in (("daxpy", "daxpy is a program of this suite"), ("Daxpy", "allowed: lower case letters"),
                       (7, "allowed: lower case letters")):  # fmt: skip
        refused(lambda name=name: catalogue.declare({"program": name}, "x"), says)
    refused(lambda: catalogue.declare_of_record({"program": "other"}), "keys must be")
    catalogue.declare_of_record({"program": "daxpy"})


ROW: dict[str, Any] = {"publication": "p", "system": "s", "row": "T1", "place": "a", "value": "1", "what": "x",
                       "run": "one", "metric": "a.b", "at": {"n": 1}}  # fmt: skip
LIST: dict[str, Any] = {
    "publications": {"p": {"cite": "c", "title": "t"}}, "reasons": {"r": "because"},
    "runs": {"one": {"check": "C", "asked": {}}},
    "rows": [ROW, {**{k: v for k, v in ROW.items() if k not in ("run", "metric", "at")}, "reason": "r"}],
}  # fmt: skip


def with_row(drop: str = "", **more: Any) -> dict[str, Any]:
    return {**LIST, "rows": [{k: v for k, v in {**ROW, **more}.items() if k not in drop.split()}, *LIST["rows"]]}


@pytest.mark.parametrize(("wrong", "says"), [
    ([], "keys must be"), ({**LIST, "more": {}}, "keys must be"),
    ({**LIST, "runs": {"one": {"check": "C"}}}, "run one: needs check and asked"),
    ({**LIST, "runs": {"one": {"asked": {}}}}, "run one: needs check and asked"),
    ({**LIST, "runs": {"one": {"check": "C", "asked": {}, "more": 1}}}, "run one: needs check and asked"),
    ({**LIST, "runs": {**LIST["runs"], "two": LIST["runs"]["one"]}}, "no row names two"),
    ({**LIST, "reasons": {"r": "because", "q": "x"}}, "no row names q"),
    (with_row("place"), "missing key 'place'"), (with_row(more=1), "unknown key 'more'"),
    (with_row(publication="q"), "publication is 'q'; allowed: p"), (with_row(run="q"), "run is 'q'; allowed: one"),
    (with_row("run", reason="q"), "reason is 'q'; allowed: r"),
    (with_row(reason="r"), "exactly one of run, fact and reason"), (with_row("run"), "exactly one of run"),
    (with_row("metric"), "a note must state why"), (with_row("run", reason="r"), "metric and at require run"),
    (with_row("run metric", reason="r"), "metric and at require run"), (with_row(number=1), "fact and number go"),
    (with_row("run metric at", fact="node"), "fact and number go together"),
])  # fmt: skip
def test_a_list_of_published_results_that_does_not_fit_is_refused(wrong: Any, says: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(json.dumps(LIST))
    bad.write_text(json.dumps(wrong))
    found = publications.load(good)
    assert [(row.run and row.run.check, row.reason) for row in found.rows] == [("C", None), (None, "r")]
    assert (found.cited, found.titles) == ({"p": "c"}, {"p": "t"})
    refused(lambda: publications.load(bad), says)


def test_a_row_finds_its_references_by_one_value_or_several() -> None:
    assert publications._among(1, [1, 2]) and publications._among(1, 1)
    assert not publications._among(3, [1, 2]) and not publications._among(1, 2)


def criterion(**more: Any) -> dict[str, Any]:
    one = {"kind": "floor", "value": 1.0, "low": 1.0, "high": None, "unit": "s", "statistic": "best", "source": "x"}
    return {**one, **more}


def test_numbers_of_a_judgement_are_numbers_or_nothing() -> None:
    assert Criterion.of(criterion()).high is None
    judged = {"criterion": criterion(), "efficiency": 0.5, "bounds": (1.0, None)}
    for wrong in ("1", [1.0], True):
        for key in ("low", "high"):
            refused(lambda wrong=wrong, key=key: Criterion.of(criterion(**{key: wrong})), "criterion is from")
        for change in ({"efficiency": wrong}, {"bounds": (wrong, None)}, {"bounds": (None, wrong)}):
            refused(lambda change=change: JudgedMetric.of({**judged, **change}), "judged has efficiency")


def test_a_text_of_a_result_has_a_length_and_a_version() -> None:
    text = json.dumps(host_document())
    assert result.decode(text, len(text))
    refused(lambda: result.decode(text, len(text) - 1), f"has {len(text)} characters; at most {len(text) - 1} are")
    other = text.replace("tenken-result/", "other/")
    refused(lambda: result.parse(other, "here"), "here: not a .* document: schema is")


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    refused(lambda: files.read_text("a\0b", 9), "contains a NUL character")
    (tmp_path / "full").write_text("123456789")
    assert files.read_text(tmp_path / "full", 9) == "123456789"
    refused(lambda: files.read_text(tmp_path / "full", 8), "has 9 bytes; at most 8")


def test_a_list_of_nodes_has_an_end() -> None:
    most = file.MOST_NODES
    assert len(file.expand(f"n[1-{most}]")) == most
    for text in (f"n[0-{most}]", f"n[1-{most // 2 + 1}]x[1-2]", f"n[1-{most}],m"):
        refused(lambda text=text: file.expand(text), f"expands to more than {most} nodes")


@pytest.mark.parametrize(("text", "says"), [
    ("retired: 7", "`retired` must be a list"), ("acknowledged: {a: 1}", "`acknowledged` must be a list"),
    ("rebased: x", "`rebased` must be a list"), ("- 1", "must contain lists"), ("other: []", "must contain lists"),
    ("a: [", "while parsing"),
])  # fmt: skip
def test_decisions_that_are_no_lists_are_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "acknowledged.yaml"
    path.write_text(text)
    refused(lambda: acknowledged.read_all(path), says)


def test_headers_of_logs_have_a_name_with_each_value() -> None:
    good = "job_completion_time|check_name|perf_var|perf_value"
    assert record_parser.header(good).columns[2:] == ("perf_var", "perf_value")
    for gone in ("perf_var", "perf_value"):
        refused(lambda gone=gone: record_parser.header(good.replace(gone, "x")), "only one of perf_var and perf_value")
    refused(lambda: record_parser.header(good.replace("job_completion", "x")), "no job_completion_time")


def test_a_report_has_each_member_once_and_is_not_half_written(tmp_path: Path) -> None:
    target = tmp_path / "report.tar"
    one = bundle.Member("a", b"x")
    refused(lambda: bundle.write(target, [one, one]), "two members have one name")
    refused(lambda: bundle.write(tmp_path / "none" / "x.tar", [one]), "cannot be written: No such file")
    refused(lambda: bundle.read(tmp_path), "cannot be read")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1])
def test_a_margin_is_a_share(margin: float) -> None:
    refused(lambda: compare.run(Namespace(margin=margin)), "--margin is")


def test_a_sample_of_another_program_is_finite_and_a_total_is_one() -> None:
    for value in (float("nan"), float("inf")):
        refused(lambda value=value: foreign.metric("x", {"host": 0}, "s", "lower", [1.0, value], "median"), "finite")
    refused(lambda: foreign.metric("x", {"host": 0}, "s", "lower", [1.0, 2.0], "total"), "a total is one value, not")
    assert foreign.metric("x", {"host": 0}, "s", "lower", [2.0], "total")["value"] == 2.0


ASKED = {"n": 131072, "nb": 2048, "p": 2, "q": 2, "low": "fp16"}
OF_HPL = {"n": 40000, "nb": 256, "p": 2, "q": 4}


@pytest.mark.parametrize(("key", "value"), {"n": 65536, "nb": 1024, "p": 1, "q": 1, "low": "fp8"}.items())
def test_another_problem_than_was_requested_is_refused(key: str, value: Any) -> None:
    read = hpl_mxp.parse(MXP)
    assert hpl_mxp.document(read, ["x"], "n", ["n"], 4, **ASKED)["status"] == "ok"
    refused(lambda: hpl_mxp.document(read, ["x"], "n", ["n"], 4, **{**ASKED, key: value}), "another problem was solved")
    if key in OF_HPL:
        solved = hpl.parse(HPL)
        refused(lambda: hpl.document(solved, "xhpl", ["x"], "n", ["n"], 8, **{**OF_HPL, key: value}), "another")


def test_functions_beside_a_metrics_file_exist(tmp_path: Path) -> None:
    (tmp_path / "derived.py").write_text("one = 1\n")
    for name in ("one", "two"):
        refused(lambda name=name: derivation._function(tmp_path, name), f"has no function {name}")
    with pytest.raises(CatalogueError, match="is not allowed in a formula"):
        formula.Formula("1 if at.n is 2 else 0", "here")
