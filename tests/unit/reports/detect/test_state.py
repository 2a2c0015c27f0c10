"""The state between two nights is data: a damaged, foreign or old file costs time and a message, never more."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from tenken.history import nights
from tenken.history.detect import Settings, detect
from tenken.history.nights import History, Series
from tenken.paths import ROOT
from tools.bench.simulate import FAMILIES, Change, histories

SERIES, NIGHTS = 4, 45


@pytest.fixture(scope="module")
def history() -> History:
    values = histories(FAMILIES["lognormal"], 7, Change(step=0.08), SERIES, NIGHTS)
    series = [Series(i, *[""] * 14, "GB/s", "higher", "median") for i in range(SERIES)]
    days = [date(2026, 1, 1) + timedelta(days=i) for i in range(NIGHTS)]
    none = np.zeros(values.shape, int)
    return History("m", series, days, values, none, none.astype(bool), {})


def judged(history: History, kept: Path) -> tuple[object, list[str]]:
    notices: list[str] = []
    found = nights.judge(history, Settings(), kept, notices)
    return (found.events, found.state), notices


@pytest.fixture
def kept(history: History, tmp_path: Path) -> Path:
    path = tmp_path / "store.m.state"
    whole = detect(history.values, history.higher)
    assert judged(history, path) == ((whole.events, whole.state), [])
    return path


def test_a_state_is_used(history: History, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = judged(history, kept)
    advanced = []
    advance = nights.Detector.advance
    monkeypatch.setattr(nights.Detector, "advance", lambda self, *a: (advanced.append(1), advance(self, *a))[1])
    assert judged(history, kept) == expected and len(advanced) == 1
    assert kept.stat().st_mode & 0o777 == 0o600


DAMAGE = {
    "cut": lambda c: c[:-1],
    "longer": lambda c: c + b"x",
    "empty": lambda c: b"",
    "one byte": lambda c: c[:-100] + bytes([c[-100] ^ 1]) + c[-99:],
    "no line": lambda c: c.replace(b"\n", b" "),
    "of before": lambda c: c.partition(b"\n")[2],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_made_anew_with_one_line(history: History, kept: Path, name: str) -> None:
    expected, _ = judged(history, kept)
    kept.write_bytes(DAMAGE[name](kept.read_bytes()))
    found, notices = judged(history, kept)
    assert found == expected
    assert len(notices) == 1 and f"{kept} is damaged, or of an earlier release" in notices[0]
    assert "\n" not in notices[0]
    assert judged(history, kept) == (expected, []), "written again"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_may_write_is_not_used(history: History, kept: Path, mode: int) -> None:
    kept.chmod(mode)
    assert "it is writable by other users" in judged(history, kept)[1][0]
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_link_a_pipe_and_a_folder_are_no_states(history: History, kept: Path, tmp_path: Path) -> None:
    expected, _ = judged(history, kept)
    real = tmp_path / "real"
    kept.rename(real)
    kept.symlink_to(real)
    assert "is a symbolic link" in judged(history, kept)[1][0]
    assert not kept.is_symlink() and real.is_file()
    kept.unlink()
    os.mkfifo(kept)
    begin = time.monotonic()
    found, notices = judged(history, kept)
    assert found == expected and "not a regular file" in notices[0] and time.monotonic() - begin < 10
    kept.unlink()
    kept.mkdir()
    assert judged(history, kept)[0] == expected


def test_another_history_is_judged_anew_in_silence(history: History, kept: Path) -> None:
    other = History(**{**vars(history), "values": history.values * 2})
    assert judged(other, kept)[1] == []


def doubled(history: History, nights: slice) -> np.ndarray:
    values = history.values.copy()
    values[0, nights] *= 2
    return values


OLD, LAST = slice(10, 11), slice(-1, None)
#: What differs from the history whose state is kept, and whether all nights are judged again.
DIFFERS: dict[str, tuple[Callable[[History], dict[str, object]], bool]] = {
    "nothing": (lambda h: {}, False),
    "a value of an old night": (lambda h: {"values": doubled(h, OLD)}, True),
    "a value of the last night": (lambda h: {"values": doubled(h, LAST)}, False),
    "a date of an old night": (lambda h: {"nights": [date(2025, 12, 1), *h.nights[1:]]}, True),
    "the date of the last night": (lambda h: {"nights": [*h.nights[:-1], date(2026, 6, 1)]}, False),
    "a series": (lambda h: {"series": [*h.series[:-1], replace(h.series[-1], number=9)]}, True),
    "errors": (lambda h: {"errors": np.full(h.values.shape, 0.001)}, True),
}


@pytest.mark.parametrize("what", DIFFERS)
def test_a_state_is_used_for_the_same_nights_alone(
    what: str, history: History, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last night may still grow; what else differs is judged anew, with the verdicts of a history without state."""
    change, anew = DIFFERS[what]
    other = replace(history, **change(history))  # type: ignore[arg-type]
    expected = nights.judge(other, Settings())
    advanced = []
    advance = nights.Detector.advance
    monkeypatch.setattr(nights.Detector, "advance", lambda self, *a: (advanced.append(1), advance(self, *a))[1])
    assert judged(other, kept) == ((expected.events, expected.state), [])
    assert len(advanced) == (NIGHTS if anew else 1)


