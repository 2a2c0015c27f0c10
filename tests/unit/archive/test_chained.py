"""The log of node checks: a changed, removed or added line is named; a crash costs only the line being written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.archive import chained, verify
from tenken.errors import ArchiveError

ABOUT = {"job_completion_time": "2026-11-20T00:00:00Z", "nodelist": "n1"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "h200" / "gpu").mkdir(parents=True)
    path = tmp_path / "h200" / "gpu" / "node_check.n1.log"
    for number in range(4):
        chained.append(
            path, ABOUT | {"line": f"good | {number}"}, {"triad.gpu0": 4000 + number, "peer.gpu0-gpu1": 1 / 3}
        )
    return path


def test_a_line_is_as_written_by_hand(log: Path) -> None:
    head, first = log.read_text().splitlines()[:2]
    assert head == "job_completion_time|nodelist|line|triad.gpu0_value|peer.gpu0-gpu1_value|seal"
    assert first.rpartition("|")[0] == "2026-11-20T00:00:00Z|n1|good   0|4000|0.33333"
    # printf '%s\n%s' HEAD LINE | sha256sum
    assert first.rpartition("|")[2] == "5287cbf5c6bf93a9468ae120b4c3ab90acea389a1cadc8d5fb3383a81b853088"


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda lines: lines, None),
        (lambda lines: [*lines[:2], lines[2].replace("4001", "4100"), *lines[3:]], 3),
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
        (lambda lines: [lines[0].replace("gpu0-gpu1", "gpu0-gpu2"), *lines[1:]], 2),
        (lambda lines: [*lines[:2], lines[3], lines[2], lines[4]], 3),
        # a line cut short by a crash does not count; the removal of the last lines is not detectable
        (lambda lines: [*lines, "2026-11-2"], None),
    ],
)
def test_what_is_changed_removed_or_added_is_named(
    log: Path, edit: Callable[[list[str]], list[str]], line: int | None
) -> None:
    lines = edit(log.read_text().splitlines())
    log.write_text("\n".join(lines) + ("\n" if line or lines[-1].count("|") == 5 else ""))
    found = verify.check(log.parents[2])
    assert found.logs == 1
    expected = f"h200/gpu/{log.name}: line {line} is not what was sealed, or one before it is missing"
    assert found.faults == ([] if line is None else [expected])


def test_a_crash_costs_the_line_being_written(log: Path) -> None:
    whole = log.read_text()
    log.write_text(whole + "2026-11-20T00:0")
    chained.append(log, ABOUT | {"line": "good"}, {"triad.gpu0": 4004})
    assert log.read_text().startswith(whole) and len(log.read_text().splitlines()) == 6
    assert log.read_text().splitlines()[5].split("|")[3:5] == ["4004", ""]
    assert list(chained.faults(log)) == []


def test_another_metric_begins_another_log(log: Path) -> None:
    for number in range(2):
        chained.append(log, ABOUT | {"line": "good"}, {f"gemm.gpu{number}": 700})
    names = sorted(path.name for path in log.parent.iterdir())
    assert names == [log.name, f"{log.name}.h0", f"{log.name}.h1"]
    assert log.read_text().splitlines()[1].split("|")[3:7] == ["", "", "", "700"]
    found = verify.check(log.parents[2])
    assert (found.logs, found.faults) == (3, [])


def test_a_file_beside_is_not_taken_for_an_earlier_log(log: Path) -> None:
    for name in ("html", "h", "h7"):
        log.with_name(f"{log.name}.{name}").write_text("")
    chained.append(log, ABOUT | {"line": "good"}, {"gemm.gpu0": 700})
    assert log.with_name(f"{log.name}.h8").read_text().startswith("job_completion_time")
    assert is_private(log)


def is_private(path: Path) -> bool:
    """Whether others may read it and only its owner may write."""
    return path.stat().st_mode & 0o777 == 0o644 & ~umask()


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_what_is_no_such_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        chained.append(tmp_path / "link", ABOUT, {})
    (tmp_path / "other").write_text("job_completion_time|perf_var|perf_value\n")
    with pytest.raises(ArchiveError, match="not a log of node checks"):
        chained.append(tmp_path / "other", ABOUT, {})
    os.link(tmp_path / "other", tmp_path / "twice")
    with pytest.raises(ArchiveError, match="not a file of one name"):
        chained.append(tmp_path / "twice", ABOUT, {})
    assert not (tmp_path / "victim").exists() and len((tmp_path / "other").read_text().splitlines()) == 1
