"""Each way in which a result may belong to another attempt, at both ends of its bound: exactly these sentences."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import attempt, completeness
from tenken.model.contract import Choice, Contract, Counted, Points
from tenken.model.job import JobAccount

JOB = JobAccount(
    nodes=frozenset({"n1", "n2"}), node="n1", begin=1000.7, end=2000.2, uuids=frozenset({"GPU-b", "GPU-a"})
)


def result(**changes: Any) -> Any:
    placement = {"nodes": ("n1",), **{k: changes.pop(k) for k in ("nodes",) if k in changes}}
    started, finished = changes.pop("moments", (1000.0, 2000.0))
    return SimpleNamespace(
        **{
            "node": "n1", "started": "S", "finished": "F", "moments": (started, finished), "program": "p",
            "status": "ok", "token": "t", "reason": "", "command": ("p",), "version": "r",
            "placement": SimpleNamespace(**placement), **changes,
        }
    )  # fmt: skip


def request(**changes: Any) -> Any:
    return SimpleNamespace(
        **{"nodes": None, "token": "t", "arguments": (), "revision": "r", "parameters": {}, "foreign": False, **changes}
    )


@pytest.mark.parametrize(
    ("moments", "changes", "said"),
    [
        # the script's begin is cut to whole seconds; 5 s before and after, 60 s on another node
        ((995.0, 2005.2), {}, []), ((994.9, 2005.2), {}, ["started S, 6 s before the job began the command"]),
        ((995.0, 2005.3), {}, ["finished F, 5 s after the job ended the command"]),
        ((2006.0, 2007.0), {}, ["started S, 6 s after the job ended the command",
                                "finished F, 7 s after the job ended the command"]),
        ((990.0, 2010.0), {"node": "n1.site"}, ["started S, 11 s before", "finished F, 10 s after"]),
        ((990.0, 2010.0), {"node": ""}, ["started S, 11 s before", "finished F, 10 s after"]),
        ((940.0, 2060.2), {"node": "n2"}, []),
        ((939.9, 2060.3), {"node": "n2"}, ["started S, 61 s", "finished F, 60 s"]),
        ((900.0, 2900.0), {"begin": None, "end": None}, []), ((1500.0, 1500.0), {}, []),
        ((1500.0, 1499.9), {}, ["finished F is before started S"]),
        ((None, 1500.0), {}, ["started is 'S': not a valid time"]),
        ((1500.0, None), {}, ["finished is 'F': not a valid"]),
    ],
)  # fmt: skip
def test_times_of_a_result_are_within_those_of_its_job(
    moments: tuple[float | None, float | None], changes: dict[str, Any], said: list[str]
) -> None:
    found = list(attempt._times(result(moments=moments), replace(JOB, **changes)))
    assert len(found) == len(said) and all(one.startswith(start) for one, start in zip(found, said, strict=True)), found


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        ({}, {}, []), ({"node": "N2.site"}, {}, []), ({"node": "n3"}, {}, ["host.name is 'n3'; the job ran on n1, n2"]),
        ({"nodes": ("n1", "n3", "n2", "n4")}, {}, ["placement.nodes names 'n3'; the job ran on n1, n2",
                                                  "placement.nodes names 'n4'; the job ran on n1, n2"]),
        ({"nodes": ("n1", "n2")}, {"nodes": 1}, ["placement.nodes names 2 nodes; requested: 1"]),
        ({"nodes": ("n1", "n1")}, {"nodes": 1}, []), ({"nodes": ()}, {"nodes": 2}, []),
    ],
)  # fmt: skip
def test_nodes_of_a_result_are_those_of_its_job(changes: Any, asked: Any, said: list[str]) -> None:
    assert list(attempt._nodes(result(**changes), request(**asked), JOB)) == said
    other = [one for one in said if "requested" in one]
    assert list(attempt._nodes(result(**changes), request(**asked), None)) == other
    assert list(attempt._nodes(result(**changes), request(**asked), replace(JOB, nodes=frozenset()))) == other


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-g -O2", []), ("-O3", []), ("-Ofast", []), ("-O0 -O3", []), ("-O3 -O1", "optimise by -O1; expected"),
        ("-O", "optimise by -O;"), ("-Os", "optimise by -Os;"), ("-g", "optimise by nothing;"),
        ("-O2 -pg", "contain -pg:"), ("-O2 --coverage", "contain --coverage:"),
        ("-O2 -fprofile-arcs", "-fprofile-arcs:"),
        ("-O2 -fsanitize=address -pg", "contain -fsanitize=address, -pg:"), ("-O2 -mno-O1", []),
    ],
)  # fmt: skip
def test_a_build_that_does_not_measure_the_program(flags: str, said: Any) -> None:
    for kind, version, more in (
        ("Release", "r", 0), ("RelWithDebInfo", "r-dirty", 0), ("Debug", "r", 1), ("", "r", 1), ("Release", "q", 1),
    ):  # fmt: skip
        one = result(build=SimpleNamespace(type=kind, flags=flags), version=version)
        found = list(attempt._build(one, request()))
        assert len(found) == bool(said) + more and (not said or any(said in text for text in found)), found


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (("p", "--n", "8", "--json", "f", "--request", "g"), ("--n", "8"), ""),
        (("p", "--n", "9"), ("--n", "8"), "9 instead of 8"), (("p",), ("--n", "8"), "none instead of --n 8"),
        (("p", "--n", "8", "--x"), ("--n", "8"), "--x instead of "),
        (("p", "8", "--n"), ("--n", "8"), "none instead of "),
        (("p", "--n", "a b"), ("--n", "'a b'"), ""), (("p", "--n", "a b"), ("--n", '"a b"'), ""),
        (("p", "--n", "a", "b"), ("--n", "'a b'"), "a b instead of a b"),
    ],
)  # fmt: skip
def test_a_command_has_the_arguments_that_were_requested(command: Any, arguments: Any, said: str) -> None:
    found = list(attempt._command(result(command=command), request(arguments=arguments)))
    assert found == ([f"command has other arguments than requested: {said}"] if said else [])
    assert list(attempt._command(result(command=command), request(arguments=arguments, token=None))) == []


def card(number: int = 0, **changes: Any) -> Any:
    return SimpleNamespace(
        **{
            "index": number, "uuid": f"GPU-{'ab'[number]}", "pci_bus_id": f"0000:{number}A:00.0", "mig_enabled": False,
            "name": "X ", "compute_capability": "9.0", "memory_bytes": 100, "driver": "1", "vbios": "", "serial": None,
            "ecc_enabled": True, "persistence_mode": False, **changes,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({}, []), ({"index": 0}, ["GPU 0 is listed twice"]), ({"uuid": "GPU-a"}, ["two GPUs have the UUID GPU-a"]),
        ({"uuid": ""}, []), ({"pci_bus_id": "0000:0a:00.0"}, ["two GPUs have the PCI address 0000:0a:00.0"]),
        ({"pci_bus_id": ""}, []), ({"pci_bus_id": "0000:0A:00.0", "mig_enabled": True}, []),
    ],
)  # fmt: skip
def test_two_gpus_are_two(second: dict[str, Any], said: list[str]) -> None:
    devices = [card(0), card(1, **second)]
    assert attempt._distinct(result(devices=devices)) == said
    for name in ("uuid", "pci_bus_id"):  # unknown ones are not the same
        assert attempt._distinct(result(devices=[card(n, **{name: ""}) for n in (0, 1)])) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []), ({"name": "Y"}, ["GPU 0 has name 'Y'; the system file has GX"]),
        ({"name": "Xy"}, ["GPU 0 has name 'Xy'; the system file has GX"]),
        ({"compute_capability": "8.0"}, ["GPU 0 has compute_capability 8.0; GX has 9.0"]),
        ({"memory_bytes": 85}, []), ({"memory_bytes": 84}, ["GPU 0 has memory_bytes 84; GX has 100"]),
        ({"memory_bytes": 102}, []), ({"memory_bytes": 103}, ["GPU 0 has memory_bytes 103; GX has 100"]),
        ({"memory_bytes": 40, "mig_enabled": True}, []), ({"uuid": "MIG-x", "mig_enabled": True}, []),
        ({"uuid": "GPU-c"}, ["GPU 0 has uuid GPU-c; the job saw GPU-a, GPU-b"]),
        ({"uuid": ""}, ["GPU 0 has uuid none; the job saw GPU-a, GPU-b"]),
    ],
)  # fmt: skip
def test_a_gpu_is_that_of_the_system_file_and_of_the_job(change: dict[str, Any], said: list[str]) -> None:
    machine: Any = SimpleNamespace(gpu_names=("X", "Z.*"), gpu="GX", compute_capability="9.0", gpu_memory_bytes=100.0)
    assert list(attempt._devices(result(devices=[card(**change)]), machine, JOB)) == said
    nothing: Any = SimpleNamespace(gpu_names=(), gpu="GX", compute_capability="", gpu_memory_bytes=None)
    assert list(attempt._devices(result(devices=[card(**change)]), nothing, None)) == []


@pytest.mark.parametrize(
    ("said", "seen", "nvml", "wrong"),
    [
        ({}, {}, True, ""), ({"driver": "2"}, {}, True, "driver '2'"), ({"driver": "2"}, {"driver": ""}, True, ""),
        ({"driver": "2"}, {"driver": None}, True, ""), ({"driver": ""}, {}, True, "driver ''"),
        ({"driver": ""}, {}, False, ""), ({"driver": None}, {}, False, ""), ({"driver": "2"}, {}, False, "driver '2'"),
        ({"pci_bus_id": "00000000:0a:00.0"}, {}, True, ""), ({"pci_bus_id": "0001:0A:00.0"}, {}, True, "pci_bus_id"),
        ({"ecc_enabled": False}, {}, True, "ecc_enabled False"), ({"vbios": "v"}, {}, True, ""),
    ],
)  # fmt: skip
def test_a_gpu_is_what_nvidia_smi_reports(said: Any, seen: Any, nvml: bool, wrong: str) -> None:
    job: Any = SimpleNamespace(cards=[card(1), card(0, **seen)])
    found = list(attempt._against_reading(card(**said), job, nvml))
    assert len(found) == bool(wrong) and all(wrong in one for one in found), found
    assert list(attempt._against_reading(card(uuid="GPU-c", driver="2"), job, nvml)) == []


CONTRACT: Any = Contract(
    defaults={"mode": "a"}, defaults_if_stated={"depth": 1}, paths={"way": Choice(("x",), "claimed", "forced")}
)


@pytest.mark.parametrize(
    ("parameters", "arguments", "asked", "said"),
    [
        ({"mode": "a"}, (), {}, []), ({}, (), {}, ["parameter mode is missing; its default is 'a'"]),
        ({"mode": "b"}, (), {}, ["parameter mode is 'b'; it was not requested, and its default is 'a'"]),
        ({"mode": "b"}, ("--mode", "b"), {}, []), ({"mode": "b"}, (), {"parameters": {"mode": "b"}}, []),
        ({"mode": "a", "depth": 2}, (), {}, ["parameter depth is 2; it was not requested, and its default is 1"]),
        ({"mode": "b"}, (), {"token": None}, []), ({"mode": "b"}, (), {"foreign": True}, []),
        ({"mode": "b", "implementation": "other"}, (), {}, []),
        ({"mode": "a"}, ("--size", "8"), {}, ["parameter size is missing; requested: '8'"]),
        ({"mode": "a", "size": 9}, ("--size", "8"), {}, ["parameter size is 9; requested: '8'"]),
        ({"mode": "a", "size": 8}, ("--size", "8"), {}, []), ({"mode": "a", "fast": True}, ("--fast",), {}, []),
    ],
)  # fmt: skip
def test_parameters_are_those_that_were_requested(parameters: Any, arguments: Any, asked: Any, said: list[str]) -> None:
    one = result(parameters=parameters, by_others="implementation" in parameters)
    program: Any = SimpleNamespace(contract=CONTRACT)
    assert list(completeness.arguments(one, program, request(arguments=arguments, **asked))) == said


@pytest.mark.parametrize(
    ("path", "arguments", "capabilities", "wrong"),
    [
        ({"way": "x"}, (), {"claimed"}, False), ({"way": "y"}, (), {"claimed"}, True), ({"way": "y"}, (), set(), False),
        ({"way": "y"}, ("--forced", "1"), {"claimed"}, False), ({"way": "y"}, ("--other",), {"claimed"}, True),
        ({"way": None}, (), {"claimed"}, False), ({"way.gpu0": "y"}, (), {"claimed"}, True),
        ({"ways": "y"}, (), {"claimed"}, False),
    ],
)  # fmt: skip
def test_a_choice_is_allowed_unless_it_is_not_claimed_or_forced(
    path: Any, arguments: Any, capabilities: Any, wrong: bool
) -> None:
    one = result(path=path, parameters={}, metrics=())
    program: Any = SimpleNamespace(contract=CONTRACT)
    machine: Any = SimpleNamespace(capabilities=capabilities)
    found = list(completeness.choices(one, program, request(arguments=arguments), machine))
    assert [f.message for f in found] == (
        [f"n1: path {next(iter(path))} is 'y'; allowed: x; the system file claims 'claimed'"] if wrong else []
    )


@pytest.mark.parametrize(
    ("trials", "single"), [(None, True), (1, True), (2, False)], ids=["not stated", "one", "several"]
)
def test_what_was_counted_once_is_no_coordinate(trials: int | None, single: bool) -> None:
    entry = Points(("m",), {"trial": Counted("trials"), "size": Counted("sizes")})
    one = result(parameters={"sizes": 3, **({} if trials is None else {"trials": trials})})
    assert set(completeness._of_run(one, Contract(), entry).at) == ({"size"} if single else {"size", "trial"})


@pytest.mark.parametrize(
    ("samples", "sign", "maximum", "said"),
    [
        ((1.0, 2.0), "positive", None, ""), ((0.0, 2.0), "positive", None, "contains 0 u; it must be above 0"),
        ((0.0, 2.0), "zero", None, ""), ((-1.0, 2.0), "zero", None, "contains -1 u; it must be 0 or above"),
        ((-1.0, 2.0), "any", None, ""), ((1.0, 5.0), "positive", 5.0, ""),
        ((1.0, 5.1), "any", 5.0, "is 5.1; maximum: 5"),
        ((float("nan"), float("inf")), "any", None, "contains nan, which is not finite"),
        ((1.0, float("inf")), "any", None, "contains inf, which is not finite"),
    ],
)  # fmt: skip
def test_the_values_of_a_metric(samples: tuple[float, ...], sign: str, maximum: float | None, said: str) -> None:
    one: Any = SimpleNamespace(
        name="m", id="m.gpu0", place="GPU 0", kind="gpu", unit="u", direction="higher", statistic="median",
        value=1.0, best=1.0, median=1.0, p5=1.0, p95=1.0, samples=samples,
    )  # fmt: skip
    declared = SimpleNamespace(
        unit="u", direction="higher", statistic="median", per=("gpu",), sign=sign, maximum=maximum
    )
    program: Any = SimpleNamespace(name="p", metrics={"m": declared})
    found = completeness._metric_structure(one, program)
    assert len(found) == bool(said) and all(one.endswith(said) for one in found), found
