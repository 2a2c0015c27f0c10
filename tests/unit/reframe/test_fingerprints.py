"""Fingerprints of a run, judged within the run and against the archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenken.archive import fingerprints as archive
from tenken.errors import ArchiveError
from tenken.judge import relations
from tenken.model.result import Result, typed
from tenken.model.verdicts import FAIL
from tenken.reframe.fingerprints import recalled
from tests.support.documents import host_document

RESULT = typed(host_document())


def result(*devices: str, versions: str = "2.11.0", **parameters: object) -> Result:
    """Devices with their digests by step: `A:aab`."""
    said = [
        {
            "kind": "NVIDIA H100 80GB HBM3", "algorithm": "train", "seed": 1, "versions": {"torch": versions},
            "device": device, "node": "n1", "gpu": gpu, "prints": [[step, "w", one] for step, one in enumerate(text)],
        }
        for gpu, (device, _, text) in enumerate(one.partition(":") for one in devices)
    ]  # fmt: skip
    return replace(RESULT, path={"fingerprints": said}, parameters=parameters)


def failures(findings: list) -> list[str]:
    return [one.message for one in findings if one.verdict == FAIL]


#: Devices of a run, and the judge's findings in words, from this run alone.
WITHIN = {
    "equal": (["A:aa", "B:aa"], []),
    "one alone": (["A:aa"], []),
    "a minority": (["A:aa", "B:ab", "C:aa"], ["n1 gpu1 (B): first differs at step 1, w: b; 2 devices have a"]),
    "two alone": (["A:a", "B:b"], ["gpu0 (A): first differs at step 0, w: a; no majority", "gpu1 (B)"]),
    "one that stopped": (["A:aaa", "B:aa"], ["gpu1 (B) has no fingerprint of train at step 2; another device"]),
}


@pytest.mark.parametrize("what", WITHIN)
def test_devices_of_one_run(what: str) -> None:
    devices, words = WITHIN[what]
    found = failures([*relations.fingerprints(result(*devices))])
    assert len(found) == len(words) and all(word in text for word, text in zip(words, found, strict=True))


def test_what_is_malformed_is_a_failure_and_other_versions_are_not_compared() -> None:
    (found,) = failures([*relations.fingerprints(result("A:"))])
    assert "(A): train has no fingerprint" in found
    one, other = result("A:a"), result("B:b", versions="2.12.0")
    both = replace(one, path={"fingerprints": one.path["fingerprints"] + other.path["fingerprints"]})
    (note,) = relations.fingerprints(both)
    assert note.kind and "not compared between versions: torch 2.11.0; torch 2.12.0" in note.message


def test_the_archive_decides_where_a_run_cannot(tmp_path: Path) -> None:
    (first,) = recalled(result("A:aa"), "1", tmp_path)
    assert "first fingerprints of train by the kind NVIDIA H100 80GB HBM3: compared with no other" in first.message
    (second,) = recalled(result("B:aaa"), "2", tmp_path)
    assert "equal those of 1 archived devices, 2 compared" in second.message
    # the same run again: it is not evidence for itself
    assert [one.message for one in recalled(result("B:aaa"), "2", tmp_path)] == [second.message]
    # the archive decides which of two differs
    (found,) = failures(recalled(result("C:aa", "D:ab"), "3", tmp_path))
    assert "n1 gpu1 (D): first differs at step 1, w: b; 3 devices have a" in found
    # a device that computes something else than on another day
    (found,) = failures(recalled(result("A:ab"), "4", tmp_path))
    assert "(A): first differs at step 1" in found
    # already in the minority within the run: not reported twice
    assert failures(recalled(result("A:aa", "B:ab", "C:aa"), "5", tmp_path)) == []


def test_a_new_version_is_a_mark(tmp_path: Path) -> None:
    recalled(result("A:aa"), "1", tmp_path)
    (mark,) = recalled(result("A:bb", versions="2.12.0"), "2", tmp_path)
    assert mark.verdict != FAIL and "with torch 2.12.0; the archive has those with torch 2.11.0" in mark.message
    assert failures(recalled(result("A:bb", versions="2.12.0"), "3", tmp_path)) == []


def test_a_drill_leaves_nothing_and_a_failing_archive_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recalled(result("A:xx", inject_fault="weight"), "1", tmp_path)
    assert not (tmp_path / archive.FOLDER).exists()

    def full(*_: object) -> None:
        raise ArchiveError("disk full")

    monkeypatch.setattr(archive, "add", full)
    assert "fingerprints were not archived: disk full" in recalled(result("A:aa"), "1", tmp_path)[-1].message


def algorithms(*said: str) -> Result:
    """One device with a digest of each algorithm: `train:a`."""
    whole = result("A:a").path["fingerprints"][0]
    parts = [one.partition(":") for one in said]
    return replace(RESULT, parameters={}, path={"fingerprints": [
        {**whole, "algorithm": name, "prints": [[0, "w", digest]]} for name, _, digest in parts
    ]})  # fmt: skip


def test_each_algorithm_is_compared_and_told(tmp_path: Path) -> None:
    first = recalled(algorithms("train:a", "solve:b"), "1", tmp_path)
    assert [one.message.partition(" of ")[2].split()[0] for one in first] == ["train", "solve"]
    other = replace(algorithms("train:a", "solve:x"), path={"fingerprints": [
        {**one, "device": "B"} for one in algorithms("train:a", "solve:x").path["fingerprints"]
    ]})  # fmt: skip
    found = recalled(other, "2", tmp_path)
    assert "fingerprints of train equal those of 1 archived devices, 1 compared" in found[0].message
    assert any(one.verdict == FAIL and "solve" in one.message for one in found[1:])
    assert not any("fingerprints of solve equal" in one.message for one in found)


def test_first_fingerprints_say_with_what_they_are_compared(tmp_path: Path) -> None:
    (several,) = recalled(result("A:a", "B:a"), "1", tmp_path)
    assert several.message.endswith("by the kind NVIDIA H100 80GB HBM3: compared with one another")
    for run, version in enumerate(("2.12.0", "2.13.0"), start=2):
        recalled(result("A:a", versions=version), str(run), tmp_path)
    (latest,) = recalled(result("A:a", versions="2.14.0"), "4", tmp_path)
    assert "with torch 2.14.0; the archive has those with torch 2.13.0, which are not comparable" in latest.message


def test_a_damaged_file_has_no_vote_and_what_differs_is_told_beside_it(tmp_path: Path) -> None:
    recalled(result("A:aa", "B:aa"), "1", tmp_path)
    (folder,) = {path.parent for path in (tmp_path / archive.FOLDER).rglob("*.json")}
    damaged = sorted(folder.glob("*.json"))[0]
    damaged.write_text("{")
    found = recalled(result("C:ab", "D:aa"), "2", tmp_path)
    assert "fingerprints without a vote: " in found[0].message
    assert failures(found) and not any("equal those" in one.message for one in found)


def test_cards_of_a_kind_are_those_of_a_data_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenken.reframe import fingerprints

    sheets = {"NVIDIA H100 80GB HBM3": "h100-sxm"}
    seen = []
    monkeypatch.setattr(
        fingerprints.hardware, "for_device", lambda kind: SimpleNamespace(name=sheets[kind]) if kind in sheets else None
    )
    monkeypatch.setattr(fingerprints, "_of_key", lambda result, key, *of: seen.append(key.sheet) or [])
    recalled(result("A:a"), "1", tmp_path)
    sheets.clear()
    recalled(result("A:a"), "1", tmp_path)
    assert seen == ["h100-sxm", ""]
