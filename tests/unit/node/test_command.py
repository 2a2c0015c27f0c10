"""What a check does after it has read: it reads again, measures, sorts, drains and remembers."""

from __future__ import annotations

import errno
import json
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.machines import loader
from tenken.node import brake, cli, expect, host, measure, state
from tenken.node import check as checks
from tenken.node.probe import Answer
from tenken.node.state import StateError
from tenken.node.verdict import BAD, NOTE, UNSURE, Finding
from tests.unit.node.fakes import Node
from tests.unit.node.test_check import SERIES, STEPS, Slurm, back, only_root, program, run


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    tmp_path.chmod(0o755)
    made = Node(tmp_path / "root")
    (tmp_path / "bin").mkdir(mode=0o755)
    made.expect |= {"state": str(tmp_path / "state.json")}
    yield made


class Readings:
    """Readings that take some seconds each and find these severities; the last ones again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: list[list[str]], took: float, **answers: Answer) -> None:
        self.found, self.took, self.now, self.allowed, self.slept = found, took, 0.0, list[float](), list[float]()
        gpus = {f"gpu {n}": {"index": n, "uuid": f"GPU-{n}", "processes": []} for n in range(3)}
        self.answers = {"gpus": Answer(parts=gpus), "host": Answer(value={}), **answers}
        self.measured: list[dict[str, Any]] = []
        monkeypatch.setattr(checks, "_read", self.read)
        monkeypatch.setattr(checks, "_measure", self.measure)
        monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: self.now))

    def read(self, machine: Any, wanted: Any, last: Any, seconds: float, mine: Any) -> Any:
        self.allowed.append(round(seconds, 6))
        self.now += self.took
        found = self.found[min(len(self.allowed), len(self.found)) - 1]
        return checks.Outcome("n1", [Finding(one, "d", "r") for one in found]), self.answers, mine

    def measure(self, machine: Any, wanted: Any, last: Any, outcome: Any, idle: Any, until: float) -> None:
        self.measured.append({"idle": [gpu["index"] for gpu in idle], "until": until})
        outcome.findings.append(Finding(BAD, "gpu 3", "slow"))

    def check(self, seconds: float = 10.0, wanted: Any = None, **more: Any) -> Any:
        machine: Any = SimpleNamespace(sleep=self.sleep)
        return checks.check(machine, {"programs": "/p"} if wanted is None else wanted, None, seconds, **more)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("found", "took", "hung", "allowed"),
    [
        # half of ten seconds; again after a pause of one second, with what is left but 0.3 s
        ([[NOTE]], 1.0, False, [5.0]), ([[UNSURE]], 1.0, False, [5.0]), ([[BAD]], 1.0, False, [5.0, 7.7]),
        ([[NOTE, BAD]], 4.0, False, [5.0, 4.7]), ([[BAD]], 4.34, False, [5.0, 4.36]), ([[BAD]], 4.35, False, [5.0]),
        ([[BAD]], 4.9, False, [5.0]), ([[BAD]], 1.0, True, [5.0]), ([[]], 1.0, False, [5.0]),
    ],
)  # fmt: skip
def test_what_is_bad_is_read_again_if_there_is_time(
    found: list[list[str]], took: float, hung: bool, allowed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = Readings(monkeypatch, found, took, bus=Answer(hung=hung))
    readings.check(measuring=False)
    assert readings.allowed == allowed and readings.slept == [1.0] * (len(allowed) - 1)


@pytest.mark.parametrize(
    ("found", "more", "idle", "left_out"),
    [
        ([[]], {}, [0, 1, 2], ""), ([[NOTE]], {"mine": frozenset({2, 0})}, [0, 2], ""),
        ([[UNSURE]], {"mine": frozenset()}, [], ""), ([[BAD]], {}, None, ""), ([[BAD], [NOTE]], {}, [0, 1, 2], ""),
        ([[]], {"measuring": False}, None, ""),
        ([[]], {"wanted": {}}, None, "no programs: the expectation file names no folder"),
    ],
)  # fmt: skip
def test_idle_gpus_are_measured_if_nothing_is_bad(
    found: list[list[str]], more: dict[str, Any], idle: list[int] | None, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = Readings(monkeypatch, found, 1.0)
    outcome = readings.check(**more)
    assert readings.measured == ([] if idle is None else [{"idle": idle, "until": 9.7}])
    assert outcome.left_out == ({"all": left_out} if left_out else {})
    severities = [one.severity for one in outcome.findings]
    assert severities == sorted(severities, key=[BAD, UNSURE, NOTE].index), "what was measured is told in its place"
    assert outcome.seconds == readings.now


@pytest.mark.parametrize(
    ("host", "job", "said"),
    [
        (None, "", None), ({"jobs": ["7"]}, "7", None), ({"jobs": ["7"]}, "", "job 7 is on the node"),
        ({"jobs": ["7", "8"]}, "7", "job 8 is on the node"), ({"jobs": None}, "7", None),
    ],
)  # fmt: skip
def test_beside_another_job_nothing_is_measured(
    host: Any, job: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that did not answer names no job."""
    readings = Readings(monkeypatch, [[]], 1.0, host=Answer(value=host))
    outcome = readings.check(job=job)
    assert (outcome.left_out, bool(readings.measured)) == ({"all": said} if said else {}, said is None)


