"""The list of published results: complete compared with the references, and each row selected on the machine where it
was measured."""

from __future__ import annotations

import argparse
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import packed, records
from tenken.commands import publications as command
from tenken.commands.publications import Listed
from tenken.machines import loader, publications
from tenken.machines.facts import facts
from tenken.machines.publications import PublicationError, Row, Run
from tenken.model import result
from tenken.model.catalogue import load_catalogue
from tenken.parsers import foreign, osu
from tenken.paths import ROOT
from tenken.report import published
from tests.support import kept
from tests.support.reframe import all_checks

KNOWN = publications.load()
#: The groups of the five publications.
GROUPS = {
    *(f"T{i}" for i in range(1, 8)), *(f"S{i}" for i in range(1, 8)), *(f"J{i}" for i in range(1, 7)),
    *(f"R{i}" for i in range(1, 11)), *(f"G{i}" for i in range(1, 5)),
}  # fmt: skip
#: The only permitted reasons for not reproducing a row.
REASONS = {"upc", "xcalablemp", "smint", "other_cpu", "k40", "mdx", "odyssey", "unnamed"}
#: Every number that the publications print as a result, by publication and group, as a careful reader finds them.
PRINTED = {
    ("tsukuba", "T1"): "310 360 100 512 120", ("tsukuba", "T2"): "3.2 4000 96", ("tsukuba", "T3"): "410 450 900 7",
    ("tsukuba", "T4"): "300 60", ("tsukuba", "T5"): "450 3 2.3 2.5 50 60 500 1000 3.2",
    ("tsukuba", "T6"): "200 500", ("tsukuba", "T7"): "100 80 72 48 282 2000 64 150",
    ("seikei", "S1"): "13.6 18.7 72.7 256", ("seikei", "S2"): "11.0 15.6 83.4",
    ("seikei", "S3"): "15.5 18.8 82.4 256 28",
    ("seikei", "S4"): "11.2 16.5 67.9",
    ("seikei", "S5"): "32751 37817 3364 3378 3434 9.7 11.24 29 1.07 4.0 10.4 57 2.11 "
    "1.3 8.9 71 2.63 9.4 77.0 40 1.48 31 1.15 0.9 73 2.70 27 1.00",
    ("seikei", "S6"): "38.4 13.9 28 12 19 17", ("seikei", "S7"): "50 5 18 3 10 20 30 100 4",
    ("kisti", "J1"): "1.28 1.47 136.5 32", ("kisti", "J2"): "59.7 8", ("kisti", "J3"): "1.07 1.24 900.1 16",
    ("kisti", "J4"): "48 164 1.26", ("kisti", "J5"): "72 242 1.14", ("kisti", "J6"): "4",
    ("tokyo", "R1"): "514.6 537.2 536.9 73.4 534 120 1209.6 153.6 5.3 732 1417.15 1272.0 256 30 18",
    ("tokyo", "R2"): "0.7 0.3 0.27 0.41 1430 218", ("tokyo", "R3"): "11.0 68 16", ("tokyo", "R4"): "37.0 93 10 40",
    ("tokyo", "R5"): "4.8 2.5", ("tokyo", "R6"): "8 6.3 9.5 512 16 64 56",
    ("tokyo", "R7"): "10.04 85", ("tokyo", "R8"): "20.3 86.0 35.8 75.8 56.3 59.6", ("tokyo", "R9"): "226.2 1.9",
    ("tokyo", "R10"): "856.7 1704.9 6711.5 1.8", ("jhpcn", "G1"): "10^5", ("jhpcn", "G2"): "4 16 1 8 3 10",
    ("jhpcn", "G3"): "4.33 6.09", ("jhpcn", "G4"): "5.1 0.4 3.5 1.67",
}  # fmt: skip

#: What the texts give as approximate, by publication and group; every other number of these groups is exact there.
APPROXIMATE = {
    ("tsukuba", "T1"): ["100 GB/s"], ("tsukuba", "T2"): ["3.2 TB/s"], ("tsukuba", "T3"): ["410 GB/s", "7 times"],
    ("tsukuba", "T4"): ["60 GB/s"], ("tsukuba", "T5"): ["500 to 1000"], ("tsukuba", "T6"): ["200 to 500 GB/s"],
    ("tsukuba", "T7"): ["100 GFLOP/s", "80 GFLOP/s"], ("seikei", "S5"): ["10 times"],
    ("seikei", "S6"): ["28 %", "12 %", "19 %", "17 %"],
    ("seikei", "S7"): ["50 %", "3 to 10 %", "20 to 30 %"], ("kisti", "J4"): ["48 times", "164 times", "1.26 times"],
    ("kisti", "J5"): [], ("kisti", "J6"): ["4 times"], ("tokyo", "R2"): ["0.7 at", "0.3 at", "0.27", "0.41"],
    ("tokyo", "R3"): ["68 %"], ("tokyo", "R4"): ["93 %"], ("tokyo", "R5"): [], ("tokyo", "R6"): ["8 GB/s"],
    ("jhpcn", "G1"): ["10^5"], ("jhpcn", "G4"): ["5.1 s", "0.4 s", "3.5 s"],
}  # fmt: skip


