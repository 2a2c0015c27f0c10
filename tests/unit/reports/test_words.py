from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.model.result import HealthSample
from tenken.model.subject import Subject, split_metric_id
from tenken.model.verdicts import worst
from tenken.report import formatting as words
from tenken.report import nightly


@pytest.mark.parametrize(
    "value, text",
    [
        (4395.123, "4395"),
        (55.3149, "55.31"),
        (0.99712, "0.9971"),
        (32751.4, "32\u202f751"),
        (0, "0"),
        (-1.5, "−1.500"),
        (1e-9, "1.000e-09"),
        (200, "200"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (True, "–"),
        ("4", "–"),
    ],
)
def test_number(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0\u202fB"),
        (1023, "1023\u202fB"),
        (4096, "4\u202fKiB"),
        (2**30, "1\u202fGiB"),
        (2**62, "4096\u202fPiB"),
        (None, "–"),
    ],
)
def test_size(count, text):
    assert words.size(count) == text


@pytest.mark.parametrize(
    "metric_id, parts",
    [
        ("triad.host", ("triad", "host", {})),
        ("peer.gpu0-gpu1.bytes=4096", ("peer", "gpu0-gpu1", {"bytes": "4096"})),
        ("x.gpu0.kind=tile.ratio=0.5", ("x", "gpu0", {"kind": "tile", "ratio": "0.5"})),
        ("bare", ("bare", "", {})),
    ],
)
def test_split_metric_id(metric_id, parts):
    assert split_metric_id(metric_id) == parts


@pytest.mark.parametrize(
    "subject, text",
    [
        ({"gpu": 3}, "GPU 3"),
        ({"from": 0, "to": 1}, "GPU 0 → 1"),
        ({"host": 0}, "host"),
        ({"ranks": 4}, "4 ranks"),
        ("gpu12", "GPU 12"),
        ("gpu0-gpu1", "GPU 0 → 1"),
        ("host", "host"),
        ("ranks4", "4 ranks"),
    ],
)
def test_places_of_subjects(subject, text):
    found = Subject.in_id(subject) if isinstance(subject, str) else Subject.of(subject)
    assert found is not None and found.place == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("0123456789abcdef0123456789abcdef01234567-dirty", "0123456789ab-dirty"),
        ("v1.2-3-gabcdef0", "v1.2-3-gabcdef0"),
        ("unknown", "unknown"),
    ],
)
def test_revision(text, short):
    assert words.revision(text) == short


def test_event_reasons_are_words():
    cell = words.health_cell(HealthSample(reasons=("hw_thermal_slowdown", "brand_new")), ("reasons",), "")
    assert cell == "hardware thermal slowdown, brand new"
    assert words.health_cell(HealthSample(reasons=()), ("reasons",), "") == "none"


def test_worst_fails_closed():
    assert worst(["PASS", "WAIVED"]) == "PASS"
    assert worst(["WAIVED"]) == "WAIVED"
    assert worst(["PASS", "INVALID", "FAIL"]) == "FAIL"
    assert worst(["PASS", "who knows"]) == "FAIL"


@pytest.mark.parametrize(
    "key, value, text",
    [
        ("bytes", 4096, "4\u202fKiB"),
        ("array_bytes", 4096, "array 4\u202fKiB"),
        ("threads", 8, "threads 8"),
        ("trial", "3", "trial 3"),
        ("kernel", "tile", "tile"),
    ],
)
def test_coordinate(key, value, text):
    assert words.coordinate(key, value) == text


@pytest.mark.parametrize(("fraction", "digits", "text"), [
    (0.9534, 1, "95.3\u202f%"), (0.9534, 0, "95\u202f%"), (-0.05, 1, "-5.0\u202f%"), (None, 1, "–"), ("x", 1, "–"),
])  # fmt: skip
def test_a_fraction_is_shown_as_percent(fraction, digits, text):
    assert words.percent(fraction, digits) == text


