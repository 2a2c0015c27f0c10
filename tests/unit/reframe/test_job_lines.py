"""Names that a job script takes, and what an attempt is compared with, by hand; the load of other work."""

from __future__ import annotations

import subprocess
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


@pytest.mark.parametrize(("output", "expected"), [
    ("", None), ("TENKEN-LOCK held=host waited=2\nx", {"held": ["host"], "waited_seconds": 2.0}),
    ("TENKEN-LOCK held=host waited=0\nTENKEN-LOCK held=GPU-1 waited=31\nTENKEN-LOCK held=host waited=4\n",
     {"held": ["host", "GPU-1"], "waited_seconds": 31.0}),
    ("TENKEN-LOCK shared host: 77 stream since\n", {"shared_with": "host shared with pid 77 (stream)"}),
    ("TENKEN-LOCK shared GPU-1: 77\n", {"shared_with": "GPU GPU-1 shared with pid 77"}),
    ("TENKEN-LOCK shared GPU-1:  \n", {"shared_with": "GPU GPU-1 shared with pid unknown"}),
    (f"TENKEN-LOCK none {'x' * 301}\n", {"none_because": "x" * 300}), ("a TENKEN-LOCK none y\n", None),
])  # fmt: skip
def test_locks_are_told_with_the_longest_wait_and_with_whom_they_are_shared(output: str, expected: object) -> None:
    empty = {"held": [], "waited_seconds": 0.0, "shared_with": None, "none_because": None}
    assert locks.told(output) == (expected and {**empty, **expected})


def test_lines_that_hold_a_machine_and_run_binaries_of_a_site() -> None:
    (gpus,), (host,) = locks.hold(True), locks.hold(False)
    assert gpus.endswith("; tenken_hold_machine gpus") and host.endswith("; tenken_hold_machine host")
    assert locks.each_binary("OSU", "/a b", "X_DIR", ["one", "two"]) == "tenken_each OSU '/a b' one two"
    assert locks.each_binary("OSU", "", "X_DIR", ["one"]) == 'tenken_each OSU "${X_DIR:-none}" one'
    program, *rest = locks.functions("my program", "t;1").splitlines()
    assert program == "tenken_program='my program' tenken_token='t;1'"
    assert rest == locks.FUNCTIONS.replace("{end}", "; ".join(joblines.end())).splitlines() and "{end}" not in rest


@pytest.mark.parametrize(("status", "said"), [
    (0, "held=host waited="), (1, "shared host: 7 gemm theirs"),
    (71, "none {}/host-1: its file system has no locks"),  # what util-linux ends with for ENOLCK
])  # fmt: skip
def test_a_machine_is_held_or_the_job_says_why_not(tmp_path: Path, status: int, said: str) -> None:
    (tmp_path / "flock").write_text(f"#!/bin/sh\nexit {status}\n")
    (tmp_path / "flock").chmod(0o755)
    (tmp_path / "functions").write_text(
        locks.functions("stream", "mine").replace("/proc/sys/kernel/random/boot_id", str(tmp_path / "boot"))
    )
    (tmp_path / "boot").write_text("1\n")
    (tmp_path / "host-1").write_text("7 gemm theirs")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TENKEN_LOCKS": str(tmp_path), "TENKEN_LOCK_SECONDS": "0"}
    done = subprocess.run(["sh", "-c", ". ./functions; tenken_hold host 9"], cwd=tmp_path, env=env, text=True,
                          capture_output=True, check=False, timeout=60)  # fmt: skip
    assert done.stdout.rstrip("0123456789\n") == f"TENKEN-LOCK {said.format(tmp_path)}", done.stderr


@pytest.mark.parametrize(("text", "cpus"), [
    ("0", 1), ("0-3", 4), ("0-3,8", 5), ("2-3,8-11", 6), ("", None), ("0-", None), ("4;5", None), ("1234567", None),
])  # fmt: skip
def test_online_processors_are_counted(text: str, cpus: int | None) -> None:
    assert joblines._online(text) == cpus


@pytest.mark.parametrize(("text", "expected"), [
    ("GPU-1a, 580.95, 00000000:19:00.0, 96.00, Enabled, Disabled, 165, Enabled",
     ("GPU-1a", "580.95", "00000000:19:00.0", "96.00", True, False, "165", True)),
    ("GPU-1a, 580.95, 00000000:19:00.0, 96.00, Disabled, [N/A]",
     ("GPU-1a", "580.95", "00000000:19:00.0", "96.00", False, None, "", None)),
    ("GPU-1a, 580.95, 00:19, [N/A], Enabled, Enabled, [N/A], [N/A]",
     ("GPU-1a", "580.95", "00:19", "", True, True, "", None)),
    ("GPU-1a, 580.95, 00:19, 96, Enabled, Enabled, 165", None), ("No devices were found", None),
    ("MIG-1a, 580.95, 00:19, 96, Enabled, Enabled", None),
])  # fmt: skip
def test_a_line_of_nvidia_smi_is_read_with_six_or_eight_columns(text: str, expected: object) -> None:
    found = joblines._card(text)
    assert (found and (
        found.uuid, found.driver, found.pci_bus_id, found.vbios, found.mig_enabled, found.ecc_enabled, found.serial,
        found.persistence_mode,
    )) == expected  # fmt: skip