# -- the list and the references --


@pytest.mark.parametrize("key", PRINTED, ids=" ".join)
def test_the_list_has_every_number_that_is_printed(key: tuple[str, str]) -> None:
    rows = [row for row in KNOWN.rows if (row.publication, row.row) == key]
    words = " ".join(row.value for row in rows).replace(",", " ").replace("+", " ").split()
    assert not [number for number in PRINTED[key].split() if number not in words]


@pytest.mark.parametrize("key", APPROXIMATE, ids=" ".join)
def test_a_value_is_approximate_where_its_text_is_and_exact_elsewhere(key: tuple[str, str]) -> None:
    values = [row.value for row in KNOWN.rows if (row.publication, row.row) == key]
    for number in APPROXIMATE[key]:
        with_it = [value for value in values if re.search(rf"(?<![\d.]){re.escape(number)}", value)]
        assert with_it and all(f"about {number}" in value for value in with_it), number
    after = [phrase for value in values for phrase in re.findall(r"\babout (\d.*)", value)]
    assert not [phrase for phrase in after if not phrase.startswith(tuple(APPROXIMATE[key]))]


def test_a_row_names_its_size_or_code_and_that_it_is_not_as_published() -> None:
    """Figure 5 of the transposes is of 4096, figures 6 and 7 of more sizes; mSMS is a runtime, measured by a stencil;
    `local` has no publication."""
    transposes = [row for row in KNOWN.rows if row.publication == "kisti" and row.run]
    assert transposes and not [row for row in transposes if not re.search("4096|1024|doubled side", row.what)]
    by_msms = [row for row in KNOWN.rows if row.reason == "smint" and "mSMS" in row.what]
    assert len(by_msms) == 4 and all("stencil" in row.what for row in by_msms)
    local = [row for row in KNOWN.rows if row.system == "local"]
    assert local and all(row.what.startswith("by this suite") for row in local)


def test_every_group_is_listed_and_every_metric_names_known_groups() -> None:
    assert {row.row for row in KNOWN.rows} == GROUPS
    named = {row for p in load_catalogue().values() for m in p.metrics.values() for row in m.published}
    assert named <= GROUPS


def test_no_row_is_reasoned_away_but_what_cannot_be_reproduced() -> None:
    assert set(KNOWN.reasons) == REASONS


def test_every_row_with_a_metric_has_a_reference_and_every_reference_a_row() -> None:
    systems = loader.load_all()
    held: set[int] = set()
    for row in KNOWN.rows:
        if row.metric:
            found = row.references(systems[row.system])
            assert found, f"{row.system}: {row.name}: no reference of {row.metric} with {dict(row.at)}"
            held |= {id(reference) for reference in found}
    lost = [
        f"{system.name}: {r.published} {r.program}.{r.metric} {dict(r.parameters)}"
        for system in systems.values()
        for r in system.references
        if r.published and id(r) not in held
    ]
    assert not lost, f"references of publications that no row lists: {lost}"


def test_a_reference_cites_its_publication_and_its_metric_names_the_group() -> None:
    catalogue = load_catalogue()
    for name, system in loader.load_all().items():
        for reference in system.references:
            if reference.published:
                assert reference.source.split(", ")[0] in " ".join(KNOWN.cited.values()), reference
                named = catalogue[reference.program].metrics[reference.metric].published
                assert reference.published in named, f"{name}: {reference.program}.{reference.metric}"


def test_no_published_reference_accepts_anything() -> None:
    """A bound of 0 is meaningless for a value that is never below it; so is a range ten times as wide as its middle."""
    for name, system in loader.load_all().items():
        for reference in system.references:
            low, high = reference.bounds
            where = f"{name}: {reference.published} {reference.program}.{reference.metric}"
            assert low is None or low > 0, where
            assert low is None or high is None or high / low < 8, where


def test_a_share_of_the_stencil_is_bounded_on_both_sides_unless_negligible() -> None:
    bounds = [
        (reference.parameters["phase"], reference.parameters["nodes"], reference.bounds)
        for system in ("reedbush-l", "tsubame3")
        for reference in loader.load(system).references
        if reference.published == "S7"
    ]
    assert len(bounds) == 10
    assert {one[:2] for one in bounds if None in one[2]} == {("pack", 1)}


