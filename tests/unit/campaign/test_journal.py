"""What a journal holds after a process was killed, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenken.campaign import journal
from tenken.campaign.file import CampaignError

INTENT = {"token": "t1", "unit": "node1/first/1", "attempt": 1}


def opened(folder: Path) -> journal.Journal:
    found = journal.Journal(folder, lambda: 12.34567)
    found.open()
    return found


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / journal.FILE).read_text().splitlines()]


@pytest.mark.parametrize("rest", ["", "{", '{"event":"ended","token":"t1","why":"fai', '{"event":"campaign"}'])
def test_a_line_that_was_being_written_is_cut_and_the_next_one_is_whole(rest: str, tmp_path: Path) -> None:
    one = opened(tmp_path)
    one.note("intent", **INTENT)
    one.close()
    with (tmp_path / journal.FILE).open("a") as stream:
        stream.write(rest)
    assert list(journal.read(tmp_path).attempts) == ["t1"] and not journal.read(tmp_path).begun
    again = opened(tmp_path)
    again.note("submitted", token="t1", job="7")
    again.close()
    assert [line["event"] for line in lines(tmp_path)] == ["intent", "submitted"]
    assert journal.read(tmp_path).attempts["t1"].job == "7"


def test_a_time_has_three_decimals_and_what_is_noted_counts_at_once(tmp_path: Path) -> None:
    one = opened(tmp_path)
    one.note("intent", **INTENT)
    assert lines(tmp_path)[0] == {"event": "intent", "time": 12.346, **INTENT}
    assert [attempt.token for attempt in one.state.open()] == ["t1"]
    one.close()


def test_two_processes_cannot_run_one_campaign(tmp_path: Path) -> None:
    one = opened(tmp_path)
    with pytest.raises(CampaignError, match="another process is running this campaign"):
        opened(tmp_path)
    one.close()
    opened(tmp_path).close()


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"event":"intent"}', '{"event":"phase"}'])
def test_a_line_that_is_none_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / journal.FILE).write_text('{"event":"campaign"}\n' + line + "\n")
    with pytest.raises(CampaignError, match=r":2: not a line of a campaign journal"):
        journal.read(tmp_path)


def test_seconds_of_a_result_that_is_gathered_twice_count_once(tmp_path: Path) -> None:
    one = opened(tmp_path)
    one.note("intent", **INTENT)
    for seconds in (5.5, 7.0):
        one.note("gathered", token="t1", seconds=seconds)
    one.close()
    state = journal.read(tmp_path)
    assert state.seconds == 5.5 and state.open() == [] and state.done(next(iter(state.by_unit)))
    assert state.version == 3
