"""Commands that need no machine: exit status, what is printed and written; with a right and a wrong input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.cli import main
from tenken.commands import drill, new, publications, show
from tenken.machines import loader
from tenken.model.judgement import Limit
from tenken.reframe import matrices, plan
from tenken.reframe.hpcg import HpcgBase
from tenken.report import drill as drilled
from tests.support.documents import host_document
from tests.unit.core.test_archive import record


def test_what_a_program_wrote_is_shown_with_all_that_follows(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "result.json"
    raw = host_document()
    raw["verification"]["checks"][0].update(passed=False, error=0.5, tolerance=1e-13, detail="at 7")
    file.write_text(json.dumps(raw))
    assert main(["show", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert " ".join(said[0].split()) == "metric value unit statistic best median p5 p95 samples limit"
    first = raw["metrics"][0]
    line = next(one for one in said if one.startswith(first["id"])).split()
    assert line[2:4] == [first["unit"], first["statistic"]]
    figures = [first[key] for key in ("best", "median", "p5", "p95", "count")]
    assert [float(word) for word in line[4:9]] == pytest.approx(figures, rel=1e-5)
    assert said[-2].startswith("wrong: ") and said[-2].endswith(": error 0.5, tolerance 1e-13 at 7")
    assert said[-1] == f"{raw['program']}: ok"
    one = record("PASS")
    kept_as = archive.write(one, tmp_path / "perflogs")
    assert main(["show", str(kept_as)]) == 0 and one.result is not None
    assert capsys.readouterr().out.count("\n") == len(one.result.metrics) + 2
    without = archive.write(replace(record("FAIL"), result=None), tmp_path / "perflogs")
    for wrong, says in ((without, "the record has no result"), (tmp_path / "none", "the program wrote no result")):
        assert main(["show", str(wrong)]) == 2
        assert says in capsys.readouterr().err
    assert show.table(replace(one.result, limits={})).count("unknown") == 0


def test_the_limit_of_a_value_has_its_basis_or_why_there_is_none() -> None:
    one = record("PASS").result
    assert one is not None
    first, second, third = (metric.id for metric in one.metrics[:3])
    limits = {first: Limit(4814.3, "GB/s", "attribute: memory clock"), second: Limit(None, unknown="a virtual machine")}
    told = {line.split()[0]: line for line in show.table(replace(one, limits=limits)).splitlines()}
    assert told[first].endswith("  4814.3 (attribute: memory clock)")
    assert told[second].endswith("  unknown: a virtual machine") and told[third].split()[-1].isdigit()
    failed = show.table(replace(one, status="failed", reason="no memory")).splitlines()[-1]
    assert failed == "stream: failed: no memory"


def test_a_skeleton_is_written_once_and_whole(tmp_path: Path) -> None:
    written = new.write("two_words", tmp_path)
    assert len(written) == len(new.FILES) + 1 and all(path.is_file() for path in written)
    texts = "".join(path.read_text() for path in written)
    assert "class TwoWords" in texts and "{{" not in texts
    with pytest.raises(new.NewError, match="already exists; nothing was written"):
        new.write("two_words", tmp_path)
    for wrong in ("Two", "2a", "a-b", "", "class", "a" * 41):
        with pytest.raises(new.NewError, match="is not a benchmark name"):
            new.write(wrong, tmp_path)
    assert new.write("a" * 40, tmp_path)


def faulty(*outcomes: str) -> list[Any]:
    return [drilled.Drilled(f"C{at}", "host", "element", "FAIL", one, "why") for at, one in enumerate(outcomes)]


@pytest.mark.parametrize(("found", "status", "says"), [
    ((drilled.NOTICED, drilled.NOTICED), 0, "2 faults detected, 0 not, 0 runs without evidence"),
    ((drilled.NOTICED, drilled.MISSED, drilled.NOTHING_SHOWN), 1, "1 faults detected, 1 not, 1 runs without evidence"),
    ((drilled.NOTHING_SHOWN,), 3, "0 faults detected, 0 not, 1 runs without evidence"),
])  # fmt: skip
def test_a_drill_fails_if_one_fault_was_missed(found: tuple[str, ...], status: int, says: str) -> None:
    assert drill.status(faulty(*found)) == status
    assert says in "\n".join(drill.lines(faulty(*found), "s"))


@pytest.mark.parametrize("variable", [None, "other/config"])
def test_a_drill_runs_every_check_with_a_fault(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ran: list[tuple[list[str], dict[str, str]]] = []
    asked: list[str] = []

    def run(command: list[str], cwd: Path, env: dict[str, str], stdout: Any, stderr: Any, check: bool) -> None:
        ran.append((command, env))
        assert cwd == tmp_path and stdout is stderr and Path(stdout.name).parent == tmp_path / "output" / "drill"

    monkeypatch.setattr(drill.subprocess, "run", run)
    monkeypatch.setattr(drill.paths, "ROOT", tmp_path)
    monkeypatch.setattr(drill.archive, "records", lambda root, session: asked.append(session) or ["x"])
    monkeypatch.setattr(drilled, "of", lambda records: faulty(drilled.NOTICED) if records else [])
    monkeypatch.delenv("RFM_CONFIG_PATH", raising=False)
    if variable:
        monkeypatch.setenv("RFM_CONFIG_PATH", variable)
    assert main(["drill", "--system", "h200", "--mode", "nightly", "-n", "A", "-n", "B", "--checks", "mine"]) == 0
    ((command, env),) = ran
    assert command == ["reframe", "-c", "mine", "-r", "--system", "h200", "--mode", "nightly", "-n", "A", "-n", "B"]
    assert (env["TENKEN_DRILL"], env["RFM_CONFIG_PATH"]) == ("element", variable or "config")
    (session,) = asked
    assert env["TENKEN_SESSION"] == session and "-drill" in session and session in capsys.readouterr().out
    # an earlier one is told again, without running anything
    assert main(["drill", "--session", "earlier"]) == 0
    assert len(ran) == 1 and asked[1:] == ["earlier"]
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["Fault", "Check", "Environment", "Kind", "Verdict", "Detected", "by"]
    assert out[-1] == "Session earlier: 1 faults detected, 0 not, 0 runs without evidence (WAIVED or INVALID)"
    monkeypatch.setattr(drilled, "of", lambda records: [])
    assert main(["drill", "--session", "empty"]) == 2
    assert "no run with a fault in session empty of" in capsys.readouterr().err

    def absent(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(drill.subprocess, "run", absent)
    assert main(["drill", "--system", "h200"]) == 2
    assert "reframe -c checks -r --system h200 --mode quick: No such file" in capsys.readouterr().err


def test_a_drill_tells_how_many_checks_have_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert drill.ended(log) == ""
    log.write_text("[ RUN  ] a\n[   OK ] ( 1/18) a\n[ FAIL ] ( 2/18) b\n[ RUN  ] c\n")
    assert drill.ended(log) == ", 2 of 18 ended"
    log.write_text(log.read_text() + "[ SKIP ] ( 3/19) c\n[ABORT ] (4/20) d\n")  # retries add to them
    assert drill.ended(log) == ", 4 of 20 ended"


@pytest.mark.parametrize("words", [
    ["archive", "verify"], ["archive", "prune", "--days", "9"], ["archive", "export", "{}/x.tar.xz", "--sessions", "s"],
    ["accept", "--contract", "example", "--sessions", "s"],
])  # fmt: skip
def test_an_archive_that_is_not_there_is_told(words: list[str], tmp_path: Path, capsys: Any) -> None:
    if words[0] == "accept":
        words = [*words[:2], next(path.stem for path in Path("reports/contracts").glob("*.yaml")), *words[3:]]
    none = tmp_path / "none"
    assert main([word.format(tmp_path) for word in words] + ["--archive", str(none)]) == 2
    assert f"no archive at {none}: name the folder of the archive with --archive" in capsys.readouterr().err


def test_a_session_that_cannot_begin_for_a_moment_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is begun before anything else of the session; check files that did not load are kept."""
    order = []
    monkeypatch.setattr(seal, "begin", lambda *of: order.append(list((tmp_path / archive.SESSIONS).glob("*/begun*"))))
    path = archive.begin_session(tmp_path, "s", ["a.py: no"])
    assert order == [[]] and json.loads(path.read_text())["load_errors"] == ["a.py: no"]
    assert path.parent == archive.session_folder(tmp_path, "s")


