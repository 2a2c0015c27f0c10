"""Result documents are refused unless they are whole, of the schema and consistent."""

from __future__ import annotations

import json
import random
import statistics

import pytest

from tenken.errors import ResultError
from tenken.model import result as document
from tenken.model.numbers import quantile
from tests.support.documents import gpu_document, host_document, metric, spoiled


def test_a_valid_document_is_read(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(gpu_document(gpus=2)))
    read = document.load(path)
    assert read.program == "stream"
    assert len(read.metrics) == 10
    assert read.metrics[0].place == "GPU 0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ('{"schema": "tenken-result/1", "prog', "truncated or not JSON"),
        ("[]", "not a tenken-result/1 document"),
        (json.dumps(host_document()).replace("20.0", "NaN", 1), "contains NaN"),
        (json.dumps(host_document()).replace('"count": 100', '"count": Infinity'), "contains Infinity"),
        (json.dumps(host_document()).replace("20.0", "1e999", 1), "contains 1e999, which is not finite"),
    ],
)
def test_what_is_no_document_is_refused(text, says):
    with pytest.raises(ResultError, match=says):
        document.parse(text, "result.json")


def test_a_missing_file_is_said_so(tmp_path):
    with pytest.raises(ResultError, match=r"result.json: the program wrote no result"):
        document.load(tmp_path / "result.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("version"), "'version' is a required property"),
        (lambda d: d.update(status="good"), "status"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d["metrics"][0].update(samples=[]), "samples"),
        (lambda d: d["metrics"].append(d["metrics"][0]), "appears twice"),
        (lambda d: d["limits"].clear(), "has no entry in limits"),
    ],
)
def test_what_is_not_of_the_schema_is_named(change, says):
    with pytest.raises(ResultError, match=says):
        document.validate(spoiled(host_document(), change), "result.json")


def test_quantiles_are_numpys_default():
    numbers = sorted(random.Random(1).random() for _ in range(37))
    assert quantile(numbers, 0.5) == pytest.approx(statistics.median(numbers))
    inclusive = statistics.quantiles(numbers, n=20, method="inclusive")
    assert quantile(numbers, 0.05) == pytest.approx(inclusive[0])
    assert quantile(numbers, 0.95) == pytest.approx(inclusive[-1])
    assert quantile([3.0], 0.95) == 3.0


@pytest.mark.parametrize("key", ["best", "median", "p5", "p95", "value"])
def test_statistics_that_do_not_follow_from_the_samples_are_found(key):
    raw = metric("triad", {"gpu": 0}, [1.0, 2.0, 3.0, 4.0])
    assert document._metric(raw, tuple(raw["samples"])).inconsistencies() == []
    raw[key] = raw[key] * 1.01
    assert any(key in text for text in document._metric(raw, tuple(raw["samples"])).inconsistencies())


def test_lower_is_better_takes_the_smallest_as_best():
    raw = metric("latency", {"from": 0, "to": 1}, [3.0, 1.0, 2.0], unit="us", direction="lower")
    read = document._metric(raw, tuple(raw["samples"]))
    assert (read.best, read.kind, read.place) == (1.0, "pair", "GPU 0 → 1")
    assert read.inconsistencies() == []
