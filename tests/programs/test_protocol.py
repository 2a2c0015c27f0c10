"""The order in which each program measures: warm-up, new data, timed part, verification (tests/support/recorder.py).

`protocols/NAME.txt` has the steps of a run, as recorded. Another order changes what a figure means: with
TENKEN_WRITE_PROTOCOLS=1 these tests rewrite the files, and the difference must be reviewed. Rules that hold for any
program are checked for each run as well.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tenken.model import catalogue
from tenken.paths import PROGRAMS, ROOT
from tests.programs import protocol
from tests.programs.conftest import Outcome
from tests.programs.protocol import ONE, Case
from tests.programs.test_cuda import built
from tests.programs.test_energy import RUNS
from tests.programs.test_file_io import hdf5_library
from tests.programs.test_hpl import blas as blas  # a fixture
from tests.programs.test_hpl_mxp import sensors
from tests.programs.test_oracles_gpu import double as double  # fixtures
from tests.programs.test_oracles_gpu import programs as programs
from tests.support.recorder import (
    AMOUNTS,
    BACKWARDS,
    CALLS,
    COLD,
    DIFFER,
    LOST,
    ON_ANOTHER,
    UNSEEN,
    UNVERIFIED,
    Process,
    Trace,
    names_of,
    processes,
    short,
)
from toolchains import cuda_home

pytestmark = pytest.mark.build

#: Programs in other languages, and where their order is tested.
ELSEWHERE = {
    "mpi_p2p": "MPI: tests/programs/test_oracles_mpi.py",
    "training": "PyTorch measures: tests/programs/test_training.py",
}


def test_every_program_has_a_protocol() -> None:
    """A new program needs a protocol."""
    programs = {folder.name for folder in PROGRAMS.iterdir() if folder.is_dir()}
    missing = programs - {case.program for case in protocol.every().values()} - set(ELSEWHERE)
    assert not missing, f"no case in tests/programs/protocol.py: {sorted(missing)}"
    assert {file.stem for file in protocol.FOLDER.glob("*.txt")} == set(protocol.every())


#: Programs with a back end cuda that are recorded on the host alone.
NOT_ON_GPU = {
    "hpcg": "kernels build its matrix, and those of the double do nothing",
    "mpi_p2p": "of several ranks, whose copies are MPI's",
}


def test_every_program_with_gpus_is_recorded_there() -> None:
    programs = {
        folder.name
        for folder in PROGRAMS.iterdir()
        if any(
            re.search(r"TENKEN_HAVE_CUDA|lib/cuda/|on_each_space", file.read_text()) for file in folder.glob("*.[ch]*")
        )
    }
    assert programs == {case.program for case in protocol.GPU.values()} | set(NOT_ON_GPU)


def held(name: str, trace: Trace, more: Sequence[str] = ()) -> None:
    """The trace equals the stored protocol, and breaks only the rules that its case names."""
    case, file = protocol.every()[name], protocol.FOLDER / f"{name}.txt"
    found = [*protocol.lines(case, trace), *more]
    if "TENKEN_WRITE_PROTOCOLS" in os.environ:
        file.write_text("\n".join(found) + "\n")
    expected = file.read_text().splitlines()
    assert found == expected, "\n".join(difflib.unified_diff(expected, found, "expected", "recorded", lineterm="", n=1))
    assert trace.mistakes() == {rule: some for rule, some in case.but.items() if rule != LOST}
    assert trace.document["verification"], "nothing was verified"
    written = {part.mode: Counter(step.lstrip("|") for step in trace.steps(part))["write"] for part in trace.every()}
    assert not case.writes or written == case.writes
    tried = rates_of_tries(trace.document["provenance"], case.tries) if case.tries else {}
    assert tried or not case.tries
    for what, rates in tried.items():
        assert len(rates) > 1 and chosen(trace.document, what) == {max(rates, key=lambda one: rates[one])}


#: Rates of our programs that no protocol counts, and where their amount is compared with the clock, or why nowhere.
GPU_ORACLES = "tests/programs/test_oracles_gpu.py"
NOT_COUNTED = {
    **dict.fromkeys(["access_patterns.remote_by_cpu", "access_patterns.device_by_cpu"], "CPUs that reach the memory"),
    "himeno.with_transfers": GPU_ORACLES,
    "hpl.library": "the yardstick is cuSOLVER",
    "hpl_mxp.lu_fp8": "counts as hpl_mxp, of whose function it is a name",
    "mpi_p2p.peer_copy": "a pair of GPUs without MPI",
    **dict.fromkeys([f"p2p.{name}_by_size" for name in ("peer", "read", "write", "driver_staged", "host_staged")],
                    GPU_ORACLES),
    **dict.fromkeys(["snapshot_io.write_other", "snapshot_io.read_other"], "h5py: tests/programs/test_file_io.py"),
    "storage_map.adaptive": "tests/programs/test_oracles.py",
    **dict.fromkeys(["transfer.htod_numa", "transfer.dtoh_numa"], "several NUMA nodes"),
}  # fmt: skip
#: Of third-party programs, whose outputs are parsed.
FOREIGN = ("mpi_p2p.osu_*", "nccl.perf_*", "training.*")


def test_every_rate_is_counted() -> None:
    """Otherwise an amount that is too large by a factor, such as a round trip for one way, would be seen by nobody."""
    counted = {
        f"{case.program}.{line.split()[1].rstrip(':')}"
        for name, case in protocol.every().items()
        for line in (protocol.FOLDER / f"{name}.txt").read_text().splitlines()
        if line.startswith("counted: ")
    }
    rates = {
        f"{folder.name}.{name}"
        for folder in PROGRAMS.iterdir()
        if folder.is_dir()
        for name, metric in catalogue.program(folder.name).metrics.items()
        if metric.unit in AMOUNTS and not metric.derive
    }
    rates -= {rate for rate in rates if any(fnmatch(rate, some) for some in FOREIGN)}
    # a load beside it: test_a_load_is_sent_beside_the_second_victim_alone
    assert rates - counted == set(NOT_COUNTED)
    for rate, where in NOT_COUNTED.items():
        if where.startswith("tests/"):
            assert re.search(rate.partition(".")[2].removesuffix("_by_size"), (ROOT / where).read_text())


def rates_of_tries(provenance: Mapping[str, Any], prefix: str) -> dict[str, dict[int, float]]:
    """Rates of the numbered candidates of each choice, such as tried.host.temporal_block=2."""
    found: dict[str, dict[int, float]] = {}
    for key, rate in provenance.items():
        if one := re.fullmatch(rf"{re.escape(prefix)}(.*?)=?(\d+)", key):
            found.setdefault(one[1], {})[int(one[2])] = rate
    return found


def chosen(document: Mapping[str, Any], what: str) -> set[int]:
    """The candidate that the measurement used: a coordinate named like the trials, or a key for each exchange."""
    exchange, _, block = what.rpartition(".")
    if exchange:
        return {document["provenance"][f"{block}.{exchange}"]}
    return {series["at"][what] for series in document["series"] if what in series.get("at", {})}


def test_every_program_that_tries_candidates_is_recorded_while_it_does() -> None:
    """Otherwise one that is not warm, or that was tried on other data, is chosen unnoticed."""
    told = re.compile(r'"((?:tried|probed)\w*\.)')
    found = {
        (folder.name, name)
        for folder in PROGRAMS.iterdir()
        for file in folder.glob("*.[ch]*")
        for name in told.findall(file.read_text())
    }
    assert found == {(case.program, case.tries) for case in protocol.every().values() if case.tries}


@pytest.mark.parametrize("name", protocol.HOST)
def test_the_order_of_measuring(name: str, build_dir: Path, clock_log: Path, blas: str, tmp_path: Path) -> None:
    libraries = {"TENKEN_BLAS": blas, "TENKEN_HDF5": hdf5_library()}
    case = protocol.HOST[name]
    run = protocol.recorded(case, build_dir / "bin", clock_log, tmp_path, **libraries)
    held(name, run)
    # without the timed steps the results are wrong: the verification is of these steps, not of earlier ones
    lost = set()
    for number, parts in enumerate(run.parts):
        if steps := run.numbers(parts):
            folder = tmp_path / str(number)
            folder.mkdir()
            skipped = {**libraries, "TENKEN_TEST_SKIPPED": " ".join(map(str, steps))}
            if not protocol.noticed(case, build_dir / "bin", clock_log, folder, **skipped):
                lost.add(parts[0].name)
    assert lost == case.but.get(LOST, set())


MAP = f"--path . --min-bytes 256Ki --max-bytes 256Ki {protocol.FILES} --candidates posix_256ki_1 --situations"


# what is not in the cache is read and looked up again
@pytest.mark.parametrize(
    ("program", "arguments", "cached", "told"),
    [
        ("storage_map", f"{MAP} read_cold", "010", "still_cached.256ki"),
        ("storage_map", f"{MAP} read_cached", "1001", "not_cached.256ki"),
        ("snapshot_io", f"{protocol.SNAPSHOT} --cold", "010", "still_cached.n20000"),
        ("snapshot_io", protocol.SNAPSHOT, "1001", "not_cached.n20000"),
        ("data_loading", f"{protocol.LOADING} --cold --epochs 1", "010", "still_cached"),
        ("data_loading", protocol.LOADING, "1001", "not_cached"),
    ],
    ids=["map cold", "map cached", "snapshot cold", "snapshot cached", "data cold", "data cached"],
)
def test_one_file_in_the_wrong_place_is_told_though_others_are_right(
    program: str, arguments: str, cached: str, told: str, build_dir: Path, clock_log: Path, tmp_path: Path
) -> None:
    case, more = protocol.Case(program, arguments), {"TENKEN_HDF5": hdf5_library(), "TENKEN_TEST_CACHED": cached}
    path = protocol.recorded(case, build_dir / "bin", clock_log, tmp_path, **more).document["provenance"]
    assert {key: value for key, value in path.items() if "_cached" in key} == {told: 1}


@pytest.mark.parametrize(("more", "orders"), [("", 16), (" --in-order", 1)], ids=["shuffled", "in order"])
def test_samples_are_read_in_another_order_each_time(
    more: str, orders: int, build_dir: Path, clock_log: Path, tmp_path: Path
) -> None:
    """Without and with two batches ahead, four repetitions of two epochs of twelve samples."""
    case = Case("data_loading", protocol.LOADING + more)
    run = protocol.recorded(case, build_dir / "bin", clock_log, tmp_path, TENKEN_HDF5=hdf5_library()).processes[0]
    opened = [step for step in run.steps if step.endswith("open")]
    read = [number for step, (number, _) in zip(opened, run.sizes["open"], strict=True) if step == "|open"]
    epochs = [tuple(read[at : at + 12]) for at in range(0, len(read), 12)]
    assert len(epochs) == 2 * 4 * 2 and all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len(set(epochs)) == orders and (orders > 1 or epochs[0] == tuple(range(12)))


@pytest.mark.parametrize(
    ("particles", "threads", "largest"), [(20_000, 1, 320_000), (100_000, 2, 1 << 20), (120_000, 2, 1_920_000)]
)
def test_each_thread_has_a_block_of_a_mib_at_least(
    particles: int, threads: int, largest: int, build_dir: Path, clock_log: Path, tmp_path: Path
) -> None:
    """A particle has 36 bytes, 16 of them in the first dataset; the usual block is 2 MiB."""
    one = f"--path . --min-particles {particles} --max-particles {particles} --threads 2 --directions write"
    more = f"{protocol.FILES.removesuffix('--threads 1')} --methods posix --layouts asis"
    case = Case("snapshot_io", f"{one} {more}", repetitions=30)  # in some rounds the first thread takes all blocks
    run = protocol.recorded(case, build_dir / "bin", clock_log, tmp_path, TENKEN_HDF5=hdf5_library())
    written = run.processes[0].sizes["write"]
    assert max(size for size, _ in written) == largest
    assert any(step == "|write" for step in run.processes[0].steps) == (threads > 1)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("name", protocol.GPU)
def test_the_order_of_measuring_on_gpus(name: str, programs: Path, double: Path, tmp_path: Path) -> None:
    libraries = {f"TENKEN_{library}": str(double) for library in ("NVML", "NCCL", "CUFILE")}
    libraries["TENKEN_HDF5"] = hdf5_library()
    run = protocol.recorded(protocol.GPU[name], programs, double, tmp_path, **libraries)
    computed = name in protocol.COMPUTED
    held(name, run, protocol.lost(protocol.GPU[name], run, programs, double, tmp_path, **libraries) if computed else ())
    assert not computed or not protocol.failed(run.document)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("name", "slow"), [(name, one) for name, (_, some) in protocol.SLOW.items() for one in some.split()]
)
def test_what_is_slow_is_in_every_figure_that_contains_it_and_in_no_other(
    name: str, slow: str, programs: Path, double: Path, tmp_path: Path
) -> None:
    more = {"TENKEN_NVML": str(double), "TENKEN_NCCL": str(double), "TENKEN_TEST_SLOW": slow}
    run = protocol.recorded(protocol.SLOW[name][0], programs, double, tmp_path, **more)
    found, expected = {}, {}
    for series in run.document["series"]:
        if "seconds" in series:
            key = series["metric"], *series["subject"].items(), *series.get("at", {}).items()
            # each slow operation takes 10 s more; the first sample may begin after it
            found[key] = median(series["seconds"]) > 5
            expected[key] = protocol.contained(name, series["metric"], series["subject"], slow)
            assert found[key] or max(series["seconds"]) < 5, key
            assert series["metric"] not in protocol.AT_ONCE or median(series["seconds"]) < 15, key
    assert found == expected
    # all GPUs are in each figure of NCCL, and one grid is the only figure of stencil_forms
    assert any(found.values()) and (name in ("nccl", "stencil_forms") or not all(found.values()))


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("slow", [0, 1])
def test_the_figure_of_all_gpus_is_that_of_the_slow_one(
    slow: int, programs: Path, double: Path, tmp_path: Path
) -> None:
    """Neighbours of the stencil do not wait for this one, so that each has its own time."""
    more = {"TENKEN_NVML": str(double), "TENKEN_NCCL": str(double), "TENKEN_TEST_SLOW_GPU": str(slow)}
    run = protocol.recorded(protocol.GPU["stencil_gpu"], programs, double, tmp_path, **more)
    assert {part.timed_on for part in run.every() if part.name == "cells"} == {slow}


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("program", "arguments", "told", "passes"),
    [
        # a kernel writes the state: five passes are left
        ("overlap", "--bytes 256Ki --steps 2 --every 1 --modes none", {"passes_of_a_step.gpu0": 5}, 2 * 5),
        # two copies and a kernel for the checksums; two batches, twice
        (
            "data_loading",
            "--kinds 8ki --batch 4 --batches 2 --seconds 0 --ways posix_1mi_1",
            {"checksum_ms.8ki.gpu0": 30_000, "step_ms.8ki.gpu0": 60_000},
            4 * 3,
        ),
    ],
    ids=["overlap", "data_loading"],
)
def test_a_step_takes_as_long_as_asked(
    program: str, arguments: str, told: dict[str, int], passes: int, programs: Path, double: Path, tmp_path: Path
) -> None:
    """A minute, of kernels and copies of 10 s each."""
    case = Case(program, f"{ONE} --path . --step-ms 60000 --threads 1 {arguments}")
    run = protocol.recorded(case, programs, double, tmp_path, TENKEN_NVML=str(double), TENKEN_TEST_SLOW="gpu0")
    found = {key: run.document["provenance"].get(key) for key in told}
    assert found == pytest.approx(told, rel=0.01)
    assert {run.steps(part).count("sweep_kernel<CopyOp>") for part in run.every()[:2]} == {passes}


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
def test_what_is_told_of_a_trial_is_the_rate_of_its_blocks(programs: Path, double: Path, tmp_path: Path) -> None:
    """Each kernel takes 10 s, in a trial too."""
    more = {"TENKEN_NVML": str(double), "TENKEN_NCCL": str(double), "TENKEN_TEST_SLOW": "gpu0"}
    document = protocol.recorded(protocol.GPU["stencil_gpu"], programs, double, tmp_path, **more).document
    for cells in (one for one in document["series"] if one["metric"] == "cells"):
        exchange, path = cells["at"]["exchange"], document["provenance"]
        told = path[f"tried.{exchange}.temporal_block={path[f'temporal_block.{exchange}']}"]
        assert told == pytest.approx(cells["counts"]["cells"] / median(cells["seconds"]) / 1e9, rel=0.1)


#: Programs that measure GPUs at once: how often both together do a step before each point at which they wait for each
#: other, and after the last one; SOME: as often as the time allows, or as there are candidates.
SOME = -1
AT_ONCE = {
    # tried; two cycles to warm up; three samples; three arrays compared; memcpy
    "stream": ("--array-bytes 16Mi",
        {"dot_kernel": [SOME, 4, 6, 0, 0, 0], "compare_kernel<Start>": [0, 0, 0, 6, 2, 0]}),
    # tried, random numbers, compared: one of them leaves out the first case, and waits as often
    "gemm of an older GPU": ("--sustained-seconds 0.1 --first-seconds 0 --energy-seconds 0 --cases bf16:64,fp64:64",
        {"matmul": [SOME, SOME, SOME, 0, SOME, SOME, SOME, 0, 0], "compare_kernel": [0, 0, 1, 0, 0, 0, 2, 0, 0]}),
}  # fmt: skip


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("program", AT_ONCE)
def test_gpus_at_once_begin_and_end_each_part_together(
    program: str, programs: Path, double: Path, tmp_path: Path
) -> None:
    """Otherwise the first of them is measured while the others still warm up."""
    arguments, expected = AT_ONCE[program]
    # a monitor wakes its own thread
    more = {"TENKEN_TEST_MEETINGS": "1", "TENKEN_NVML": "none"}
    more |= {"TENKEN_TEST_OLDER_GPU": "1"} if "older" in program else {}
    case = Case(program.split()[0], f"{protocol.TWO} --at-once {arguments}", warmup=0)
    parts = [Counter[str]()]
    for step in protocol.recorded(case, programs, double, tmp_path, **more).processes[0].steps:
        if step == "|meet":
            parts.append(Counter())
        parts[-1][step.lstrip("|").removesuffix("@1")] += 1
    for name, wanted in expected.items():
        found = [part[name] for part in parts]
        assert [SOME if want == SOME and n else n for n, want in zip(found, wanted, strict=True)] == wanted, name


#: Programs with a pass for the energy, and the metrics of the same work. The kernels that build the matrix of hpcg do
#: nothing here: its pass is the same code on the host, in tests/programs/test_energy.py.
ENERGY = {
    "stream": ("copy scale add triad dot", "--array-bytes 16Mi"),
    # whole blocks of 2 steps
    "stencil": ("alone", "--exchange none --nx 64 --ny 64 --nz 64 --bt 2 --steps 9 --temporal-block 1"),
    "gemm": ("gemm", "--sustained-seconds 0.5 --cases fp64:64"),
    "hpl": ("hpl", "--n 1000 --nb 256"),
    "hpl_mxp": ("hpl_mxp", "--n 2000 --nb 512 --seed 0"),
}


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("program", ENERGY)
def test_the_time_of_an_energy_pass_is_that_of_its_work(
    program: str, programs: Path, double: Path, tmp_path: Path
) -> None:
    """Each kernel takes 10 s: a pass that did not wait for the last of them would be faster than the same work."""
    names, arguments = ENERGY[program]
    slow = {"TENKEN_NVML": str(double), "TENKEN_TEST_SLOW": "gpu0", "TENKEN_TEST_JOULES": "1"}
    case = Case(program, f"{ONE} {arguments} --energy-seconds 600")
    run = protocol.recorded(case, programs, double, tmp_path, **slow)
    of_pass, of_work = protocol.energy_and_work(run, names)
    assert of_pass == pytest.approx(of_work, rel=0.1)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("slow", "seconds"), [("gpu0>", {"peer": 0, "all_reduce": 10}), ("gpu1>gpu0", {"peer": 10, "all_reduce": 0})]
)
def test_what_gpus_exchange_in_a_burn_is_timed_without_its_checks(
    slow: str, seconds: dict[str, float], programs: Path, double: Path, tmp_path: Path
) -> None:
    """Kernels, which fill and check, and sums take 10 s each, or copies: of GPU 0, whose clock no other one moves."""
    phases = "--phases peer,all_reduce --memory-share 0.05 --seconds 0 --visit-seconds 0.01 --silent-seconds 3600"
    more = {"TENKEN_NVML": str(double), "TENKEN_NCCL": str(double), "TENKEN_TEST_SLOW": slow}
    run = protocol.recorded(Case("burn", f"{protocol.TWO} {phases}"), programs, double, tmp_path, **more)
    copied = [one for one in run.document["series"] if one["metric"] == "copied" and one["subject"] == {"gpu": 0}]
    assert {one["at"]["phase"]: one["seconds"][0] for one in copied} == pytest.approx(seconds, abs=2)
    assert all(one["counts"] == {"bytes": 1 << 28} for one in copied)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
def test_another_algorithm_is_timed_after_the_product_was_verified(
    programs: Path, double: Path, tmp_path: Path
) -> None:
    """Of two that are nearly as fast the first is chosen. Each is timed again, into the matrix that is compared; then
    the chosen one multiplies zeros."""
    case = Case("gemm", f"{ONE} --sustained-seconds 0.8 --energy-seconds 0 --cases fp64:64 --data both")
    more = {"TENKEN_NVML": str(double), "TENKEN_TEST_ALGORITHMS": "2005000 2000000"}
    one = protocol.recorded(case, programs, double, tmp_path, **more).processes[0]
    products = iter(one.sizes["matmul"])
    by = [next(products)[1] >> 32 if step == "matmul" else step for step in one.steps]
    verified = by.index("compare_kernel")
    before, after = ([step for step in some if isinstance(step, int)] for some in (by[:verified], by[verified:]))
    assert before[-1] == after[-1] == 1 and 2 in after


STREAM = Case("stream", f"{ONE} --array-bytes 16Mi")
#: Kernels of which several configurations are tried: the function; which of its configurations are fast in turn,
#: counted from either end, and how each is called; and where the document tells it.
TRIED: list[tuple[Case, str, dict[int, str], str]] = [
    (STREAM, "sweep_kernel<CopyOp>", {0: "256 threads x 1 pair, ", 4: "320 threads x 1 pair, "}, "launch.copy.gpu0"),
    (STREAM, "sweep_kernel<TriadOp>", {-1: ""}, ""),
    (STREAM, "dot_kernel", {2: ""}, ""),
    (Case("p2p", "--gpus 0,1 --bytes 1Mi --sweep none"), "sweep_kernel<CopyOp>",
        {3: "512 threads x 1 pair, ", -1: "1024 threads x 2 pairs, "}, "launch.read.gpu0-gpu1"),
    (Case("spmv", f"{ONE} --matrices poisson27:8 --variants csr_warp"), "csr_lanes_kernel<double>",
        {1: "4 lanes a row", -1: "32 lanes a row"}, "csr_warp.poisson27_8.gpu0"),
    (Case("spmv", f"{ONE} --matrices poisson27:8 --variants sell"), "sell_kernel<double>",
        {0: "32 rows a slice, 1 loads ahead, 128 threads, ", -1: "64 rows a slice, 9 loads ahead, 256 threads, "},
        "sell.poisson27_8.gpu0"),
    (Case("stencil",
        "--backend cuda --gpus 0,1 --exchange p2p --nx 64 --ny 64 --nz 64 --bt 1 --steps 8 --phase-blocks 1"),
        "step_kernel<double>", {1: "2 rows a thread, blocks of 2 x 2 ", -1: "3 rows a thread, blocks of 4 x 1 "},
        "kernel.gpu0.temporal_block=1"),
]  # fmt: skip


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("case", "kernel", "numbers", "told"), TRIED, ids=[f"{case.program} {name}" for case, name, *_ in TRIED]
)
def test_the_fastest_configuration_is_measured_on_all_of_the_data(
    case: protocol.Case, kernel: str, numbers: dict[int, str], told: str, programs: Path, double: Path, tmp_path: Path
) -> None:
    """By the median of its trials: two in five launches of the fast one are slow, and of the others quick; but those of
    stream are trials of whole cycles."""
    names = names_of(programs / case.program)

    def launched(fast: int) -> tuple[dict[int, list[int]], str]:
        """By number: the last launch of each configuration, its blocks, and those of the largest one; what is told."""
        folder = tmp_path / str(fast)
        folder.mkdir()
        more = {
            "TENKEN_TEST_FAST": str(fast) + "~" * (case is not STREAM),
            "TENKEN_TEST_SHAPES": str(folder / "shapes"),
        }
        more |= {"TENKEN_NVML": str(double), "TENKEN_NCCL": str(double)}
        run = protocol.recorded(case, programs, double, folder, **more)
        shapes = [[int(word) for word in line.split()] for line in (folder / "shapes").read_text().splitlines()]
        found = {number: rest for number, (place, *rest) in enumerate(shapes) if names[place] == kernel}
        return found, run.document["provenance"].get(told, "")

    tried = list(launched(-1)[0])
    assert len(tried) > 1
    for number, text in numbers.items():
        found, as_told = launched(tried[number])
        assert as_told.startswith(text)
        last, blocks, most = found.pop(tried[number])
        assert last > max(others[0] for others in found.values()), "another one is measured"
        assert case is not STREAM or blocks == most, "on a part of the data"


#: Programs for several GPUs or ranks that are not in this table, nor in that of ranks.
NOT_SLOWED = {
    "burn": "each GPU has its own figures",
}


def test_something_is_slow_in_every_program_with_several_gpus_or_ranks() -> None:
    several = re.compile(r"cuda/gpus\.h|cuda/devices\.h|copy_program\.h|launched_ranks|lib/mpi/")
    programs = {
        folder.name
        for folder in PROGRAMS.iterdir()
        if any(several.search(file.read_text()) for file in folder.glob("*.[ch]*"))
    }
    slowed = {case.program for case, _ in protocol.SLOW.values()} | {case.program for case in protocol.RANKED.values()}
    assert programs == slowed | set(NOT_SLOWED)


@pytest.fixture(scope="session")
def mpi_recorder(mpi: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("mpi") / "recorder.so"
    sources = [str(ROOT / "tests" / "support" / name) for name in ("mpi_recorder.c", "recorder.c")]
    command = ["mpicc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), *sources]
    subprocess.run(command, env=mpi, check=True)
    return library


@pytest.fixture(scope="session")
def programs_of_ranks(mpi: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Programs of a rank for each GPU, and gpu_double.c with the recorder of MPI."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in mpi.items():
            patch.setenv(name, value)
        programs = built("12.4", "nccl", "stencil", "mpi_p2p", "hpcg", "hpl", mpi="mpi") / "bin"
        include = cuda_home.make("12.4", "cublas,cusolver,cufile") / "include"
        library = tmp_path_factory.mktemp("nccl") / "double.so"
        sources = [str(ROOT / "tests" / "support" / f"{name}.c") for name in ("gpu_double", "mpi_recorder", "recorder")]
        command = ["mpicc", "-shared", "-fPIC", "-O1", f"-I{include}", "-o", str(library), *sources, "-lm", "-ldl"]
        subprocess.run(command, check=True)
    return programs, library


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("slow", [0, 1])
def test_nccl_takes_as_long_as_its_slowest_rank(
    slow: int, programs_of_ranks: tuple[Path, Path], mpi: dict[str, str], tmp_path: Path
) -> None:
    programs, library = programs_of_ranks
    case = protocol.Case("nccl", "--gpus 0,1 --operations all_reduce,alltoall --min-bytes 1Mi --max-bytes 1Mi", ranks=2)
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_TEST_SLOW_RANK": str(slow)}
    run = protocol.recorded(
        case, programs, library, tmp_path, TENKEN_NVML=str(library), TENKEN_NCCL=str(library), **env
    )
    assert {(part.name, part.process) for part in run.every()} == {("all_reduce", slow), ("alltoall", slow)}
    # of which each is entered by all ranks, in the warm-up as well
    calls = [[step for step in process.steps if step in CALLS] for process in run.processes]
    assert calls[0] == calls[1]
    # warm-up and timed part of both begin when the data of all ranks are there
    for process in run.processes:
        after = [process.steps[at + 2] for at, step in enumerate(process.steps) if step.startswith("clear")]
        assert after == ["barrier"] * 4


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("nccl --operations alltoall --min-bytes 1Mi --max-bytes 1Mi", (1 << 20) // 8 // 2),
        ("mpi_p2p --tests latency --min-bytes 1Ki --max-bytes 1Ki", 1 << 10),
    ],
)
def test_a_first_call_that_takes_long_is_in_no_figure(
    command: str, size: int, programs_of_ranks: tuple[Path, Path], mpi: dict[str, str], tmp_path: Path
) -> None:
    """It connects, or loads a kernel: twice as long as the warm-up. A sample has as many calls as without it."""
    programs, library = programs_of_ranks
    name, _, arguments = command.partition(" ")
    case = protocol.Case(name, arguments, ranks=2, warmup=0.002, step=protocol.STEP // 1000)
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_NVML": str(library), "TENKEN_NCCL": str(library)}
    each = []
    for first in (0, 4_000_000):
        (folder := tmp_path / str(first)).mkdir()
        run = protocol.recorded(case, programs, library, folder, **env, TENKEN_TEST_FIRST_COSTS=f"{size}:{first}")
        each.append(median(run.document["series"][0]["seconds"]))
    assert each[1] < 2 * each[0], each


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("visible", ["all GPUs", "its own"])
@pytest.mark.parametrize(
    "command",
    [
        "nccl --operations alltoall --min-bytes 1Mi --max-bytes 1Mi",
        "stencil --backend cuda --exchange mpi --nx 64 --ny 64 --nz 32 --bt 2",
        "mpi_p2p --tests bandwidth --buffers device --min-bytes 1Mi --max-bytes 1Mi",
    ],
)
def test_the_gpu_of_every_rank_is_watched(
    command: str, visible: str, nodes: int, programs_of_ranks: tuple[Path, Path], mpi: dict[str, str], tmp_path: Path
) -> None:
    """Each rank opens only its own GPU, which a launcher may show it as the first and only one (srun --gpu-bind); the
    document of the first rank has what all read in their timed parts."""
    programs, library = programs_of_ranks
    name, _, arguments = command.partition(" ")
    case = protocol.Case(name, f"--gpus all {arguments}", ranks=2)
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_NVML": str(library), "TENKEN_NCCL": str(library)}
    env |= {"TENKEN_TEST_OWN_GPU": "01"} if visible == "its own" else {}
    env |= {"TENKEN_TEST_NODE_RANKS": "1"} if nodes == 2 else {}
    document = protocol.recorded(case, programs, library, tmp_path, **env).document
    health = document["health"]
    assert [device["index"] for device in document["devices"]] == [0, 1][: 2 // nodes]
    assert len({device["uuid"] for device in document["devices"]}) == 2 // nodes
    assert [one["index"] for one in health["devices"] if one["seconds"] > 0] == [0, 1][: 2 // nodes]
    elsewhere = [(one["node"], one["index"]) for one in health.get("elsewhere", []) if one["seconds"] > 0]
    assert elsewhere == ([("node1", 0 if visible == "its own" else 1)] if nodes == 2 else [])


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize("tests", ["bandwidth", "bandwidth,allreduce"])
def test_what_nodes_send_is_told_if_all_of_it_is_counted(
    tests: str, programs_of_ranks: tuple[Path, Path], mpi: dict[str, str], tmp_path: Path
) -> None:
    """How a collective divides its data, the MPI decides; those of a second kind of memory have none."""
    programs, library = programs_of_ranks
    case = protocol.Case(
        "mpi_p2p", f"--tests {tests} --buffers host,host-device --min-bytes 1Ki --max-bytes 1Ki", ranks=2
    )
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_NVML": str(library), "TENKEN_TEST_NODE_RANKS": "1"}
    run = protocol.recorded(case, programs, library, tmp_path, **env)
    told = [run.document["provenance"].get(f"sent_bytes.node{node}") for node in (0, 1)]
    sent = [size for size, _ in run.processes[0].sizes["send 1"] if size > 4]
    assert told == ([None, None] if "," in tests else [sum(sent), 0]), told


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("ranks", "lacks", "code", "says"),
    [
        (2, "LACKS=gpu", 1, "no GPU: the driver"),
        (2, "LACKS=nccl", 3, "library missing: "),
        # two of three ranks see the same GPU only
        *((3, f"OWN_GPU={own}", 3, "needs two GPUs: 3 ranks on a node with 2 GPUs") for own in ("001", "010", "100")),
    ],
)
def test_what_one_rank_lacks_ends_all_ranks_at_once(
    ranks: int, lacks: str, code: int, says: str, programs_of_ranks: tuple[Path, Path], mpi: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    programs, library = programs_of_ranks
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_NVML": str(library), "TENKEN_NCCL": str(library)}
    case = protocol.Case("nccl", "--gpus all --operations alltoall --max-bytes 1Ki", ranks=ranks)
    what, value = lacks.split("=")
    done = protocol._run(case, programs, library, tmp_path, {**env, f"TENKEN_TEST_{what}": value})
    document = json.loads((tmp_path / "result.json").read_text())
    assert done.returncode == code and document["reason"].startswith(says), (done.returncode, document["reason"])


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.xdist_group("cuda")
@pytest.mark.parametrize(
    ("command", "ranks", "differ", "chosen", "fails"),
    [
        ("hpcg --nx 16 --gpus 0 --share on", 3, "NODE_RANKS=2", "exchange=host", "the graph could not be peeled"),
        ("hpcg --nx 16", 2, "LACKS=nccl", "exchange=host", "the graph could not be peeled"),
        ("hpl --n 256 --nb 64", 2, "LACKS=nccl", "communicator=MPI, staged through the host", "verification: residual"),
    ],
    ids=["own-gpu", "nccl-of-hpcg", "nccl-of-hpl"],
)
def test_ranks_agree_on_a_way_that_one_of_them_cannot_take(
    command: str, ranks: int, differ: str, chosen: str, fails: str, programs_of_ranks: tuple[Path, Path],
    mpi: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    """Otherwise each waits for the others forever. The double computes nothing, so that a run fails afterwards."""
    programs, library = programs_of_ranks
    name, _, arguments = command.partition(" ")
    case = protocol.Case(name, f"--backend cuda --patience-seconds 60 {arguments}", ranks=ranks)
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_NVML": str(library), "TENKEN_NCCL": str(library)}
    what, value = differ.split("=")
    protocol._run(case, programs, library, tmp_path, {**env, f"TENKEN_TEST_{what}": value})
    document = json.loads((tmp_path / "result.json").read_text())
    key, way = chosen.split("=")
    assert document["reason"].startswith(fails) and document["provenance"][key] == way, document["reason"]


@pytest.mark.parametrize("name", protocol.RANKED)
def test_the_order_of_measuring_of_ranks(
    name: str, mpi_build: Path, mpi: dict[str, str], mpi_recorder: Path, blas: str, tmp_path: Path
) -> None:
    """First rank 0 is the slow one, then rank 1: collective values took as long as that one."""
    case = protocol.RANKED[name]
    for slow in (0, 1):
        folder = tmp_path / str(slow)
        folder.mkdir()
        env = {**mpi, "TENKEN_BLAS": blas, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_TEST_SLOW_RANK": str(slow)}
        run = protocol.recorded(case, mpi_build / "bin", mpi_recorder, folder, **env)
        of = {(part.name, part.process) for part in run.every()}
        assert of == {(metric, 0 if metric in case.of_first else slow) for metric, _ in of}
    held(name, run)


@pytest.mark.parametrize("name", ["hpcg", "hpl", "hpl_mxp"])
def test_an_energy_pass_of_ranks_takes_as_long_as_the_slowest(
    name: str, mpi_build: Path, mpi: dict[str, str], mpi_recorder: Path, blas: str, tmp_path: Path
) -> None:
    works, arguments = RUNS[name]
    # made-up hours are no lack of progress
    more = "--energy-seconds 6 --patience-seconds 36000"
    case = Case(name, f"{arguments} {more}", step=protocol.STEP // 10, ranks=2)
    env = {**mpi, "TENKEN_BLAS": blas, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_TEST_SLOW": "host"}
    for slow in (0, 1):
        folder = tmp_path / str(slow)
        folder.mkdir()
        env |= {"TENKEN_TEST_SLOW_RANK": str(slow), **sensors(folder)}
        run = protocol.recorded(case, mpi_build / "bin", mpi_recorder, folder, **env)
        of_pass, of_work = protocol.energy_and_work(run, works)
        assert of_pass == pytest.approx(of_work, rel=0.1)


def test_what_a_node_sends_is_what_mpi_is_asked_to_send(
    mpi_build: Path, mpi: dict[str, str], mpi_recorder: Path, tmp_path: Path
) -> None:
    """Of two ranks on each of two nodes, one of which sends less; 4 bytes are the answer to a window."""
    case = protocol.Case("mpi_p2p", "--tests latency,bandwidth,bidirectional,message_rate --window 3 --min-bytes 512 "
        "--max-bytes 1Ki --factor 2", ranks=4)  # fmt: skip
    env = {**mpi, "OMPI_MCA_mpi_yield_when_idle": "1", "TENKEN_TEST_NODE_RANKS": "2"}
    run = protocol.recorded(case, mpi_build / "bin", mpi_recorder, tmp_path, **env)
    for node, ranks in enumerate((run.processes[:2], run.processes[2:])):
        sizes = [size for one in ranks for to in range(4) for size, _ in one.sizes.get(f"send {to}", ()) if size > 4]
        told = [run.document["provenance"][f"sent_{what}.node{node}"] for what in ("bytes", "messages")]
        assert told == [sum(sizes), len(sizes)]


def test_planes_that_are_not_exchanged_end_the_run(
    run_ranks: Callable[..., Outcome], mpi_recorder: Path, tmp_path: Path
) -> None:
    more = {"LD_PRELOAD": str(mpi_recorder), "TENKEN_TEST_CLOCK": str(tmp_path / "clock")}
    size = ("--bytes", "64Ki", "--step-ms", "0.1", "--steps", "2", "--every", "1", "--threads", "1", "--modes", "none")
    lost = run_ranks("overlap", 2, "--path", str(tmp_path), *size, **more, TENKEN_TEST_LOST="exchange")
    assert lost.code == 1 and "a plane of a neighbour is not that of the last step" in lost.stdout + lost.stderr


def test_a_load_is_sent_beside_the_second_victim_alone(
    mpi_build: Path, mpi: dict[str, str], mpi_recorder: Path, tmp_path: Path
) -> None:
    """Of four ranks 0 and 2 are measured; 1 sends to 3 until these have finished. A barrier separates the parts."""
    case = protocol.Case("mpi_p2p", "--tests none --patterns victim --pattern-bytes 4Ki", ranks=4)
    run = protocol.recorded(case, mpi_build / "bin", mpi_recorder, tmp_path, **mpi, OMPI_MCA_mpi_yield_when_idle="1")
    source, target = (" ".join(run.processes[rank].steps).split("barrier") for rank in (1, 3))
    loaded = ["send 3" in steps and "recv 3" in steps for steps in source]
    assert loaded == ["send 1" in steps and "recv 1" in steps for steps in target]
    assert sum(loaded) == 2, "warm-up and timed part of the second one"
    # there and back
    assert run.counted() == [
        f"counted: victim buffers=host bytes=8 load={load}: 2 in a span" for load in ("none", "incast")
    ]


def trace(steps: str, seconds: dict[str, list[float]], **subject: int) -> Trace:
    """A made-up run: a blank is a reading of the clock, 1, 2, 4, ... ns apart so that all spans differ."""
    one, time = Process(), 0
    for number, step in enumerate(steps.split(" ")):
        one.read(time := time + 2**number)
        one.steps += [step] if step else []
    series = [
        {"metric": name, "seconds": [1e-9 * each for each in some], "subject": subject}
        for name, some in seconds.items()
    ]
    return Trace({"series": series}, [one])


def test_a_copy_goes_the_way_of_its_pair() -> None:
    steps = "fill gpu0>gpu1 gpu0>gpu1 gpu0>gpu1 fill gpu0>gpu1 gpu0>gpu1 compare "
    times = {"peer": [2.0**6, 2.0**7]}
    assert trace(steps, times, **{"from": 0, "to": 1}).mistakes() == {}
    assert trace(steps, times, **{"from": 1, "to": 0}).mistakes() == {BACKWARDS: {"peer"}}
    assert trace(steps.replace(">gpu1", ">pinned"), times, **{"from": 0, "to": 1}).mistakes() == {}


@pytest.mark.parametrize(("gpu", "broken"), [(1, {}), (0, {ON_ANOTHER: {"copy"}})])
def test_a_gpu_is_timed_by_its_own_events(gpu: int, broken: dict[str, set[str]]) -> None:
    """A tick is 2^-10 ms; both events belong to GPU 1."""
    begin, end = (1 << 40) + 5, (1 << 40) + 5 + 1024
    one = Process(steps=["copy"] * 4 + ["compare"], events={begin: 3, end: 4}, elapsed=[(begin, end)])
    series = [{"metric": "copy", "seconds": [1e-3], "clock": "device", "subject": {"gpu": gpu}}]
    assert Trace({"series": series}, [one]).mistakes() == broken


@pytest.mark.parametrize(
    ("steps", "broken"),
    [
        ("fill copy copy copy fill copy copy compare ", {}),
        ("fill copy fill copy copy copy copy compare ", {}),  # only the stored protocol shows when data are new
        ("fill copy copy fill fill copy copy compare ", {COLD: {"copy"}}),
        ("fill copy copy copy fill copy scale compare ", {DIFFER: {"copy"}}),
        ("fill copy copy copy fill  copy compare ", {UNSEEN: {"copy"}}),
        ("fill copy copy copy compare copy copy  ", {UNVERIFIED: {"copy"}}),
    ],
)
def test_each_rule_has_an_order_that_breaks_it(steps: str, broken: dict[str, set[str]]) -> None:
    # the timed parts are those after the sixth and the seventh reading
    assert trace(steps, {"copy": [2.0**6, 2.0**7]}).mistakes() == broken


def test_steps_are_written_in_rows() -> None:
    run = trace("fill copy copy copy fill copy copy compare ", {"copy": [2.0**6, 2.0**7], "share": [1000.3]})
    assert run.lines() == ["fill", "copy x3", "fill", "copy{ copy } x2", "compare", "no span: share"]
    assert run.lines(fold=["co"]) == ["fill", "co", "fill", "copy{ co } x2", "co", "no span: share"]


def test_what_is_counted_is_rate_times_time() -> None:
    run = trace("fill copy copy copy copy ", {"copy": [2.0**3, 2.0**4], "trip": [2.0**4 / 3]})
    where = {"subject": {}, "at": {}}
    run.metrics = [
        {"name": "copy", "unit": "GB/s", "samples": [48 / 2**3, 48 / 2**4], **where},
        {"name": "trip", "unit": "us", "samples": [2.0**4 / 3e3], **where},
    ]
    assert run.counted() == ["counted: copy: 48 bytes", "counted: trip: 3 in a span"]
    run.metrics[0]["samples"] = [48 / 2**3, 96 / 2**4]
    with pytest.raises(ValueError, match="too many values"):
        run.counted()
    run.metrics[0]["unit"] = "ms"
    with pytest.raises(AssertionError, match="copy"):
        run.counted()


def test_health_is_read_for_so_many_steps() -> None:
    """A step takes 0.1 s, and up to a tenth more: two of 0.105 s."""
    run = Trace({"series": [], "health": {"devices": [{"index": 1, "seconds": 0.213}]}}, [])
    assert run.monitored() == ["monitored: gpu1: 2 steps"]


def test_sizes_are_those_of_launches_calls_and_bytes() -> None:
    run, block, shared = trace("", {}), 8 << 24 | 32 | 1 << 34, 4096 << 42
    product = (96 | 64 << 32, 32 | 2 << 32)
    sent, copied = 7 | 2 << 8 | 1 << 20 | 15 << 24 | 128 << 28, 3 << 20 | 15 << 24
    run.processes[0].sizes = {
        "tile": [(2 | 2 << 24 | 1 << 34, block), (7 | 1 << 24 | 1 << 34, block | shared)],
        "send": [(512, sent)], "read": [(48, 0), (8192, 0)], "gpu0>host": [(16, copied)] * 2, "region": [(0, 0)],
        "matmul": [product], "dtrsm": [(96 | 64 << 32, 0)],
    }  # fmt: skip
    assert run.sizes() == [
        "size: tile: 2,2x32,8 7x32,8+4096", "size: send: 512 of type 7 by 1 from 1 at 1024", "size: read: 8192",
        "size: gpu0>host: 16 from 3", "size: matmul: 96x64x32 by 2", "size: dtrsm: 96x64",
    ]  # fmt: skip


def test_a_sample_may_be_one_of_several_operations() -> None:
    (parts,) = trace("a b c ", {"b": [2.0**2 / 3]}).parts
    assert [(part.first, part.last) for part in parts] == [(1, 2)]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("tenken::find_placement() [clone ._omp_fn.0]", "find_placement"),
        ("void tenken::cuda::sweep_kernel<1, (bool)0, CopyOp>(unsigned long)", "sweep_kernel<CopyOp>"),
        ("void stencil::(anonymous namespace)::HostPart<double>::step_planes<27>(int, stencil::Range const&)",
         "HostPart<double>::step_planes"),
        ("void tenken::scan<stream::Backend::compare(stream::Array, double)::{lambda(unsigned long)#1}>(int, "
         "stream::Backend::compare(stream::Array, double)::{lambda(unsigned long)#1})", "scan<Backend::compare>"),
        ("void tenken::in_shares<double, Daxpy::measure(tenken::Run&)::{lambda()#2}::operator()() const::"
         "{lambda(int)#1}>(int)", "in_shares<double,Daxpy::measure>"),
    ],
    ids=["region", "kernel", "method", "lambda", "lambda in a lambda"],
)  # fmt: skip
def test_a_step_has_a_short_name(symbol: str, name: str) -> None:
    assert short(symbol) == name


def test_a_copied_text_is_no_step_however_long_it_is(clock_log: Path, tmp_path: Path) -> None:
    """The list of mounts, which storage programs read, may happen to be a whole number of KiB long."""
    source, program, log = tmp_path / "copies.c", tmp_path / "copies", tmp_path / "log"
    source.write_text(
        "#include <string.h>\nstatic char from[4096], to[4096];\n"
        "int main(void) { void* (*volatile copy)(void*, const void*, size_t) = memcpy;\n"
        "memset(from, 'x', 2048); from[9] = 10;\n"
        "copy(to, from, 1024); copy(to, from, 2048); copy(to, from + 1024, 2048); return 0; }\n"
    )
    subprocess.run(["cc", "-O0", "-o", str(program), str(source)], check=True)
    subprocess.run([str(program)], env={"LD_PRELOAD": str(clock_log), "TENKEN_TEST_CLOCK": str(log)}, check=True)
    (process,) = processes(log, program)
    assert process.steps == ["memcpy"]


def test_the_fastest_of_its_tries_is_what_was_chosen() -> None:
    told = {"tried.p2p.temporal_block=1": 2.0, "tried.p2p.temporal_block=2": 3.0, "temporal_block.p2p": 2, "nb": 7}
    assert rates_of_tries(told, "tried.") == {"p2p.temporal_block": {1: 2.0, 2: 3.0}}
    assert chosen({"provenance": told}, "p2p.temporal_block") == {2}
    assert rates_of_tries({"probed_tflops.nb64": 1.0}, "probed_tflops.") == {"nb": {64: 1.0}}
    assert chosen({"series": [{"at": {"nb": 64}}, {}]}, "nb") == {64}