def test_errors_of_old_and_of_the_last_night(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    errors = np.full(history.values.shape, 0.001)
    judged(replace(history, errors=errors), path)
    advanced: list[object] = []
    advance = nights.Detector.advance
    monkeypatch.setattr(nights.Detector, "advance", lambda self, *a: (advanced.append(a[1]), advance(self, *a))[1])
    for at, count in ((-1, 1), (-2, NIGHTS)):
        errors[:, at] = 0.002
        advanced.clear()
        judged(replace(history, errors=errors.copy()), path)
        assert len(advanced) == count and np.array_equal(np.array(advanced[-1]), errors[:, -1])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_first_nights_of_a_machine(count: int, history: History, tmp_path: Path) -> None:
    few = replace(history, nights=history.nights[:count], values=history.values[:, :count])
    for _ in range(2):
        found = nights.judge(few, Settings(), tmp_path / "state")
        assert (list(found.events), list(found.nights)) == ([], [0] * SERIES)


def test_another_detector_or_other_settings_judge_anew(
    history: History, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advanced = []
    advance = nights.Detector.advance
    monkeypatch.setattr(nights.Detector, "advance", lambda self, *a: (advanced.append(1), advance(self, *a))[1])
    nights.judge(history, replace(Settings(), judged_from=Settings().judged_from + 1), kept)
    assert len(advanced) == NIGHTS
    nights.judge(history, Settings(), kept)
    advanced.clear()
    monkeypatch.setattr(nights, "_code", lambda: b"another release")
    nights.judge(history, Settings(), kept)
    assert len(advanced) == NIGHTS


def test_whatever_changed_in_the_file_is_found(history: History, kept: Path) -> None:
    """A dozen files with a few bytes changed, removed or added: the same verdicts, and no error."""
    seed = 20261122
    dice = random.Random(seed)
    expected, _ = judged(history, kept)
    good = kept.read_bytes()
    for number in range(12):
        content = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(min(len(content), 700)) if dice.random() < 0.7 else dice.randrange(len(content))
            content[at : at + dice.randint(0, 3)] = bytes(dice.randrange(256) for _ in range(dice.randint(0, 3)))
        kept.write_bytes(content)
        assert judged(history, kept)[0] == expected, f"seed {seed}, file {number}"


def test_nothing_is_unpickled_anywhere() -> None:
    for file in [*ROOT.glob("tenken/**/*.py"), *ROOT.glob("checks/*.py"), *ROOT.glob("config/*.py")]:
        for word in ("pickle", "marshal", "shelve", "allow_pickle=True", "yaml.unsafe"):
            assert f"import {word}" not in file.read_text() and f" {word}." not in file.read_text(), f"{file}: {word}"
