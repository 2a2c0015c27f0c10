"""Files that a site writes for itself: no rule of the shipped ones applies, and misleading entries are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.machines import cli, loader
from tenken.machines.model import FOR_HOST, System
from tests.reframe.config.test_first_contact import EIGHTEEN

CPUS = """\
title: CPUs alone
status: active
environments:
  intel: {features: [openmp], cc: icx, cxx: icpx}
partitions:
  work: {scheduler: slurm, launcher: srun, environments: [intel], node: {architecture: x86_64, sockets: 2, cores: 128}}
"""

BLACKWELL = """\
title: Blackwell
status: active
environments:
  cuda: {features: [cuda], cc: gcc, cxx: g++, cuda: nvcc}
partitions:
  gpu:
    scheduler: pbs
    launcher: mpirun
    environments: [cuda]
    features: [cuda]
    node: {architecture: aarch64, cores: 144, sockets: 2, gpus: {sheet: GB200-186GB, count: 4}}
"""

Load = Callable[[str], System]


@pytest.mark.parametrize("text", [CPUS, BLACKWELL, EIGHTEEN], ids=["cpus", "blackwell", "eighteen"])
def test_a_sites_file_needs_no_more_than_to_be_valid(text: str, load: Load) -> None:
    system = load(text)
    # whatever its environments are called, host checks have one in each partition
    for partition in system.partitions.values():
        assert any(FOR_HOST in system.abilities(name) for name in partition.environments)
    assert list(cli.describe(system, {}))


def test_eighteen_nodes_are_16_and_2(load: Load) -> None:
    system = load(EIGHTEEN)
    assert {name: one.node.count for name, one in system.partitions.items()} == {"gpu": 16, "cpu": 2}
    assert "nodes16" in system.partition("gpu").abilities and "nodes32" not in system.partition("gpu").abilities
    assert "nodes" in system.partition("cpu").abilities and "nodes4" not in system.partition("cpu").abilities


@pytest.mark.parametrize(("said", "jobs"), [("", 1), ("    max_jobs: 3\n", 3)], ids=["not said", "said"])
def test_without_a_scheduler_one_job_runs_at_a_time(said: str, jobs: int, load: Load) -> None:
    """Two would share the machine, and disturb each other."""
    local = CPUS.replace("scheduler: slurm, launcher: srun", "scheduler: local, launcher: local")
    if said:
        local = local.replace("environments: [intel], node", f"{said.strip()}, environments: [intel], node")
    assert load(local).partition("work").max_jobs == jobs
    assert load(CPUS).partition("work").max_jobs is None, "a scheduler keeps jobs apart by itself"


def test_an_image_of_the_suite_is_a_path_and_of_a_platform_that_keeps_the_user(load: Load, tmp_path: Path) -> None:
    text = CPUS.replace(
        "environments: [intel]", "environments: [intel], containers: [{platform: PLATFORM, image: /a/b.sif}]"
    )
    container = load(text.replace("PLATFORM", "Apptainer")).partition("work").image
    assert container is not None and container.image == "/a/b.sif"
    with pytest.raises(
        loader.SystemFileError, match="'image' of partition 'work' requires Apptainer, Singularity or D"
    ):
        load(text.replace("PLATFORM", "Sarus"))
    for platform, given, said in (
        ("Apptainer", "b.sif", "with 'platform: Apptainer' must be the whole path of a file or folder"),
        ("Docker", "/a/b.sif", "with 'platform: Docker' must be a name such as 'localhost/tenken'"),
    ):
        with pytest.raises(loader.SystemFileError, match=said):
            load(text.replace("PLATFORM", platform).replace("/a/b.sif", given))
    docker = text.replace("PLATFORM, image: /a/b.sif", "Docker, image: tenken, options: ['--user=${TENKEN_USER}']")
    docker = docker.replace("environments:\n", "variables: {TENKEN_USER: {meaning: who}}\nenvironments:\n", 1)
    (named,) = load(docker).expand({"TENKEN_USER": "7"}).partition("work").containers
    assert (named.image, named.options) == ("tenken", ("--user=7",))
    assert load(CPUS).partition("work").image is None
    user = text.replace("PLATFORM", "Apptainer").replace("/a/b.sif", '"${TENKEN_IMAGE}"')
    user = user.replace("environments:\n", "variables: {TENKEN_IMAGE: {meaning: image}}\nenvironments:\n", 1)
    found = load(user).expand({"TENKEN_IMAGE": "/c.sif"}).partition("work").image
    assert found is not None and found.image == "/c.sif"
    assert load(user).expand({}).partition("work").image is None, "unset and optional: programs are compiled"
