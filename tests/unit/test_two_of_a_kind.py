"""Where a function chooses one of several values, or treats kinds in different ways, it is called with ones that
differ: the first and the last, the smallest and the largest, with and without."""

from __future__ import annotations

import ctypes
import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken import counters
from tenken.campaign import configuration, tournament
from tenken.counters import Change
from tenken.errors import RecordError
from tenken.judge import verdict
from tenken.machines import draft, facts, kinds, limits, loader, local, nvml
from tenken.machines.cluster import Queue
from tenken.machines.model import Partition
from tenken.model import record, values
from tenken.model.judgement import DATA_SHEET, DEVICE
from tenken.model.subject import Subject
from tenken.parsers import osu
from tenken.report import formatting
from tests.unit.parsers.test_outputs import LATENCY


def partition() -> Partition:
    return next(iter(loader.load("h200").partitions.values()))


def test_the_slowest_of_the_memory_modules_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    looker: Any = SimpleNamespace(bytes=lambda name: b"", memory_bytes_of_machine=lambda: 3 << 20)
    for fitted, found in (
        ([(1, 4800), (2, 4400)], (2, 4400)), ([(1, 4400), (2, 4800)], (2, 4400)), ([(1, None), (2, 4800)], (2, 4800)),
        ([(3, None)], (1, None)), ([(2, 4800)], None),
    ):  # fmt: skip
        monkeypatch.setattr(local, "_of_smbios", lambda table, fitted=fitted: fitted)
        modules = local.Looker.modules(looker)
        assert (modules and (modules[0], modules[2])) == found


def test_targets_of_two_kinds_of_gpu_are_in_order() -> None:
    node = partition().node
    two = replace(node, compute_capabilities=("9.0", "8.0"))
    assert (two.cuda_architectures, node.cuda_architectures) == ("80;90", "90")


def test_last_level_caches_of_all_sockets_count() -> None:
    host: Any = SimpleNamespace(last_level_cache_bytes=7)
    node = replace(partition().node, host=host)
    assert [replace(node, sockets=n).last_level_cache_bytes for n in (2, 1, None)] == [14, 7, None]
    assert replace(node, host=None, sockets=2).last_level_cache_bytes is None


def test_a_precision_without_a_figure_has_no_limit() -> None:
    gpu = partition().node.gpu
    assert gpu is not None
    some = replace(gpu, tflops={"fp16": 989.0, "fp8": None}, fp64_tflops=34.0, fp64_tensor_tflops=None)
    found = {key: one.value for key, one in limits.rates(some).items()}
    assert found == {"rate fp16": 989.0, "rate fp64": 34.0, "rate fp64_tensor": 34.0}
    assert limits.rates(replace(some, fp64_tensor_tflops=67.0))["rate fp64_tensor"].value == 67.0


def test_links_of_pairs_count_before_those_of_any_generation() -> None:
    part = partition()
    any_generation = ("gpu_link", "NVLink")
    assert part.node.pair_links is not None and any_generation not in facts.attained(part)
    bare = replace(part, node=replace(part.node, pair_links=None))
    assert any_generation in facts.attained(bare) and ("gpu_link", "pair") not in facts.attained(bare)


def test_a_limit_is_of_the_data_sheet_or_of_the_driver() -> None:
    """Also without a prefix it is that of a data sheet; what the driver reports is never called one."""
    system = loader.load("h200")
    part, environment = partition(), next(iter(system.environments.values()))
    assert facts.facts(system, part, environment).limits["memory", "gpu"].said_by == DATA_SHEET
    assert part.node.gpu is not None
    told = replace(part, node=replace(part.node, gpu=replace(part.node.gpu, described=True)))
    for key, one in facts.facts(system, told, environment).limits.items():
        assert one.said_by == (DEVICE if one.basis.startswith("driver: ") else DATA_SHEET), key


def test_a_figure_without_parameters_is_found_by_its_name(tmp_path) -> None:
    name = "stream.triad"
    (tmp_path / "kinds.yaml").write_text(json.dumps({"kinds": {"G": [
        {"site": site, "date": "2026-01-01", "figures": {name: {"unit": "GB/s", "machines": [[number]]}}}
        for site, number in (("a", 1.0), ("b", 2.0))
    ]}}))  # fmt: skip
    found = kinds.load(tmp_path / "kinds.yaml", None)
    assert [(key, one.machines, one.sites) for key, one in found.items()] == [(("G", name), ((1.0,), (2.0,)), 2)]
    assert kinds.load(tmp_path / "none.yaml", None) == {}