def test_figures_of_machines_are_what_their_files_say() -> None:
    rows = [row for row in KNOWN.rows if row.fact]
    assert rows and not [f"{one.row.name}: {one.why}" for one in command.by_features(rows) if not one.selectable]


def test_the_site_has_every_row_and_the_repository_none() -> None:
    found = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    page = (ROOT / "docs" / "publications.md").read_text(encoding="utf-8")
    assert "| row |" not in page
    source = [page]
    found["list_publications"](None, "docs/publications", source)
    assert source[0].startswith(page) and source[0].count("\n| ") == len(KNOWN.rows) + source[0].count("\n| row |")
    other = ["# Another"]
    found["list_publications"](None, "docs/hpl", other)
    assert other == ["# Another"]


# -- from the list to a check that its machine selects --


@pytest.mark.published
@pytest.mark.slow
@pytest.mark.parametrize("system", sorted({row.system for row in KNOWN.rows if row.run}))
def test_every_row_is_selected_by_a_dry_run_with_sizes_and_layout_as_printed(system: str) -> None:
    rows = [row for row in KNOWN.rows if row.run and row.system == system]
    wrong = [f"{one.row.name}: {one.why}" for one in command.asked_of_reframe(rows) if not one.selectable]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.xdist_group("described")  # one worker asks ReFrame for all checks
def test_a_check_that_the_machine_cannot_start_is_not_selectable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows on a machine with one GPU and no MPI."""
    monkeypatch.setattr(command.plan, "describe_checks", {"published": (all_checks("published"), [])}.__getitem__)
    rows = [row for row in KNOWN.rows if row.row in ("R4", "R7", "R10", "J1") and row.run]
    moved = [Row(**{**vars(row), "system": "v100"}) for row in rows]
    found = {one.row.row: one for one in command.by_features(moved)}
    assert found["J1"].selectable
    assert {name for name, one in found.items() if not one.selectable} == {"R4", "R7", "R10"}
    assert found["R4"].why == "P2P does not apply to v100"


def job(**more: Any) -> dict[str, Any]:
    """A case of a dry run's report."""
    return {
        "display_name": "HplOtherPublished %nodes_used=2", "result": "pass", "num_tasks": 4, "num_tasks_per_node": 2,
        "arguments": {"some-bytes": "4Gi", "ways": "host,p2p"}, "asked": {"n": 96000}, "subjects": ["ranks"], **more,
    }  # fmt: skip


TWO_NODES = Run("two", "HplOtherPublished", {"n": 96000, "some_bytes": "4Gi", "ways": ["host", "p2p"]}, 2, 4)


def test_a_job_with_size_and_layout_as_printed_meets_its_row() -> None:
    assert command.unmet(TWO_NODES, [job()]) == ""
    assert command.unmet(TWO_NODES, [job()], {"ranks"}) == ""


def test_a_job_that_requests_other_subjects_than_the_reference_does_not_meet_its_row() -> None:
    """As if a GPU's figure were missing from a result in which those of the host were requested."""
    found = command.unmet(TWO_NODES, [job(subjects=["host"])], {"gpu"})
    assert found == "HplOtherPublished requests values of host, not of gpu"


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ([], "HplOtherPublished does not apply"),
        ([job(display_name="HplOther")], "HplOtherPublished does not apply"),
        ([job(asked={"n": 9600})], "no job of HplOtherPublished has n 96000, some_bytes 4Gi, ways host"),
        ([job(arguments={"some-bytes": "4Gi", "ways": "host"})], "ways p2p"),
        ([job(num_tasks_per_node=4)], "takes 1 nodes and 4 ranks, not 2 and 4"),
        ([job(num_tasks=2, num_tasks_per_node=1)], "takes 2 nodes and 2 ranks, not 2 and 4"),
        ([job(result="skip", fail_reason="WAIVED: needs more ranks")], "WAIVED: needs more ranks"),
    ],
)
def test_what_does_not_meet_its_row_is_told(cases: list[dict[str, Any]], says: str) -> None:
    assert says in command.unmet(TWO_NODES, cases)


