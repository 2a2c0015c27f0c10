"""Machines that are not available here: description, limits, checks, build and verdicts, as decided beforehand in
machines.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tenken.machines import draft, limits, loader
from tenken.machines.model import Partition, System
from tenken.reframe.machine import Machine
from tenken.reframe.plan import make_plan
from tests.machine_fixtures import judge
from tests.machine_fixtures.machine import FixtureMachine, machines
from tests.support.reframe import all_checks

pytestmark = pytest.mark.xdist_group("described")  # one worker creates the files that this module shares

ALL = sorted(machines())


@pytest.fixture(scope="module")
def described(tmp_path_factory) -> Callable[[str], FixtureMachine]:
    """Machines by name, each built once."""
    built: dict[str, FixtureMachine] = {}

    def get(name: str) -> FixtureMachine:
        if name not in built:
            built[name] = FixtureMachine(name, machines()[name], tmp_path_factory.mktemp(name))
            built[name].build()
        return built[name]

    return get


@pytest.fixture(scope="module")
def checks() -> list[dict[str, Any]]:
    """All checks as ReFrame lists them."""
    return all_checks(None)


def test_the_set_is_large_enough():
    assert len(ALL) >= 25
    assert all({"expect", "fault", "cpu"} <= set(machine) for machine in machines().values())
    assert all(machine["expect"]["source"] for machine in machines().values())


@pytest.mark.parametrize("name", ALL)
def test_it_is_described_as_it_is(name, described):
    machine = described(name)
    node, cpu = machine.partition.node, machine.said["cpu"]
    assert (node.gpu.name if node.gpu else None) == machine.expect["sheet"]
    assert node.gpu_count == machine.count
    assert (node.sockets, node.cores, node.threads_per_core) == (
        cpu["sockets"],
        cpu["sockets"] * cpu["cores"],
        cpu["threads"],
    )
    assert machine.expect.get("note", "") in " | ".join(machine.system.notes)


@pytest.mark.parametrize("name", ALL)
def test_its_limits_are_those_of_the_vendor(name, described):
    machine = described(name)
    found = {
        "gpu": limits.memory(machine.partition, "gpu"),
        "host": limits.memory(machine.partition, "host"),
        "links": limits.pair_link(machine.partition),
        "link": limits.host_link(machine.partition),
    }
    values = {key: limit.value if isinstance(limit, limits.Limit) else None for key, limit in found.items()}
    wanted = {key: None if v is None else pytest.approx(v, rel=0.002) for key, v in machine.expect["limits"].items()}
    assert values == wanted, found
    for limit in found.values():
        assert not isinstance(limit, limits.Limit) or limit.basis.startswith(
            ("data sheet: ", "attribute: ", "driver: ")
        )


def named(spec: str, names: tuple[str, ...]) -> list[str]:
    """Checks of a name followed by values of its parameters."""
    base, *values = spec.split()
    return [n for n in names if n.split()[0] == base and all(f"={value} " in f"{n} " for value in values)]


def selected(system: System, partition: Partition, checks: list[dict[str, Any]]) -> tuple[str, ...]:
    one = System(system.name, "", "test", {partition.name: partition}, system.environments)
    return make_plan(one, checks, [], None).applicable


def hold(expected: Mapping[str, Any], applicable: tuple[str, ...], everything: tuple[str, ...]) -> None:
    for spec in (*expected["with"], *expected["without"]):
        assert named(spec, everything), f"no check is called {spec}"
    assert [spec for spec in expected["with"] if not named(spec, applicable)] == []
    assert [spec for spec in expected["without"] if named(spec, applicable)] == []


@pytest.mark.parametrize("name", ALL)
def test_checks_are_selected_by_what_it_can_do(name, described, checks):
    machine = described(name)
    everything = tuple(check["display_name"] for check in checks)
    hold(machine.expect, selected(machine.system, machine.partition, checks), everything)


@pytest.mark.parametrize("name", [name for name in ALL if "nvcc" in machines()[name]["tools"]])
def test_it_is_compiled_for_its_gpus(name, described):
    machine = described(name)
    options = Machine(machine.system, machine.partition, machine.system.environments["cuda"]).cmake_options()
    wanted = machine.expect["architecture"]
    assert [o for o in options if "ARCHITECTURES" in o] == [
        f"-DCMAKE_CUDA_ARCHITECTURES={wanted if ';' not in wanted else repr(wanted)}"
    ]


@pytest.mark.parametrize("name", ALL)
def test_an_honest_run_is_no_failure(name, described, tmp_path):
    machine = described(name)
    if machine.cards and len(machine.cards) < machine.count:
        machine = machine.mended(tmp_path)
    for run in judge.honest_runs(machine):
        verdict, said = judge.verdict_of(run, machine)
        assert verdict in ("PASS", "RECORDED"), (run.program, said)


@pytest.mark.parametrize("name", ALL)
def test_the_planted_fault_is_found_and_named(name, described):
    machine = described(name)
    verdict, said = judge.verdict_of(judge.broken_run(machine), machine)
    assert verdict == "FAIL", said
    assert machine.fault["says"] in said


def test_few_cores_are_held_to_their_share_of_the_memory(described):
    machine = described("turin")
    for cores, factor, expected in ((16, 0.2, "RECORDED"), (16, 0.02, "FAIL"), (250, 0.4, "FAIL"), (250, 1.0, "PASS")):
        verdict, said = judge.verdict_of(judge.few_cores(machine, cores, factor), machine)
        assert verdict == expected and ("it had 16 of 256 cores: no floor applies" in said) == (cores == 16), said


@pytest.mark.parametrize("name", [name for name in ALL if "written" in machines()[name]["expect"]])
def test_a_file_written_from_there_describes_the_compute_nodes(name, described, checks, tmp_path):
    machine = described(name)
    made = draft.draft("seen", "slurm", machine.system, machine.run, machine.which, {})
    draft.write(tmp_path / "seen.yaml", made.text)
    system = loader.load_file(tmp_path / "seen.yaml", cache_folder=None)
    everything = tuple(check["display_name"] for check in checks)
    assert set(system.partitions) == set(machine.expect["written"])
    for partition, wanted in machine.expect["written"].items():
        node = system.partition(partition).node
        assert (node.gpu.name if node.gpu else None, node.gpu_count, node.count) == (
            wanted["sheet"],
            wanted["count"],
            wanted["nodes"],
        )
        hold(wanted, selected(system, system.partition(partition), checks), everything)