def test_sockets_are_written_with_the_threads_or_neither(tmp_path) -> None:
    here = local.describe(tmp_path, lambda command: None, lambda name: None, {}, "x86_64")
    for sockets, found in ((2, ["sockets", "cores", "threads_per_core"]), (None, ["cores"])):
        made = draft.Draft("")
        queue = Queue("q", 3, sockets=sockets, cores=64, threads_per_core=2, instances=7 if sockets else 0)
        lines = draft._partition(queue, "slurm", ["host"], False, here, set(), made, lambda command: None)
        keys = [line.split(":")[0].strip() for line in lines]
        assert [key for key in ("sockets", "cores", "threads_per_core") if key in keys] == found
        assert any("7 MIG instances" in line for line in made.unseen) is bool(sockets)


@pytest.mark.parametrize(("environment", "system"), [
    ({"LMOD_CMD": "x", "MODULESHOME": "y"}, "lmod"), ({"MODULESHOME": "y", "MODULES_CMD": "z"}, "tmod4"),
    ({"MODULESHOME": "y"}, "envmod"), ({"MODULES_CMD": "z"}, "nomod"),
])  # fmt: skip
def test_each_system_of_modules_is_known(environment: dict[str, str], system: str) -> None:
    assert draft._modules_system(environment) == system


def test_modules_of_compilers_and_mpi_are_offered_and_no_others() -> None:
    made = draft.Draft("")
    listed = "/opt/modules:\ngcc/13.2\nR/4.4\n  cuda/12.6\nopenmpi/5.0.8\npython/3.12\n"
    assert draft._modules(lambda command: listed, made) == ["# modules here: gcc/13.2, cuda/12.6, openmpi/5.0.8"]
    assert made.seen == ["3 modules of compilers, CUDA and MPI"]
    assert draft._modules(lambda command: "R/4.4\n", made) == [] and made.unseen


class Library:
    """NVML with these GPUs: maximum of the memory clock and width of the bus; None: not supported."""

    def __init__(self, *gpus: tuple[int | None, int | None]) -> None:
        self.gpus, self.shut = gpus, 0

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        self.shut += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        handle._obj.value = 1 + getattr(index, "value", index)
        return 0

    def _tell(self, handle: Any, what: int, target: Any) -> int:
        known = self.gpus[handle.value - 1][what]
        target._obj.value = known or 0
        return 3 if known is None else 0

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int, clock: Any) -> int:
        assert kind == 2, "memory"
        return self._tell(handle, 0, clock)

    def nvmlDeviceGetMemoryBusWidth(self, handle: Any, bits: Any) -> int:
        return self._tell(handle, 1, bits)


