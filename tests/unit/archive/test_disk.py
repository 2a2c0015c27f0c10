"""Full disks and locks: how long is waited, what is said, and what is left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tenken.archive import disk, durable


class Clock:
    """Time passes only while something sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(disk, "_given_up", {})
    for module in (disk, durable):
        monkeypatch.setattr(module, "time", found)
    return found


def tries(place: Path, errors: str) -> str:
    """Errors of successive tries: F full, Q quota, R read-only. The last error if it was raised, else `ok`."""
    known = {"F": errno.ENOSPC, "Q": errno.EDQUOT, "R": errno.EROFS}
    waiting = list(errors)

    def write() -> str:
        if waiting:
            raise OSError(known[waiting.pop(0)], "x")
        return "ok"

    try:
        return disk.patiently(write, place)
    except OSError as error:
        return next(letter for letter, number in known.items() if number == error.errno)


@pytest.mark.parametrize(
    ("errors", "end", "pauses", "given_up"),
    [
        ("", "ok", [], False),
        ("F", "ok", [0.2], False),
        ("FQF", "ok", [0.2, 1.0, 3.0], False),
        ("FFFQ", "Q", [0.2, 1.0, 3.0], True),
        ("FFFR", "R", [0.2, 1.0, 3.0], False),
        ("R", "R", [], False),
        ("FR", "R", [0.2], False),
    ],
)
def test_a_full_disk_alone_is_waited_for(
    errors: str, end: str, pauses: list[float], given_up: bool, clock: Clock, tmp_path: Path
) -> None:
    assert (tries(tmp_path / "a" / "b", errors), clock.pauses) == (end, pauses)
    assert tries(tmp_path, "F") == ("F" if given_up else "ok")


def test_a_disk_is_given_up_for_a_minute_and_no_other_one(clock: Clock, tmp_path: Path) -> None:
    assert tries(tmp_path, "FFFF") == "F"
    clock.pauses.clear()
    clock.now += 59.9
    assert (tries(tmp_path, "F"), tries(Path("/proc/self"), "F"), clock.pauses) == ("F", "ok", [0.2])
    clock.now += 60.0
    assert (tries(tmp_path, "F"), clock.pauses) == ("ok", [0.2, 0.2])


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_a_full_disk_is_seen_behind_another_error(link: str) -> None:
    full, other, outer = OSError(errno.ENOSPC, "x"), OSError(errno.EROFS, "y"), ValueError("z")
    setattr(other, link, full)
    setattr(outer, link, other)
    assert disk.fullness(outer) is full and disk.is_full(outer)
    assert not disk.is_full(OSError(errno.EROFS, "y")) and not disk.is_full(None)


@pytest.mark.parametrize(
    ("held_s", "limit_s", "pauses", "said"),
    [
        (0.0, 600.0, [], 0),
        (0.03, 600.0, [0.005, 0.01, 0.02], 0),
        (0.5, 600.0, [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2], 0),
        (9.9, 600.0, None, 0),
        (25.0, 600.0, None, 1),
        (0.03, 0.015, [0.005, 0.01], None),
        (99.0, 25.0, None, None),
    ],
)
def test_a_lock_is_waited_for(
    held_s: float, limit_s: float, pauses: list[float] | None, said: int | None, clock: Clock, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """`said` None: it is given up."""

    def flock(*_: object) -> None:
        if clock.now < held_s:
            raise BlockingIOError

    monkeypatch.setattr(durable.fcntl, "flock", flock)
    if said is None:
        with pytest.raises(TimeoutError, match=rf"another process has held the lock of .*/x for {limit_s:.0f} s") as at:
            durable.lock(1, tmp_path / "x", limit_s)
        assert at.value.errno == errno.ETIMEDOUT and limit_s <= clock.now <= limit_s + 0.2
    else:
        durable.lock(1, tmp_path / "x", limit_s)
        assert held_s <= clock.now <= held_s + 0.2
    assert pauses is None or clock.pauses == pytest.approx(pauses)
    told = capsys.readouterr()
    expected = f"tenken: another process holds the lock of {tmp_path}/x; it is given up after {limit_s:.0f} s\n"
    assert (told.out, told.err) == ("", expected * (said if said is not None else int(limit_s > 10)))


def test_a_temporary_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "x" * 250
    made = durable.temporary(tmp_path / "a" / "b" / name, b"1")
    assert made.read_bytes() == b"1" and made.name.startswith(".tmp-") and made.parent == tmp_path / "a" / "b"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        durable.temporary(tmp_path / "c" / name, b"1")
    assert list((tmp_path / "c").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):  # there was nothing to remove
        durable.temporary(tmp_path / "file" / name, b"1")


@pytest.mark.parametrize("happens", ["short", "not synced", "what follows"])
def test_a_line_that_cannot_be_kept_is_taken_back(
    happens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")
    real = os.write

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "x")

    if happens == "short":
        monkeypatch.setattr(os, "write", lambda where, what: real(where, what[:2]))
    if happens == "not synced":
        monkeypatch.setattr(os, "fsync", fails)
    with path.open("ab") as stream:
        with pytest.raises(OSError) as error, durable.appended(stream.fileno(), b"two\n"):
            assert path.read_bytes() == b"one\ntwo\n"
            fails()
        assert error.value.errno == (errno.ENOSPC if happens == "short" else errno.EIO)
    assert path.read_bytes() == b"one\n"
