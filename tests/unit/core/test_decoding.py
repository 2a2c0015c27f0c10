"""Strict JSON, read by orjson where it is sure and by the standard library otherwise: both must read the same, and so
must orjson with its text examined by numpy, which the history has loaded.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import packed, records
from tenken.errors import RecordError, ResultError
from tenken.model import files, result
from tenken.model import record as record_model
from tenken.model.judgement import Limit
from tenken.model.result import Device
from tenken.model.shape import checked
from tests.support.documents import gpu_document, host_document

DATA = Path(__file__).parents[2] / "data"
GOOD = json.dumps(host_document())
COMPACT = json.dumps(host_document(), separators=(",", ":"))


def read(text: str) -> Any:
    """The value with the types of its parts, or the refusal."""
    try:
        return _with_types(result.decode(text))
    except ResultError as error:
        return f"refused: {error}"


def _with_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_types(inner) for key, inner in value.items()}
    return [_with_types(inner) for inner in value] if isinstance(value, list) else (type(value).__name__, repr(value))


def both(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is read with orjson and numpy, which must be what is read without either."""
    import numpy

    with monkeypatch.context() as loaded:
        loaded.setitem(sys.modules, "numpy", numpy)
        with_it = read(text)
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "numpy")
        assert read(text) == with_it
    with monkeypatch.context() as without:
        without.setattr(result, "orjson", None)
        assert read(text) == with_it
    return with_it


#: Equal keys in forms in which the count of `":` alone would not show them.
TWICE = {
    "plain": '{"a":1,"a":2}',
    "spaces before the colon": '{"a" :1,"a":2}',
    "each with a space": '{"a" :1,"a" :2,"b":":"}',
    "a line before the colon": '{"a"\n:1,"a":2}',
    "a tab before the colon": '{"a"\t:1,"a":2}',
    "a carriage return before the colon": '{"a"\r:1,"a":2}',
    "several kinds of space": '{"a" \n\t:1,"a":2}',
    "the same key by an escape": '{"a":1,"\\u0061":2}',
    "a text that begins with a colon": '{"a" :1,"a":":"}',
    "a quote and a colon in a text": '{"a" :1,"a":"x\\":"}',
    "an escaped colon": '{"a":1,"a":"\\u003a"}',
    "in a list": '[{"b":1},{"a":1,"a":1}]',
    "empty keys": '{"":1,"":2}',
    "colons by their numbers in place of those of a lost key": '{"a":"\\u003a\\u003A","a":1,"b":"\\u003a"}',
    "lost objects with keys": '{"a":{"b":1,"c":2},"a":{}}',
}


#: Results, whose samples are not written again, with a key lost or brackets gained beside or in the samples.
AROUND_SAMPLES = [
    '{"metrics":[{"samples":[1.5,2],"value":1,"value":2}]}',
    '{"metrics":[{"samples":[1.5],"samples":[1.5,2]}]}',
    '{"metrics":[{"samples":[1.5]}],"metrics":[{"samples":[1.5]}]}',
    '{"metrics":[{"samples":[":"],"a":1,"a":2}]}',
    '{"metrics":[{"samples":[{"a":1,"a":2}]}]}',
    '{"metrics":[{"samples":"[","a":[1],"a":1}]}',
    '{"record":"x","result":{"metrics":[{"samples":[1],"a":1,"a":1}]}}',
    '{"record":"x","result":{"metrics":[]},"document":{"metrics":[{"samples":[1]}],"a":1,"a":1}}',
    '{"metrics":[{"samples":' + "[" * 30 + "]" * 30 + "}]}",
    '{"metrics":[{"samples":"["},{"samples":1},{"samples":' + "[" * 24 + "1" + "]" * 24 + "}]}",
]


@pytest.mark.parametrize("text", AROUND_SAMPLES)
def test_what_is_hidden_around_samples_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(both(text, monkeypatch)).startswith("refused: ")


@pytest.mark.parametrize("name", TWICE)
def test_equal_keys_are_refused_however_they_are_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"refused: contains the key '.?' twice in one object", both(TWICE[name], monkeypatch))


