"""Records: version 1 as this version reads it, written by hand; what is refused; and the parts of an id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenken.errors import RecordError, ResultError
from tenken.model import record as records
from tenken.model.request import Request
from tenken.model.subject import Coordinates, Subject, split_metric_id
from tests.support.documents import gpu_document
from tests.unit.core.test_archive import record
from tests.unit.judge.test_healthy import kept_runs


def judged_of_1(**changes: Any) -> dict[str, Any]:
    """A judged value as version 1 wrote it."""
    return {
        "verdict": "PASS", "value": 4395.0, "unit": "GB/s", "direction": "higher", "statistic": "median",
        "basis": None, "reference": None, "efficiency": 0.9, "bounds": [None, 4910.6],
        "limit": {"value": 4814.3, "unit": "GB/s", "basis": "attribute: memory clock x bus width"},
        **changes,
    }  # fmt: skip


def of_1(judged: dict[str, Any] | None = None, findings: Any = (), **changes: Any) -> records.Record:
    raw = {
        "record": "tenken-record/1", "session": "20261120T000000Z-abcdef", "time": "2026-11-20T01:02:03Z",
        "system": "h200", "partition": "gpu", "environ": "cuda", "check": "StreamCuda %x=1", "base_check": "StreamCuda",
        "parameters": {"x": 1}, "mode": "quick", "program": "stream", "subjects": ["gpu"], "nodes": ["n1", "n2"],
        "scheduler": "slurm", "job_id": "17", "job_state": "TIMEOUT", "job_exit_code": 9, "exit_code": 7,
        "verdict": "INVALID", "findings": list(findings), "judged": judged or {}, "document": gpu_document(),
        "document_error": "cut short", "document_text": "{", **changes,
    }  # fmt: skip
    return records.parse(json.dumps(raw))


def test_version_1_is_read_field_by_field() -> None:
    read = of_1()
    assert (read.session, read.time, read.system) == ("20261120T000000Z-abcdef", "2026-11-20T01:02:03Z", "h200")
    assert (read.partition, read.environ, read.check) == ("gpu", "cuda", "StreamCuda %x=1")
    assert (read.base_check, read.parameters, read.mode, read.program) == ("StreamCuda", {"x": 1}, "quick", "stream")
    assert (read.subjects, read.nodes, read.verdict) == (("gpu",), ("n1", "n2"), "INVALID")
    assert read.job == records.Job("slurm", "17", "TIMEOUT", 7)
    assert (read.program_version, read.request, read.version) == (1, None, "tenken-record/1")
    assert (read.result_error, read.result_text) == ("cut short", "{")
    assert read.result is not None and len(read.result.metrics) == 5


def test_version_1_without_a_result() -> None:
    read = of_1(document=None, judged=None, program=None, base_check=None, findings=[], verdict="FAIL")
    assert read.result is None and read.judgement.judged == {} and read.verdict == "FAIL"
    assert (read.program, read.base_check) == ("", "StreamCuda %x=1")
    assert of_1(program=None).program == "stream", "the document says of which program it is"


@pytest.mark.parametrize(
    ("said", "metric", "node", "subject"),
    [
        ("n1 host", None, "n1", Subject("host")),
        ("n1 GPU 2", None, "n1", Subject("gpu", 2)),
        ("n1 GPU 3->1", None, "n1", Subject("pair", 3, 1)),
        ("n1 4 ranks", None, "n1", Subject("ranks", 4)),
        ("n1", None, "n1", None),
        ("gpu-node17", None, "gpu-node17", None),
        ("", None, "", None),
        (None, None, "", None),
        # the id of a metric contains more than the words
        ("n1 GPU 0", "peer.gpu0-gpu1.bytes=4096", "n1", Subject("pair", 0, 1)),
        ("n1 host", "triad.gpu3", "n1", Subject("gpu", 3)),
        ("n1 host", "allreduce.ranks8", "n1", Subject("ranks", 8)),
        ("n1 GPU 1", "no-subject", "n1", Subject("gpu", 1)),
    ],
)
def test_version_1_kept_node_and_subject_as_one_text(
    said: str | None, metric: str | None, node: str, subject: Subject | None
) -> None:
    finding = {"verdict": "FAIL", "message": "m", "metric": metric, "subject": said, "value": 1.0, "bound": 2.0}
    (found,) = of_1(findings=[finding]).findings
    assert (found.node, found.subject, found.metric) == (node, subject, metric)
    assert (found.verdict, found.message, found.value, found.bound) == ("FAIL", "m", 1.0, 2.0)


def test_version_1_called_a_value_without_a_criterion_pass() -> None:
    def verdict(**changes: Any) -> str:
        return of_1({"triad.gpu0": judged_of_1(**changes)}).judgement.judged["triad.gpu0"].verdict

    reference = {"value": 4400.0, "unit": "GB/s", "source": "by hand"}
    assert verdict() == "RECORDED"
    assert verdict(verdict="FAIL") == "FAIL"
    assert verdict(basis="reference", reference=reference) == "PASS"
    assert verdict(basis="limit floor") == "PASS"
    # a floor without a limit is not a floor
    assert verdict(basis="limit floor", limit={"unknown": "x"}) == "RECORDED"
    assert verdict(basis="reference") == "RECORDED"


def test_version_1s_reference_becomes_a_criterion() -> None:
    reference = {"value": 4400.0, "low": 4300.0, "high": 4500.0, "unit": "GB/s", "statistic": "best", "source": "s"}
    one = of_1({"m.gpu0": judged_of_1(basis="reference", reference=reference)}).judgement.judged["m.gpu0"]
    assert one.criterion is not None and vars(one.criterion) == {**reference, "kind": "reference"}
    assert (one.bounds, one.efficiency, one.limit.value) == ((None, 4910.6), 0.9, 4814.3)
    # earlier ones omitted what equals the value's own
    reference = {"value": 4400.0, "unit": "GB/s", "source": "s"}
    short = judged_of_1(basis="reference", reference=reference, bounds=[4200.0, 4700.0], statistic="p5")
    criterion = of_1({"m.gpu0": short}).judgement.judged["m.gpu0"].criterion
    assert criterion is not None
    assert (criterion.low, criterion.high, criterion.statistic) == (4200.0, 4700.0, "p5")


@pytest.mark.parametrize(
    ("direction", "low", "high"), [("higher", 3851.4, None), ("lower", None, 4910.6)], ids=["rate", "time"]
)
def test_version_1s_floor_bounds_from_the_side_of_its_direction(
    direction: str, low: float | None, high: float | None
) -> None:
    one = judged_of_1(basis="limit floor", direction=direction, bounds=[3851.4, 4910.6])
    criterion = of_1({"m.gpu0": one}).judgement.judged["m.gpu0"].criterion
    assert criterion is not None
    assert (criterion.kind, criterion.value, criterion.low, criterion.high) == ("floor", 4814.3, low, high)
    assert (criterion.unit, criterion.statistic, criterion.source) == (
        "GB/s", "median", "attribute: memory clock x bus width",
    )  # fmt: skip


def test_version_1_may_lack_limit_and_bounds() -> None:
    one = judged_of_1(limit=None, bounds=None)
    found = of_1({"m.gpu0": one}).judgement.judged["m.gpu0"]
    assert (found.limit.value, found.limit.unknown, found.bounds) == (None, "not archived", (None, None))
    for key in ("direction", "statistic", "efficiency"):
        del one[key]
    found = of_1({"m.gpu0": one}).judgement.judged["m.gpu0"]
    assert (found.direction, found.statistic, found.efficiency) == ("", "", None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: raw.update(record="tenken-record/9"), "this version reads tenken-record/1, tenken-record/2"),
        (lambda raw: raw.update(check=""), "the check has no name"),
        (lambda raw: raw.update(session=7), "session: Expected `str`"),
        (lambda raw: raw.update(time=None), "time: Expected `str`"),
        (lambda raw: raw.update(environ=[]), "environ: Expected `str`"),
        (lambda raw: raw.pop("program_version"), "missing required field `program_version`"),
        (lambda raw: raw.update(verdict="GOOD"), "unknown verdict 'GOOD'; allowed: FAIL, INVALID, RECORDED, PASS"),
        (lambda raw: raw.update(request={"schema": "tenken-request/2"}), "this version reads tenken-request/1"),
        (lambda raw: raw["job"].update(exit_code="x"), "job.exit_code: Expected"),
        (lambda raw: raw.update(job=None), "job: Expected `object`"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(change: Any, says: str) -> None:
    raw = json.loads(record().text())
    change(raw)
    with pytest.raises(RecordError, match=says):
        records.parse(json.dumps(raw))


@pytest.mark.parametrize(
    ("text", "says"), [("", "empty"), (" \n", "empty"), ("{", "truncated"), ("[]", "Expected `object`, got `array`")]
)
def test_what_is_no_json_object_is_no_record(text: str, says: str) -> None:
    with pytest.raises(RecordError, match=says):
        records.parse(text)


def test_a_request_comes_back_as_it_went_in() -> None:
    asked = Request(
        "t", "p2p", "P2p", ("pair", "gpu"), ("peer",), {"bytes": 4096}, (("peer", "pair", {"bytes": 4096}),), 4, 32, 2,
        1, ("--gpus", "all"), True, "quick",
    )  # fmt: skip
    assert Request.of(json.loads(asked.text())) == asked
    assert Request.of(Request(None, "stream").as_json()) == Request(None, "stream")
    for key, wrong in (("token", 7), ("points", [["peer"]]), ("subjects", "gpu"), ("foreign", "yes")):
        raw = {**asked.as_json(), key: wrong}
        with pytest.raises(ResultError, match=key):
            Request.of(raw)


SUBJECTS = [
    (Subject("host"), {"host": 0}, "host", "host", ()),
    (Subject("gpu", 3), {"gpu": 3}, "gpu3", "GPU 3", (3,)),
    (Subject("pair", 3, 1), {"from": 3, "to": 1}, "gpu3-gpu1", "GPU 3 → 1", (3, 1)),
    (Subject("ranks", 8), {"ranks": 8}, "ranks8", "8 ranks", ()),
]


@pytest.mark.parametrize(("subject", "raw", "text", "place", "gpus"), SUBJECTS, ids=lambda one: str(one))
def test_a_subject_in_all_its_forms(
    subject: Subject, raw: dict[str, int], text: str, place: str, gpus: tuple[int, ...]
) -> None:
    assert Subject.of(raw) == subject and subject.as_json() == raw
    assert Subject.in_id(text) == subject and subject.id == text
    assert (subject.place, subject.gpus) == (place, gpus)


@pytest.mark.parametrize("raw", [{}, {"disk": 0}, {"from": 0}, {"gpu": 0, "host": 0}, {"from": 0, "to": 1, "gpu": 2}])
def test_what_is_no_subject(raw: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="allowed: host, gpu, from and to, ranks"):
        Subject.of(raw)


@pytest.mark.parametrize("text", ["", "disk0", "gpu", "gpu0-gpu", "hosts", "rank4"])
def test_what_is_no_subject_in_an_id(text: str) -> None:
    assert Subject.in_id(text) is None


def test_the_parts_of_a_metrics_id() -> None:
    assert split_metric_id("triad") == ("triad", "", {})
    assert split_metric_id("triad.gpu0") == ("triad", "gpu0", {})
    assert split_metric_id("peer.gpu0-gpu1.bytes=4096") == ("peer", "gpu0-gpu1", {"bytes": "4096"})
    assert split_metric_id("gemm.gpu0.data=random.ratio=0.5.size=a=b") == (
        "gemm", "gpu0", {"data": "random", "ratio": "0.5", "size": "a=b"},
    )  # fmt: skip


def test_coordinates_are_a_mapping_in_the_order_of_their_keys() -> None:
    at = Coordinates.of({"kernel": "tile", "bytes": 4096})
    assert (list(at), len(at), at["bytes"], at.id) == (["bytes", "kernel"], 2, 4096, ".bytes=4096.kernel=tile")
    assert at.text == '{"bytes":4096,"kernel":"tile"}' and Coordinates().text == ""
    with pytest.raises(KeyError, match="missing"):
        at["missing"]


def test_a_record_of_version_2_with_a_result_of_version_2_has_everything_derived_from_it() -> None:
    now = kept_runs()["SpmvHost"]
    raw = json.loads(now.path.read_text())
    raw = {key: raw[key] for key in raw if key not in ("values", "units", "limits", "criteria")}
    read = records.parse(json.dumps({**raw, "record": "tenken-record/2", "judged": {}}))
    assert now.result is not None and now.result.schema == "tenken-result/2"
    assert read.result is not None and read.result_error is None
    assert {one.id: one.value for one in read.result.metrics} == {one.id: one.value for one in now.result.metrics}
    assert any(one.derived for one in read.result.metrics)
