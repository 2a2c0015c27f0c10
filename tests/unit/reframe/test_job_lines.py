"""Names that a job script takes, and what an attempt is compared with, by hand; the load of other work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenken.reframe import joblines, locks


@pytest.mark.parametrize("token", ["", "a b", "a;b", "$(id)", "a\n", "`id`", "a/b", "a'b", "é"])
def test_a_token_that_a_shell_would_read_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="only letters, digits"):
        joblines.begin(False, token, "/stage")


@pytest.mark.parametrize(
    ("folder", "name"), [("stage", "x"), ("/stage", ""), ("/stage", "/x"), ("/stage", "../x"), ("/stage", "a/../../x")]
)
def test_what_is_not_below_the_stage_folder_is_not_removed(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match="only files below the stage folder"):
        joblines.begin(False, "t", folder, ["ok", name])


def test_outputs_of_an_earlier_attempt_are_removed_by_their_whole_path() -> None:
    lines = joblines.begin(False, "t_1.a-B", "/my stage", ["result.json", "out *.txt", "a..b"])
    assert lines[:2] == [
        "rm -rf -- '/my stage/'result.json '/my stage/''out '*.txt '/my stage/'a..b", "tenken_token=t_1.a-B",
    ]  # fmt: skip
    assert not any(line.startswith("rm") for line in joblines.begin(False, "t", "/stage"))


JOB = """TENKEN-BEGIN token=t node=Login.site time=100 job=7
TENKEN-NODES n1,N2.site
TENKEN-NAME n1 host-a
TENKEN-RANK host=Rank.site
TENKEN-RANK
TENKEN-GPU GPU 0: NVIDIA H200 (UUID: GPU-1)
TENKEN-RUN begin node=host-a.cluster time=110.5
TENKEN-RUN end node=host-a.cluster time=130.25 status=0
TENKEN-RUN begin node=unknown time=131
TENKEN-RUN end node=unknown time=140 status=3
TENKEN-END token=t node=host-a time=141 status=3
"""


def test_an_attempt_has_every_name_of_its_nodes_and_the_times_of_its_commands() -> None:
    told = joblines.report(JOB, "t")
    found = joblines.account(told)
    assert found.nodes == {"login", "n1", "host-a", "n2", "rank"}
    assert (found.node, found.begin, found.end) == ("host-a.cluster", 110.5, 140.0)
    assert [(one.node, one.begin, one.end, one.status) for one in told.commands] == [
        ("host-a.cluster", 110.5, 130.25, 0), ("unknown", 131.0, 140.0, 3),
    ]  # fmt: skip
    assert found.uuids == frozenset(), "of two nodes only the first lists its GPUs"
    assert joblines.other_names(told) == ["host-a", "login", "rank"]
    alone = joblines.account(joblines.report(JOB.replace("n1,N2.site", "n1"), "t"))
    assert alone.uuids == {"GPU-1"}
    assert joblines.account(joblines.report(JOB, "another")).nodes == frozenset()


def test_a_job_that_was_cut_has_no_end_and_no_time_after_it() -> None:
    cut = JOB.replace("TENKEN-RUN end node=unknown time=140 status=3\n", "")
    told = joblines.report(cut, "t")
    assert (told.status, told.end) == (None, None), "its end mark was printed by the program"
    assert (joblines.account(told).begin, joblines.account(told).end) == (110.5, 130.25)
    begun = joblines.report(JOB.partition("TENKEN-RUN")[0], "t")
    assert (joblines.account(begun).begin, joblines.account(begun).end, joblines.account(begun).node) == (
        None,
        None,
        "",
    )


def reading(time: int, user: int, **processes: tuple[int, str, int, int]) -> str:
    """A script with pid 50 and 100 ticks a second. By process: parent, name, ticks of its own, and of its children.
    The processor's columns: user, nice, system, idle, I/O wait, interrupts, soft interrupts, stolen.
    """
    lines = [f"tenken 50 100 {time} 1.5 1 1 1/9 60", f"cpu  {user} 10 20 9999 8888 30 40 70 1 2"]
    lines += [
        f"{pid[1:]} ({name}) S {parent} 1 1 0 -1 1 1 1 1 1 {own} 1 {children} 1 20 0 1 0 1 1 1"
        for pid, (parent, name, own, children) in processes.items()
    ]
    return "\n".join(lines)


def test_load_is_of_the_script_of_others_and_of_neither(tmp_path: Path) -> None:
    """Ticks: 1,000 of the script's children, 300 of a child that still runs, 200 of a grandchild, 500 of another
    user's program and 60 of one that began since; a shell above the script and a process id that was reused count anew.
    """
    begin = reading(10, 1000, p40=(1, "bash", 100, 0), p50=(40, "job", 10, 0), p51=(50, "stream", 100, 0),
                    p70=(1, "other", 100, 0), p80=(1, "gone", 900, 0),
                  p90=(1, "idle", 7, 0))  # fmt: skip
    end = reading(30, 4000, p40=(1, "bash", 900, 0), p50=(40, "job", 10, 1000), p51=(50, "stream", 400, 0),
                  p52=(51, "part", 200, 0), p70=(1, "other", 600, 0), p80=(1, "new", 60, 0),
                  p90=(1, "idle", 7, 0))  # fmt: skip
    for name, text in zip(locks.LOAD_FILES, (begin, end), strict=True):
        (tmp_path / name).write_text(text)
    found = locks.load(tmp_path)
    assert found is not None
    # of the grandchild one more tick each of system and of its children, as it is new
    assert found["own_cpu_seconds"] == pytest.approx(10 + 3 + 2 + 0.02)
    assert found["others_cpu_seconds"] == pytest.approx(30 - 15.02)
    assert (found["seconds"], found["load_average_before"], found["steal_cpu_seconds"]) == (20.0, 1.5, 0.0)
    assert [(one["pid"], one["name"], one["cpu_seconds"]) for one in found["others"]] == [
        (70, "other", 5.0), (80, "new", pytest.approx(0.61)),
    ]  # fmt: skip
    (tmp_path / locks.LOAD_FILES[0]).write_text(begin.replace("tenken 50", "another 50"))
    assert locks.load(tmp_path) is None


@pytest.mark.parametrize(("column", "busy"), [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (5, 1), (6, 1), (7, 0)])
def test_what_a_processor_did_is_neither_idle_nor_waiting_nor_stolen(column: int, busy: int, tmp_path: Path) -> None:
    for name, ticks in zip(locks.LOAD_FILES, (0, 500), strict=True):
        columns = ["100"] * 10
        columns[column] = str(100 + ticks)
        (tmp_path / name).write_text(f"tenken 50 100 {ticks} 1 1 1 1/9 60\ncpu  {' '.join(columns)}\n")
    found = locks.load(tmp_path)
    assert found is not None
    assert (found["others_cpu_seconds"], found["steal_cpu_seconds"]) == (5.0 * busy, 5.0 * (column == 7))
