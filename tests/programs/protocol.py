"""Programs whose order of measuring is stored in protocols/, one run each, and how it is recorded."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.documents import completed
from tests.support.recorder import (
    BACKWARDS,
    COLD,
    LOST,
    ON_ANOTHER,
    STEP,
    UNSEEN,
    UNVERIFIED,
    WARMUP_SECONDS,
    Trace,
    processes,
)

FOLDER = Path(__file__).parent / "protocols"


@dataclass(frozen=True)
class Case:
    """One run. `but`: metrics that break a rule of Trace.mistakes() for a good reason, which is stated next to them.

    `fold`, `others`: as for Trace.lines()."""

    program: str
    arguments: str = ""
    warmup: float = WARMUP_SECONDS
    #: Nanoseconds from one reading of the clock to the next: less for warm-ups that are brief.
    step: int = STEP
    #: More than the fewest rounds that a program makes in no time, where it has such a number.
    repetitions: int = 3
    but: Mapping[str, set[str]] = field(default_factory=dict)
    fold: Sequence[str] = ()
    others: bool = True
    #: MPI ranks, and the metrics that belong to the first of them: all others belong to the slowest.
    ranks: int = 1
    of_first: frozenset[str] = frozenset()
    #: Names of trial results in the document; each candidate is warmed up before its trial.
    tries: str = ""
    #: For a metric whose data other threads write: writes in each timed part, by the mode of its series.
    writes: Mapping[str, int] = field(default_factory=dict)


FILES = "--seconds 0 --decide-seconds 0 --threads 1"
#: Two sizes: less than a MiB, and more.
SIZES = "--path . --min-bytes 256Ki --max-bytes 1Mi"
#: Every layout with and without HDF5.
LAYOUTS = f"--path . --min-particles 20000 --max-particles 20000 {FILES} --methods posix,hdf5_sec2"
SNAPSHOT = f"--path . --min-particles 20000 --max-particles 40000 --factor 2 {FILES} --methods posix --layouts asis"
LOADING = "--path . --kinds 8ki --batch 4 --batches 3 --step-ms 1 --seconds 0 --ways posix_1mi_1 --threads 1"
#: What only bounds the transfers of files; `transfer` verifies such copies.
LINK = {"link_from_gpu", "link_to_gpu"}
HOST = {
    "daxpy": Case("daxpy", "--elements 100000"),
    # ten readings of the clock per cycle
    "stream": Case("stream", "--array-bytes 1Mi", warmup=2.5),
    "memcopy": Case("memcopy", "--bytes 1Mi"),
    "transfer": Case("transfer", "--sweep-max-bytes 16Ki"),
    # what is measured is how a repeated access becomes faster
    "access_patterns": Case("access_patterns", "--bytes 80k", but={COLD: {"host_by_cpu"}}),
    # the same, and three phases touch the same pages
    "migration": Case("migration", "--bytes 80k",
        but={COLD: {"cpu_first", "cpu", "cpu_last"}, LOST: {"cpu_first", "cpu", "cpu_last"}}),
    "transpose": Case("transpose", "--sizes 64"),
    # as published, without a trial run; the classic timing has one
    "himeno": Case("himeno", "--size XS", but={COLD: {"iteration", "total"}}),
    "himeno_classic": Case("himeno", "--size XS --timing classic --target-seconds 2"),
    # what is done once is prepared once; the dot product is a yardstick
    "spmv": Case("spmv", "--matrices poisson27:8 --precision single --variant-warmup-seconds 60",
        but={COLD: {"prepare"}, LOST: {"dot"}}),
    # its first second is the figure
    "gemm": Case("gemm", "--backend host --sustained-seconds 0.5 --energy-seconds 0 --cases fp64:64,int8:64",
        but={COLD: {"gemm"}}),
    # all of it is in the BLAS, which is not part of the program
    "hpl": Case("hpl", "--backend host --n 96 --nb 32", but={UNSEEN: {"dgemm", "hpl"}}),
    "hpl_chosen": Case("hpl", "--backend host --n 600 --algorithm blocks", but={UNSEEN: {"dgemm"}},
        tries="probed_tflops."),
    # the matrix and the solution belong to one factorization, which a smaller one precedes
    "hpl_mxp": Case(
        "hpl_mxp",
        "--backend host --n 128 --nb 32",
        but={COLD: {"hpl_mxp", "phase"}, LOST: {"product"}},  # a yardstick
        fold=("HostEngine::factor_panel", "memcpy"),
    ),
    # the dot product is a yardstick
    "hpcg": Case("hpcg", "--nx 16 --target-seconds 1", but={COLD: {"optimise", "setup"}, LOST: {"dot"}},
        fold=("HostRunner::",)),
    # one part has no neighbour; one more pass is compared with the state before it
    "stencil": Case("stencil", "--nx 24 --ny 20 --nz 22 --steps 4 --bt 2 --phase-blocks 2",
        but={UNSEEN: {"halo_net", "halo_node"}, LOST: {"alone", "cells", "compute", "total"}}),
    "stencil_forms": Case("stencil_forms", "--form openmp --nx 24 --ny 20 --nz 22 --steps 3", but={LOST: {"cells"}}),
    # for files one untimed round comes first, and its content is compared; tests/programs/test_file_io.py loses more
    "storage_map": Case(
        "storage_map",
        f"{SIZES} {FILES} --candidates posix_256ki_1 "
        "--situations write,write_synced,read_cold,read_cached",
        repetitions=7,
        but={
            COLD: {"write", "write_synced"},
            UNVERIFIED: {"read_cached"},
            LOST: {"write", "write_synced", "read_cold", "read_cached"},
        },
    ),
    "snapshot_io": Case("snapshot_io", SNAPSHOT, repetitions=7, but={UNVERIFIED: {"read"}, LOST: {"read", "write"}}),
    "snapshot_io_cold": Case("snapshot_io", SNAPSHOT + " --synced --cold", repetitions=7,
        but={UNVERIFIED: {"read"}, LOST: {"read", "write"}}),
    "snapshot_io_layouts": Case("snapshot_io", LAYOUTS, but={UNVERIFIED: {"read"}, LOST: {"read", "write"}}),
    # each sample is summed as it is consumed
    "data_loading": Case("data_loading", LOADING, repetitions=7, but={UNVERIFIED: {"samples"}}),
    "data_loading_cold": Case("data_loading", LOADING + " --cold --epochs 1", but={UNVERIFIED: {"samples"}}),
    # a loop without snapshots launches nothing; each way of writing was tried and compared before
    "overlap": Case("overlap",
        "--path . --bytes 256Ki --step-ms 1 --steps 4 --every 2 --modes none,serial,writer --synced",
        but={UNSEEN: {"loop"}, COLD: {"loop"}, UNVERIFIED: {"loop"}, LOST: {"loop"}}, others=False,
        writes={"none": 0, "serial": 2, "writer": 2}),
    # load, not speed: every result is verified within the timed part, and that is skipped with it
    "burn": Case(
        "burn",
        "--backend host --phases gemm_fp64,stencil,random,copies --seconds 0 --visit-seconds 0.3 --host-bytes 16Mi "
        "--host-order 128 --silent-seconds 3600 --compare-seconds 0.2",
        but={
            COLD: {"copied", "memory", "rate", "updates", "with_checks"},
            UNVERIFIED: {"copied", "memory", "updates"},
            LOST: {"copied", "rate", "updates", "with_checks", "without_checks"},
        },
    ),
}  # fmt: skip


ONE = "--backend cuda --gpus 0"
#: On gpu_double.c, whose kernels do nothing, with sizes that no block of threads divides. After the first metric clocks
#: are high: others warm up briefly.
GPU = {
    "stream_gpu": Case("stream", f"{ONE} --array-bytes 16777224", but={COLD: {"memcpy"}}),
    "memcopy_gpu": Case("memcopy", "--backend cuda --gpus 0,1 --bytes 4194312"),
    "transfer_gpu": Case(
        "transfer",
        f"{ONE} --bytes 65640 --sweep-max-bytes 1Ki",
        warmup=1.85,
        # each migration is of pages that were just written
        but={COLD: {"dtoh_prefetch", "htod_prefetch", "htod_write_combined"}},
    ),
    "access_patterns_gpu": Case("access_patterns", f"{ONE} --bytes 4194312 --placement explicit",
        but={COLD: {"host_by_cpu"}}),
    "migration_gpu": Case("migration", f"{ONE} --bytes 4Mi --placement managed_touch", but={COLD: {"cpu"}}),
    # the comparison is the last of the phases of one pass
    "transpose_gpu": Case(
        "transpose",
        f"{ONE} --sizes 70x40 --kernels naive,tile,padded --memory pageable,pinned --bandwidth-n 1060",
        but={
            COLD: {"check", "dtoh", "htod", "init", "naive_bandwidth", "padded_bandwidth", "tile_bandwidth"},
            UNVERIFIED: {"check", "dtoh", "htod", "kernel"},
        },
    ),
    "himeno_gpu": Case("himeno", f"{ONE} --size XS", but={COLD: {"iteration", "total"}}),
    # what comes from all others is enqueued by the first of them
    "p2p": Case("p2p", "--gpus 0,1 --bytes 1048584 --staged-bytes 512Ki --latency-bytes 4 --sweep none", warmup=0.1,
        step=STEP // 10,
        but={ON_ANOTHER: {"all_to_one"}, BACKWARDS: {"both_ways"}}),
    "nccl": Case("nccl", "--gpus 0,1 --min-bytes 1Mi --max-bytes 1Mi", warmup=0.2, step=STEP // 10),
    # a size that has several windows in the arrays of the largest one
    "nccl_windows": Case("nccl", "--gpus 0,1 --operations all_reduce --min-bytes 64Ki --max-bytes 1Mi --factor 16",
        warmup=0.2, step=STEP // 10, repetitions=22),
    # load, not speed; products take long here
    "burn_gpu": Case(
        "burn",
        f"{ONE} --phases stencil,random,copies --memory-share 0.05 --seconds 0 --visit-seconds 0.3 "
        "--silent-seconds 3600",
        but={COLD: {"copied", "memory", "updates"}},
    ),
    # what is done once is prepared once
    "spmv_gpu": Case("spmv",
        f"{ONE} --matrices poisson27:9 --variants csr_row,csr_warp,csr_bins,csr_merge,csr_tile,sell",
        but={UNSEEN: {"prepare"}, COLD: {"prepare", "spmv"}}),
    # some rows are long, which several warps sum
    "spmv_uneven": Case("spmv", f"{ONE} --matrices rmat:13:8 --variants csr_bins,csr_flow,sell_sorted",
        but={COLD: {"prepare"}}),
    # files to a GPU: the steps are those of the host; the page cache alone is read next to them
    "storage_map_gpu": Case(
        "storage_map",
        f"{ONE} {SIZES} {FILES} --candidates posix_256ki_1 "
        "--situations write,write_synced,read_cold,read_cached",
        but={COLD: {"read_cached", "read_cold", "write", "write_synced"}, UNVERIFIED: {"cached_read", *LINK}},
    ),
    "snapshot_io_gpu": Case("snapshot_io", f"{ONE} {SNAPSHOT}",
        but={COLD: {"read"}, UNVERIFIED: {"read", "write", *LINK}}),
    # by cuFile, so that the link alone is copied over; the thread that packs is another one
    "snapshot_io_gds": Case("snapshot_io", f"{ONE} {LAYOUTS.replace('posix,hdf5_sec2', 'gds')}",
        but={COLD: {"read", "write", "link_to_gpu"}, UNVERIFIED: {"read", *LINK}}, others=False),
    "storage_map_gds": Case("storage_map",
        f"{ONE} --path . --min-bytes 256Ki --max-bytes 256Ki {FILES} --candidates gds_256ki_1 "
        "--situations write,read_cold",
        but={COLD: {"link_to_gpu"}, UNVERIFIED: {"read_cold", *LINK}}),
    "data_loading_gds": Case("data_loading", f"{ONE} {LOADING.replace('posix', 'gds')}",
        but={UNVERIFIED: {"samples", *LINK}}, others=False),
    "snapshot_io_layouts_gpu": Case("snapshot_io", f"{ONE} {LAYOUTS}",
        but={COLD: {"read"}, UNVERIFIED: {"read", *LINK}}),
    "data_loading_gpu": Case("data_loading", f"{ONE} {LOADING}", but={UNVERIFIED: {"samples", *LINK}}, others=False),
    "overlap_gpu": Case(
        "overlap",
        f"{ONE} --path . --bytes 256Ki --step-ms 1 --steps 4 --every 2 --threads 1 --synced "
        "--modes none,serial,writer,buffer,buffer_cufile,buffer_stream",
        but={COLD: {"loop"}, UNVERIFIED: {"loop"}},
        others=False,
        # cuFile moves less than it was asked for
        writes={"none": 0, **dict.fromkeys(["serial", "writer", "buffer", "buffer_stream"], 2), "buffer_cufile": 4},
    ),
    # its first second is the figure
    "gemm_gpu": Case("gemm",
        f"{ONE} --data both --sustained-seconds 0.5 --energy-seconds 0 --cases fp64:64,int8:96x64x32x3"),
    # a factorisation of as many steps comes first, and the first columns of this one
    "hpl_gpu": Case("hpl", f"{ONE} --n 8300 --nb 2048", but={COLD: {"hpl"}}),
    "hpl_mxp_gpu": Case("hpl_mxp", f"{ONE} --n 2000 --nb 512 --seed 0 --energy-seconds 0", but={COLD: {"hpl_mxp"}}),
    "stencil_forms_gpu": Case("stencil_forms", "--form device --gpus 0 --nx 24 --ny 20 --nz 22 --steps 3"),
    "stencil_forms_managed": Case("stencil_forms", "--form managed --gpus 0,1 --nx 24 --ny 20 --nz 22 --steps 3"),
    "stencil_gpu": Case("stencil",
        "--backend cuda --gpus 0,1 --exchange host,p2p --nx 75 --ny 70 --nz 66 --bt 2 --steps 4 --phase-blocks 1",
        but={UNSEEN: {"halo_net"}}, tries="tried."),
}  # fmt: skip
#: Those whose kernels gpu_double.c has.
COMPUTED = ("access_patterns_gpu", "memcopy_gpu", "p2p", "transfer_gpu")
#: Several ranks. Collectives take as long as the slowest rank; a pair is timed by its first rank.
RANKED = {
    "mpi_p2p": Case("mpi_p2p", "--min-bytes 1Mi --max-bytes 1Mi --window 2 --max-collective-bytes 1Mi",
        but={COLD: {"alltoall", "bandwidth"}}, ranks=2,
        of_first=frozenset({"latency", "bandwidth", "bidirectional"})),
    # what a load sends meanwhile is tested elsewhere
    "mpi_p2p_patterns": Case(
        "mpi_p2p",
        "--tests none --patterns bisection,incast,arrival --pattern-bytes 4Ki --window 4 "
        "--halves opposite,neighbours",
        but={UNSEEN: {"arrival"}},  # it computes
        ranks=4,
        of_first=frozenset({"incast"}),
    ),
    # phases are those of the first rank
    "hpl_ranks": Case("hpl", "--backend host --n 96 --nb 32 --grid 2x1", but={UNSEEN: {"dgemm"}}, ranks=2,
        of_first=frozenset({"phase"})),
    "hpl_mxp_ranks": Case("hpl_mxp", "--backend host --n 128 --nb 32", but={COLD: {"hpl_mxp"}}, ranks=2,
        of_first=frozenset({"phase"})),
    "hpcg_ranks": Case("hpcg", "--nx 16 --target-seconds 1", but={COLD: {"optimise", "setup"}}, fold=("HostRunner::",),
        ranks=2),
    "stencil_ranks": Case("stencil",
        "--nx 24 --ny 20 --nz 22 --steps 4 --bt 2 --phase-blocks 2 --scaling weak --exchange mpi", ranks=2,
        of_first=frozenset({"alone"})),
    "overlap_ranks": Case("overlap",
        "--path . --bytes 256Ki --step-ms 1 --steps 4 --every 2 --modes none,serial --threads 1 --synced",
        but={COLD: {"loop"}}, others=False, ranks=2),
}  # fmt: skip

TWO = "--backend cuda --gpus 0,1"
#: Programs with several GPUs, and the operations of gpu_double.c that are made slow in turn.
SLOW = {
    "stream": (Case("stream", f"{TWO} --array-bytes 16Mi"), "gpu1"),
    "memcopy": (Case("memcopy", f"{TWO} --bytes 4Mi --copies kernel,memcpy"), "gpu0 gpu1>gpu1"),
    "transfer": (
        Case("transfer", f"{TWO} --bytes 64Ki --sweep-max-bytes 1Ki"),
        "gpu1 pinned>gpu0 gpu1>pinned host>gpu1 gpu0>host mapped>gpu1",
    ),
    "access_patterns": (Case("access_patterns", f"{TWO} --bytes 4Mi --placement explicit"), "gpu0"),
    "migration": (Case("migration", f"{TWO} --bytes 4Mi --placement managed_touch"), "gpu1"),
    "transpose": (Case("transpose", f"{TWO} --sizes 64 --kernels tile --memory pinned --bandwidth-n 1024"), "gpu1"),
    "himeno": (Case("himeno", f"{TWO} --size XS"), "gpu1"),
    "spmv": (Case("spmv", f"{TWO} --matrices poisson27:8 --variants sell"), "gpu1"),
    # the third GPU neither leads nor is next to the first
    "p2p": (Case("p2p", "--gpus 0,1,2 --bytes 1Mi --sweep none"), "gpu0 gpu2 gpu2>gpu0 pinned>gpu2"),
    "gemm": (Case("gemm", f"{TWO} --sustained-seconds 0.5 --energy-seconds 0 --cases fp64:64"), "gpu1"),
    "stencil_forms": (Case("stencil_forms", "--form managed --gpus 0,1,2 --nx 24 --ny 20 --nz 22 --steps 3"), "gpu2"),
    "nccl": (Case("nccl", "--gpus 0,1,2 --min-bytes 1Mi --max-bytes 1Mi"), "gpu0 gpu2"),
    "stencil": (
        Case(
            "stencil",
            "--backend cuda --gpus 0,1,2 --exchange p2p --nx 64 --ny 64 --nz 66 --bt 2 --steps 4 --phase-blocks 1",
        ),
        "gpu0 gpu1 gpu1>gpu0 gpu1>gpu2",
    ),
}
#: What is part of a figure, by program and metric, with its subject in braces; for the others, their GPU, or all.
OF_ALL = "gpu?"
OF_PAIR = "{from} {to} {from}>{to}"
HOST_ONLY = ""
CONTAINS = {
    "memcopy": {"memcpy": "{gpu} {gpu}>{gpu}"},
    "transfer": {
        **dict.fromkeys(["htod_pinned", "htod_latency", "htod_sweep"], "{gpu} pinned>{gpu}"),
        **dict.fromkeys(["dtoh_pinned", "dtoh_latency", "dtoh_sweep"], "{gpu} {gpu}>pinned"),
        "both_pinned": "{gpu} pinned>{gpu} {gpu}>pinned",
        "htod_pageable": "{gpu} host>{gpu}",
        "dtoh_pageable": "{gpu} {gpu}>host",
        "htod_write_combined": "{gpu} mapped>{gpu}",
        # the driver moves pages
        **dict.fromkeys(["htod_prefetch", "dtoh_prefetch"], HOST_ONLY),
    },
    "access_patterns": {"host_by_cpu": HOST_ONLY},
    "migration": {"cpu": HOST_ONLY},
    "transpose": {"init": HOST_ONLY, "check": HOST_ONLY},
    "p2p": {
        **dict.fromkeys(["peer", "memcpy_peer", "driver_staged", "latency"], OF_PAIR),
        "host_staged": "{from} {to} {from}>pinned pinned>{to}",
        # by a kernel of the one that reads, or writes
        "read": "{to}",
        "write": "{from}",
        "both_ways": OF_PAIR + " {to}>{from}",
        "all_to_one": OF_ALL + " gpu?>{gpu}",
        "one_to_all": OF_ALL + " {gpu}>gpu?",
    },
    "stencil": {
        **dict.fromkeys(["cells", "total", "halo_node"], OF_ALL + " gpu?>gpu?"),
        **dict.fromkeys(["pack", "sync", "halo_net"], HOST_ONLY),
    },
}
#: Copies at the same time: two that are slow take as long as one.
AT_ONCE = ("both_pinned", "both_ways", "all_to_one", "one_to_all")


def contained(program: str, metric: str, subject: Mapping[str, int], slow: str) -> bool:
    """Whether the operation that is made slow is part of a figure."""
    parts = CONTAINS.get(program, {}).get(metric, "{gpu}" if "gpu" in subject else OF_ALL)
    of = {end: f"gpu{gpu}" for end, gpu in subject.items()}
    return any(fnmatch(slow, part) for part in parts.format(**of).split())


def every() -> dict[str, Case]:
    return {**HOST, **GPU, **RANKED}


def recorded(case: Case, programs: Path, library: Path, folder: Path, **environment: str) -> Trace:
    """Runs it with the recorder preloaded, in its own folder."""
    result = folder / "result.json"
    done = _run(case, programs, library, folder, environment)
    assert result.is_file(), done.stdout + done.stderr
    document, metrics = json.loads(result.read_text()), completed(result.read_text())["metrics"]
    # results of kernels that do nothing are wrong
    wrong = "--gpus" in case.arguments and document["reason"].startswith("verification: ")
    assert done.returncode == 0 or wrong, done.stdout + done.stderr
    return Trace(document, processes(folder / "clock", programs / case.program), metrics)


def noticed(case: Case, programs: Path, library: Path, folder: Path, **environment: str) -> bool:
    """Whether the run reports wrong results, or ends without any, since later steps may need the skipped ones."""
    done = _run(case, programs, library, folder, environment)
    result = folder / "result.json"
    assert (done.returncode == 0) == (result.is_file() and json.loads(result.read_text())["status"] == "ok")
    return done.returncode < 0 or "verification: " in done.stdout + done.stderr


def energy_and_work(run: Trace, names: str) -> tuple[float, float]:
    """How much a pass for energy did a second, and the timed parts of the same work, one after another: by the clock of
    the host where it is told, since a pass is timed by that."""
    (power,) = (one for one in run.document["series"] if one["metric"] == "power")
    (counted,) = {*power["counts"]} - {"seconds"}
    amount = seconds = 0.0
    for name in names.split():
        (work, *_) = (one for one in run.document["series"] if one["metric"] == name)
        amount += work["counts"][counted]
        told = [rate for key, rate in run.document["provenance"].items() if key.startswith(f"host_clock_gbs.{name}.")]
        seconds += work["counts"][counted] / (1e9 * told[0]) if told else median(work["seconds"])
    return power["counts"][counted] / power["counts"]["seconds"], amount / seconds


def failed(document: Mapping[str, Any]) -> set[str]:
    """The verifications of a run that did not pass."""
    checks = (one for one in document["verification"] if one["error"] != 0)
    return {json.dumps([one["name"], one["subject"], one.get("at")]) for one in checks}


def _short(name: str, subject: Mapping[str, int], at: Mapping[str, Any] | None) -> str:
    """With what tells two ways from each other."""
    way = f"{subject['from']}>{subject['to']}" if "from" in subject else (at or {}).get("side")
    return f"{name}:{way}" if way else name


def lost(case: Case, trace: Trace, programs: Path, library: Path, folder: Path, **environment: str) -> list[str]:
    """The verifications that fail if the timed parts of one series do nothing, by metric."""
    found: dict[str, dict[str, None]] = {}
    for number, parts in enumerate(trace.parts):
        if steps := trace.numbers(parts):
            skipped = {**environment, "TENKEN_TEST_SKIPPED": " ".join(map(str, steps))}
            (place := folder / str(number)).mkdir()
            without = recorded(case, programs, library, place, **skipped).document
            names = (_short(*json.loads(one)) for one in sorted(failed(without) - failed(trace.document)))
            found.setdefault(parts[0].name, {}).update(dict.fromkeys(names))
    return [f"without {metric}: {' '.join(names) or 'nothing fails'}" for metric, names in found.items()]


def _run(
    case: Case, programs: Path, library: Path, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    place, log, result = folder / "place", folder / "clock", folder / "result.json"
    place.mkdir()
    (folder / "size").write_text("256K\n")
    env = {**os.environ, "TENKEN_TEST_CLOCK": str(log), "TENKEN_TEST_STEP": str(case.step)}
    # small_cache.c is there already
    env |= {"LD_PRELOAD": f"{library} {os.environ['LD_PRELOAD']}", "TENKEN_TEST_CACHE": str(folder / "size")}
    env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment}
    options = ["--repetitions", str(case.repetitions), "--warmup-seconds", str(case.warmup), "--json", str(result)]
    command = [str(programs / case.program), *options, *case.arguments.split()]
    if case.ranks > 1:
        command = ["mpirun", "-n", str(case.ranks), "-x", "LD_PRELOAD", *command]
        env |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        env |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, cwd=place)


def lines(case: Case, trace: Trace) -> list[str]:
    """The protocol as it is stored, for each rank."""
    if case.ranks == 1:
        steps = trace.lines(fold=case.fold, others=case.others)
        beside = [] if case.others else trace.beside()
        return steps + beside + trace.sums() + trace.monitored() + trace.sizes() + trace.counted()
    ranks = [trace.lines(rank, case.fold, case.others) for rank in range(case.ranks)]
    by_rank = [line for rank, some in enumerate(ranks) for line in [f"rank {rank}:", *some]]
    return by_rank + trace.sizes() + trace.counted()  # sums vary with the waits of ranks
