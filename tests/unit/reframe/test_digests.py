"""Digests in the end mark: computed with whatever a node has, and compared with the files when the result is read."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.reframe import joblines, orphans
from tenken.reframe.outcome import Outcome, captured
from tests.support.documents import host_document
from tests.unit.core.test_archive import record

TOKEN = "t1"
TOOLS = ("sha256sum", "openssl", "shasum")
#: Other commands that a job needs.
NEEDED = ("ls", "sed", "uname", "date", "hostname", "sort", "paste", "tee", "grep", "cat", "rm", "tr", "sh", "perl")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def job(folder: Path, path: str = "/usr/bin:/bin", outputs=("result.json", "HPL*.out"), command="true", after="true"):
    """The output of a job that wrote the files in the folder."""
    lines = [
        *joblines.begin(False, TOKEN, str(folder)), *joblines.command_begin(), command, *joblines.command_end(),
        f"trap {after!r} EXIT", "cd /", *joblines.digests(str(folder), outputs), *joblines.end(),
    ]  # fmt: skip
    done = subprocess.run(["/bin/sh", "-c", "\n".join(lines)], env={"PATH": path}, capture_output=True, cwd=folder)
    (folder / "job.out").write_bytes(done.stdout)
    (folder / "job.err").write_bytes(done.stderr)
    return done.stdout.decode()


def outcome(folder: Path) -> Outcome:
    return Outcome(folder, "job.out", "job.err", TOKEN, uses_mpi=False)


@pytest.mark.parametrize("there", [*((tool,) for tool in TOOLS), TOOLS, ()], ids=lambda one: " ".join(one) or "none")
def test_any_program_that_computes_it_will_do(tmp_path, there):
    (tmp_path / "bin").mkdir()
    for name in (*NEEDED, *there):
        where, here = shutil.which(name), tmp_path / "bin" / name
        if where is not None:
            here.symlink_to(where)
        elif name in TOOLS:  # it prints what the real one does
            here.write_text(f"#!{sys.executable}\nimport hashlib, sys\nname = sys.argv[-1]\n"
                            "print(hashlib.sha256(open(name, 'rb').read()).hexdigest(), '', name)\n")  # fmt: skip
            here.chmod(0o755)
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "result.json").write_text("{}\n")
    (stage / "HPL 2.out").write_text("a name with a blank")
    told = joblines.report(job(stage, str(tmp_path / "bin"), ["result.json", "HPL*.out", "none.txt"]), TOKEN)
    assert (told.status, told.fault()) == (0, None)
    assert told.digests == {"result.json": digest("{}\n") if there else "unknown", "none.txt": "none"}
    found = outcome(stage)
    assert found.changed(None) is None
    assert ("sha256" in found.digests(), "unsealed" in found.digests()) == (bool(there), not there)


def test_half_an_end_mark_is_none_yet(tmp_path):
    for name in ("result.json", "HPL.out"):
        (tmp_path / name).write_text("{}")
    text = job(tmp_path)
    begin = text.index("TENKEN-END")
    whole = {n for n in range(begin, len(text) + 1) if joblines.end_status(text[:n], TOKEN) is not None}
    # only decimals of the time may still be missing
    assert min(whole) > text.rindex(" time=") + len(" time=12345678") and max(whole) == len(text)
    assert joblines.report(text, TOKEN).digests == {"result.json": digest("{}"), "HPL.out": digest("{}")}
    for n in whole:
        assert joblines.report(text[:n], TOKEN).digests == joblines.report(text, TOKEN).digests
    assert joblines.end_status(text.replace(digest("{}"), digest("{}")[:-1], 1), TOKEN) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("{}", "echo >> result.json", f"result.json had the SHA-256 {digest('{}')} when the job ended, and has"),
        ("{}", "rm result.json", "when the job ended, and is gone now"),
        (None, "echo 1 > result.json", "result.json did not exist when the job ended, and has"),
        ("{}", "touch result.json", None),
        (None, "true", None),
    ],
)
def test_what_changes_after_the_end_mark_is_told(tmp_path, before, after, said):
    if before is not None:
        (tmp_path / "result.json").write_text(before)
    job(tmp_path, after=after)
    found = outcome(tmp_path).changed(None)
    assert found is None if said is None else said in str(found)


def test_a_late_rank_0_fails(tmp_path):
    """Its launcher returned before it had written everything."""
    text = json.dumps({**host_document("daxpy"), "token": TOKEN})
    (tmp_path / "result.json").write_text(text[:100])
    (tmp_path / "rest").write_text(text[100:])
    job(tmp_path, after="cat rest >> result.json")
    request = Request(TOKEN, "daxpy", "Daxpy", ("host",))
    judgement, result, _, _ = outcome(tmp_path).judgement(request, Machine())
    assert result is not None and judgement.verdict == "FAIL"
    assert f"result.json had the SHA-256 {digest(text[:100])} when the job ended, and has {digest(text)} now" in (
        judgement.message()
    )


def test_a_script_without_digests_leaves_its_result_unsealed(tmp_path):
    """One of an earlier release, whose job this one adopts."""
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "job.out").write_text("".join(
        line for line in job(tmp_path).splitlines(True) if "TENKEN-END" not in line
    ) + f"TENKEN-END token={TOKEN} status=0 nodes=n node=n time=1.0\n")  # fmt: skip
    found = outcome(tmp_path)
    assert (found.told.status, found.changed(None)) == (0, None)
    assert found.digests() == {"unsealed": "the end mark has no digest"}
    (tmp_path / "job.out").write_text("")
    assert outcome(tmp_path).digests() == {}


def test_what_a_command_prints_is_a_file_of_its_own_and_in_the_output(tmp_path):
    before, after = joblines.capture("tool.out")
    lines = [
        "echo first",
        *before,
        "echo rate: 1; echo wrong >&2; sh -c 'exit 3'",
        *joblines.command_end(after),
        "exit 4",
    ]
    done = subprocess.run(["/bin/sh", "-c", "\n".join(lines)], capture_output=True, text=True, cwd=tmp_path)
    assert (tmp_path / "tool.out").read_text() == "rate: 1\n"
    first, rate, end = done.stdout.splitlines()
    assert (first, rate, end.endswith(" status=3"), done.stderr) == ("first", "rate: 1", True, "wrong\n")


def test_it_is_archived_as_it_was_when_the_job_ended(tmp_path):
    (tmp_path / "tool.out").write_bytes(b"rate: 1\r\n\xff")
    job(tmp_path, outputs=["tool.out"])
    facts = outcome(tmp_path).digests()
    assert captured(tmp_path, facts) == {"tool.out": b"rate: 1\r\n\xff"}
    (tmp_path / "tool.out").write_text("rate: 2")
    assert captured(tmp_path, facts) == {} == captured(tmp_path, {})


def test_a_record_that_a_full_archive_could_not_take_is_archived_byte_by_byte(tmp_path):
    stage, root = tmp_path / "stage", tmp_path / "perflogs"
    kept = record()
    stage.mkdir()
    assert "saved as" in orphans.keep(kept, stage)
    text = (stage / orphans.KEPT).read_text()
    (line,) = orphans.adopt(stage, root)
    (path,) = archive.paths(root)
    assert line.endswith("archived") and path.read_text() == text
