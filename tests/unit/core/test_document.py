"""Result documents are refused unless they are complete, of the schema and consistent."""

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
        ('{"schema": "tenken-result/9"}', "schema is 'tenken-result/9'; allowed: tenken-result/1, tenken-result/2"),
        (json.dumps(host_document()).replace("20.0", '"20.0"', 1), "value: Expected `float`, got `str`"),
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
        (lambda d: d.pop("version"), "missing required field `version`"),
        (lambda d: d.update(status="good"), "status"),
        (lambda d: d["metrics"][0].update(at={"bytes": [1]}), "at"),
        (lambda d: d["devices"].append({"index": 0}), "devices"),
        (lambda d: d["metrics"].append(d["metrics"][0]), "appears twice"),
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


def test_lower_is_better_takes_the_smallest_as_best():
    raw = host_document()
    raw["metrics"] = [metric("latency", {"from": 0, "to": 1}, [3.0, 1.0, 2.0], unit="us", direction="lower")]
    raw["limits"] = {"latency.gpu0-gpu1": {"unknown": "x"}}
    (read,) = document.validate(raw, "result.json").metrics
    assert (read.best, read.kind, read.place) == (1.0, "pair", "GPU 0 → 1")


def test_whole_numbers_are_floats_like_all_others():
    raw = host_document()
    raw["metrics"][0].update(samples=[20, 20.5, 2**60])
    samples = document.parse(json.dumps(raw), "result.json").metrics[0].samples
    assert samples == (20.0, 20.5, 2.0**60) and {type(one) for one in samples} == {float}


def test_the_schema_for_others_is_that_of_the_types():
    """`python -c "from tenken.model import result; result.write_schema()"` writes it again."""
    kept = json.loads(document.SCHEMA_FILE.read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(document.schema()))