def test_the_memory_of_each_gpu_by_its_clock_and_width(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library((3201, 6144), (None, 6144), (2619, None), (1215, 5120))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    # 3201 MHz, two transfers a clock, 768 bytes: 4917 GB/s, as NVIDIA states for its H200 (4.9 TB/s)
    assert [one.gbs for one in nvml.memory_buses()] == pytest.approx([4916.736, 1555.2]) and library.shut == 1
    for broken in ("nvmlInit_v2", "nvmlDeviceGetCount_v2"):
        monkeypatch.setattr(library, broken, lambda *of: 999)
        assert nvml.memory_buses() == []


def test_osu_states_nodes_where_there_are_several() -> None:
    output = osu.parse("osu_latency", LATENCY)
    for nodes, found in ((["a", "b"], 2), (["a", "a"], None), (["a"], None)):
        assert osu.document([output], "a", 2, nodes, "host")["parameters"].get("nodes") == found


def test_the_largest_size_of_several_outputs_is_one_that_each_of_them_has() -> None:
    whole = osu.parse("osu_latency", LATENCY)
    short = replace(whole, benchmark="osu_bw", points=whole.points[:-1])
    for outputs in ([whole, short], [short, whole]):
        found = osu.document(outputs, "a", 2, ["a"], "host")["parameters"]["max_bytes"]
        assert found == short.points[-1].bytes < whole.points[-1].bytes


def test_a_mean_of_samples_that_were_pruned_is_the_value_that_was_kept() -> None:
    one = values.MetricValue(
        "x", "x", Subject.of({"host": 0}), {}, "s", "lower", "mean", 3.0, 1.0, 2.0, 1.5, 2.5, 3, (1.0, 2.0, 6.0),
    )  # fmt: skip
    assert (one.statistic_named("mean"), replace(one, samples=()).statistic_named("mean")) == (3.0, 3.0)
    assert math.isnan(replace(one, samples=(), statistic="median").statistic_named("mean"))
    assert [one.statistic_named(name) for name in ("best", "median", "p5", "p95")] == [1.0, 2.0, 1.5, 2.5]


def test_optics_that_cannot_be_read_are_one_note_with_their_ports() -> None:
    ports = [
        Change("n1", f"mlx5_{at}/1", "infiniband", 400.0, 1.0, {}, {}, {}, {"why": "no_module"}) for at in range(4)
    ]
    other = Change("n2", "mlx5_0/1", "infiniband", 400.0, 1.0, {}, {}, {}, {"why": "old_driver"})
    clean = Change("n3", "mlx5_0/1", "infiniband", 400.0, 1.0, {}, {}, {}, {})
    notes = [(one.kind, one.message) for one in verdict.of_ports([*ports, other, clean])]
    assert notes == [
        ("note", "ports: optics and corrected errors of n1 mlx5_0/1, n1 mlx5_1/1 and 2 more: not known: no module"),
        ("note", "ports: optics and corrected errors of n2 mlx5_0/1: not known: old driver"),
    ]


def test_a_fabric_has_all_its_ports_at_their_rate() -> None:
    def port(node: str, name: str, rate: float | None = 400.0, kind: str = "infiniband") -> Change:
        return Change(node, name, kind, rate, 1.0, {}, {})

    whole = [port("a", "mlx5_0/1"), port("a", "mlx5_1/1"), port("a", "eth0", 25.0, "ethernet")]
    assert counters.below(whole, "infiniband", 2, 400.0) == []
    assert counters.below([*whole, port("a", "mlx5_1/1")], "infiniband", 3, None) == [
        "a: 2 ports are up (mlx5_0/1, mlx5_1/1), the system file states 3"
    ]
    slow = [port("a", "mlx5_0/1", 200.0), port("a", "mlx5_0/1", 200.0), port("b", "mlx5_0/1", None)]
    assert counters.below(slow, "infiniband", None, 400.0) == [
        "a: port mlx5_0/1: 200 Gbit/s, the system file states 400"
    ]


def test_slow_pairs_that_share_no_node_are_measured_together_again() -> None:
    leaf_of = {"a": "x", "b": "x", "c": "x", "d": "x", "e": "y", "f": "y"}
    step = [("a", "b")]
    assert tournament._fits(("c", "d"), step, leaf_of, None) and not tournament._fits(("b", "c"), step, leaf_of, None)
    # across leaves: at most so many pairs of a leaf at a time
    assert not tournament._fits(("c", "f"), [("a", "e")], leaf_of, 1)
    assert tournament._fits(("c", "f"), [("a", "e")], leaf_of, 2)


@pytest.mark.parametrize(("text", "says"), [("", "empty"), ("{", "truncated or not JSON"), ("[1]", "misshapen: top")])
def test_what_is_wrong_with_a_record_is_said_of_the_file_or_of_its_place(text: str, says: str) -> None:
    with pytest.raises(RecordError) as caught:
        record.parse(text)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (200, "3 min 20 s"), (3599.4, "59 min 59 s"),
    (3600, "1 h 00 min"), (7500, "2 h 05 min"), (-1, "–"), (None, "–"), (math.nan, "–"),
])  # fmt: skip
def test_a_duration_has_the_unit_that_fits(seconds: Any, text: str) -> None:
    assert formatting.duration(seconds).replace("\u202f", " ") == text


def test_the_kinds_of_a_fleet_begin_with_the_most_frequent() -> None:
    said = configuration.Mixed("driver", {"a": 1, "b": 3, "c": 2, "d": 9, "e": 4, "f": 5, "g": 6}).sentence()
    assert said == "driver differs within the fleet: 9 x d, 6 x g, 5 x f, 4 x e, 3 x b, 2 x c"