#: Honest text that looks like one of those above, and every kind of number.
HONEST = [
    '{"a" :1,"b":2}', '{"a":":"}', '{"a":"\\":","b":"\\u003a"}', '{"a :":" :"}', '{"a"\n:\n1}', "[]", "{}",
    '""', "null", "-0", "-0.0", "1e5", "1E+5", "1.5e-300", "5e-324", "1e-400",
    "0.1234567890123456789012345678901234567890", "0.00012345678901234567",
    "999999999999999999", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "99999999999999999999", "[12345678901234567890,1]",
    '{"a":36893488147419103232}', "1.7976931348623157e308",
    '{"metrics":[{"samples":[1,2.5,12345678901234567890]}]}', '{"metrics":[{"samples":["[",":",{},[]]}, 1, {}]}',
    '{"metrics":{"samples":[1]}}', '{"result":{"metrics":[{"samples":"a:[b"}]}}', '{"metrics":[{"samples":"\\u005b"}]}',
    '"\\ud83d\\ude00 é 点検"', '["\\u0000"]', '"0000000000000000000"',
    '"\\ud800"', "[" * 24 + "]" * 24, " [1 , 2 ] \n", "[" * 24 + "1" + "]" * 24, json.dumps(" " * 60),
    '{"\\u003a":1,"b":2}', '{"a":"1234567890123456789"}', "[0.1234567890123456789,1]", "[1234567890123456789.5]",
]  # fmt: skip
REFUSED = [
    "1e400", "-1e400", "NaN", "[Infinity]", "-Infinity", "999999999999999999999", "[1,]", '{"a":1,}', "01", "1.", ".5",
    "+1", '"\x01"', "[1]x", "[1][2]", "", " ", "'a'", "[1 2]", "\ufeff1", "nul", "[" * 25 + "]" * 25, "[" * 2000,
    '{"a":' * 30 + "1" + "}" * 30, "[1," * 25 + "1" + "]" * 25, "[" * 300 + "]" * 300, "1" * 400, "1" * 400 + ".5",
]  # fmt: skip


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_is_read_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(text, monkeypatch) == _with_types(json.loads(text))


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_all_else_is_refused_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(both(text, monkeypatch)).startswith("refused: ")


def test_generated_text_is_read_or_refused_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects whose keys, colons and texts are written in every way, some damaged in one place; seeded."""
    rng = random.Random(20261123)
    keys = ['"a"', '"b"', '"\\u0061"', '"b:"', '" :"', '"\\":"', '"c d"']
    colons = [":", ": ", " :", "\n:", "\t: ", " \n :"]
    values = ['":"', '"x\\":"', '" :"', '"\\u003a"', "1", "-2.5e3", "12345678901234567890", "null", "[1,{}]", '"0: 1"']
    pieces = ['"', ":", '":', " :", ",", "{", "}", "[", "]", "\\", "\n", "0" * 20, "e999", ".", "-"]
    outcomes = {"twice": 0, "read": 0, "refused": 0}
    for _ in range(3000):
        spaced = rng.random() < 0.5
        members = [
            rng.choice(keys) + (rng.choice(colons) if spaced else ":") + rng.choice(values)
            for _ in range(rng.randint(1, 4))
        ]
        text = "{" + ",".join(members) + "}"
        if rng.random() < 0.3:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(pieces) + text[at + rng.randint(0, 1) :]
        found = both(text, monkeypatch)
        outcomes["read" if not isinstance(found, str) else "twice" if "twice" in found else "refused"] += 1
    assert min(outcomes.values()) > 300, outcomes


def test_records_are_read_by_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of a whole kept session takes the slow way: otherwise nothing would be gained."""
    pytest.importorskip("orjson")
    texts = [path.read_text() for path in records.paths(packed.folder_of(DATA / "h200-quick-run.tar.xz"))]
    slow = [text for text in texts if result._quickly(text) is result._UNDECIDED]
    assert len(texts) > 10 and len(slow) <= len(texts) // 10
    for text in texts[:5]:
        both(text, monkeypatch)


# ---- figures only, and what is typed without a schema ---------------------------------------------------------------


def of_2(change: Callable[[dict[str, Any]], object] = lambda raw: None) -> str:
    """A record of the current version with a result of two GPUs."""
    path = next(iter(records.paths(packed.folder_of(DATA / "h200-quick-run.tar.xz"))))
    raw = json.loads(path.read_text())
    raw["result"], raw["verdict"] = gpu_document(), "FAIL"
    change(raw)
    return json.dumps(raw)


def test_figures_alone_are_those_of_the_record_and_cannot_be_archived() -> None:
    text = of_2()
    whole, figures = record_model.parse(text), record_model.parse(text, figures_only=True)
    assert whole.result is not None and figures.result is not None
    assert figures.result.metrics == whole.result.metrics and figures.result.devices == whole.result.devices
    assert json.loads(whole.text())["result"] == json.loads(text)["result"]
    with pytest.raises(ValueError, match="only the figures of this record were read"):
        figures.text()


