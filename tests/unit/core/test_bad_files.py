"""Files that are not a complete JSON document of this suite: one clear refusal each, in bounded time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import records
from tenken.errors import ArchiveError, ResultError
from tenken.history.ingest import ingest
from tenken.history.store import open_store
from tenken.model import result
from tests.support.documents import host_document
from tests.unit.reports import builder

GOOD = json.dumps(host_document())
MIB = 1 << 20


#: What is in place of a result -> the message.
TEXTS = {
    "lists in lists": ("[" * 300_000, "top level|truncated or not JSON|cannot be read"),
    "objects in objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "schema|cannot be read"),
    "a parameter without bottom": (
        GOOD.replace('"parameters": {', '"parameters": {"x": ' + "[" * 30_000 + "]" * 30_000 + ", ", 1),
        "cannot be read",
    ),
    "ten million digits": ("1" * 10_000_000, "top level|out of range"),
    "a huge exponent": (GOOD.replace("20.0", "1e400", 1), "out of range"),
    "not a number": (GOOD.replace("20.0", "-Infinity", 1), "not JSON"),
    "one long text": ('{"a": "' + "x" * (33 * MIB) + '"}', "bytes; at most 33554432 are accepted"),
    "an open text": ('{"a": "' + '\\"' * (5 * MIB), "truncated or not JSON"),
    "two documents": (GOOD + GOOD, "not JSON"),
    "something behind it": (GOOD + "x", "not JSON"),
    "cut": (GOOD[:-1], "truncated or not JSON"),
    "nothing": ("", "is empty"),
    "blanks": (" \n" * MIB, "is empty"),
    "half a character": (GOOD.replace('"program"', '"\\ud800"', 1), "not JSON|cannot be read|program"),
    "another object": ("[1]", "top level: Expected `object`, got `array`"),
}  # fmt: skip
BYTES = {
    "byte order mark": (b"\xef\xbb\xbf" + GOOD.encode(), "UTF-8 with a byte order mark"),
    "UTF-16": (GOOD.encode("utf-16"), "is UTF-16"),
    "UTF-16, big end first, no mark": (GOOD.encode("utf-16-be"), "contains zero bytes"),
    "UTF-32": (GOOD.encode("utf-32"), "is UTF-16 or UTF-32"),
    "latin-1": (GOOD.replace('"reason": ""', '"reason": "é"', 1).encode("latin-1"), "not UTF-8 text: byte 0xe9"),
    "an archive": (b"\x1f\x8b\x08" + bytes(range(256)), "contains zero bytes"),
}  # fmt: skip


def refused(path: Path, says: str, seconds: float = 10) -> None:
    """One line that names the file and what is wrong, in time."""
    begin = time.monotonic()
    with pytest.raises(ResultError, match=says) as raised:
        result.load(path)
    assert time.monotonic() - begin < seconds
    message = str(raised.value)
    assert message.startswith("result.json: ") and "\n" not in message and len(message) < 500


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_document_is_refused(tmp_path: Path, name: str) -> None:
    text, says = TEXTS[name]
    (tmp_path / "result.json").write_text(text)
    refused(tmp_path / "result.json", says)


@pytest.mark.parametrize("name", BYTES)
def test_another_encoding_is_named(tmp_path: Path, name: str) -> None:
    content, says = BYTES[name]
    (tmp_path / "result.json").write_bytes(content)
    refused(tmp_path / "result.json", says)


def test_utf_8_with_accents_and_surrogate_pairs_is_read(tmp_path: Path) -> None:
    for text in (
        GOOD.replace('"reason": ""', '"reason": "é 点検"'),
        GOOD.replace('"reason": ""', '"reason": "\\ud83d\\ude00"'),
    ):
        (tmp_path / "result.json").write_text(text, encoding="utf-8")
        assert result.load(tmp_path / "result.json").reason.strip()


def test_a_large_honest_document_is_read(tmp_path: Path) -> None:
    """Ten times the largest kept one: 80,000 samples."""
    raw: dict[str, Any] = host_document()
    raw["metrics"][0].update(samples=[20.0 + i / 1e6 for i in range(80_000)], count=80_000)
    (tmp_path / "result.json").write_text(json.dumps(raw))
    assert len(result.load(tmp_path / "result.json").metrics[0].samples) == 80_000


def special(folder: Path, kind: str) -> Path:
    path = folder / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        (folder / "other").write_text(GOOD)
        path.symlink_to(folder / "other" if kind == "link" else folder / "nowhere")
    return path


SPECIAL = {
    "pipe": "is not a regular file",
    "folder": "is not a regular file",
    "device": "is a symbolic link",
    "link": "is a symbolic link",
    "link to nowhere": "is a symbolic link",
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_regular_file_is_refused_and_nothing_waits_for_it(tmp_path: Path, kind: str) -> None:
    refused(special(tmp_path, kind), SPECIAL[kind])


@pytest.mark.parametrize("kind", SPECIAL)
def test_the_archive_has_no_pipes_and_links(tmp_path: Path, kind: str) -> None:
    root = builder.write_session(
        tmp_path,
        [builder.record("good", builder.document("stream", [builder.metric("triad", {"host": 0}, [1.0, 2.0])]))],
    )
    path = special(root / "h200" / "gpu" / "2026-11-21" / "odd", kind)
    path = path.rename(path.with_name(f"030000-{builder.NAME}-00000000.json"))
    with pytest.raises(ArchiveError, match=SPECIAL[kind]):
        records.read(path)
    damaged: list[records.Damaged] = []
    assert [r.check for r in records.records(root, damaged=damaged)] == ["good"]
    assert [d.path for d in damaged] == [path]
    with open_store(tmp_path / "s.duckdb", root) as store:
        assert [SPECIAL[kind] in reason for _, reason in ingest(store, root).bad] == [True]


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A file of the maximum size with the content that takes most memory: less than 600 MiB more."""
    path = tmp_path / "result.json"
    path.write_text("[" + "[]," * 190_000 + '"' + "é" * (10 * MIB) + '"]', encoding="utf-8")
    program = (
        "import sys\nfrom pathlib import Path\nfrom tenken.model import result\n"
        # ru_maxrss includes the process that started this one
        "def most(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "before = most()\n"
        "try: result.load(Path(sys.argv[1]))\nexcept result.ResultError: pass\n"
        "print(most() - before)\n"
    )
    said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert int(said.stdout) < 600 << 10
