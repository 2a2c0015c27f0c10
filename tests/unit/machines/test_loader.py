"""All machines of this repository, and references."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.machines import loader, yamlfile
from tenken.machines.cluster import queue_of
from tenken.machines.errors import SystemFileError, UnknownSystemError
from tenken.machines.model import FEATURES, Container, Fabric, Patience, System
from tenken.paths import PROGRAMS
from tests.unit.machines.conftest import GOOD

EXPECTED = {
    "alps", "h200", "isambard-ai", "jetson-tx2", "jetson-xavier", "jupiter", "miyabi", "miyabi-c", "pegasus", "v100",
}  # fmt: skip
WITHOUT_GPUS = {"miyabi-c"}
RETIRED = {"reedbush-h", "reedbush-l", "tsubame3"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def systems(folder: Path) -> dict[str, System]:
    return loader.load_all(src=PROGRAMS, cache_folder=folder)


def test_all_machines_are_there_and_right(systems: dict[str, System]) -> None:
    assert set(systems) >= EXPECTED | RETIRED
    assert all(systems[name].status == "retired" and systems[name].retired for name in RETIRED)
    assert "local" not in systems and "local" not in loader.names()
    for system in (one for one in systems.values() if one.status != "test"):
        for partition in system.partitions.values():
            has = system.name not in WITHOUT_GPUS
            assert (partition.node.gpu is not None) == has
            assert ("cuda" in partition.features) == has
            assert set(partition.environments) <= set(system.environments)


def test_a_reservation_has_its_effect_on_every_machine(systems: dict[str, System]) -> None:
    """Some name its queue, which counts instead of the usual one: of two, the last."""
    for system in systems.values():
        if (reservation := system.variables.get("TENKEN_RESERVATION")) is None:
            continue
        given = {**dict.fromkeys(system.variables, "x"), "TENKEN_QUEUE": "usual", "TENKEN_RESERVATION": "r7"}
        queue = "r7" if "instead of TENKEN_QUEUE" in reservation.meaning else "usual"
        for partition in system.expand(given).partitions.values():
            assert queue_of(partition.access, partition.scheduler) == queue, system.name
            assert any("r7" in option for option in (*partition.submit_options, *partition.access)), system.name


def test_the_schema_is_one_and_knows_the_features() -> None:
    from jsonschema import Draft202012Validator

    definitions = json.loads(loader.SCHEMA.read_text())["$defs"]
    assert tuple(definitions["environment"]["properties"]["features"]["items"]["enum"]) == FEATURES

    for file in (loader.SCHEMA, loader.hardware.SCHEMA):
        Draft202012Validator.check_schema(json.loads(file.read_text()))


KEYS = """\
    time_limit: 1:30:00
    submit_options: ["--exclusive"]
    remote: ${TENKEN_HOST}
    patience: {pending: "00:10:30", silence: "0:00:45"}
    modules: [m1, m2]
    prepare: [p]
    prerun: [q]
    env_vars: {A: b}
    fabric: {kind: infiniband, rails: 2, gbit_s: 400}
    max_jobs: 3
    local_storage: /scratch
    build: job
    containers: [{platform: Apptainer, modules: [a], image: /a.sif, options: [-e]}, {platform: Sarus}]
"""
NODE_KEYS = """\
      cores: 96
      count: 7
      threads_per_core: 2
      numa_nodes: 4
      memory_gib: 0.5
      memory_gbs: 300.5
      memory_gbs_source: half of the modules
