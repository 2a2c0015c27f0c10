"""The budget of mode acceptance: shares that add up, reduced samples, and the order of measuring."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core import runtime
from reframe.core.config import load_config

from tenken.model.catalogue import program
from tenken.paths import ROOT
from tenken.reframe import budget
from tenken.reframe.base import JudgedCheck
from tenken.reframe.build import BuildPrograms

pytestmark = pytest.mark.xdist_group("budget")  # one worker creates all checks

#: Checks on a node with two GPUs and MPI but without third-party programs; how many run with eight GPUs.
NODE = {"+cuda", "+mpi", "+gpus2", "+host_mpi", "+for_host", "+one_openacc", "*"}


@functools.cache
def classes() -> list[type[Any]]:
    found: list[type[Any]] = []
    for path in sorted((ROOT / "checks").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"budgeted_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += module._rfm_test_registry._tests  # what @simple_test noted
    return found


@pytest.fixture(scope="module")
def checks() -> Iterator[list[Any]]:
    """Every check of mode acceptance, as it is before its set-up."""
    before, runtime._runtime_context = runtime._runtime_context, None
    runtime.init_runtime(load_config("<builtin>"))
    made = [cls(variant_num=number) for cls in classes() for number in range(cls.num_variants)]
    runtime._runtime_context = before
    yield [check for check in made if "acceptance" in check.tags and isinstance(check, JudgedCheck)]


def on_the_node(check: Any) -> bool:
    return any(set(one.split()) <= NODE for one in check.valid_systems)


def test_shares_of_a_node_with_two_gpus_fit_into_thirty_minutes(checks: list[Any]) -> None:
    shares = {check.display_name: check.share for check in checks if on_the_node(check) and check.share}
    files = sum(share for check in checks if on_the_node(check) and (share := check.share) and "storage" in check.tags)
    assert sum(shares.values()) + budget.BESIDE <= 60 * budget.MINUTES["acceptance"]
    assert 0 < files <= budget.FILES * 60 * budget.MINUTES["acceptance"]


def test_each_check_of_the_suite_has_a_share(checks: list[Any]) -> None:
    """Programs that a site installs take their own time."""
    assert not {check.display_name for check in checks if check.ours and check.share is None}


def test_the_documentation_has_the_share_of_each_group(checks: list[Any]) -> None:
    """The run prints that of each check."""
    shares = sum(check.share for check in checks if check.share and on_the_node(check))
    page = (ROOT / "docs" / "acceptance.md").read_text()
    groups = {m[1]: int(m[2]) for m in re.finditer(r"^\| ([\w ,]+) \| (\d+) s \|", page, re.M)}
    assert groups.pop("together") == sum(groups.values()) == shares + budget.BESIDE
    files = sum(check.share for check in checks if check.share and on_the_node(check) and "storage" in check.tags)
    assert groups["files"] == files


def test_memory_links_gemm_and_hpl_come_first_and_files_last(checks: list[Any]) -> None:
    ranks = {check.display_name.split()[0]: budget.rank(check.tags) for check in checks}
    order = ["StreamHost", "Transfer", "P2P", "Gemm", "Hpl", "HpcgCuda", "Himeno", "SnapshotCuda"]
    assert [ranks[name] for name in order] == sorted({ranks[name] for name in order})
    assert max(ranks.values()) == ranks["DataLoadingDaliCpu"] == ranks["SnapshotCuda"]


@pytest.mark.parametrize(
    ("mode", "minutes", "gpus", "one_by_one", "samples", "share"),
    [
        ("acceptance", 0, 2, True, 1, 40),
        ("acceptance", 12, 2, True, 0.4, 12),  # the problems of mode quick
        ("acceptance", 60, 1, False, 2, 80),
        # eight GPUs: one after another they have half as much time again as two, and three eighths of it each
        ("acceptance", 0, 8, True, 0.375, 60),
        ("acceptance", 0, 8, False, 1, 40),
        ("acceptance", 22.5, 8, True, 0.1875, 30),
        ("quick", 0, 8, True, 1, None),
        ("quick", 10, 2, True, 2, None),
        ("published", 12, 2, True, 1, None),
        ("nightly", 12, 8, True, 1, None),
    ],
)
def test_minutes_scale_samples_and_shares(mode, minutes, gpus, one_by_one, samples, share) -> None:
    assert budget.scale(mode, minutes, gpus, one_by_one) == pytest.approx(samples)
    of_quick = budget.seconds_of(40, mode, minutes, gpus, one_by_one, {"quick"})
    assert of_quick == (share and pytest.approx(share))
    assert budget.seconds_of(None, mode, minutes, gpus, one_by_one, {"quick"}) is None
    other = budget.seconds_of(40, mode, minutes, gpus, one_by_one, {"acceptance"})
    assert other == (16 if (mode, minutes) == ("acceptance", 12) else of_quick)


def test_samples_are_cut_to_what_the_judgement_requires() -> None:
    asked = {"repetitions": 200, "target-seconds": 10, "energy-seconds": 2.5, "n": 98304, "backend": "cuda"}
    assert budget.fitted(asked, 0.4, 100) == {"repetitions": 100, "target-seconds": 4, "energy-seconds": 0}
    assert budget.fitted({"energy-seconds": 2.5}, 0.6, 1) == {"energy-seconds": 2.1}, "what a sensor needs"
    assert budget.fitted({"energy-seconds": 0}, 0.4, 1) == {}
    assert budget.fitted({"repetitions": 20, "seconds": 0.1}, 0.1, 100) == {}, "fewer than the floors: as asked"
    assert budget.fitted({"seconds": None, "repetitions": 3}, 0.1, 1) == {"repetitions": 1}
    warm = {"warmup-seconds": 5, "variant-warmup-seconds": 0.05}
    assert budget.fitted(warm, 0.4, 1) == {"warmup-seconds": 2} and budget.fitted(warm, 1.5, 1) == {}
    assert budget.fitted({"warmup-seconds": 1}, 0.1, 1) == {"warmup-seconds": 0.3}
    assert budget.fitted({"flips": 300}, 0.4, 1) == {"flips": 120} and budget.fitted({"flips": 20}, 0.4, 1) == {}
    assert program("stream").most_required == 100 and program("data_loading").most_required == 3


@pytest.mark.parametrize(("cores", "waived"), [(16, True), (20, False), (None, False)])
def test_threads_without_a_core_are_not_measured(cores: int | None, waived: bool) -> None:
    check = next(cls for cls in classes() if cls.__name__ == "OverlapRanksPublished")
    said: list[str] = []
    node = SimpleNamespace(cores=20, machine=SimpleNamespace(cores=cores), waive=said.append)
    check.need_a_core_for_each_thread(node)
    reason = f"needs more ranks: four of five threads need 20 cores; a node has {cores}"
    assert said == ([reason] if waived else [])


@pytest.mark.parametrize(
    ("minutes", "sizes", "tags", "found"),
    [
        (0.0, "acceptance", {"quick"}, {}),
        (18.0, "acceptance", {"quick"}, {"repetitions": 120, "energy-seconds": 6, "warmup-seconds": 0.6}),
        # the problems of mode quick, which take three tenths of the usual time, without energy
        (12.0, "quick", {"quick"}, {"energy-seconds": 0}),
        (6.0, "quick", {"quick"}, {"repetitions": 133, "energy-seconds": 0, "warmup-seconds": 0.667}),
        # a check that mode quick does not have: half of its usual time remains whatever the samples
        (14.5, "quick", {"acceptance"}, {"repetitions": 100, "flips": 20, "energy-seconds": 0, "warmup-seconds": 0.3}),
        (6.0, "quick", {"acceptance"}, {"repetitions": 100, "flips": 20, "energy-seconds": 0, "warmup-seconds": 0.3}),
    ],
)
def test_a_check_asks_for_what_it_passes_on(minutes: float, sizes: str, tags: set[str], found: dict) -> None:
    """The request has the same numbers as the command line: a program that ran with others would be rejected."""
    check = SimpleNamespace(
        tenken_mode="acceptance", size_mode=sizes, tenken_minutes=minutes, machine=SimpleNamespace(gpus=2),
        one_by_one=False, ours=True, share=22, unique_name="StreamCuda", is_dry_run=lambda: False, tags=tags,
        fewest=None, program="stream", arguments={"repetitions": 200, "energy-seconds": 10},
        expected_parameters={"repetitions": 200, "energy_seconds": 10, "backend": "cuda"},
    )  # fmt: skip
    if "flips" in found:
        check.arguments["flips"] = 300
    arguments = dict(check.arguments)
    JudgedCheck.keep_to_the_share(check)
    assert check.arguments == {**arguments, **found}
    assert check.expected_parameters["repetitions"] == check.arguments["repetitions"]
    assert check.expected_parameters["energy_seconds"] == check.arguments["energy-seconds"]


@pytest.mark.parametrize(
    ("mode", "minutes", "cases", "shapes", "compares"),
    [
        ("acceptance", 0, 13, 6, True),
        ("acceptance", 30, 13, 6, True),
        ("acceptance", 20, 13, 6, False),
        ("acceptance", 12, 3, 4, False),
        ("quick", 2, 3, 4, False),
        ("nightly", 12, 15, 11, True),
    ],
)
def test_less_time_takes_the_problems_of_shorter_modes(mode, minutes, cases, shapes, compares) -> None:
    by_name = {cls.__name__: cls for cls in classes()}
    machine = SimpleNamespace(gpus=2, gpu_memory_gib=80.0)
    check = SimpleNamespace(tenken_mode=mode, tenken_minutes=minutes, machine=machine)
    check.of_usual_time = JudgedCheck.of_usual_time.fget(check)
    check.shortened = JudgedCheck.shortened.fget(check)
    check.size_mode = JudgedCheck.size_mode.fget(check)
    assert len(by_name["Gemm"].cases(check).split(",")) == cases
    assert len(by_name["GemmShapes"].cases(check).split(",")) == shapes
    check.size, check.arguments, check.expected_parameters = "small", {}, {}
    by_name["Hpl"].set_problem(check)
    assert check.arguments["compare-library"] == compares
    check.size, check.arguments = "full", {}
    by_name["Hpl"].set_problem(check)
    assert check.arguments.get("n") == ("65536" if check.size_mode == "quick" else None), (
        "98304 does not fit into 80 GiB"
    )
    check.ask_for = lambda n, nb, room, low: setattr(check, "problem", (n, nb))
    by_name["HplMxpNode"].one_rank_for_each_gpu(check)
    assert check.problem == ((92160, 2048) if check.size_mode == "quick" else (229376, 4096))


def case(name: str, local: bool = True, build: bool = False, share: float | None = 60, **fields: Any) -> Any:
    check = (
        object.__new__(BuildPrograms)
        if build
        else SimpleNamespace(
            unique_name=name, tenken_mode="acceptance", tenken_minutes=0, share=share, subjects=["host"], **fields
        )
    )
    partition = SimpleNamespace(fullname="local:node", devices=[], scheduler=SimpleNamespace(is_local=local))
    return SimpleNamespace(check=check, partition=partition, deps=[])


def test_what_took_too_long_is_taken_from_those_that_follow_until_the_time_is_up() -> None:
    now = [0.0]
    pace = budget.Pace(lambda: now[0])
    pace.begin([case("build", build=True), *(case(f"c{n}", share=360) for n in range(5)), case("foreign", share=None)])
    assert pace.factor("c0") == 1 and not pace.over()
    now[0] = 1080  # three fifths of the time, for four shares of which 1440 s remain
    # half of the time, of which three tenths do not depend on the number of samples
    assert pace.factor("c1") == pytest.approx((0.5 - 0.3) / 0.7)
    pace.forget("c2")  # waived: its time belongs to the others
    assert pace.factor("c3") == 1, "720 s for two shares of 360"
    now[0] = 1800.5
    assert pace.factor("c4") == 0 and pace.over() == "no time left: the 30 minutes are used up"
    pace.open_end()
    assert not pace.over(), "second attempts have a separate limit"


def of_minutes(minutes: float) -> tuple[budget.Pace, list[float]]:
    """The pace of ten checks of mode quick with a share of 180 s of 30 minutes, and its clock."""
    now = [0.0]
    pace = budget.Pace(lambda: now[0])
    cases = [case(f"c{n}", share=180, tags={"quick"}) for n in range(10)]
    for one in cases:
        one.check.tenken_minutes = minutes
    pace.begin(cases)
    return pace, now


def test_fewer_minutes_leave_less_to_samples_from_the_beginning() -> None:
    """18 of 30 minutes: the samples are 0.6 of the usual, but three tenths of the usual time do not shrink."""
    pace, now = of_minutes(18)
    assert 0.6 * pace.factor("c0") == pytest.approx((0.6 - 0.3) / 0.7)
    now[0] = 150  # c0 took 42 s more than its share of 108
    assert 0.6 * pace.factor("c1") == pytest.approx((0.6 * 930 / 972 - 0.3) / 0.7)
    now[0] = 1060
    assert pace.factor("c2") == 0 and not pace.over()


def test_the_problems_of_mode_quick_leave_time_in_twelve_minutes() -> None:
    """They take three tenths of the usual time, of which there are four; fewer samples if less is left."""
    pace, now = of_minutes(12)
    assert pace.factor("c0") == 1
    now[0] = 350
    assert pace.factor("c1") == pytest.approx(370 / (9 * 0.3 * 180))


def test_the_time_of_a_program_of_the_site_comes_on_top() -> None:
    now = [0.0]
    pace = budget.Pace(lambda: now[0])
    pace.begin([case("foreign", share=None), *(case(f"c{n}", share=800) for n in range(2))])
    assert not pace.over() and pace.factor("foreign") == 1
    pace.on_top()
    now[0] = 2000
    assert pace.left() == 1800
    assert not pace.over() and pace.factor("c0") == 1
    now[0] = 3000
    assert pace.left() == 800 and pace.factor("c1") == 1
    now[0] = 3801
    assert pace.over()


def test_jobs_of_a_scheduler_are_not_paced() -> None:
    now = [0.0]
    pace = budget.Pace(lambda: now[0])
    pace.begin([case("c0", local=False)])
    now[0] = 1e5
    assert pace.factor("c0") == 1 and not pace.over()


@pytest.mark.parametrize(
    ("state", "local", "needs_build", "waits"),
    [
        ("compiling", True, False, True),
        ("completing", True, False, False),
        ("compiling", False, False, False),
        ("compiling", True, True, False),  # its own build ends with the last one
    ],
)
def test_what_needs_no_build_is_not_measured_next_to_compilers(state, local, needs_build, waits) -> None:
    build, check = (
        SimpleNamespace(check=one.check, testcase=one, state=state)
        for one in (case("", build=True, local=local), case("training", local=local))
    )
    check.testcase.deps = [build.testcase] if needs_build else []
    assert budget.compiling(check, [check, build]) == waits
    assert not budget.compiling(build, [check, build])


@pytest.mark.parametrize(
    ("states", "building", "runs"),
    [
        (["ready_run", "ready_run", "ready_run"], False, 0),
        (["running", "ready_run", "ready_run"], False, 1),
        # ready when the third one has ended: they do not come last
        (["ready_run", "ready_run", "completing"], False, 0),
        # what needs no build waits for it, and the first figure does not wait with it
        (["ready_run", "ready_run", "ready_run"], True, 1),
    ],
)
def test_the_first_one_that_is_ready_gets_a_node_that_becomes_free(states, building, runs) -> None:
    build = SimpleNamespace(testcase=case("", build=True), state="compiling" if building else "retired")
    build.check = build.testcase.check
    tasks = [SimpleNamespace(testcase=case(f"c{n}"), state=state) for n, state in enumerate(states)]
    for task in tasks:
        task.check = task.testcase.check
    tasks[1].testcase.deps = tasks[2].testcase.deps = [build.testcase]
    every = [build, *tasks]
    ready = [task for task in tasks if task.state == "ready_run"]
    may = [task for task in ready if not budget.compiling(task, every) and not budget.behind(task, every)]
    assert may == [tasks[runs]]
    for task in tasks:
        task.testcase.partition.scheduler.is_local = False
    assert not any(budget.behind(task, every) for task in tasks), "a scheduler has its own order"


@pytest.mark.parametrize(("seconds", "factor"), [(0, 1.0), (125, 1.0), (127, 0.8992), (450, 0.6429), (1800, 0.0)])
def test_samples_are_cut_once_a_tenth_of_them_no_longer_fits(seconds: float, factor: float) -> None:
    """One share of 1,800 s, begun after so many of them; three tenths of it do not depend on the samples."""
    now = [0.0]
    pace = budget.Pace(lambda: now[0])
    pace.begin([case("only", share=1800)])
    now[0] = seconds
    assert pace.factor("only") == pytest.approx(factor, abs=1e-3)