def test_reframe_is_asked_about_rows_with_a_run_and_only_about_these(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []
    rows = [next(row for row in KNOWN.rows if test(row)) for test in (
        lambda row: row.reason, lambda row: row.fact, lambda row: row.run,
    )]  # fmt: skip
    monkeypatch.setattr(command, "dry_run", lambda system, classes: asked.append((system.name, list(classes))) or [])
    without, fact, run_ = command.asked_of_reframe(rows)
    assert not without.selectable and not without.why and fact.selectable
    assert not run_.selectable and run_.why == f"{rows[2].run.check} does not apply"
    assert asked == [(rows[2].system, [rows[2].run.check])]


# -- the command --


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    parsed = parser.parse_args(["publications", *arguments])
    return parsed.func(parsed)


@pytest.mark.published
@pytest.mark.slow
def test_the_command_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["row", "publication", "place", "value", "machine", "check", "state"]
    assert len(lines) == len(KNOWN.rows) + 2
    assert f"{len(KNOWN.rows)} rows: " in lines[-1] and "does not" not in lines[-1]


def test_the_last_line_counts_the_states_of_the_page() -> None:
    rows = {state: next(row for row in KNOWN.rows if test(row)) for state, test in {
        "run": lambda row: row.run, "fact": lambda row: row.fact, "reason": lambda row: row.reason,
    }.items()}  # fmt: skip
    listed = [Listed(rows["run"], True, measured="h200"), Listed(rows["run"], True), Listed(rows["run"], False)]
    listed += [Listed(rows["fact"], True), Listed(rows["reason"], False)]
    assert list(command._table(listed, KNOWN))[-1] == (
        "5 rows: 1 measured, 1 runnable, 2 described (1 properties of a machine, 1 that cannot be reproduced); "
        "1 that the machine should select and does not"
    )


def test_a_packed_archive_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run("--page", str(page), "--measured", str(kept.MODES)) == 0
    said = capsys.readouterr().out
    assert page.exists() and int(said.split()[0]) > 0, said


def test_a_row_is_measured_runnable_or_described_and_names_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From measurements of two H200: a copy with the published size; a map without GPUDirect Storage."""
    rows = [row for row in KNOWN.rows if row.row in ("T1", "G3", "R10", "R5") and not row.fact]
    rows += [row for row in KNOWN.rows if row.reason == "k40"][:1]
    archives = [kept.MODES, kept.FILE]
    found = {}
    for one in command.with_records([Listed(row, not row.reason) for row in rows], archives):
        assert one.as_json(KNOWN)["state"] == one.state
        found[one.row.row, one.row.what] = one.state, one.measured
    none = command.with_records([Listed(row, True) for row in rows if row.run], [tmp_path])
    assert {one.state for one in none} == {"runnable"}
    states = {name: state for (name, _), (state, _) in found.items()}
    assert states == {"T1": "measured", "G3": "runnable", "R10": "runnable", "R5": "runnable", "J3": "described"}
    measured = next(text for (name, _), (_, text) in found.items() if name == "T1")
    assert measured.startswith("NVIDIA H200, h200-modes.tar.xz 2026")
    local = next(text for (name, what), (_, text) in found.items() if name == "G3" and "each size, local" in what)
    assert local.startswith("lacks cufile: compatibility mode, no GPUDirect Storage; NVIDIA H200")
    assert not [text for (_, what), (_, text) in found.items() if "Lustre" in what and text], "ext4 is not shared"
    every = list(records.records(packed.folder_of(kept.MODES)))
    run = Run("spmv", "SpmvCuda", {"precision": "double", "repetitions": 100}, 1, 1)
    whole = Listed(replace(rows[-1], reason=None, run=run), True)
    published_ = {"mode": "published"}
    for to, state in (({}, "runnable"), (published_, "measured"), ({**published_, "check": "Spmv"}, "runnable")):
        monkeypatch.setattr(records, "records", lambda _, to=to: [replace(one, **to) for one in every])
        assert [one.state for one in command.with_records([whole], [tmp_path])] == [state]


def test_a_quarter_of_the_published_size_is_no_row_of_the_stencil() -> None:
    """Strong scaling divides the published size per GPU among four; on one node all else of the jobs is the same."""
    system, found = loader.load("reedbush-l"), {}
    for record in records.records(packed.folder_of(ROOT / "tests" / "data" / "h200-four-published.tar.xz")):
        if record.program == "stencil" and record.result:
            scaling = record.result.parameters["scaling"]
            found[scaling] = sum(published.measured(one, system, record.result) for one in KNOWN.rows if one.metric)
    assert found["strong"] == 0 < found["weak"]


@pytest.mark.parametrize(("implementation", "rows"), [(None, 1), ("xhpcg", 1)])
def test_our_solver_and_the_vendors_have_rows_of_their_own(implementation: str | None, rows: int) -> None:
    rating = foreign.metric("rating", {"ranks": 8}, "GFLOP/s", "higher", [900.0], "total")
    size = {"nx": 256, **({"implementation": implementation} if implementation else {})}
    raw = foreign.document("hpcg", "x", "1", [], "a", ["a"], 8, size, [rating], [], "none")
    if implementation is None:
        del raw["parameters"]["implementation"]
    system = loader.load("reedbush-h")
    beside = [row for row in KNOWN.rows if row.row == "R10" and published.measured(row, system, result.typed(raw))]
    assert len(beside) == rows
    assert all(("this suite" in row.what) == (implementation is None) for row in beside)


def test_a_result_of_osu_between_nodes_is_held_against_the_reference_of_its_own() -> None:
    point = osu.Point(1, 5.5, None)
    made = osu.document([osu.Output("osu_latency", "5.3.2", (point,))], "a", 2, ["a", "b"], "device")
    system = loader.load("reedbush-h")
    machine = facts(system, system.partition("gpu"), system.environments["cuda"])
    one = result.typed(made)
    criterion = machine.criterion(one, one.metrics[0])
    assert criterion is not None and criterion.high == pytest.approx(4.8 * 1.05) and "osu_latency" in criterion.source
    alone = result.typed(osu.document([osu.Output("osu_latency", "5.3.2", (point,))], "a", 2, ["a"], "device"))
    assert machine.criterion(alone, alone.metrics[0]) is None, "within a node nothing was published"


def test_a_system_without_rows_is_refused() -> None:
    with pytest.raises(command.TenkenError, match=r"no row is of system 'h200'; allowed: jetson-tx2, jetson-xavier"):
        run("--system", "h200")


LIST = """\
publications: {p: {cite: "P 2020 (it)", title: "It"}}
reasons: {gone: "it is gone"}
runs: {r: {check: C, asked: {n: 1}}}
rows:
  - {publication: p, system: v100, row: J1, place: here, value: "1", what: it, run: r, metric: a.b}
  - {publication: p, system: v100, row: J1, place: here, value: "1", what: it, reason: gone}
"""


def test_a_list_is_read(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(LIST)
    assert [row.reason for row in publications.load(tmp_path / "list.yaml").rows] == [None, "gone"]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("reason: gone", "reason: lost", "row 2 (J1, it): reason is 'lost'; allowed: gone"),
        ("run: r,", "run: s,", "run is 's'; allowed: r"),
        ("reason: gone", "note: well", "must have exactly one of run, fact and reason"),
        (", metric: a.b", "", "without a metric, a note must state why there is no reference"),
        ("reason: gone", "reason: gone, at: {n: 1}", "metric and at require run"),
        ("reason: gone", "reason: gone, nmuber: 1", "unknown key 'nmuber'"),
        ("place: here, ", "", "missing key 'place'"),
        ("reasons: {gone", "reasons: {more: 'x', gone", "no row names more"),
        ("asked: {n: 1}", "ask: {n: 1}", "run r: needs check and asked"),
        ("rows:", "rows: [", "list.yaml: "),
    ],
)
def test_a_wrong_list_is_refused_and_says_where(tmp_path: Path, before: str, after: str, says: str) -> None:
    assert before in LIST
    (tmp_path / "list.yaml").write_text(LIST.replace(before, after, 1))
    with pytest.raises(PublicationError) as raised:
        publications.load(tmp_path / "list.yaml")
    assert says in str(raised.value)


# -- what is requested of a machine --


def test_the_settings_of_figure_7_reach_the_job_and_nothing_else_does() -> None:
    """R5 and R6 were measured with two MPIs: the one that a user names is loaded, and its limits are set if given."""
    machine = loader.load("reedbush-h")
    plain = machine.expand({}, strict=False).environments["cuda"]
    assert plain.modules == ("cuda9/9.2.148", "openmpi") and plain.prepare == ()
    figure_7 = {
        "TENKEN_MPI_MODULE": "mvapich2-gdr/2.2", "TENKEN_MV2_RAILS": "2",
        "TENKEN_MV2_GPUDIRECT_LIMIT": "16384", "TENKEN_MV2_RECEIVE_LIMIT": "32768",
    }  # fmt: skip
    other = machine.expand(figure_7, strict=False).environments["cuda"]
    assert other.modules == ("cuda9/9.2.148", "mvapich2-gdr/2.2")
    assert other.prepare == (
        "export MV2_NUM_HCAS=2",
        "export MV2_GPUDIRECT_LIMIT=16384",
        "export MV2_USE_GPUDIRECT_RECEIVE_LIMIT=32768",
    )
    assert other.env_vars == plain.env_vars == {"MV2_USE_CUDA": "1", "MV2_USE_GPUDIRECT": "1"}
