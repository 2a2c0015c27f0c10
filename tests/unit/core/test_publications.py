"""`tenken publications`: the state of each row, the table, the records that measured one, and the page of the site."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.cli import main
from tenken.commands import publications as command
from tenken.commands.publications import Listed
from tenken.machines.publications import Publications, Row, Run
from tenken.report import published

ONE, TWO = Run("r1", "StreamCuda", {}), Run("r2", "HplBetweenNodes", {"n": 4}, 2, 8)


def row(name: str = "T1", **changes: Any) -> Row:
    usual: dict[str, Any] = {"metric": "stream.triad", "run": ONE}
    return Row("p", "m", name, "Table 1", "4.4 TB/s", "triad", **{**usual, **changes})


FACT = row("T2", run=None, metric=None, fact="gpu memory", number=141.0)
GONE = row("T3", run=None, metric=None, reason="closed", note="of 2024")
KNOWN = Publications((), {"p": "Author 2024 (long)"}, {"p": "A title"}, {"closed": "its source is not public"}, {})


@pytest.mark.parametrize(
    ("listed", "state", "words"),
    [
        (Listed(row(), True, measured="H200, a.tar.xz s"), "measured", "measured: H200, a.tar.xz s"),
        (Listed(row(), True, measured="lacks x; H200"), "runnable", "runnable: lacks x; H200"),
        (Listed(row(), True), "runnable", "runnable"), (Listed(row(), False, "no MPI"), "described", "no: no MPI"),
        (Listed(row(), False, "no MPI", "H200"), "measured", "no: no MPI"),
        (Listed(FACT, True), "described", "described: a property of the machine"),
        (Listed(FACT, False, "is 80, not 141"), "described", "no: is 80, not 141"),
        (Listed(GONE, False), "described", "described: its source is not public"),
    ],
)  # fmt: skip
def test_a_row_is_measured_runnable_or_described(listed: Listed, state: str, words: str) -> None:
    assert (listed.state, command._in_words(listed, KNOWN)) == (state, words)
    assert listed.as_json(KNOWN)["state"] == state and listed.as_json(KNOWN)["check"] == (
        "StreamCuda" if listed.row.run else None
    )


def test_the_table_counts_each_row_once() -> None:
    rows = [
        Listed(row(), True, measured="H200"), Listed(row(), True), Listed(row(), True, measured="lacks x; y"),
        Listed(row("T10"), False, "no MPI"), Listed(FACT, True), Listed(GONE, False), Listed(GONE, False),
    ]  # fmt: skip
    lines = list(command._table(rows, KNOWN))
    assert lines[0].split() == ["row", "publication", "place", "value", "machine", "check", "state"]
    assert [" ".join(line.split()) for line in (lines[1], lines[4], lines[6])] == [
        "T1 Author 2024 Table 1 triad: 4.4 TB/s m StreamCuda measured: H200",
        "T10 Author 2024 Table 1 triad: 4.4 TB/s m StreamCuda no: no MPI",
        "T3 Author 2024 Table 1 triad: 4.4 TB/s m - described: its source is not public",
    ]
    assert len({line.index("Author") for line in lines[1:-1]}) == 1, "columns are aligned"
    assert lines[-1] == (
        "7 rows: 1 measured, 2 runnable, 3 described (1 properties of a machine, 2 that cannot be reproduced); "
        "1 that the machine should select and does not"
    )
    assert list(command._table(rows[:3], KNOWN))[-1] == (
        "3 rows: 1 measured, 2 runnable, 0 described (0 properties of a machine, 0 that cannot be reproduced)"
    )


@pytest.mark.parametrize(
    ("found", "right"), [(141.0, True), (141.7, True), (141.8, False), (140.3, True), (139.0, False)]
)
def test_a_property_of_a_machine_is_as_published(found: float, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.loader, "load", lambda name: name)
    monkeypatch.setattr(command.publications, "fact", lambda system, fact: found)
    why = "" if right else f"gpu memory of m is {found:g}, not 141"
    assert command._without_a_run(FACT) == Listed(FACT, right, why)
    assert command._without_a_run(GONE) == Listed(GONE, False)


def kept(archive: str, **changes: Any) -> Any:
    usual = {"verdict": "PASS", "mode": "published", "check": "StreamCuda %n=1", "session": archive,
             "result": SimpleNamespace(status="ok", lacks="", of="T1", ran=False)}  # fmt: skip
    return SimpleNamespace(**{**usual, **changes})


def result(**changes: Any) -> Any:
    return {"result": SimpleNamespace(**{"status": "ok", "lacks": "", "of": "T1", "ran": False, **changes})}


@pytest.mark.parametrize(
    ("records", "measured"),
    [
        ([], ""), ([kept("a"), kept("b")], "H200, x a"), ([kept("a", verdict="FAIL"), kept("b")], "H200, x b"),
        ([kept("a", verdict="INVALID")], ""), ([kept("a", verdict="RECORDED")], "H200, x a"),
        ([kept("a", result=None)], ""), ([kept("a", **result(status="failed"))], ""),
        ([kept("a", **result(of="T2"))], ""),
        # one that lacks something yields to a whole one, and to no other that lacks something
        ([kept("a", **result(lacks="NVLink"))], "lacks NVLink; H200, x a"),
        ([kept("a", **result(lacks="NVLink")), kept("b")], "H200, x b"),
        ([kept("a", **result(lacks="NVLink")), kept("b", **result(lacks="ECC"))], "lacks NVLink; H200, x a"),
        ([kept("a"), kept("b", **result(lacks="NVLink"))], "H200, x a"),
        # nothing measured of the row for lack of something: a job of the row says so, another one does not
        ([kept("a", **result(of="", lacks="GDS", ran=True))], "lacks GDS; H200, x a"),
        ([kept("a", verdict="WAIVED", **result(status="waived", of="", lacks="G", ran=True))], "lacks G; H200, x a"),
        ([kept("a", **result(of="", lacks="GDS", ran=True)), kept("b")], "H200, x b"),
        ([kept("a", **result(of="", ran=True)), kept("b", **result(of="", lacks="GDS"))], ""),
        ([kept("a", mode="quick", **result(of="", lacks="GDS", ran=True))], ""),
        ([kept("a", check="Other", **result(of="", lacks="GDS", ran=True))], ""),
    ],
)  # fmt: skip
def test_a_row_is_measured_by_the_first_whole_record(
    records: list[Any], measured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenken.archive import packed
    from tenken.archive import records as archive

    monkeypatch.setattr(command.loader, "load_all", lambda: {"m": "system m"})
    monkeypatch.setattr(packed, "folder_of", lambda path: path)
    monkeypatch.setattr(archive, "records", lambda path: records)
    monkeypatch.setattr(published, "lacks", lambda one: one.lacks)
    monkeypatch.setattr(published, "machine", lambda one: "H200")
    monkeypatch.setattr(published, "ran", lambda row, one: one.ran and row.row == "T1")
    monkeypatch.setattr(published, "measured", lambda row, system, one: system == "system m" and row.row == one.of)
    listed = [Listed(row(), True), Listed(FACT, True), Listed(row("T9"), True)]
    assert [one.measured for one in command.with_records(listed, [Path("x")])] == [measured, "", ""]
    # without a metric, the check itself in the mode of the publications
    bare = [Listed(row(metric=None), True)]
    (one,) = command.with_records(bare, [Path("x")])
    assert one.measured == measured
    for change in ({"mode": "quick"}, {"check": "Other"}):
        monkeypatch.setattr(archive, "records", lambda path, change=change: [kept("a", **change)])
        assert command.with_records(bare, [Path("x")])[0].measured == ""
        assert command.with_records(listed, [Path("x")])[0].measured == "H200, x a"


@pytest.mark.parametrize(
    ("one", "cells"),
    [
        (row(), "`stream.triad` | `StreamCuda`"), (row(note="of one GPU"), "`stream.triad`: of one GPU | `StreamCuda`"),
        (row(at={"n": [1, 2], "k": 3, "x": None}), "`stream.triad` (n 1 and 2, k 3) | `StreamCuda`"),
        (row(metric=None), "no reference | `StreamCuda`"), (FACT, "`gpu memory` = 141 | data sheet"),
        (row(run=TWO), "`stream.triad` | `HplBetweenNodes`, 2 nodes, 8 ranks"),
        (row(run=Run("r", "A", {}, 1, 4)), "`stream.triad` | `A`, 4 ranks"),
    ],
)  # fmt: skip
def test_a_row_on_the_site(one: Row, cells: str) -> None:
    line = f"| {one.row} | m | Table 1 | triad | 4.4 TB/s | {cells} |"
    assert command._markdown_row(one) == line
    known = Publications((one, GONE), KNOWN.cited, KNOWN.titles, KNOWN.reasons, {})
    text = command.markdown(known).splitlines()
    assert text[:3] == ["## Author 2024 (long)", "", "A title."] and text[6] == line
    assert text[8] == "Not reproduced:"
    assert text[-1] == "| T3 | m | Table 1 | triad | 4.4 TB/s | its source is not public. Of 2024 |"
    assert "Not reproduced:" not in command.markdown(Publications((one,), KNOWN.cited, KNOWN.titles, {}, {}))


def test_a_row_that_its_machine_does_not_select_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rows = (row(), row("T9"), FACT, GONE)
    monkeypatch.setattr(command.publications, "load", lambda: Publications(rows, *(KNOWN.cited, KNOWN.titles,
                                                                                  KNOWN.reasons, {})))  # fmt: skip
    monkeypatch.setattr(command, "with_records", lambda listed, archives: listed)
    for wrong, status in (("", 0), ("T9", 1), ("T2", 0), ("T3", 0)):
        found = [Listed(one, one.row != wrong and one is not GONE) for one in rows]
        monkeypatch.setattr(command, "by_features", lambda asked, found=found: found)
        assert main(["publications", "--json"]) == status
        assert [one["row"] for one in json.loads(capsys.readouterr().out)] == ["T1", "T9", "T2", "T3"]
    assert main(["publications", "--system", "x"]) == 2
    assert "no row is of system 'x'; allowed: m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        ({"bytes": ["16Mi", "128Mi"]}, {"bytes": 16777216}, True),
        ({"bytes": ["16Mi", "128Mi"]}, {"bytes": 134217728}, True),
        ({"bytes": ["16Mi", "128Mi"]}, {"bytes": 16000000}, False), ({"bytes": ["16Mi"]}, {}, False),
        ({"kind": "speech", "steps": 100}, {"kind": "speech", "steps": 100}, True),
        ({"kind": "speech", "steps": 100}, {"kind": "speech", "steps": 10}, False),
        ({"kind": "speech", "steps": 100}, {"kind": "deepcam", "steps": 100}, False),
        ({}, {"bytes": 1}, False),
    ],
)  # fmt: skip
def test_a_row_without_a_metric_is_measured_by_a_job_of_all_its_sizes(
    asked: dict[str, Any], given: dict[str, Any], expected: bool
) -> None:
    one = row(metric=None, run=Run("overlap", "Overlap", asked, 1, 1))
    assert published.measured(one, None, SimpleNamespace(parameters=given)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "file_system", "expected"), [
    ("/scr", "ext4", True), ("/scr", "lustre", False), (".", "lustre", True), (".", "ext4", False),
])  # fmt: skip
def test_a_published_path_is_of_a_file_system_that_nodes_share_or_not(
    path: str, file_system: str, expected: bool
) -> None:
    one = row(metric=None, run=Run("map", "StorageMap", {"path": path, "factor": 2}, 1, 1))
    job = SimpleNamespace(parameters={"path": "elsewhere", "factor": 2}, path={"file_system": file_system})
    assert published.ran(one, job) == expected  # type: ignore[arg-type]


def test_what_a_machine_lacked_is_its_choice_or_the_reason_why_all_was_waived() -> None:
    lacking = SimpleNamespace(status="ok", program="snapshot_io", path={"cufile": "none: no udev"}, reason="")
    assert published.lacks(lacking) == "cufile: none"  # type: ignore[arg-type]
    assert published.lacks(SimpleNamespace(**{**vars(lacking), "path": {"cufile": "GPUDirect Storage"}})) == ""  # type: ignore[arg-type]
    waived = SimpleNamespace(**{**vars(lacking), "status": "waived", "reason": "no GPUDirect Storage: gds: no path"})
    assert published.lacks(waived) == "GPUDirect Storage"  # type: ignore[arg-type]
