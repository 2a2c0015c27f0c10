"""Answers of schedulers about their nodes, and the consequences for the checks between nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tenken.machines import cluster
from tenken.machines.model import GPUS, HOST_MPI, NODES, ONE_OPENACC, Environment, Node, Partition, System
from tenken.reframe.plan import make_plan
from tests.unit.machines.conftest import GOOD

SINFO = """\
gpu|12|2|56|2|1031000|gpu:h100:4(S:0-1)|1-00:00:00|up|idle
gpu|2|2|56|2|1031000|gpu:h100:4(S:0-1)|1-00:00:00|up|drained
gpu|2|2|32|1|515000|gpu:a100:8|1-00:00:00|up|idle
cpu|40|2|64|2|515000|(null)|infinite|up|alloc
old|0|1|8|1|1000|(null)|30:00|down|n/a
broken line
"""
PBS_NODES = {
    "n1": {"resources_available": {"ncpus": 72, "ngpus": 1, "mem": "230gb", "Qlist": "short-g,debug-g"}},
    "n2": {"resources_available": {"ncpus": 72, "ngpus": 1, "mem": "230gb", "Qlist": "short-g"}},
    "c1": {"queue": "cpu", "resources_available": {"ncpus": 112, "mem": "130023424kb"}},
}
PBS_QUEUES = {
    "short-g": {"queue_type": "Execution", "enabled": "True", "resources_max": {"walltime": "08:00:00"}},
    "debug-g": {"queue_type": "Execution", "started": "False"},
    "cpu": {"queue_type": "Execution"},
    "regular": {"queue_type": "Route"},
}


def answers(**said: str) -> Callable[[Sequence[str]], str | None]:
    return lambda command: said.get(command[0])


def partition(scheduler: str = "slurm", access: tuple[str, ...] = (), **node: Any) -> Partition:
    return Partition("gpu", "", scheduler, None, "srun", ("host",), Node(architecture="x86_64", **node), access=access)


def test_slurm_partitions_by_kind_of_node():
    found = cluster.slurm_queues(answers(sinfo=SINFO))
    assert [(q.name, q.nodes, q.cores, q.threads_per_core, q.gpus, q.gpu_kind, q.time_limit) for q in found] == [
        ("gpu", 14, 112, 2, 4, "h100", "24:00:00"),
        ("gpu", 2, 64, 1, 8, "a100", "24:00:00"),
        ("cpu", 40, 128, 2, 0, None, None),
    ]


@pytest.mark.parametrize(
    ("gres", "kind", "count"),
    [
        ("(null)", None, 0),
        ("gpu:4", None, 4),
        ("gpu:h100:4(S:0-1),nvme:1", "h100", 4),
        ("gpu:a100:2,gpu:v100:2", None, 4),
        ("nvme:1,gpu:l40s:8(S:0)", "l40s", 8),
        ("mps:400", None, 0),
    ],
)
def test_gres(gres, kind, count):
    assert cluster.slurm_gpus(gres) == (kind, count)


def test_pbs_queues_by_kind_of_node():
    run = answers(pbsnodes=json.dumps({"nodes": PBS_NODES}), qstat=json.dumps({"Queue": PBS_QUEUES}))
    found = {q.name: q for q in cluster.pbs_queues(run)}
    assert {n: (q.nodes, q.cores, q.gpus, q.gpu_option, q.usable) for n, q in found.items()} == {
        "short-g": (2, 72, 1, "ngpus", True),
        "debug-g": (1, 72, 1, "ngpus", False),
        "cpu": (1, 112, 0, None, True),
    }
    assert found["short-g"].time_limit == "08:00:00" and found["cpu"].memory_mib == 126976


def test_pbs_queues_that_are_reached_by_a_route_and_have_labels_of_their_own():
    chunk = {"queue_type": "Execution", "from_route_only": "True"}
    queues = {
        "main": {"queue_type": "Route", "route_destinations": "cpu,gpu@head", "resources_max": {"walltime": "9:00:00"}},
        "cpu": {**chunk, "default_chunk": {"Qlist": "cpu"}}, "gpu": {**chunk, "default_chunk": {"Qlist": "a100"}},
        "test": {"queue_type": "Execution", "default_chunk": {"Qlist": "test_vn"}},
        "all": {"queue_type": "Route", "route_destinations": "test"},
    }  # fmt: skip
    has = {"g1": ("a100,system", 64, 4), "c1": ("cpu,system", 128, 0), "t1": ("test_vn", 8, 0), "x1": ("other", 8, 0)}
    nodes = {n: {"resources_available": {"ncpus": c, "ngpus": g, "Qlist": label}} for n, (label, c, g) in has.items()}
    found = cluster.pbs_queues(answers(pbsnodes=json.dumps({"nodes": nodes}), qstat=json.dumps({"Queue": queues})))
    assert [(q.name, q.nodes, q.cores, q.gpus, q.time_limit) for q in found] == [
        ("main", 1, 64, 4, "9:00:00"), ("main", 1, 128, 0, "9:00:00"), ("test", 1, 8, 0, None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"nodes": 3}', '{"nodes": {}, "Queue": []}'])
def test_odd_answers_are_no_answers(text):
    assert cluster.pbs_queues(answers(pbsnodes=text, qstat=text)) == []
    assert cluster.slurm_queues(answers(sinfo=text)) == []


@pytest.mark.parametrize(
    ("options", "scheduler", "queue"),
    [
        (("--partition=gpu", "--account=x"), "slurm", "gpu"),
        (("-p a", "-p b"), "slurm", "b"),
        (("-q short-g", "-W group_list=gz00"), "pbs", "short-g"),
        (("-q main@head.site",), "pbs", "main"),
        (("-q @head.site",), "pbs", None),
        (("--account=x",), "slurm", None),
    ],
)
def test_the_queue_that_options_name(options, scheduler, queue):
    assert cluster.queue_of(options, scheduler) == queue


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (partition(access=("--partition=gpu",), gpu_count=4), 14),
        (partition(access=("--partition=gpu",), gpu_count=8), 2),
        (partition(access=("--partition=cpu",)), 40),
        (partition(), 40),
        (partition(access=("--partition=nosuch",)), None),
        (partition("gridengine"), None),
        (partition("local"), None),
    ],
)
def test_the_number_of_nodes_is_asked(one, count):
    assert cluster.node_count(one, answers(sinfo=SINFO), lambda name: f"/usr/bin/{name}") == count


def test_without_the_command_nothing_is_asked():
    def never(command: Sequence[str]) -> str | None:
        raise AssertionError(command)

    assert cluster.node_count(partition(), never, lambda name: None) is None


BETWEEN = {
    "display_name": "Between",
    "descr": "",
    "valid_systems": ["+cuda +mpi +nodes"],
    "valid_prog_environs": ["+cuda +mpi"],
}


def test_checks_between_nodes_say_that_the_count_is_not_known(load):
    system = load(GOOD)
    (left_out,) = make_plan(system, [BETWEEN], [], None).not_applicable
    assert left_out.lacks == ("2 nodes: node count unknown; set `count:` of partition 'gpu'",)
    told = cluster.with_node_counts(system, answers(sinfo=SINFO.replace("gpu|", "short|")), lambda name: name)
    assert told.partition("gpu").node.count == 14 and NODES in told.partition("gpu").abilities
    assert make_plan(told, [BETWEEN], [], None).applicable == ("Between",)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("default: short", "default: gpu", 14), ("default: short", "default: nosuch", None),
        ("architecture: x86_64", "architecture: x86_64\n      count: 3", 3),
        ("default: short", "default: cpu", None),  # its nodes have no GPUs, and the file asks for four
        ("scheduler: slurm", "scheduler: slurm\n    scheduler_status: comes later", None),
    ],
)  # fmt: skip
def test_a_count_that_the_file_omits_is_the_schedulers(old, new, count, load):
    text = GOOD.replace("default: short", "default: gpu") if old != "default: short" else GOOD
    told = cluster.with_node_counts(load(text.replace(old, new)), answers(sinfo=SINFO), lambda name: name)
    assert told.partition("gpu").node.count == count


def test_nodes_without_gpus_are_counted_for_a_partition_without(load):
    text = GOOD.replace("default: short", "default: cpu").replace("count: 4", "count: found")
    told = cluster.with_node_counts(load(text), answers(sinfo=SINFO), lambda name: name)
    assert told.partition("gpu").node.count == 40


def test_vnodes_are_of_the_host_that_they_name_or_that_their_name_has():
    here = {"resources_available": {"host": "h"}}
    vnodes = {"a": here, "b": here, "uv[0]": {}, "uv[1]": {}, "c": {"resources_available": {}}}
    assert {host: [*parts] for host, parts in cluster.pbs_hosts(vnodes).items()} == {
        "h": ["a", "b"], "uv": ["uv[0]", "uv[1]"], "c": ["c"],
    }  # fmt: skip


def test_one_node_is_none_between(load):
    system = load(GOOD.replace("architecture: x86_64", "architecture: x86_64\n      count: 1"))
    assert make_plan(system, [BETWEEN], [], None).not_applicable[0].lacks == ("2 nodes",)


@pytest.mark.parametrize(("count", "able"), [(0, set()), (1, set()), (2, {2}), (3, {2}), (4, {2, 4}), (8, {2, 4, 8})])
def test_a_check_can_ask_for_gpus(count, able):
    one = replace(partition(gpu_count=count), features=frozenset({"cuda"}))
    assert one.abilities & set(GPUS.values()) == {GPUS[n] for n in able}


def test_gpus_that_are_counted_elsewhere_are_as_many_as_the_file_allows():
    one = replace(partition(gpu_count=None, gpu_counts=(1, 2, 4)), features=frozenset({"cuda"}))
    assert one.abilities & set(GPUS.values()) == {"gpus2", "gpus4"}


def test_what_lacks_gpus_says_how_many(load):
    check = {**BETWEEN, "valid_systems": ["+cuda +gpus8"]}
    (left_out,) = make_plan(load(GOOD), [check], [], None).not_applicable
    assert left_out.lacks == ("8 GPUs per node",)


def environment(name: str, cxx: str, *features: str) -> Environment:
    return Environment(name, frozenset(features), "cc", cxx)


@pytest.mark.parametrize(
    ("environments", "partitions", "of_mpi", "openacc"),
    [
        # this machine with a GPU: host, cuda and nvhpc all build MPI programs
        (
            [environment("host", "g++", "mpi", "openacc"), environment("cuda", "g++", "mpi", "cuda"),
             environment("nvhpc", "nvc++", "mpi", "openacc")],
            [["host", "cuda", "nvhpc"]], {"host"}, {"nvhpc"},
        ),
        # a site whose compilers without a GPU have no MPI
        (
            [environment("cuda", "g++", "mpi"), environment("nvhpc", "nvc++", "mpi"), environment("host", "g++")],
            [["cuda", "nvhpc", "host"]], {"cuda"}, set(),
        ),
        # a partition that has only one of them decides for both
        (
            [environment("host", "g++", "mpi"), environment("cuda", "g++", "mpi", "cuda")],
            [["host", "cuda"], ["cuda"]], {"cuda"}, set(),
        ),
    ],
)  # fmt: skip
def test_checks_that_any_environment_can_run_run_once(environments, partitions, of_mpi, openacc):
    made = {
        f"p{i}": replace(partition(), name=f"p{i}", environments=tuple(names)) for i, names in enumerate(partitions)
    }
    system = System("s", "s", "test", made, {one.name: one for one in environments})
    chosen = {name: system.abilities(name) & {HOST_MPI, ONE_OPENACC} for name in system.environments}
    assert {name for name, has in chosen.items() if HOST_MPI in has} == of_mpi
    assert {name for name, has in chosen.items() if ONE_OPENACC in has} == openacc
