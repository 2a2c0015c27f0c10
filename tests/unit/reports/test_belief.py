"""Changed archives through the command line, and kept ones: none of their records is doubted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tenken import cli
from tenken.archive import packed, records
from tenken.errors import ArchiveError
from tenken.model import belief, catalogue
from tenken.model import result as results
from tenken.model.record import Job, Record
from tenken.paths import ROOT
from tenken.report import coherence
from tests.lies import class_17_archives as archives
from tests.lies import honest

#: All that machines wrote, of every version.
KEPT = sorted((ROOT / "tests" / "data").glob("*.tar.xz"))


def report(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main(
        ["report", "--archive", str(root), "--session", archives.NAME, "--output", str(root.parent / "page.html")]
    )
    return status, capsys.readouterr().out


def test_an_honest_session_is_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = report(archives.honest().write(tmp_path / "archive"), capsys)
    assert status == 0 and said.splitlines()[-2].endswith("RECORDED (1 RECORDED, 2 PASS, 1 WAIVED)")


@pytest.mark.parametrize(
    ("group", "name", "status", "says"),
    [
        (
            "job",
            "its exit code is 137",
            1,
            "DAMAGED: local/.*cannot be believed: verdict is PASS; the job exited with 137",
        ),
        ("nodes", "it has no nodes", 1, "DAMAGED: local/.*nodes is empty"),
        ("session", "a copy is of a second node", 1, "FAIL +MemcopyGpu.*cannot be believed"),
        ("run report", "it has no runs", 3, "INCOMPLETE: ReFrame's run report lists no test case"),
        ("plan", "a check is gone everywhere but there", 3, "INCOMPLETE: 1 of 4 checks of the plan never ran"),
    ],
)
def test_a_changed_session_does_not_end_with_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], group: str, name: str, status: int, says: str
) -> None:
    changed = archives.honest()
    {**archives.OF_RECORDS, **archives.OF_SESSIONS}[group][name][0](changed)
    ended, said = report(changed.write(tmp_path / "archive"), capsys)
    assert ended == status and re.search(says, said)
    assert not re.search(r"Session .*: (PASS|RECORDED)", said)
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize(
    ("options", "complete"),
    [
        ("-c checks -r --system local --mode quick", False),
        ("-c checks/ -r --system=local --mode quick", False),
        ("-c checks -r --system local:gpu --mode quick", True),
        ("-c checks/stream.py -r --system local --mode quick", True),
        ("-cchecks/stream.py -r --system local --mode quick", True),
        ("-c checks -r --system local --mode nightly", True),
        ("-c checks -r --system local --mode quick -n StreamCuda", True),
    ],
)
def test_a_plan_holds_a_run_of_the_same_folder_system_and_mode(options: str, complete: bool) -> None:
    """An operator who runs one file or one partition has no incomplete session."""
    plan = {"system": "local", "mode": "quick", "applicable": ["Daxpy", "Gemm"]}
    run = {"session_info": {"cmdline": f"reframe {options}"}}
    assert (list(coherence.never_ran(plan, run, {"Daxpy"})) == []) == complete


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_no_kept_record_is_doubted(file: Path) -> None:
    damaged: list[records.Damaged] = []
    assert list(records.records(packed.folder_of(file), damaged=damaged, figures_only=True))
    assert not damaged


@pytest.mark.parametrize("name", [*honest.CHOSEN, *honest.foreign.RUNS])
def test_an_honest_run_of_any_program_is_believed_and_judged_the_same_again(name: str) -> None:
    """Also those of other implementations, whose adapters fill in less."""
    run = honest.run(name)
    result = results.parse(run.text, "result.json")
    record = Record(
        session=archives.NAME, time=result.finished, system="h200", partition="gpu", environ="cuda",
        check=run.request.check or "Check", base_check=run.request.check or "Check", parameters={},
        mode=run.request.mode, program=run.request.program,
        program_version=catalogue.program(run.request.program).version, subjects=run.request.subjects,
        nodes=tuple(run.job.nodes) or (result.node,), job=Job("slurm", "17", "COMPLETED", run.status),
        judgement=run.judged(run.raw()), request=run.request, result=result,
    )  # fmt: skip
    assert belief.doubt(record) == ""
    assert [one.message for one in coherence.judged_anew(record)] == []


def renamed(raw: Any, verdict: str) -> Any:
    """A failed record in which every word of a failure was replaced, as by somebody who wants it accepted."""
    raw.update(verdict=verdict, findings=[], result_error=None)
    raw["job"] = {**(raw.get("job") or {}), "state": "COMPLETED", "exit_code": 0}
    for one in (raw.get("judged") or {}).values():
        if one.get("verdict") in ("FAIL", "INVALID"):
            one["verdict"] = "PASS" if one.get("criterion") else "RECORDED"
    return raw


@pytest.mark.parametrize("verdict", ["PASS", "RECORDED"])
def test_a_failure_of_a_real_machine_cannot_be_renamed(tmp_path: Path, verdict: str) -> None:
    """Neither reading it nor judging it again, of which page and acceptance do both, takes it for what it claims."""
    failures = 0
    for packed_file in KEPT:
        root = packed.folder_of(packed_file)
        for path in records.paths(root):
            raw = json.loads(path.read_text())
            if raw.get("verdict") != "FAIL" or not raw.get("result") or not raw.get("request"):
                continue
            failures += 1
            target = tmp_path / str(failures) / path.relative_to(root)
            target.parent.mkdir(parents=True)
            target.write_text(json.dumps(renamed(raw, verdict)))
            try:
                said = coherence.judged_anew(records.read(target))
            except ArchiveError:
                continue
            assert [one.verdict for one in said][:1] == ["FAIL"], f"{packed_file.name}: {path.name}: {verdict}"
    assert failures >= 20