RANKS = "TENKEN-BEGIN token=t node=a time=1 job=1\nTENKEN-NODES {nodes}\nTENKEN-NAME n1 host-a\n{ranks}\n"


@pytest.mark.parametrize(("nodes", "hosts", "ranks", "said"), [
    ("n1", ["host-a"] * 4, 4, None), ("n1", ["host-a"] * 8, 4, None), ("n1,n2", ["host-a", "n2.site"], 2, None),
    ("n1", ["host-a"] * 3, 4, "3 ranks reported their host name: 4 ranks requested; nodes by the scheduler: n1=host-a; "
     "by the ranks: host-a (3)"),
    ("n1", [], 1, "0 ranks reported their host name; the ranks did not run on the nodes of the job: 1 ranks requested; "
     "nodes by the scheduler: n1=host-a; by the ranks: none"),
    ("n1,n2", ["z", "host-a", "z", "b"], 4, "the ranks did not run on the nodes of the job: 4 ranks requested; "
     "nodes by the scheduler: n1=host-a,n2; by the ranks: b (1),host-a (1),z (2)"),
])  # fmt: skip
def test_ranks_are_as_many_as_requested_and_on_the_nodes_of_the_job(nodes, hosts, ranks, said) -> None:
    text = RANKS.format(nodes=nodes, ranks="\n".join(f"TENKEN-RANK host={host}" for host in hosts))
    assert joblines.report(text, "t").placement_fault(ranks) == said


@pytest.mark.parametrize(("change", "status", "fault"), [
    (("", ""), 3, None), (("status=3\nTENKEN-END", "status=0\nTENKEN-END"), 3, None),
    (("time=130.25 ", ""), 3, "its output has no time of TENKEN-RUN end"),
    (("time=110.5", ""), 3, "its output has no time of TENKEN-RUN begin"),
    (("time=141 status=3", "time=141 status=1"), 1, None), (("TENKEN-RUN", "TENKEN-RAN"), 3, "has no TENKEN-RUN lines"),
    (("time=141 status=3\n", "time=141 status=3\nTENKEN-END token=t node=a time=1 status=0\n"), 0,
     "its output has 2 end marks that differ, of status 3, 0; expected: 1"),
    (("time=141 status=3\n", "time=141 status=3\nTENKEN-END token=t node=host-a time=141 status=3\n"), 3, None),
    (("time=141 status=3\n", "time=141 status=3\nTENKEN-RANK host=late\n"), 3,
     "its output continues after the end mark with 'TENKEN-RANK host=late': something still ran"),
    (("TENKEN-NODES", "TENKEN-END token=u status=0\nTENKEN-NODES"), 3,
     "its output contains marks of token u between its own"),
    (("TENKEN-BEGIN", "TENKEN-END token=u status=0\nTENKEN-BEGIN"), 3, None),
    (("TENKEN-NODES", "TENKEN-END token=u status=0\nTENKEN-NODES"), 3, "two jobs wrote into it"),
])  # fmt: skip
def test_lines_of_a_job_that_contradict_each_other_void_it(change, status, fault) -> None:
    told = joblines.report(JOB.replace(*change) if change[0] else JOB, "t")
    found = told.fault()
    assert told.status == status and (found is None if fault is None else fault in str(found))


def test_an_end_mark_that_a_command_printed_is_not_the_scripts() -> None:
    begun = JOB.replace("TENKEN-RUN end node=unknown time=140 status=3\n", "TENKEN-RUN end node=unknown status=3\n")
    assert joblines.report(begun, "t").status == 3, "its clock could not be read"
    again = JOB.replace("time=140 status=3\n", "time=140 status=3\nTENKEN-RUN end node=x time=150 status=9\n")
    assert joblines.report(again, "t").commands[-1].status == 3, "a command ends once"
    assert joblines.report(JOB.replace("TENKEN-BEGIN token=t", "TENKEN-BEGIN token=u"), "t").token is None
    assert joblines.report(JOB).token == "t" and joblines.token_of(["x", "tenken_token=t_1", "y"]) == "t_1"
    several = JOB.replace("TENKEN-BEGIN", "TENKEN-BEGIN token=t node=first time=50 job=6\nTENKEN-BEGIN", 1)
    told = joblines.report(several, "t")
    assert told.ran_again and told.begin == 100.0 and [one.node for one in told.attempts] == ["first", "Login.site"]
    assert joblines.account(told).nodes == joblines.account(joblines.report(JOB, "t")).nodes


def test_ancestors_of_a_process_end_with_the_first_one_that_is_unknown_or_again_itself() -> None:
    def of(**parents: int) -> locks._Reading:
        return locks._Reading(5, 1.0, None, 0.0, 0.0, {
            int(pid[1:]): locks._Process(parent, "x", 0.0, 0.0) for pid, parent in parents.items()
        })  # fmt: skip

    assert locks._ancestors(of(p5=4, p4=1), 5) == [5, 4, 1]
    assert locks._ancestors(of(p5=4, p4=0), 5) == [5, 4]
    assert locks._ancestors(of(p5=4, p4=5), 5) == [5, 4]