def made(*lacks: tuple[str, ...], mode: str | None = None) -> plan.Plan:
    rest = tuple(plan.NotApplicable(f"C{at}", "", one) for at, one in enumerate(lacks))
    where = {"A": {"login": ("gnu",), "gpu": ("gnu", "cuda")}, "Bench": {"gpu": ("cuda",)}}
    return plan.Plan("minislurm", mode, ("A", "Bench"), rest, (), (("node", "x"), ("memory", "y")), where)


def test_a_plan_in_brief_counts_what_is_lacking() -> None:
    system = replace(loader.load("minislurm"), notes=())
    lacks = [("mpi",), ("mode nightly", "cuda"), ("mode nightly", "mpi"), ("a",), ("b",), ("c",), ("d", "e")]
    assert list(plan.in_brief(made(*lacks, mode="quick"), system)) == [
        "node    x",
        "memory  y",
        "2 checks apply to minislurm in mode quick",
        "7 do not: 2 need mode nightly, 1 needs mpi, 1 needs a, 1 needs b, 2 need something else; all with reasons: "
        "tenken checks --system minislurm --mode quick",
    ]
    assert list(plan.in_brief(made(("d", "e")), system))[-1] == (
        "1 do not: 1 needs d and e; all with reasons: tenken checks --system minislurm"
    )
    assert list(plan.in_brief(made(), system))[-1] == "2 checks apply to minislurm"


