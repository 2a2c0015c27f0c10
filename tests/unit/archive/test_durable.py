"""What claims to survive a power cut: the order of write, fsync, rename and fsync of the folder, for all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import durable, records
from tenken.campaign.journal import Journal
from tests.unit.core.test_archive import record


def journal(root: Path) -> None:
    held = Journal(root, lambda: 1.0)
    held.open()
    held.note("campaign", name="x")
    held.note("phase", units=[])
    held.close()


#: What is written, and what the disk has seen when it returns: F of a file's or a folder's fsync, W of a line.
WRITERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    # the manifest is begun with a heading
    "a record": (
        lambda root: records.write(record("20261120T010203", check="C"), root),
        [
            "F temporary",
            "F folder",
            "W manifest",
            "F manifest",
            "F folder",
            "W manifest",
            "F manifest",
            "rename",
            "F folder",
        ],
    ),
    "a file beside the archive": (
        lambda root: records.write_file(root / "state.json", "{}"),
        ["F temporary", "rename", "F folder"],
    ),
    "the journal of a campaign": (
        journal,
        ["F folder", "W journal", "F journal", "W journal", "F journal"],
    ),
}


def kind(descriptor: int) -> str:
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    if path.is_dir():
        return "folder"
    return "temporary" if path.name.startswith(durable.TEMPORARY) else path.name.partition(".")[0]


@pytest.mark.parametrize("what", WRITERS)
def test_content_is_on_the_disk_before_its_name_and_before_what_follows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, expected = WRITERS[what]
    seen: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "write")}

    def fsync(descriptor: int) -> None:
        seen.append(f"F {kind(descriptor)}")
        real["fsync"](descriptor)

    def rename(source: Path, target: Path) -> None:
        seen.append("rename")
        real["rename"](source, target)

    def written(descriptor: int, content: bytes) -> int:
        seen.append(f"W {kind(descriptor)}")
        return int(real["write"](descriptor, content))

    (tmp_path / "root").mkdir()
    with monkeypatch.context() as patch:
        for name, double in (("fsync", fsync), ("rename", rename), ("write", written)):
            patch.setattr(os, name, double)
        write(tmp_path / "root")
    found = [one for one in seen if one.split(" ")[-1] in ("temporary", "folder", "manifest", "journal", "rename")]
    assert found == expected