"""
PARTITION: dict[str, tuple[object, object]] = {
    # as written above, and where the file has no such key
    "time_limit": ("1:30:00", "1:30:00"), "submit_options": (("--exclusive",), ()), "remote": ("${TENKEN_HOST}", None),
    "modules": (("m1", "m2"), ()), "prepare": (("p",), ()), "prerun": (("q",), ()), "env_vars": ({"A": "b"}, {}),
    "fabric": (Fabric("infiniband", 2, 400), None), "max_jobs": (3, None), "local_storage": ("/scratch", None),
    "build": ("job", "login"), "patience": (Patience(pending=630, silence=45), Patience()),
    "containers": ((Container("Apptainer", ("a",), "/a.sif", ("-e",)), Container("Sarus", (), None, ())), ()),
}  # fmt: skip
NODE: dict[str, tuple[object, object]] = {
    "cores": (96, 96), "count": (7, None), "threads_per_core": (2, None), "numa_nodes": (4, None),
    "memory_bytes": (2**29, None), "memory_gbs": (300.5, None), "memory_gbs_source": ("half of the modules", None),
    "sockets": (2, 2), "gpu_count": (4, 4), "gpu_counts": ((), ()), "gpu_count_found": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("written", [True, False])
def test_every_key_of_a_partition_is_read(written: bool, load: Callable[[str], System]) -> None:
    text = GOOD.replace("    time_limit: 1:30:00\n", KEYS).replace("      cores: 96\n", NODE_KEYS) if written else GOOD
    if written:
        text = text.replace("variables:\n", "variables:\n  TENKEN_HOST: {meaning: login node}\n")
    found = load(text).partition("gpu")
    for one, expected in ((found, PARTITION), (found.node, NODE)):
        for key, values in expected.items():
            assert getattr(one, key) == values[not written], key
    here = load(GOOD.replace("scheduler: slurm", "scheduler: local")).partition("gpu")
    assert here.max_jobs == 1, "without a scheduler, nothing else prevents two concurrent jobs"
    text = GOOD.replace("      gpus: {sheet: H100-SXM-80GB, count: 4, pair_links: all}\n", "")
    cpus = load(text.replace("    features: [cuda, mpi]\n    capabilities: [managed, peer]\n", ""))
    assert (cpus.partition("gpu").node.gpu_count, cpus.partition("gpu").node.gpu) == (0, None)


@pytest.mark.parametrize("links", [1, 18, "all", 0])
def test_links_of_a_pair_are_some_or_all_of_the_sheets(links: int | str, load: Callable[[str], System]) -> None:
    link = load(GOOD.replace("pair_links: all", f"pair_links: {links}")).partition("gpu").node.pair_links
    assert (link and link.count) == (18 if links == "all" else links or None)


def test_miyabi_asks_for_what_the_site_wants(systems: dict[str, System]) -> None:
    miyabi = systems["miyabi"].expand({"TENKEN_GROUP": "gz00"})
    gpu = miyabi.partition("gpu")
    assert gpu.access == ("-q regular-g", "-W group_list=gz00", "-j oe")
    assert gpu.gpu_request == ()
    assert "unset OMPI_MCA_mca_base_env_list" in gpu.prerun
    assert gpu.prepare == ("source /etc/profile.d/modules.sh", "module purge")
    assert gpu.node.gpu is not None and gpu.node.gpu.name == "GH200-96GB"


def test_all_schedulers_can_be_used(systems: dict[str, System]) -> None:
    assert all(partition.usable for system in systems.values() for partition in system.partitions.values())


@pytest.mark.parametrize(("metric", "value"), [("copy", 514.6), ("scale", 514.6), ("add", 537.2), ("triad", 536.9)])
def test_r1(metric: str, value: float, systems: dict[str, System]) -> None:
    found = loader.references(systems["reedbush-h"], "gpu", "stream", metric=metric, subject="gpu", environ="openacc")
    assert len(found) == 1
    r1 = found[0]
    # only section 3.3 of the publication names a driver, for R3 to R6
    assert (r1.value, r1.published, r1.statistic, r1.count, r1.driver) == (value, "R1", "best", 5, None)
    assert r1.bounds == (pytest.approx(value * 0.97), None)
    assert (r1.unit, r1.direction) == ("GB/s", "higher")
    assert not loader.references(systems["reedbush-h"], "gpu", "stream", metric=metric, environ="cuda")


def test_references_by_parameters(load: Callable[[str], System]) -> None:
    system = load(GOOD)
    right = {"array_bytes": 2**30, "repetitions": 100}
    assert len(loader.references(system, "gpu", "stream", parameters=right)) == 1
    assert not loader.references(system, "gpu", "stream", parameters={"array_bytes": 1})
    assert not loader.references(system, "gpu", "stream", parameters={})
    assert not loader.references(system, "cpu", "stream")
    assert not loader.references(system, "gpu", "stream", metric="copy")
    assert system.references[0].bounds == (pytest.approx(2850), pytest.approx(3300))
    assert system.references[0].date == "2026-01-31"


def test_ranges_have_bounds_at_both_ends(load: Callable[[str], System]) -> None:
    text = GOOD.replace("value: 3000", "range: [100, 200]")
    assert load(text).references[0].bounds == (pytest.approx(95), pytest.approx(220))


def test_walltimes_stay_text(load: Callable[[str], System]) -> None:
    assert load(GOOD).partition("gpu").time_limit == "1:30:00"


def test_an_unknown_system_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownSystemError, match=r"unknown system 'miyaby'; allowed: local, alps, h200, .*miyabi"):
        loader.load("miyaby")


def test_all_faulty_files_are_told(tmp_path: Path, src: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(GOOD.replace("title:", "titel:"))
    with pytest.raises(SystemFileError) as caught:
        loader.load_all(folder=tmp_path, src=src, cache_folder=None)
    assert {problem.file.split("/")[-1] for problem in caught.value.problems} == {"one.yaml", "two.yaml"}


def test_loading_again_reads_no_yaml(systems: dict[str, System], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlfile, "parse", lambda *_: pytest.fail("a file was parsed again"))
    assert loader.load_all(src=PROGRAMS, cache_folder=folder) == systems


@pytest.mark.parametrize(("scheduler", "written", "expected"), [
    ("local", "", 1), ("local", "max_jobs: 2\n    ", 2), ("slurm", "", None),
])  # fmt: skip
def test_without_a_scheduler_one_job_runs_at_a_time(
    load: Callable[[str], System], scheduler: str, written: str, expected: int | None
) -> None:
    text = GOOD.replace("scheduler: slurm", f"{written}scheduler: {scheduler}")
    assert {partition.max_jobs for partition in load(text).partitions.values()} == {expected}


def test_a_system_is_made_once_and_anew_when_its_file_or_a_sheet_changes(
    src: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "systems"
    folder.mkdir()
    (folder / "good.yaml").write_text(GOOD)

    made: list[str] = []
    make = loader._system
    monkeypatch.setattr(loader, "_system", lambda name, *rest: made.append(name) or make(name, *rest))

    def again() -> System:
        return loader.load("good", folder, src, tmp_path / "cache")

    first = again()
    assert again() == first and len(made) == 1
    (folder / "good.yaml").write_text(GOOD.replace(first.title, "Another"))
    assert again().title == again().title == "Another" and len(made) == 2
    sheets = loader.hardware.load()
    fewer = replace(sheets, hosts=dict(list(sheets.hosts.items())[:-1]))
    monkeypatch.setattr(loader.hardware, "load", lambda **_: fewer)
    again(), again()
    assert len(made) == 3