def test_a_plan_in_columns_has_each_partition_and_each_reason() -> None:
    system: Any = SimpleNamespace(name="two", partitions={"login": None, "gpu": None})
    assert list(plan.in_columns(made(("mpi", "cuda"), ("4 nodes",)), system)) == [
        "2 checks apply to two (1 on login, 2 on gpu)",
        "  CHECK  LOGIN  GPU",
        "  A      gnu    gnu, cuda",
        "  Bench  -      cuda",
        "2 do not",
        "  CHECK  NEEDS",
        "  C0     mpi, cuda",
        "  C1     4 nodes",
    ]


@pytest.mark.parametrize(("errors", "applicable", "status"), [
    ([], ("A",), 0), (["a.py: no"], ("A",), 1), ([], (), 1), (["check B: no"], (), 1),
])  # fmt: skip
def test_a_list_of_checks_fails_if_a_file_is_broken_or_none_applies(
    errors: list[str], applicable: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: Any,
) -> None:  # fmt: skip
    found = replace(made(), applicable=applicable, load_errors=tuple(errors), where={"A": {}})
    monkeypatch.setattr(plan, "describe_checks", lambda mode: ([], errors))
    monkeypatch.setattr(plan, "make_plan", lambda *of: found)
    monkeypatch.setenv("TENKEN_ARCHIVE", str(tmp_path))
    monkeypatch.setenv("TENKEN_SESSION", "s")
    assert main(["checks", "--system", "minislurm"]) == status
    told = {"a.py: no": "FAIL: check file does not import: a.py: no", "check B: no": "FAIL: check B: no"}
    assert [line for line in capsys.readouterr().out.splitlines() if "FAIL" in line] == [told[one] for one in errors]
    assert main(["checks", "--system", "local", "--save", "--json"]) == 0, "the run continues"
    kept = json.loads((archive.session_folder(tmp_path, "s") / "plan.json").read_text())
    assert kept["applicable"] == list(applicable) and kept["load_errors"] == errors


def test_a_line_of_the_collection_has_its_columns() -> None:
    line = "HB,wide,200,300,900000,1,0,1,0,0.5,0.4,directed weighted graph,900001"
    (one,) = matrices.parse_index(f"1\nx\n{line}\n")
    assert (one.full_name, one.rows, one.columns, one.entries, one.real) == ("HB/wide", 200, 300, 900000, True)
    for symmetry, entries, stratum in (
        (1.0, 10**6, (6, "symmetric", "directed weighted")), (0.999, 10**6 - 1, (5, "near", "directed weighted")),
        (0.5, 9, (0, "near", "directed weighted")), (0.499, 0, (0, "not", "directed weighted")),
    ):  # fmt: skip
        assert replace(one, pattern_symmetry=symmetry, entries=entries).stratum == stratum


@pytest.mark.parametrize(("gib", "side"), [(200.0, 512), (0.5, None)])
def test_a_grid_of_hpcg_fits_the_memory(gib: float, side: int | None) -> None:
    from tenken.reframe.hpcg import SIDES

    ask: Any = SimpleNamespace(machine=SimpleNamespace(gpu_memory_gib=gib))
    least = min(one for one, _ in SIDES)
    assert HpcgBase.side_for_memory(ask) == (least if side is None else max(one for one, _ in SIDES))
    for one, needs in SIDES:
        ask.machine.gpu_memory_gib = needs
        assert HpcgBase.side_for_memory(ask) < one or one == least
        ask.machine.gpu_memory_gib = needs + 0.01
        assert HpcgBase.side_for_memory(ask) == one


def test_what_a_job_was_asked_for_is_its_options_and_its_parameters() -> None:
    job = {"arguments": {"block-bytes": 1, "n": 2}, "asked": {"n": 3, "low": "fp8"}}
    assert publications._asked(job) == {"block_bytes": 1, "n": 3, "low": "fp8"}
    assert publications._asked({"arguments": {"n": 2}}) == {"n": 2}
    assert publications._asked({"asked": {"n": 3}}) == {"n": 3}
    assert publications._says("a,b", "b") and publications._says(1, "1") and not publications._says("ab", "b")
