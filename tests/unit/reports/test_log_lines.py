"""Rows of records and of lines of performance logs, by hand."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.history import record_parser as reading
from tenken.history.record_parser import Unreadable

NOW = datetime(2026, 12, 1)


@pytest.mark.parametrize(("line", "delimiter", "columns", "wide"), [
    ("job_completion_time|check_system|perf_var|perf_value\n", "|",
     ("job_completion_time", "system", "perf_var", "perf_value"), ()),
    ("job_completion_time,triad_value,triad_unit,_value,\r\n", ",",
     ("job_completion_time", "triad_value", "triad_unit", "_value"), ("triad",)),
    (" job_completion_time_unix ;result;", ";", ("job_completion_time_unix", "result"), ()),
    ("job_completion_time|perf_var|perf_value|x_value", "|",
     ("job_completion_time", "perf_var", "perf_value", "x_value"), ()),
])  # fmt: skip
def test_a_header_has_its_columns_and_the_metrics_of_a_wide_log(
    line: str, delimiter: str, columns: Any, wide: Any
) -> None:
    found = reading.header(line)
    assert (found.delimiter, found.columns, found.wide) == (delimiter, columns, wide)
    assert found.has_values == ("perf_value" in columns or bool(wide))
    assert found.index("none", columns[1]) == 1 and found.index("none") == -1


@pytest.mark.parametrize(("line", "says"), [
    ("job_completion_time|perf_value", "only one of perf_var and perf_value"),
    ("perf_var|perf_value", "no job_completion_time"),
    ("job_completion_time|perf_var", "only one of perf_var and perf_value"),
])  # fmt: skip
def test_a_header_without_a_time_or_half_of_a_value_is_none(line: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        reading.header(line)


COLUMNS = (
    "job_completion_time|system|partition|environ|display_name|jobid|job_nodelist|result|fail_phase|perf_var|"
    "perf_value|perf_unit|perf_lower_thres|perf_upper_thres"
)
LINE = "2026-11-22T01:02:03|s|p|e|Triad %a=1 %$nid=n1|7|n1.site|pass||triad|123.5|GB/s|100|"


def reader(columns: str = COLUMNS) -> reading.LogReader:
    return reading.LogReader(reading.header(columns), "sys", "part", "Name", NOW)


def test_a_line_is_a_value_of_a_run() -> None:
    log = reader()
    ((run, point),) = log.line(LINE)
    assert (run.kind, run.time, run.system, run.partition, run.environ) == (
        "perflog",
        datetime(2026, 11, 22, 1, 2, 3),
        "s",
        "p",
        "e",
    )
    assert (run.check, run.base_check, run.nodes, run.job_id, run.verdict) == (
        "Triad %a=1 %$nid=n1",
        "Triad",
        "n1.site",
        "7",
        "PASS",
    )
    key = point.series
    assert (key.metric, key.parameters, key.kind, key.node, key.gpu) == ("triad", "%a=1", "host", "n1", "")
    assert (point.value, point.unit, point.direction, point.valid) == (123.5, "GB/s", "higher", True)
    ((again, other),) = log.line(LINE.replace("triad|123.5|GB/s|100|", "time|2|s||3"))
    assert again is run and (other.series.metric, other.value, other.direction) == ("time", 2.0, "lower")
    ((elsewhere, moved),) = log.line(LINE.replace("n1.site", "n[1-2]"))
    assert elsewhere.run != run.run and moved.series.node == "several nodes"
    ((_, apart),) = log.line(LINE.replace("|e|", "|f|"))
    assert apart.series.environ == "f" and apart.series != key


@pytest.mark.parametrize(("result", "phase", "verdict", "sound"), [
    ("pass", "", "PASS", True), ("P", "", "PASS", True), ("", "", "PASS", True), ("fail", "performance", "FAIL", True),
    ("fail", "", "FAIL", True), ("fail", "sanity", "FAIL", False), ("F", "run", "FAIL", False),
    ("pass", "sanity", "PASS", True),
])  # fmt: skip
def test_a_value_of_a_run_that_failed_before_it_does_not_count(
    result: str, phase: str, verdict: str, sound: bool
) -> None:
    ((run, point),) = reader().line(LINE.replace("|pass||", f"|{result}|{phase}|"))
    assert (run.verdict, point.valid, run.reason) == (verdict, sound, phase)


def test_our_own_lines_have_a_verdict_a_subject_and_coordinates() -> None:
    own = reader(f"{COLUMNS}|tenken_session|tenken_verdict")
    name = "busbw.gpu0-gpu1.bytes=8"
    for verdict, sound in (("FAIL", True), ("INVALID", False), ("PASS", True)):
        ((run, point),) = own.line(LINE.replace("triad", name).replace("|pass||", "|fail|sanity|") + f"|S1|{verdict}")
        assert (run.session, run.verdict, point.valid) == ("S1", verdict, sound)
    key = point.series
    assert (key.metric, key.gpu, key.peer, key.coordinates) == ("busbw", "0", "1", '{"bytes":"8"}') and point.id == name


def test_what_a_line_does_not_state_is_that_of_its_file() -> None:
    short = reader("job_completion_time_unix|perf_var|perf_value")
    ((run, point),) = short.line("1763773323|x|5")
    assert (run.system, run.partition, run.check, run.environ, run.time) == (
        "sys", "part", "Name", "", datetime(2025, 11, 22, 1, 2, 3),
    )  # fmt: skip
    assert (point.unit, point.direction) == ("", "higher")
    with pytest.raises(Unreadable, match="time 'soon' is invalid"):
        short.line("soon|x|5")


@pytest.mark.parametrize(("line", "says"), [
    ("1763773323|x", "2 columns where the header has 3"), ("1763773323|x|5|y", "4 columns where the header has 3"),
    ("1763773323|x|fast", "value 'fast' of x is not a number"), ("1763773323|x|nan", "value nan of x is not finite"),
])  # fmt: skip
def test_a_line_that_is_no_row_says_why(line: str, says: str) -> None:
    short = reader("job_completion_time_unix|perf_var|perf_value")
    with pytest.raises(Unreadable, match=says):
        short.line(line)
    assert len(short.line("1763773323|x|5| |")) == 1, "delimiters at its end"
    assert short.line("1763773323|x|null") == [] == short.line("1763773323||5")


def test_a_wide_line_has_a_row_of_each_metric() -> None:
    wide = reader("job_completion_time_unix|a_value|a_unit|b_value|b_unit")
    assert [(p.id, p.value, p.unit) for _, p in wide.line("1763773323|1|s|2|W")] == [
        ("a", 1.0, "s"),
        ("b", 2.0, "W"),
    ]
    assert [p.id for _, p in wide.line("1763773323|null|s|2|W")] == ["b"]
    assert reader("job_completion_time|result").line("2026-11-22T01:02:03|pass") == []


@pytest.mark.parametrize(("unit", "low", "high", "direction"), [
    ("s", "1", "", "higher"), ("GB/s", "", "1", "lower"), ("s", "1", "2", "lower"), ("GB/s", "1", "2", "higher"),
    ("us", "", "", "lower"), ("MB/s", "", "", "higher"), ("", "", "", "higher"),
])  # fmt: skip
def test_a_bound_or_else_the_unit_tells_the_direction(unit: str, low: str, high: str, direction: str) -> None:
    assert reading._direction(unit, low, high) == direction


@pytest.mark.parametrize(("text", "plain"), [
    ("%a=1 %$nid=n1", "%a=1"), ("%b=2 %a=1", "%a=1 %b=2"), ("%.repeat=3 %nodelist=x %repeat=1", ""), ("a %c=1", "%c=1"),
])  # fmt: skip
def test_parameters_that_only_repeat_are_left_out(text: str, plain: str) -> None:
    assert reading.plain_parameters(text) == plain


@pytest.mark.parametrize(("value", "count", "why"), [
    (1.0, 1, ""), (1.0, 0, "count is 0; allowed: 1 to"), (float("nan"), 1, "value nan is not a finite number"),
    (float("inf"), 1, "not a finite"), (1.0, reading.MAX_INTEGER, ""), (1.0, reading.MAX_INTEGER + 1, "count is"),
])  # fmt: skip
def test_a_value_that_does_not_fit_its_column_is_refused(value: float, count: int, why: str) -> None:
    found = reading._refused(SimpleNamespace(value=value, count=count))  # type: ignore[arg-type]
    assert why in found and bool(found) == bool(why)


def test_identities_are_of_their_parts_and_their_order() -> None:
    same = [reading.identity("a", 1, None) for _ in range(2)]
    assert same[0] == same[1] and 0 <= same[0] < 2**63
    assert len({reading.identity(*parts) for parts in (("a", "b"), ("b", "a"), ("ab",), ("a", "b", ""))}) == 4


def test_parameters_of_a_result_are_its_identity_and_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """An identity that has its usual value is left out, and so are paths; each text is worked out once, and at most
    so many are remembered."""
    asked = []
    program: Any = SimpleNamespace(
        identity={"n": 1, "kind": "a"}, parameters_today=lambda found: asked.append(found) or {**found, "renamed": 1},
        parameter=lambda found, name: found.get(name),
    )  # fmt: skip
    monkeypatch.setattr(reading, "_PARAMETERS", {})
    monkeypatch.setattr(reading, "_REMEMBERED", 1)

    def of(known: Any, **parameters: Any) -> Any:
        return reading._of_parameters(SimpleNamespace(program="p", parameters=parameters), known)  # type: ignore[arg-type]

    first = of(program, n=2, kind="a", file="/x", threads=4, inject_fault="none")
    assert first == (False, '{"inject_fault":"none","renamed":1,"threads":4}', '{"n":2}')
    assert of(program, n=2, kind="a", file="/x", threads=4, inject_fault="none") == first and len(asked) == 1
    assert of(program, n=1, inject_fault="bitflip")[0] is True and of(program, n=1, inject_fault="bitflip")[2] == "{}"
    assert len(asked) == 3, "only the first text is remembered"
    other: Any = SimpleNamespace(**{**vars(program), "identity": {}})
    assert of(other, n=2, kind="a", file="/x", threads=4, inject_fault="none")[2] == "{}", (
        "another program of this name"
    )
    assert of(None, n=1, file="/x", kind="b") == (False, "", '{"kind":"b","n":1}')


def test_a_record_in_another_place_than_it_says_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "parse", lambda text, figures_only: text)
    monkeypatch.setattr(reading, "parsed", lambda found, now: (found, now))
    monkeypatch.setattr(
        reading, "misplaced", lambda found, folders, name: "" if folders == ["s", "p"] else "not its folder"
    )
    assert reading.record("one", NOW, "s/p", "a.json") == ("one", NOW)
    with pytest.raises(Unreadable, match="cannot be believed: not its folder"):
        reading.record("one", NOW, "s/q", "a.json")
