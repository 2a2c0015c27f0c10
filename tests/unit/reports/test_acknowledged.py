"""The file of accepted shifts: what an entry names, what is read, and what is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tenken.history import acknowledged
from tenken.history.acknowledged import AcknowledgedError, Entry, Rebase, Retired
from tests.unit.reports.test_gate import history
from tests.unit.reports.test_joined import shift


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ({}, True), ({"gpu": "1"}, True), ({"gpu": "3"}, True), ({"gpu": "2"}, False), ({"peer": "1"}, True),
        ({"peer": "3"}, True), ({"peer": "2"}, False), ({"gpu": "1", "peer": "3"}, True),
        ({"gpu": "3", "peer": "1"}, True), ({"gpu": "1", "peer": "2"}, False), ({"gpu": "2", "peer": "3"}, False),
        ({"leaf": "switch s1"}, True), ({"leaf": "switch s2"}, False), ({"leaf": "rack s1"}, False),
        ({"leaf": "rack r1"}, True), ({"node": "n1"}, True), ({"node": "N1.site.org"}, True), ({"node": "n2"}, False),
        ({"node": "n1", "gpu": "2"}, False), ({"program": "stream"}, True), ({"program": "hpl"}, False),
        ({"check": "Stream"}, True), ({"check": "stream"}, False), ({"metric": "triad"}, True),
        ({"metric": "copy"}, False), ({"check": "Stream", "metric": "copy"}, False),
    ],
)  # fmt: skip
def test_a_series_is_named_if_all_keys_match(named: dict[str, str], names: bool) -> None:
    h = history()
    series = [replace(one, kind="pair", gpu="1", peer="3") for one in h.series]
    h = replace(h, series=series, groups={"switch": {"n1": "s1", "n2": "s2"}, "rack": {"n1": "r1"}})
    retired = Retired("m", "sent back", "me", **named)
    assert retired.names(h, 1) is names and retired.covers(h, 1) is names
    assert not replace(retired, system="x").covers(h, 1)


COMMON = "system: m, reason: why, owner: me"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("night: 2026-11-21", Entry("m", "why", "me", night=date(2026, 11, 21))),
        ("size: -0.05, kind: outlier, gpu: 3, node: n1",
         Entry("m", "why", "me", size=-0.05, kind="outlier", gpu="3", node="n1")),
        ("size: 1", Entry("m", "why", "me", size=1.0)), ("size: 9.99", Entry("m", "why", "me", size=9.99)),
        ("size: -0.99", Entry("m", "why", "me", size=-0.99)),
        ("night: 2026-11-21, size: 0.1, until: 2026-12-01, leaf: switch s1, peer: 1, program: p, check: C, metric: t",
         Entry("m", "why", "me", night=date(2026, 11, 21), size=0.1, until=date(2026, 12, 1), leaf="switch s1",
               peer="1", program="p", check="C", metric="t")),
        ("night: 2026-11-21, node: null", Entry("m", "why", "me", night=date(2026, 11, 21))),
        ("size: -1", "size is -1; allowed"), ("size: 10", "size is 10; allowed"),
        ("night: 2026-11-21, until: later", "until is 'later'; allowed: a date"),
        ("until: 2026-12-01", "needs `night` (a shift) or `size` (an outlier)"),
        ("night: 2026-11-21, start: 2026-11-21", "unknown key 'start'"),
    ],
)  # fmt: skip
def test_an_entry_is_read_as_it_is_written(text: str, entry: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"acknowledged:\n  - {{{COMMON}, {text}}}\nretired:\nrebased: []\n")
    if isinstance(entry, Entry):
        assert acknowledged.read_all(file) == acknowledged.Decisions((entry,))
    else:
        with pytest.raises(AcknowledgedError) as error:
            acknowledged.read_all(file)
        assert str(error.value).startswith(f"{file}:2: ") and entry in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "while parsing"),
        ("- x\n", "must contain lists; allowed: `acknowledged`"),
        ("x: []\n", "must contain lists"),
        ("retired: {a: 1}\n", "`retired` must be a list"),
        ("a: &a [1, 1]\nb: *a\n", "a.yaml"),
        (f"#{' ' * 2_000_000}\n", "a.yaml"),
        ("a: '\x01'", "a.yaml: "),
    ],
    ids=["broken", "list", "key", "mapping", "alias", "large", "control"],
)
def test_a_file_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(AcknowledgedError) as error:
        acknowledged.read_all(file)
    assert said in str(error.value) and str(error.value).count("\n") == 0
    with pytest.raises(AcknowledgedError):
        acknowledged.add_rebase(file, Rebase("m", "why", "me", date(2026, 11, 21)))
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["", "# none yet\n", "acknowledged: []\n", None])
def test_a_file_without_entries_decides_nothing_and_takes_the_first(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    if text is not None:
        file.write_text(text)
    assert acknowledged.read_all(file) == acknowledged.Decisions()
    some = [Rebase("m", "driver: 580", "me", date(2026, 11, 21)), Rebase("n", "x", "y", date(2026, 1, 2), node="n1",
                                                                       gpu="3")]  # fmt: skip
    for one in some:
        acknowledged.add_rebase(file, one)
    assert acknowledged.read_all(file) == acknowledged.Decisions(rebased=tuple(some))
    assert file.read_text().endswith(
        "rebased:\n  - system: m\n    from: 2026-11-21\n    reason: 'driver: 580'\n    owner: me\n"
        "  - system: n\n    from: 2026-01-02\n    node: n1\n    gpu: '3'\n    reason: x\n    owner: y\n"
    )


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["kind: step", "night: 2025-09-06", "size: -0.050"]),
        ({"kind": "outlier"}, ["kind: outlier", "size: -0.050"]),
        ({"kind": "drift", "largest": -0.0712}, ["kind: drift", "night: 2025-09-06", "size: -0.071"]),
    ],
)
def test_the_entry_that_accepts_a_finding(changes: dict[str, Any], lines: list[str]) -> None:
    found = shift([1], night=5, **changes)
    assert acknowledged.snippet(history(), found).splitlines() == [
        "  - system: m", *(f"    {line}" for line in lines), "    node: n1", "    check: Stream", "    metric: triad",
        "    reason: ...", "    owner: ...",
    ]  # fmt: skip


def test_the_first_entry_that_covers_a_finding_is_its_reason() -> None:
    h = history()
    night = h.nights[5]
    decisions = acknowledged.Decisions(
        (Entry("m", "a", "me", night=night, node="n2"), Entry("m", "b", "me", night=night, node="n1")), (),
        (Rebase("m", "c", "you", night), Rebase("m", "d", "you", night)),
    )  # fmt: skip
    found = [shift([1], night=5), shift([3], night=5), shift([1], night=9), shift([2, 1], night=5)]
    acknowledged.apply(decisions, h, found)
    planned = f"planned change from {night}: c (you)"
    assert [one.acknowledged for one in found] == ["b (me)", planned, "", planned]