GPUS = [{"index": n, "uuid": f"GPU-{n}", "processes": []} for n in range(2)]


@pytest.mark.parametrize(
    ("changes", "mine", "said"),
    [
        ({}, None, ""), ({"processes": [1]}, None, "gpu 1 is in use"), ({"processes": [1]}, {0}, "gpu 1 is in use"),
        ({"processes": [1]}, {1}, ""), ({"processes": None}, {1}, "processes of gpu 1 cannot be read"),
        ({"uuid": None}, {0}, "processes of gpu 1 cannot be read"), ({"mig": 1}, {1}, "gpu 1 is partitioned (MIG)"),
        ({"mig": 0}, None, ""), ({"mig": 1, "processes": [1]}, None, "gpu 1 is in use"),
    ],
)  # fmt: skip
def test_a_gpu_in_use_is_that_of_another(changes: dict[str, Any], mine: set[int] | None, said: str) -> None:
    gpus = [GPUS[0], GPUS[1] | changes]
    assert checks.occupied(gpus, None if mine is None else frozenset(mine), {}, "") == said


def measured(monkeypatch: pytest.MonkeyPatch, *runs: dict[str, float], **more: Any) -> tuple[Any, list[list[str]]]:
    """A check of a GPU whose reference is 100, with the values of one run after another."""
    asked: list[list[str]] = []

    def double(folder: Path, idle: Any, until: float, steps: Any) -> Any:
        asked.append([step.program for step in steps])
        return measure.Measured(values=dict(runs[len(asked) - 1]), **(more if len(asked) == 1 else {}))

    monkeypatch.setattr(measure, "run", double)
    outcome = checks.Outcome("n1", [])
    wanted = {"programs": "/p", "references": {"stream.triad.gpu": {"value": 100.0}}}
    last = {"measured": {"stream.triad.gpu0": [1.0] * 19, "gemm.gemm.gpu0": [5.0] * 20, "p2p.peer.gpu0-gpu1": [7.0]}}
    machine: Any = SimpleNamespace(steps=STEPS)
    checks._measure(machine, wanted, last, outcome, [], 1.0)
    return outcome, asked


@pytest.mark.parametrize(
    ("again", "severity", "said", "value"),
    [
        ({"stream.triad.gpu0": 90.0}, BAD, "stream triad 90 below 95 (reference)", 90.0),
        ({"stream.triad.gpu0": 99.0}, NOTE, "stream triad 80 below 95 (reference); good when repeated", 99.0),
        ({}, UNSURE, "stream triad 80 below 95 (reference); no time to repeat", 80.0),
    ],
)
def test_a_slow_value_is_measured_again(
    again: dict[str, float], severity: str, said: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"stream.triad.gpu0": 80.0, "gemm.gemm.gpu0": 5.0}
    outcome, asked = measured(monkeypatch, first, again)
    assert asked == [["stream", "p2p"], ["stream"]]
    assert outcome.findings == [Finding(severity, "gpu 0", said)]
    assert outcome.values == {"stream.triad.gpu0": value, "gemm.gemm.gpu0": 5.0}
    # the first twenty values are kept, also those of what was not measured now
    assert outcome.readings["measured"] == {
        "stream.triad.gpu0": [1.0] * 19 + [value], "gemm.gemm.gpu0": [5.0] * 20, "p2p.peer.gpu0-gpu1": [7.0],
    }  # fmt: skip


