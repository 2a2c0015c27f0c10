"""Sessions in which nodes, attempts or cases fail or vanish: killed, damaged, written in part."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tenken.commands import accept
from tenken.history import record_parser
from tenken.model.judgement import Finding, Judgement
from tenken.report import session
from tests.support.planted import seen
from tests.unit.reports import builder

Change = Callable[[Path], None]


def run(check: str = "stream", verdict: str = "PASS", node: str = "n1", minute: int = 0, **more: Any) -> dict[str, Any]:
    """A record as the archive has it."""
    document = builder.document("stream", [builder.metric("triad", {"host": 0}, [1.0, 2.0])])
    return builder.record(check, document, verdict, nodes=[node], time=f"2026-11-21T03:{minute:02}:00Z", **more)


def case(name: str = "stream", node: str = "n1", *more: Any) -> dict[str, Any]:
    """A case of ReFrame's run report."""
    return {**builder.testcase(name, *more), "job_nodelist": [node]}


def nothing(root: Path) -> None:
    """The archive is as it was written."""


def folder(root: Path) -> Path:
    return root / ".sessions" / builder.NAME


def records(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.json") if ".sessions" not in path.parts)


def spoiled(text: Callable[[str], str]) -> Change:
    """The first record with another text."""

    def change(root: Path) -> None:
        path = records(root)[0]
        path.write_text(text(path.read_text()))

    return change


def later(name: str) -> Change:
    """A session that began later, was killed, and left nothing but the note of its beginning."""

    def change(root: Path) -> None:
        begun = root / ".sessions" / name
        begun.mkdir()
        (begun / "begun-00000000.json").write_text(json.dumps({"begun": "2026-11-22T03:00:00Z", "load_errors": []}))

    return change


def gone(name: str) -> Change:
    return lambda root: (folder(root) / name).unlink()


def put(name: str, text: str) -> Change:
    return lambda root: (folder(root) / name).write_text(text) and None


def shown(runs: Any, cases: Any, change: Change) -> Judgement:
    """The verdict of the page of a session."""
    with tempfile.TemporaryDirectory() as place:
        root = builder.write_session(Path(place), list(runs), *([list(cases)] if cases is not None else []))
        change(root)
        try:
            found = session.load(root, "last")
        except session.NoSession as error:
            return Judgement("FAIL", (Finding("FAIL", str(error)),))
    said = [*(f for one in found.counted for f in one.findings), *(Finding(found.verdict, t) for t in found.incomplete)]
    said += [Finding("INVALID", f"{path} {why}") for path, why in found.damaged]
    said += [Finding("FAIL", text) for text in found.load_errors]
    said += [Finding("FAIL", f"{one.check} on {','.join(one.nodes)}: {one.verdict}") for one in found.counted]
    if found.exit_code == 0 and found.verdict in ("PASS", "RECORDED", "WAIVED"):
        return Judgement(found.verdict, tuple(said))
    return Judgement(
        "FAIL" if found.verdict == "FAIL" else "INVALID", (*said, Finding(found.verdict, f"session {found.name}"))
    )


def faults() -> Iterator[tuple[str, str, Any, Any, Change]]:
    """Sessions in which something failed or is missing: name, what the page names, records, test cases, what happens to
    the archive.
    """

    def fault(name: str, says: str, runs: Any, cases: Any = None, archive: Change = nothing) -> Any:
        return name, says, tuple(runs), cases, archive

    many = [f"n{i:03}" for i in range(20)]
    for verdict in ("FAIL", "INVALID"):
        nodes = [run(node=n, minute=i, verdict=verdict if n == "n007" else "PASS") for i, n in enumerate(many)]
        yield fault(f"one of twenty nodes is {verdict}, the last one passed", "n007", nodes, (case(node="n019"),))
        first = [run(node=n, minute=i, verdict=verdict if i == 0 else "PASS") for i, n in enumerate(many)]
        yield fault(f"the first of twenty nodes is {verdict}", "n000", first, (case(node="n019"),))
        yield fault(
            f"{verdict} on n1, PASS on n10",
            "n1",
            [run(verdict=verdict), run(node="n10", minute=1)],
            (case(node="n10"),),
        )
        yield fault(
            f"{verdict} on n2.a, PASS on n3.a",
            "n2",
            [run(verdict=verdict, node="n2.a"), run(node="n3.a", minute=1)],
            (case(node="n3"),),
        )
        yield fault(
            f"{verdict} with gnu, PASS with nvhpc",
            "stream",
            [run(verdict=verdict, environ="gnu"), run(environ="nvhpc", minute=1)],
        )
        yield fault(
            f"{verdict} of one check, PASS of another",
            "gemm",
            [run("gemm", verdict), run(minute=1)],
            (case("gemm"), case()),
        )
        yield fault(f"the last attempt is {verdict}", "stream", [run(), run(verdict=verdict, minute=1)], (case(),))
        yield fault(f"{verdict} in another partition", "stream", [run(verdict=verdict, partition="cpu"), run(minute=1)])
    good = [run()]
    yield fault("the run report is gone", "run report", good, (case(),), gone("run-report.json"))
    yield fault("the run report is cut", "run report", good, (case(),), put("run-report.json", "{"))
    yield fault("the run report is a list", "run report", good, (case(),), put("run-report.json", "[]"))
    yield fault(
        "the plan is gone, and the note of its beginning",
        "plan|began|never ran|tells",
        good,
        None,
        lambda root: [path.unlink() for path in folder(root).iterdir()] and None,
    )
    yield fault(
        "ReFrame failed the case after its record",
        "job killed",
        good,
        (case("stream", "n1", "fail", "job killed", "run_wait"),),
    )
    yield fault(
        "ReFrame failed a case without a record",
        "gemm|killed",
        good,
        (case(), case("gemm", "n1", "fail", "killed", "run")),
    )
    yield fault(
        "ReFrame failed it on a node without a record",
        "n4|killed",
        good,
        (case(), case("stream", "n4", "fail", "killed", "run")),
    )
    yield fault(
        "the record is cut", "json|truncated|damaged", good, (case(),), spoiled(lambda text: text[: len(text) // 2])
    )
    yield fault("the record is empty", "empty|json", good, (case(),), spoiled(lambda text: ""))
    yield fault(
        "the record is of another schema",
        "record",
        good,
        (case(),),
        spoiled(lambda text: text.replace("tenken-record/", "other/")),
    )
    yield fault(
        "the record's verdict is another word",
        "verdict|GREAT|misshapen",
        good,
        (case(),),
        spoiled(
            lambda text: text.replace('"verdict":"PASS"', '"verdict":"GREAT"').replace(
                '"verdict": "PASS"', '"verdict": "GREAT"'
            )
        ),
    )
    yield fault("a later session was killed", "20261122T030000Z-dead", good, (case(),), later("20261122T030000Z-dead"))
    yield fault("nothing ran", "session", [], ())
    yield fault(
        "only builds ran", "session", [], None, put("run-report.json", json.dumps({"session_info": {}, "runs": []}))
    )


def test_what_failed_or_is_missing_is_on_the_page() -> None:
    for name, says, runs, cases, archive in faults():
        seen(shown(runs, cases, archive), says, name)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [("/stream/", "/gemm/", "check is"), ("2026-11-21", "2026-11-20", "time is"), ("/030000-", "/040000-", "time is")],
)
def test_a_record_at_another_place_is_listed_by_every_reader(tmp_path: Path, old: str, new: str, says: str) -> None:
    root = builder.write_session(tmp_path, [run()])
    (path,) = records(root)
    moved = Path(str(path).replace(old, new))
    assert moved != path
    moved.parent.mkdir(parents=True, exist_ok=True)
    path.rename(moved)
    (damaged,) = session.load(root, "last").damaged
    files = accept.files_of(root, (builder.NAME,))
    assert list(accept.records_of(files)) == [] and len(files.damaged) == 1
    with pytest.raises(record_parser.Unreadable, match=says):
        folder = moved.parent.relative_to(root).as_posix()
        record_parser.record(moved.read_text(), datetime(2027, 1, 1), folder, moved.name)
    assert says in damaged[1] and says in files.damaged[0]


def test_a_session_that_is_as_good_as_it_looks() -> None:
    assert {what: verdict for what, verdict, _ in twins()} == {what: known for what, _, known in twins()}


def twins() -> Iterator[tuple[str, str, str]]:
    """Sessions that are as good as they look."""

    def verdict(runs: Any, cases: Any = None, change: Change = nothing) -> str:
        return shown(runs, cases, change).verdict

    nodes = [f"n{i:03}" for i in range(20)]
    yield (
        "twenty nodes in order",
        verdict([run(node=n, minute=i) for i, n in enumerate(nodes)], (case(node="n019"),)),
        "PASS",
    )
    yield "a second attempt that passed", verdict([run(verdict="FAIL"), run(minute=1)], (case(),)), "PASS"
    yield (
        "short and full names of one node",
        verdict([run(verdict="FAIL", node="n1"), run(node="n1.site.example.org", minute=1)], (case(node="n1"),)),
        "PASS",
    )
    yield (
        "waived beside passed",
        verdict([run(), run("gemm", "WAIVED", minute=1)], (case(), case("gemm", "n1", "skip"))),
        "PASS",
    )
    yield "an older session beside it", verdict([run()], (case(),), later("20251122T030000Z-dead")), "PASS"
