"""The archive of fingerprints, and which device a comparison names."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tenken.archive import fingerprints, records, verify
from tenken.errors import ArchiveError, ResultError
from tenken.model.fingerprint import Key, Trace, compare, stated

KEY = Key("NVIDIA H100 80GB HBM3", "H100-SXM-80GB", {"torch": "2.11.0", "cublas": "13.0"}, "train bf16 50M dp1", 7)
NOW = datetime(2026, 11, 26, 1, 2, 3, tzinfo=timezone.utc)


def trace(device: str, text: str) -> Trace:
    """Digests by step: `aab` is a at steps 0 and 1, b at step 2; `.`: the step is missing."""
    return Trace(device, tuple((step, "w", letter) for step, letter in enumerate(text) if letter != "."), "n1", 0)


#: Digests of devices A, B, C, ...; the number of positions compared; which device differs first, where and how:
#: `A1=b!a` is A at step 1, which has b where most have a; `?`: no majority.
COMPARED = {
    "equal": ("aaa aaa", 3, ""),
    "one alone": ("aaa", 0, ""),
    "no step in common": ("a.. .a.", 0, ""),
    "a shorter one": ("aa aaaa aaa", 3, ""),
    "minority": ("aaa abb aaa", 3, "B1=b!a"),
    "first of the steps, and once": ("aaaa abcd aaaa", 4, "B1=b!a"),
    "two that differ at different steps": ("aaaa abbb aaaa aacc aaaa", 4, "B1=b!a D2=c!a"),
    "two alone": ("aaa aba", 2, "A1=a? B1=b?"),
    "two against two": ("aa aa ab ab", 2, "A1=a? B1=a? C1=b? D1=b?"),
    "all different": ("a b c", 1, "A0=a? B0=b? C0=c?"),
    "nothing is compared after that": ("aa ba .c .d", 1, "A0=a? B0=b?"),
    "most but not more than half": ("a a b c", 1, "A0=a? B0=a? C0=b? D0=c?"),
    "what dropped out has no vote": ("aaa bbb aac aaa", 3, "B0=b!a C2=c!a"),
}


@pytest.mark.parametrize("what", COMPARED)
def test_who_is_in_the_minority(what: str) -> None:
    text, positions, expected = COMPARED[what]
    found = compare([trace(device, one) for device, one in zip("ABCDE", text.split(), strict=False)])
    said = [f"{d.trace.device}{d.step}={d.found}" + (f"!{d.expected}" if d.expected else "?") for d in found.deviations]
    assert (" ".join(said), found.positions) == (expected, positions)
    assert found.equal == (positions > 0 and not expected)


def test_within_a_step_the_first_tensor_computed_is_named() -> None:
    good = Trace("A", ((0, "loss", "a"), (0, "attention", "b"), (0, "embedding", "c")))
    bad = Trace("B", ((0, "loss", "a"), (0, "attention", "x"), (0, "embedding", "y")))
    (found,) = compare([good, bad, replace(good, device="C")]).deviations
    assert (found.trace.device, found.tensor) == ("B", "attention")
    assert found.text() == "(B): first differs at step 0, attention: x; 2 devices have b"


def test_a_lone_card_is_held_against_others_and_its_past(tmp_path: Path) -> None:
    for day, (device, text) in enumerate({"A": "aaa", "B": "aaa"}.items()):
        assert fingerprints.add(tmp_path, KEY, trace(device, text), "s", NOW + timedelta(days=day))
    known = fingerprints.known(tmp_path, KEY).traces
    assert [(one.device, one.since) for one in known] == [("A", "2026-11-26T01:02:03Z"), ("B", "2026-11-27T01:02:03Z")]
    (found,) = compare([*known, trace("A", "aab")]).deviations
    assert (found.trace.device, found.trace.since, found.step) == ("A", "", 2)
    # fingerprints that a run has already archived are not evidence for what it computed
    fingerprints.add(tmp_path, KEY, trace("C", "aab"), "now", NOW)
    assert [one.device for one in fingerprints.known(tmp_path, KEY, "now").traces] == ["A", "B"]
    # a device has one vote in the archive, by its first trace, so that a sticky fault does not become the majority
    for day in (2, 3, 4):
        fingerprints.add(tmp_path, KEY, trace("A", f"aab{'c' * day}"), "s", NOW + timedelta(days=day))
    again = compare([*fingerprints.known(tmp_path, KEY, "now").traces, trace("A", "aab")])
    assert [one.trace.since for one in again.deviations] == [""]


def test_the_same_is_kept_once_and_longer_runs_beside(tmp_path: Path) -> None:
    assert fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW)
    assert fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW + timedelta(days=1)) is None
    assert fingerprints.add(tmp_path, KEY, trace("A", "aaaa"), "s", NOW + timedelta(days=2))
    (known,) = fingerprints.known(tmp_path, KEY).traces
    assert known.prints == trace("A", "aaaa").prints
    before = datetime.now(timezone.utc)
    path = fingerprints.add(tmp_path, KEY, trace("B", "aa"), "s")
    assert path is not None and f"{before:%Y%m%dT%H%M%S}" <= path.name[:15], "by the present time"


@pytest.mark.parametrize("other", [
    replace(KEY, kind="NVIDIA H200"), replace(KEY, sheet=""), replace(KEY, seed=8), replace(KEY, algorithm="x"),
    replace(KEY, versions={"torch": "2.12.0", "cublas": "13.0"}),
])  # fmt: skip
def test_another_key_is_never_compared(tmp_path: Path, other: Key) -> None:
    fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW)
    assert fingerprints.known(tmp_path, other).traces == ()
    of_others = fingerprints.other_versions(tmp_path, other)
    assert of_others == ([KEY] if other.versions != KEY.versions else [])
    assert fingerprints.other_versions(tmp_path, KEY) == []


def test_other_versions_are_named_in_the_order_of_their_first_traces(tmp_path: Path) -> None:
    keys = {name: replace(KEY, versions={"torch": name}) for name in ("3", "1", "2", "4")}
    for day, name in enumerate(("3", "1", "3", "1", "2")):
        fingerprints.add(tmp_path, keys[name], trace(f"{name}{day}", "aa"), "s", NOW + timedelta(days=day))
    damaged = fingerprints.add(tmp_path, keys["2"], trace("B", "aa"), "s", NOW - timedelta(days=1))
    alone = fingerprints.add(tmp_path, keys["4"], trace("B", "aa"), "s", NOW - timedelta(days=1))
    assert damaged is not None and alone is not None
    for path in (damaged, alone):
        path.write_text("{")
        path.with_name("notes.json").write_text("{")
    found = fingerprints.other_versions(tmp_path, KEY)
    assert [one.versions["torch"] for one in found] == ["3", "1", "2"]
    assert [one.versions["torch"] for one in fingerprints.other_versions(tmp_path, keys["3"])] == ["1", "2"]
    read = fingerprints.known(tmp_path, keys["2"])
    assert [one.device for one in read.traces] == ["24"] and len(read.damaged) == 1, "notes have no vote"


@pytest.mark.parametrize("damage", [
    lambda text: text[: len(text) // 2], lambda text: text.replace('"a"', '"b"', 1), lambda text: "",
    lambda text: text.replace('"seed": 7', '"seed": 8'), lambda text: text.replace('"step', '"x'), lambda text: "\xff",
])  # fmt: skip
def test_a_damaged_file_is_named_and_has_no_vote(tmp_path: Path, damage) -> None:
    fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW)
    path = fingerprints.add(tmp_path, KEY, trace("B", "aa"), "s", NOW)
    assert path is not None
    text = damage(path.read_text(encoding="utf-8"))
    if text == path.read_text(encoding="utf-8"):
        return
    path.write_bytes(text.encode("latin-1"))
    found = fingerprints.known(tmp_path, KEY)
    assert [one.device for one in found.traces] == ["A"] and len(found.damaged) == 1 and str(path) in found.damaged[0]


def test_a_kill_loses_only_the_file_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            fingerprints.add(tmp_path, KEY, trace("B", "aa"), "s", NOW)
    # if nothing ran after the kill, the unfinished file remains, and has no vote
    folder = next((tmp_path / fingerprints.FOLDER).glob("*/*"))
    (folder / ".tmp-20261126T010203-0000000000000000-C.json.1.ab").write_text("{")
    known = fingerprints.known(tmp_path, KEY)
    assert [one.device for one in known.traces] == ["A"] and not known.damaged


def test_writers_at_once_and_a_second_archive_reader(tmp_path: Path) -> None:
    devices = [f"GPU-{i:02d}" for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda device: fingerprints.add(tmp_path, KEY, trace(device, "ab"), "s", NOW), [*devices, *devices]
            )
        )
    known = fingerprints.known(tmp_path, KEY)
    assert sorted(one.device for one in known.traces) == devices and not known.damaged
    # readers of records do not see them
    assert list(records.paths(tmp_path)) == [] and verify.check(tmp_path).faults == []


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tenken.archive.durable.temporary", full)
    with pytest.raises(ArchiveError, match="cannot write to the archive: Permission denied"):
        fingerprints.add(tmp_path, KEY, trace("A", "aa"), "s", NOW)


def test_a_fleet_reads_no_more_than_a_majority_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "MOST", 3)
    for i in range(5):
        fingerprints.add(tmp_path, KEY, trace(f"G{i}", "aa"), "s", NOW + timedelta(seconds=i))
    assert [one.device for one in fingerprints.known(tmp_path, KEY).traces] == ["G0", "G1", "G2"]


SAID = {
    "kind": "k", "algorithm": "x", "seed": 1, "versions": {"torch": "2"}, "device": "GPU-1", "node": "n", "gpu": 0,
    "prints": [[0, "w", "a"]],
}  # fmt: skip


@pytest.mark.parametrize(
    "change, why",
    [
        ({"prints": []}, "has no fingerprint"),
        ({"prints": [[0, "w", "a"], [0, "w", "b"]]}, "one step and tensor twice"),
        ({"seed": "1"}, "Expected `int`"),
        ({"prints": [[0, "w"]]}, "length 3"),
    ],
)
def test_what_a_program_states_is_validated(change: dict[str, object], why: str) -> None:
    (found,) = stated({"fingerprints": [SAID]})
    assert found.trace.prints == ((0, "w", "a"),) and found.key("s") == Key("k", "s", {"torch": "2"}, "x", 1)
    assert stated({}) == ()
    with pytest.raises(ResultError, match=why):
        stated({"fingerprints": [json.loads(json.dumps({**SAID, **change}))]})