def test_good_values_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"hung": ["stream cuda"], "wrong": {"gemm": "c: error 1"}, "left_out": {"p2p peer": "x"}}
    outcome, asked = measured(monkeypatch, {"stream.triad.gpu0": 95.0}, **told)
    assert asked == [["stream", "p2p"]] and outcome.left_out == {"p2p peer": "x"}
    assert [(one.severity, one.device, one.reason) for one in outcome.findings] == [
        (UNSURE, "stream cuda", "did not end in time"), (BAD, "gemm", "wrong result: c: error 1")
    ]  # fmt: skip


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "drain", "before", "status", "drained", "said"),
    [
        (True, True, 0, 1, True, ""), (True, False, 0, 1, False, ""),
        (True, True, 1, 2, False, "tenken: 1 of 20 nodes drained in an hour: not drained\n"),
        (True, False, 1, 2, False, "tenken: 1 of 20 nodes drained in an hour: not drained\n"),
        (False, False, 1, 1, False, ""),
        (False, True, 0, 2, False, "tenken: `drain` is not in the expectation file: not drained\n"),
    ],
)  # fmt: skip
def test_a_bad_node_is_drained_up_to_the_share(
    configured: bool, drain: bool, before: int, status: int, drained: bool, said: str, node: Node, capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    slurm = Slurm(20, time.time())
    slurm.drained = {f"n00{at + 5}": (slurm.now, "tenken: gpu 3: lost") for at in range(before)}
    known = dict(slurm.drained)
    machine = node.machine
    machine.run, machine.sleep = slurm.run, lambda seconds: None
    monkeypatch.setattr(type(node), "machine", property(lambda self: machine))
    node.nvml.gpus[3]["status"] = 15
    if configured:
        node.expect["drain"] = {"scheduler": "slurm", "partition": "gpu", "share": 0.05}
    assert run(node, "check", "--no-measure", "--node", "n001", *["--drain"] * drain) == status
    line = "tenken: gpu 3: lost: it does not answer the driver"
    told = capsys.readouterr()
    assert told.out == f"{line}\n" and told.err == said, "the line is not told twice"
    assert slurm.drained == (known | {"n001": (slurm.now, line)} if drained else known)


def test_what_an_operator_accepts_is_read_and_not_measured(node: Node, capsys: Any) -> None:
    folder = node.root.parent
    node.expect["programs"] = str(folder / "bin")
    program(folder / "bin", "stream", f"touch {folder}/ran")
    assert run(node, "check", "--no-measure") == run(node, "accept") == 0
    assert not (folder / "ran").exists()
    node.nvml.gpus[3]["status"] = 15
    assert run(node, "accept") == 1
    assert capsys.readouterr().out.splitlines()[-2] == "tenken: gpu 3: lost: it does not answer the driver"


@pytest.mark.parametrize("kept", [{"schema": "tenken-node-state/0"}, {}, [], 3])
def test_a_state_of_another_kind_is_refused(kept: Any, node: Node, capsys: Any) -> None:
    state.write(Path(node.expect["state"]), kept)
    assert run(node, "check", "--no-measure") == 2
    said = f"{node.expect['state']}: not a state of {expect.SCHEMA}; tenken node accept writes a new one"
    with pytest.raises(StateError) as error:
        cli._state(Path(node.expect["state"]))
    assert str(error.value) == said
    with pytest.raises(StateError):
        back(node, Slurm(4, time.time()))


def test_measured_values_are_kept_from_check_to_check(node: Node) -> None:
    folder = node.root.parent
    node.expect["programs"] = str(folder / "bin")
    program(folder / "bin", "stream", series=[SERIES | {"subject": {"gpu": i}} for i in range(8)])
    for _ in range(2):
        assert run(node, "check", "--gpus", "all") == 0
    kept = json.loads(Path(node.expect["state"]).read_text())
    assert kept["measured"]["stream.triad.gpu7"] == [pytest.approx(4.4)] * 2 and kept["returns"] == []


def test_a_node_that_returns_without_a_reason_has_no_recurring_fault(node: Node, capsys: Any) -> None:
    slurm = Slurm(4, time.time())
    node.expect["drain"] = {"scheduler": "slurm"}
    node.expect["programs"] = str(node.root.parent / "bin")
    program(node.root.parent / "bin", "stream", series=[SERIES | {"subject": {"gpu": i}} for i in range(8)])
    assert run(node, "check", "--no-measure") == 0
    for _ in range(4):
        assert back(node, slurm) == 0
    assert "recurring" not in capsys.readouterr().out
    assert len(json.loads(Path(node.expect["state"]).read_text())["returns"]) == 4


@only_root
@pytest.mark.parametrize(
    ("mode", "there", "said"),
    [(0o1777, True, None), (0o1777, False, "1777"), (0o777, True, "777"), (0o755, False, None), (0o775, True, "775")],
)
def test_what_is_not_there_yet_others_could_put_into_an_open_folder(
    mode: int, there: bool, said: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    if there:
        (folder / "file").write_text("")
    expected = said and f"{folder}: mode {said} lets others write; allowed: 755, 644 and less"
    assert state.replaceable(folder / "file") == expected


def test_a_state_that_cannot_be_written_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    state.write(tmp_path / "state.json", {"a": 1})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(state.os, name, full)
            with pytest.raises(StateError, match=r"state.json: No space left on device"):
                state.write(tmp_path / "state.json", {"a": 2})
        assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
        assert state.read(tmp_path / "state.json") == {"a": 1}


# -- the expectation -------------------------------------------------------------------------------------------------


def reference(**changes: Any) -> Any:
    usual = {"program": "stream", "metric": "triad", "subject": "gpu", "partition": "gpu", "value": 4400.0,
             "lower": -0.03, "parameters": {}, "published": None}  # fmt: skip
    return SimpleNamespace(**(usual | changes))


KNOWN = {"stream.triad.gpu": {"value": 4400.0, "lower": -0.03}}


@pytest.mark.parametrize(
    ("about", "references", "found"),
    [
        ({}, [], {"gpus": {"count": 8, "names": ["NVIDIA H200"]}, "host": {"cores": 96, "memory_gib": 1.5}}),
        ({"gpu_count": None}, [], {"gpus": {}, "host": {"cores": 96, "memory_gib": 1.5}}),
        ({"gpu": None, "cores": None, "memory_bytes": None}, [], {"gpus": {"count": 8}, "host": {}}),
        ({}, [reference()], {"references": KNOWN}), ({}, [reference(partition="cpu")], {}),
        ({}, [reference(value=None)], {}), ({}, [reference(lower=None)], {}),
        ({}, [reference(parameters={"n": 1})], {}), ({}, [reference(published="x")], {}),
        ({}, [reference(published="x", subject="host"), reference()], {"references": KNOWN}),
    ],
)  # fmt: skip
def test_what_a_system_file_states_of_a_node(
    about: dict[str, Any], references: list[Any], found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"gpu_count": 8, "gpu": SimpleNamespace(device_names=("NVIDIA H200",)), "cores": 96,
             "memory_bytes": 3 << 29}  # fmt: skip
    partition = SimpleNamespace(node=SimpleNamespace(**(usual | about)))
    system = SimpleNamespace(partitions={"gpu": partition}, references=references)
    monkeypatch.setattr(loader, "load", lambda name: system)
    made = expect.of_system("h", "gpu")
    common = {"schema": expect.SCHEMA, "system": "h", "partition": "gpu", "programs": str(expect.PROGRAMS)}
    node = {"gpus": {"count": 8, "names": ["NVIDIA H200"]}, "host": {"cores": 96, "memory_gib": 1.5}}
    assert made == common | node | found


@pytest.mark.parametrize(
    ("stated", "valid"),
    [
        ({"value": 1.0}, True), ({"value": 1.0, "lower": -0.99}, True), ({"value": 0.001, "lower": -0.001}, True),
        ({"lower": -0.05}, False), ({}, False), ({"value": -1.0}, False), ({"value": 1.0, "lower": -1.0}, False),
        ({"value": 1.0, "lower": 0.0}, False),
    ],
)  # fmt: skip
def test_a_reference_has_a_value_and_a_bound_below_it(stated: dict[str, float], valid: bool) -> None:
    said = expect._values({"schema": expect.SCHEMA, "references": {"a.b.gpu": stated}})
    assert said == (None if valid else "references.a.b.gpu: needs a value above 0 and a lower between -1 and 0")


# -- the host and its scheduler --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "returned", "found"),
    [
        (0x2001, 0, {"synchronised": True, "error_ms": 52.5}), (0x2041, 5, {"synchronised": False, "error_ms": 52.5}),
        (0x40, 0, {"synchronised": False, "error_ms": 52.5}), (0, -1, None),
    ],
)  # fmt: skip
def test_the_clock_is_what_the_kernel_says(
    status: int, returned: int, found: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """struct timex: modes, offset, frequency, maximum error, estimated error (in microseconds), status."""

    def adjtimex(made: Any) -> int:
        assert made.raw[:4] == bytes(4), "nothing is set"
        struct.pack_into("iiqqqqi", made, 0, 0, 0, 11, 22, 33_000, 52_500, status)
        return returned

    monkeypatch.setattr(host.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(adjtimex=adjtimex))
    assert host._clock() == found


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EACCES, "x"), None), (OSError(errno.EPERM, "x"), None), (OSError(errno.EROFS, "x"), "EROFS"),
        (OSError(errno.EIO, "x"), "EIO"), (OSError("odd"), "odd"), (None, "ok"),
    ],
)  # fmt: skip
def test_a_folder_is_written_or_names_its_error(
    error: OSError | None, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(host.os, "fsync", fsync)
    assert host._write(tmp_path) == said and list(tmp_path.iterdir()) == []


def asked_of_slurm(
    monkeypatch: pytest.MonkeyPatch, before: Any, after: Any, shown: str | None = "State=IDLE", update: str | None = ""
) -> tuple[str | None, list[str], list[float]]:
    asked: list[str] = []
    counted = [before, after]
    slept: list[float] = []
    monkeypatch.setattr(brake, "slurm", lambda partition, run: counted.pop(0))

    def run(command: Sequence[str]) -> str | None:
        asked.append(" ".join(command[1:]))
        return shown if command[1] == "show" else update

    return brake.drain("n1", "tenken: x", "gpu", 0.1, run, slept.append, lambda: 9000.0, 2.0), asked, slept


NOW, OLD = 9000.0, 9000.0 - 3600
SHOW, DRAIN, UNDRAIN = (
    "show node n1 --oneliner",
    "update NodeName=n1 State=DRAIN Reason=tenken: x",
    ("update NodeName=n1 State=UNDRAIN"),
)


@pytest.mark.parametrize(
    ("before", "after", "more", "said", "asked"),
    [
        # of 20 nodes two at once; of 5 one
        ((20, ()), (20, ((NOW, "n1"),)), {}, None, [SHOW, DRAIN]),
        ((20, ((NOW, "a"),)), (20, ((NOW - 1, "a"), (NOW, "n1"))), {}, None, [SHOW, DRAIN]),
        ((20, ((NOW, "a"), (NOW, "b"))), None, {}, "2 of 20 nodes drained in an hour: not drained", []),
        ((20, ((OLD, "a"), (NOW, "b"))), (20, ((NOW, "b"), (NOW, "n1"))), {}, None, [SHOW, DRAIN]),
        ((20, ((OLD + 1, "a"), (NOW, "b"))), None, {}, "2 of 20 nodes drained in an hour: not drained", []),
        ((5, ((NOW, "a"),)), None, {}, "1 of 5 nodes drained in an hour: not drained", []),
        ((5, ((NOW, "n1"),)), (5, ((NOW, "n1"),)), {}, None, [SHOW, DRAIN]),
        # others were faster
        ((20, ()), (20, ((NOW - 2, "a"), (NOW - 1, "b"), (NOW, "n1"))), {}, "3 nodes drained at once: taken back",
         [SHOW, DRAIN, UNDRAIN]),
        ((20, ()), (20, ((NOW - 2, "a"), (NOW - 1, "n1"), (NOW, "b"))), {}, None, [SHOW, DRAIN]),
        ((20, ()), None, {}, None, [SHOW, DRAIN]), (None, None, {}, "the scheduler does not answer: not drained", []),
        ((20, ()), None, {"shown": None}, "the scheduler does not answer: not drained", [SHOW]),
        ((20, ()), None, {"shown": "State=IDLE+DRAIN"}, None, [SHOW]),
        ((20, ()), None, {"update": None}, "scontrol refused to drain it", [SHOW, DRAIN]),
        ((20, (), frozenset({"n1"})), None, {}, "it is out for another reason, which is kept", []),
    ],
)  # fmt: skip
def test_a_node_is_drained_if_few_others_are(
    before: Any, after: Any, more: dict[str, Any], said: str | None, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = [None if one is None else brake.Partition(*one) for one in (before, after)]
    found = asked_of_slurm(monkeypatch, *counted, **more)
    assert found[:2] == (said, asked)
    # nodes with one fault do not ask at the same moment: crc32("n1") is 3,950,597,356
    assert found[2] == [pytest.approx(0.712)] + [1.0] * (DRAIN in asked and "refused" not in (said or ""))


COUNTED = {"ecc_corrected": 1, "ecc_uncorrected": 1, "ecc_uncorrected_life": 1, "pcie_replay": 1,
           "pcie_errors": {"a": 1}, "nvlink_errors": {"b": 1}}  # fmt: skip
LATER = {key: {name: 9 for name in value} if isinstance(value, dict) else 9 for key, value in COUNTED.items()}


@pytest.mark.parametrize("seen", ["all", "no GPU", "no ports", "no host", "another GPU"])
def test_after_a_repair_counters_are_new_and_all_else_is_as_it_was(seen: str) -> None:
    last = {
        "schema": "s", "time": 1.0, "measured": {"m": [1.0]}, "bus": {"b": 1},
        "gpus": [{"uuid": "A", "pcie_width": 16, **COUNTED}, {"uuid": None}],
        "host": {"boot": "x", "mce": 1, "edac": 1, "log": 1, "cores": 96,
                 "ports": {"p": {"up": True, "counters": {"c": 1}}, "q": {"up": True, "counters": {"c": 1}}}},
    }  # fmt: skip
    now: dict[str, Any] = {
        "time": 2.0, "bus": {"b": 2}, "gpus": [{"uuid": "A", "pcie_width": 8, **LATER}],
        "host": {"boot": "y", "mce": 2, "edac": 2, "log": 2, "cores": 95,
                 "ports": {"p": {"up": 0, "counters": {"c": 9}}}},
    }  # fmt: skip
    counted, ports = LATER, {"c": 9}
    host_: dict[str, Any] = {"boot": "y", "mce": 2, "edac": 2, "log": 2}
    if seen == "no GPU":
        now["gpus"], counted = [], COUNTED
    if seen == "another GPU":
        now["gpus"][0]["uuid"], counted = "B", COUNTED
    if seen == "no ports":
        now["host"]["ports"], ports = None, {"c": 1}
    if seen == "no host":
        now["host"], ports, host_ = None, {"c": 1}, dict.fromkeys(host_)
    assert checks.recounted(last, now) == {
        "schema": "s", "time": 2.0, "measured": {"m": [1.0]}, "bus": {"b": 2},
        "gpus": [{"uuid": "A", "pcie_width": 16, **counted}, {"uuid": None}],
        "host": {**host_, "cores": 96, "ports": {"p": {"up": True, "counters": ports},
                                                 "q": {"up": True, "counters": {"c": 1}}}},
    }  # fmt: skip


@pytest.mark.parametrize(("others", "braked"), [(0, ""), (1, "1 of 20 nodes drained in an hour: not drained")])
def test_pbs_drains_its_nodes_itself(others: int, braked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook sets a node offline; the check only says whether it may."""
    counted = brake.Partition(20, tuple((time.time(), f"n{at}") for at in range(others)))
    monkeypatch.setitem(brake.READERS, "pbs", lambda partition, run: counted)
    monkeypatch.setattr(brake, "drain", None)
    outcome = checks.Outcome("n7", [Finding(BAD, "gpu 3", "lost")])
    machine: Any = SimpleNamespace(name="n7", run=lambda command: None, sleep=None)
    checks.apply_brake(machine, {"drain": {"scheduler": "pbs"}}, outcome, draining=True)
    assert (outcome.braked, outcome.status) == (braked, 2 if braked else 1)