@pytest.mark.parametrize("examined", ["at once", "singly"])
@pytest.mark.parametrize("wrong", ["20.0", True, False, None, [20.0], {}])
def test_samples_are_numbers(wrong: Any, examined: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy

    monkeypatch.setitem(sys.modules, "numpy", numpy)
    if examined == "singly":
        monkeypatch.delitem(sys.modules, "numpy")

    def change(raw: dict[str, Any]) -> None:
        raw["result"]["metrics"][0]["samples"][0] = wrong

    for figures_only in (False, True):
        with pytest.raises(RecordError, match=f"misshapen: samples contain {type(wrong).__name__}"):
            record_model.parse(of_2(change), figures_only=figures_only)


def test_whole_samples_are_floats_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy

    def change(raw: dict[str, Any]) -> None:
        raw["result"]["metrics"][0].update(samples=[20, 20.5, 2**60])

    for loaded in (numpy, None):
        with monkeypatch.context() as modules:
            modules.setitem(sys.modules, "numpy", numpy)
            if loaded is None:
                modules.delitem(sys.modules, "numpy")
            found = record_model.parse(of_2(change)).result
        assert found is not None
        assert [type(one) for one in found.metrics[0].samples] == [float] * 3
        assert found.metrics[0].samples == (20.0, 20.5, 2.0**60)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        *((key, wrong) for key in ("id", "name", "unit", "direction", "statistic") for wrong in (7, None, ["GB/s"])),
        *(("count", wrong) for wrong in (7.0, True, "7", None)),
        ("clock", 7), ("at", {"bytes": [1]}), ("at", {"bytes": {}}),
    ],
)  # fmt: skip
def test_a_metric_with_a_field_of_another_type_is_refused(key: str, wrong: Any) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["result"]["metrics"][1][key] = wrong

    with pytest.raises(RecordError, match=f"misshapen: {key} is {type(wrong).__name__}|misshapen: at is Coordinates"):
        record_model.parse(of_2(change))


@pytest.mark.parametrize("wrong", ["1", True, [1], {}])
@pytest.mark.parametrize(
    ("place", "says"),
    [
        (("efficiency",), "judged has efficiency"),
        (("bounds", 0), "judged has efficiency .*, bounds"),
        (("bounds", 1), "judged has efficiency .*, bounds"),
        (("criterion", "low"), "criterion is from"),
        (("criterion", "high"), "criterion is from"),
    ],
)
def test_a_judged_value_with_a_bound_of_another_type_is_refused(place: tuple[Any, ...], says: str, wrong: Any) -> None:
    criterion = {
        "kind": "floor", "value": 1.0, "low": 0.5, "high": None, "unit": "GB/s", "statistic": "median", "source": "x",
    }  # fmt: skip
    judged: dict[str, Any] = {
        "verdict": "PASS", "value": 1.0, "unit": "GB/s", "direction": "higher", "statistic": "median",
        "criterion": criterion, "limit": {"unknown": "x"}, "efficiency": None, "bounds": [0.5, None],
    }  # fmt: skip

    def change(raw: dict[str, Any]) -> None:
        raw["judged"] = {"triad.gpu0": judged}

    assert record_model.parse(of_2(change)).judgement.judged["triad.gpu0"].bounds == (0.5, None)
    holder: Any = judged
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = wrong
    with pytest.raises(RecordError, match=f"misshapen: {says}"):
        record_model.parse(of_2(change))


def test_a_limit_is_that_of_its_own_entries_whatever_was_read_before() -> None:
    first = Limit.of({"value": 1.0, "unit": "GB/s", "basis": "data sheet: x"})
    assert Limit.of({"value": 1.0, "unit": "GB/s", "basis": "data sheet: x"}) == first
    assert Limit.of({"value": 1.0, "unit": "GB/s", "basis": "driver: x"}).said_by != first.said_by
    assert Limit.of({"value": 2.0, "unit": "GB/s", "basis": "data sheet: x"}).value == 2.0
    for wrong in ({"value": 1.0, "unit": "GB/s"}, {"value": "one", "unit": "GB/s", "basis": "x"}, {}):
        for _ in range(2):
            with pytest.raises((KeyError, ValueError)):
                Limit.of(wrong)


def test_a_field_of_another_type_is_named_whatever_was_read_before() -> None:
    """Combinations of types that matched are remembered; others must still be refused."""
    good = Device(0, "GPU-1", "GPU", "9.0", 2**30)
    for _ in range(2):
        assert checked(good) is good
        for name, wrong in (("uuid", 7), ("memory_bytes", "many"), ("ecc_enabled", 1), ("index", True), ("name", None)):
            with pytest.raises(TypeError, match=f"^{name} is {type(wrong).__name__}"):
                checked(Device(**{**vars(good), name: wrong}))
    assert checked(Device(0, None, "GPU", "9.0", 2**30, memory_clock_mhz=1000)).memory_clock_mhz == 1000


def test_a_file_that_grew_while_it_was_read_is_read_whole_or_refused() -> None:
    """The kernel states 0 bytes for its files, however long they are."""
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0 and "VmRSS" in files.read_text(status, 1 << 20)
    with pytest.raises(files.FileError, match="grew beyond 100 bytes"):
        files.read_text(status, 100)


def test_a_record_with_half_a_character_is_refused_and_a_whole_one_is_read() -> None:
    """JSON can have a surrogate alone by its number; the store cannot, and one such record must not stop the others."""
    whole = of_2().replace('"mode": "', '"mode": "\\ud83d\\ude00')
    assert record_model.parse(whole).mode.startswith("\U0001f600")
    for half in ("\\ud83d", "\\uDE00"):
        with pytest.raises(RecordError, match=r"contains U\+D[8E]\w\w, half of a character"):
            record_model.parse(of_2().replace('"mode": "', f'"mode": "{half}'))