def test_findings_and_measures_of_nights_by_kind_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """New alarms, those that stand, and the rest; each measure by its last night, those with an alarm first."""

    def finding(text: str, alarming: bool, rows: list[int], acknowledged: bool = False) -> Any:
        return SimpleNamespace(text=text, alarming=alarming, rows=rows, acknowledged=acknowledged, ended=None)

    nan = np.nan
    found = [finding("a", True, [1]), finding("b", True, [0, 1, 2]), finding("c", False, [3], True)]
    found += [finding("d", False, [])]
    siblings, parts = ["x", "x", "gone", "y", "z", "z10", "z9"], ["p", "p", "p", "p", "o", "p", "p"]
    series = [
        SimpleNamespace(siblings=(group,), partition=part, measure=group, unit="u", where=f"w{at}")
        for at, (group, part) in enumerate(zip(siblings, parts, strict=True))
    ]
    values = np.array([[10, 40], [30, 20], [5, nan], [nan, 7], [1, 1], [1, 1], [1, 1]])
    level = np.array([10, 30, 5, nan, 1, 1, 1])
    kept = SimpleNamespace(series=series, values=values, system="s", nights=[1])
    one = SimpleNamespace(
        history=kept, found=SimpleNamespace(level=level), in_order=lambda: found, is_new=lambda f: False,
        is_standing=lambda f: f.text == "b", alarms=[SimpleNamespace(rows=[1, 4])], night="2026-01-02",
    )  # fmt: skip
    other = SimpleNamespace(
        **{**vars(one), "night": "2026-01-01", "in_order": list, "history": SimpleNamespace(
            **{**vars(kept), "series": [], "values": np.zeros((0, 1)), "system": "t"})},
    )  # fmt: skip
    monkeypatch.setattr(nightly, "template", lambda name: SimpleNamespace(render=lambda **told: told))
    monkeypatch.setattr(nightly.sentences, "sentence", lambda _, finding: finding.text)
    monkeypatch.setattr(nightly.sentences, "power_sentence", lambda one, since: f"{one.history.system} {since}")
    monkeypatch.setattr(nightly.trends, "sparkline", lambda middle: str(middle.tolist()))

    def draw(history: Any, found: Any, finding: Any, anchor: str) -> tuple[str, str]:
        if finding.text == "b":
            raise ValueError("odd")
        return "<svg>", anchor

    monkeypatch.setattr(nightly.trends, "draw", draw)
    monkeypatch.setattr(nightly, "MAX_PLOTS", 3)
    monkeypatch.setattr(nightly, "MAX_LISTED", 2)
    gate: Any = SimpleNamespace(systems=[one, other], judged_from="x")
    told: Any = nightly.render(gate, "now")
    assert (told["nights"], told["written"], told["powers"]) == (["2026-01-01", "2026-01-02"], "now", ["s x", "t x"])
    now: Any = nightly.render(gate)
    assert len(now["written"]) == len("2026-01-01 00:00 UTC")
    assert [[(s.text, s.verdict, s.anchor) for s in told[kind]] for kind in ("alarms", "standing", "rest")] == [
        [("a", "FAIL", "finding-1")], [("b", "FAIL", "finding-2")],
        [("c", "WAIVED", "finding-3"), ("d", "PASS", "finding-4")],
    ]  # fmt: skip
    every = [*told["alarms"], *told["standing"], *told["rest"]]
    plots = [s.plot and (s.plot.caption or s.plot.missing) for s in every]
    assert plots == ["t1", "No plot: ValueError: odd", "t3", None]
    assert [(s.members, s.left_out) for s in every] == [
        (("x, w1",), 0), (("x, w0", "x, w1"), 1), (("y, w3",), 0), ((), 0),
    ]  # fmt: skip
    measures = [[m.name, m.partition, m.count, m.open, m.last, m.spark] for m in told["measures"]]
    assert measures == [
        ["z", "o", 1, 1, 1.0, "[1.0, 1.0]"], ["x", "p", 2, 1, 30.0, "[20.0, 30.0]"],
        ["y", "p", 1, 0, 7.0, "[nan, 7.0]"],
        ["z9", "p", 1, 0, 1.0, "[1.0, 1.0]"], ["z10", "p", 1, 0, 1.0, "[1.0, 1.0]"],
    ]  # fmt: skip
    of_x, of_y = told["measures"][1:3]
    assert (of_x.level, of_x.lowest, of_x.lowest_at, of_x.highest, of_x.highest_at) == (20.0, 20.0, "w1", 40.0, "w0")
    assert np.isnan(of_y.level)


@pytest.mark.parametrize("back", [1, 8, 9])
def test_nodes_that_run_again_are_named_up_to_eight(back: int) -> None:
    """Beside one that runs for the first time, and one that never paused."""
    values = np.array([[1.0, np.nan, 1.0]] * back + [[np.nan, np.nan, 1.0], [1.0, 1.0, 1.0]])
    series = [SimpleNamespace(node=f"n{at}") for at in range(back + 2)]
    history = SimpleNamespace(nights=[1, 2, 3], values=values, series=series, system="a")
    gate: Any = SimpleNamespace(systems=[SimpleNamespace(history=history)])
    assert [text for _, text, _ in nightly._since_yesterday(gate, [])] == [
        "1 series ran for the first time",
        f"Running again: {', '.join(f'n{at}' for at in range(min(back, 8)))}{' …' if back > 8 else ''}",
    ]
