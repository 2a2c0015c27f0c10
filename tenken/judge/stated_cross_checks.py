"""Numbers that a result states beside its values: parameters that a program chose, notes on files, slabs and energy.

Each has a consequence in the same result or a bound that no machine exceeds. All functions are pure; each returns
sentences that name the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

from tenken.judge.contradictions import ROUNDED_S, run_seconds
from tenken.judge.ratio_cross_checks import PHASES_LEAST
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL

#: A number that is computed twice from the same ones.
EXACT = 1e-4
#: A rate may exceed its limit by this: rounded clocks.
ABOVE_LIMIT = 1.02
#: What a sensor of power may be off by, as a fraction; energy readings state it in addition to their scatter.
SENSOR_GAIN = 0.05
#: An energy reading covers this part of its pass, at least: counters are updated every 20 to 100 ms.
READ_PART = 0.5
#: The trial of a way to exchange cells is a few blocks; a message that is late in one of them may halve its rate.
TRIAL_APART = 3.0
#: A training step is formed of whole passes over its data, of which a few were timed: a factor of 2 by rounding, and
#: the scatter of short timings on a host.
STEP_APART = 4.0
#: Threads that a program starts at most if none are requested, on the host and for a GPU.
FILE_THREADS: Mapping[str, tuple[int, int]] = {
    "overlap": (1, 4), "snapshot_io": (8, 8), "storage_map": (16, 16), "data_loading": (16, 16),
}  # fmt: skip
#: Passes over memory reach this part of the peak on any GPU that is not throttled: 0.84 to 0.87 in 13 results of H200.
OF_PEAK = 0.4
#: Arrays in memory are this many times as large as the cache.
CACHES = 4

#: An official run of HPCG.
OFFICIAL_S = 1800.0

#: Of a product, as its algorithm is named by them.
SIDES = ("m", "n", "k", "batch")

Texts = Iterator[str]


def of(result: Result, request: Request, machine: Machine) -> list[Finding]:
    """Statements that contradict the values or other statements."""
    if result.status != "ok":
        return []
    texts: list[str] = []
    if "implementation" in result.parameters:
        texts = [*_foreign(result)] if request.foreign else []
    else:
        checks = BY_PROGRAM.get(result.program)
        texts = [*_files(result), *_energies(result), *(checks(result, request, machine) if checks else ())]
    texts += _possible(result)
    return [Finding(FAIL, f"{result.node}: {text}", node=result.node, kind="cross-check") for text in texts]


def number(value: object) -> float | None:
    """A finite number of parameters or path; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _of(result: Result, *names: str) -> list[MetricValue]:
    return [metric for metric in result.metrics if metric.name in names]


def _starting(result: Result, prefix: str) -> dict[str, float]:
    """Numbers of path by what follows the prefix."""
    return {
        key[len(prefix) :]: found
        for key, value in result.path.items()
        if key.startswith(prefix) and (found := number(value)) is not None
    }


# ---- of every program ----------------------------------------------------------------------------------------


def _files(result: Result) -> Texts:
    for key in ("page_bytes", "file_system_block_bytes"):
        size = result.path.get(key)
        if size is not None and not (isinstance(size, int) and size >= 512 and size & (size - 1) == 0):
            yield f"path {key} is {size!r}; allowed: powers of two from 512 on"
    free, total = (number(result.path.get(f"file_system_{name}_bytes")) for name in ("free", "total"))
    if free is not None and total is not None and free > total:
        yield f"path file_system_free_bytes is {free:.6g}; file_system_total_bytes is {total:.6g}"
    threads, most = number(result.parameters.get("threads")), FILE_THREADS.get(result.program)
    if most and threads is not None and "--threads" not in result.command:
        allowed = most[0 if result.parameters.get("backend") == "host" else 1]
        if not 1 <= threads <= allowed:
            yield f"parameter threads is {threads:g}; it was not requested: 1 to {allowed} are started"


def _energies(result: Result) -> Texts:
    """The parts of an energy reading: its time, its scatter, clock and temperature."""
    clocks = [device.sm_clock_max_mhz for device in result.devices if device.sm_clock_max_mhz]
    run = run_seconds(result)
    for key in result.path:
        if not key.startswith("energy.") or not key.endswith(".duration"):
            continue
        place = key.removesuffix(".duration")
        duration = number(result.path[key])
        seconds, scatter, whole, clock, heat = (
            number(result.path.get(f"{place}.{part}"))
            for part in ("seconds", "repeatability", "uncertainty", "sm_clock_mhz", "temperature_c")
        )
        if duration and seconds is not None and not READ_PART * duration <= seconds <= duration * (1 + EXACT):
            yield f"path {place}.seconds is {seconds:.6g} of {duration:.6g} (duration); minimum: {READ_PART:g} of it"
        if scatter is not None and whole is not None and not math.isclose(whole, scatter + SENSOR_GAIN, rel_tol=EXACT):
            yield f"path {place}.uncertainty is {whole:.6g}; repeatability gives {scatter + SENSOR_GAIN:.6g}"
        if duration and run is not None and duration > run + ROUNDED_S:
            yield f"path {place}.duration is {duration:.6g}; the run took {run:.6g} s"
        if clock is not None and clocks and clock > ABOVE_LIMIT * max(clocks):
            yield f"path {place}.sm_clock_mhz is {clock:g}; sm_clock_max_mhz is {max(clocks):g}"
        if heat is not None and not -20 <= heat <= 150:
            yield f"path {place}.temperature_c is {heat:g}; sensors report -20 to 150"


#: No copy and no message takes less, between cores or with a GPU: light crosses 3 m, or 30 m, in this many us.
SHORTEST_US, SHORTEST_OF_GPU_US = 0.01, 0.1
#: The fastest memory of a socket is below 6,000 GB/s (stacked memory of an APU).
SOCKET_GBS = 10_000.0
#: Operations per cycle of a logical CPU at most, and its clock at most: two units of 512 bits have 32 of FP64, matrix
#: units up to 2,048 of small formats.
CPU_CLOCK_HZ, CPU_OPERATIONS, CPU_FP64 = 7e9, 8192, 128


def _possible(result: Result) -> Texts:
    """What no machine exceeds, on hosts too, whose limits no data sheet has."""
    sockets, cpus = result.host.sockets, result.host.logical_cpus
    nodes = max(1, len(set(result.placement.nodes)))
    for metric in result.metrics:
        on_gpu = metric.kind in ("gpu", "pair")
        shortest = SHORTEST_OF_GPU_US if on_gpu else SHORTEST_US
        if metric.unit == "us" and metric.samples and min(metric.samples) < shortest:
            yield f"{metric.id} contains {min(metric.samples):.3g} us; the shortest that is possible is {shortest:g}"
        # another implementation (the site's xhpl) may use GPUs that its output does not list
        if on_gpu or result.parameters.get("backend", "host") != "host" or "implementation" in result.parameters:
            continue
        most = math.inf
        if result.program == "stream" and metric.unit == "GB/s" and sockets:
            most = SOCKET_GBS * sockets * nodes
        elif metric.unit in FLOPS and cpus:
            fp64 = result.program == "hpl" or metric.at.get("precision") == "fp64"
            most = nodes * cpus * CPU_CLOCK_HZ * (CPU_FP64 if fp64 else CPU_OPERATIONS) / FLOPS[metric.unit]
        if metric.best > most:
            yield f"{metric.id} is {metric.best:.4g} {metric.unit}; {nodes} hosts of this kind reach at most {most:.4g}"


#: Operations per second of a unit.
FLOPS: Mapping[str, float] = {"GFLOP/s": 1e9, "TFLOP/s": 1e12}


# ---- of single programs --------------------------------------------------------------------------------------

#: Arrays of stream on a device whose caches OpenACC does not report: above 4 x any L2, and what its memory permits.
OPENACC_ARRAY_BYTES = (512 * 2**20, 4 * 2**30)


def _stream(result: Result, request: Request, machine: Machine) -> Texts:
    """Arrays that no cache holds: 4 times the last one, by default exactly that or 64 MiB."""
    size, cache = number(result.parameters.get("array_bytes")), result.host.last_level_cache_bytes
    if any(metric.kind == "gpu" for metric in result.metrics):
        chosen = request.token is not None and "--array-bytes" not in result.command
        if chosen and size is not None and result.path.get("backend") == "openacc":
            lowest, highest = OPENACC_ARRAY_BYTES
            if not lowest - 8 < size <= highest:
                yield (
                    f"parameter array_bytes is {size:.0f}; it was not requested, and on an OpenACC device its default "
                    f"is from {lowest} to {highest}"
                )
        return
    if size is None or not cache:
        return
    usual = max(CACHES * cache, 64 * 2**20)
    if size < CACHES * cache - 8:
        yield f"parameter array_bytes is {size:.0f}; required: {CACHES} x host.last_level_cache_bytes, {CACHES * cache}"
    elif request.token is not None and "--array-bytes" not in result.command and size > usual:
        yield f"parameter array_bytes is {size:.0f}; it was not requested, and its default is {usual}"


def _daxpy(result: Result, request: Request, machine: Machine) -> Texts:
    elements, cache = number(result.parameters.get("elements")), result.host.last_level_cache_bytes
    usual = max(2**24, (cache or 0) // 2)
    if request.token is not None and "--elements" not in result.command and cache and elements not in (None, usual):
        yield f"parameter elements is {elements:.0f}; it was not requested, and its default is {usual}"


def _stencil(result: Result, request: Request, machine: Machine) -> Texts:
    if request.token is not None:
        known = {key.split(".")[0] for key in result.path}
        yield from (
            f"path {name} is missing: programs of this suite always state it"
            for name in ("slabs", "slab_planes", "flops_of_cell", "alone_gflops")
            if name not in known and (name != "alone_gflops" or _of(result, "alone", "fused"))
        )
    slabs, planes = number(result.path.get("slabs")), number(result.path.get("slab_planes"))
    together = {metric.subject.first for metric in _of(result, "cells") if metric.kind == "ranks"}
    if slabs is not None and together and slabs not in together:
        yield f"path slabs is {slabs:g}; cells are of {', '.join(map(str, sorted(together)))}"
    counts = (result.placement.ranks, len(result.devices) or 1, number(result.parameters.get("parts")) or 1)
    if slabs is not None and not together and slabs > math.prod(counts):
        yield f"path slabs is {slabs:g}; at most {math.prod(counts):g} by ranks, GPUs and parts"
    height = number(result.parameters.get("nz"))
    if slabs and planes is not None and height is not None:
        expected = height / slabs if result.parameters.get("scaling") == "strong" else height
        if not math.floor(expected) <= planes <= math.ceil(expected):
            yield f"path slab_planes is {planes:g}; nz and slabs give {expected:g}"
    yield from _blocks(result)


def _blocks(result: Result) -> Texts:
    """Steps of time in one pass: how fast each number was, and which of them was chosen."""
    flops = number(result.path.get("flops_of_cell"))
    alone = _starting(result, "alone_gflops.")
    for where, rate in alone.items() if flops else ():
        name, _, count = where.partition("=")
        rates = [m.median * (flops or 0.0) for m in _of(result, "alone", "fused") if str(m.at.get(name)) == count]
        if rates and not any(math.isclose(rate, one, rel_tol=EXACT) for one in rates):
            yield f"path alone_gflops.{where} is {rate:.6g}; the metric and flops_of_cell give {rates[0]:.6g}"
    for name in ("temporal_block", "steps_a_pass"):
        asked = number(result.parameters.get(name))
        for how, chosen in _starting(result, f"{name}.").items():
            trials = _starting(result, f"tried.{how}.{name}=")
            best = max(trials.values(), default=0.0)
            fastest = {float(count) for count, rate in trials.items() if rate >= best * (1 - EXACT)}
            fastest = fastest or _fastest_alone(result, name)
            if asked and chosen != asked:
                yield f"path {name}.{how} is {chosen:g}; parameter {name} is {asked:g}"
            elif not asked and fastest and chosen not in fastest:
                said = ", ".join(f"{count:g}" for count in sorted(fastest))
                yield f"path {name}.{how} is {chosen:g}; the fastest of those measured is {said}"
            own = [m.value for m in _of(result, "cells") if m.at.get("exchange") == how]
            measured = f"tried.{how}.{name}={chosen:g}" in result.path
            if own and measured and not own[0] / TRIAL_APART <= best <= own[0] * TRIAL_APART:
                yield f"path tried.{how}.{name}={chosen:g} is {best:.6g}; cells with it are {own[0]:.6g}"


def _fastest_alone(result: Result, name: str) -> set[float]:
    """Of each GPU the number of steps in a pass that is its fastest."""
    best: dict[str, MetricValue] = {}
    for metric in _of(result, "alone", "fused"):
        if number(metric.at.get(name)) is not None:
            best.setdefault(metric.subject.id, metric)
            if metric.median > best[metric.subject.id].median:
                best[metric.subject.id] = metric
    return {float(number(metric.at[name]) or 0.0) for metric in best.values()}


def _hpcg(result: Result, request: Request, machine: Machine) -> Texts:
    """The error of the solution, relative to the residual that was reached, is a verification."""
    lasted = sum(_starting(result, "phase_seconds.").values())
    if result.path.get("official_time") == "yes" and 0 < lasted < OFFICIAL_S * PHASES_LEAST:
        yield f"path official_time is 'yes'; phase_seconds are {lasted:.6g} s together; required: {OFFICIAL_S:g}"
    error, reached = number(result.path.get("worst_error")), number(result.path.get("reference_residual"))
    if error is None or reached is None:
        return
    share = error / max(reached, 1e-9)
    for check in result.verification.checks:
        ours = check.what.startswith("solution against 1, every row") and check.error is not None
        if ours and not math.isclose(check.error or 0.0, share, rel_tol=EXACT):
            yield (
                f"path worst_error and reference_residual give {share:.6g}; verification {check.what!r} has "
                f"{check.error:.6g}"
            )


def _overlap(result: Result, request: Request, machine: Machine) -> Texts:
    """The steps of a GPU move their passes over the state no faster than its memory permits, and not far below."""
    sheet = machine.limits.get(("memory", "gpu"))
    size, steps = number(result.parameters.get("bytes")), number(result.parameters.get("steps"))
    loops = {m.subject.id: m for m in _of(result, "loop") if m.kind == "gpu" and m.at.get("mode") == "none"}
    for where, passes in _starting(result, "passes_of_a_step.").items():
        loop = loops.get(where)
        if passes < 1 or passes != int(passes):
            yield f"path passes_of_a_step.{where} is {passes:g}; allowed: whole numbers from 1 on"
        if loop is None or sheet is None or not sheet.value or not size or not steps or loop.value <= 0:
            continue
        device = result.device(loop.subject.first)
        if device is None or size <= (device.l2_bytes or math.inf):
            continue
        rate = 2 * size * passes * steps / loop.value / 1e9
        # a slice of a GPU has a part of its memory bandwidth
        low = 0.0 if device.mig_enabled else OF_PEAK * sheet.value
        if not low <= rate <= ABOVE_LIMIT * sheet.value:
            yield (
                f"path passes_of_a_step.{where} is {passes:g}: {loop.id} then moves {rate:.6g} GB/s; {sheet.basis}: "
                f"{sheet.value:.6g}, minimum {low:.6g}"
            )


def _storage_map(result: Result, request: Request, machine: Machine) -> Texts:
    """Copies between host and GPU, measured to choose by: no faster than the link that the machine has."""
    sheet = machine.limits.get(("host_link", "gpu"))
    if sheet is None or not sheet.value:
        return
    for way in ("link_to_memory_gbs.", "link_from_memory_gbs."):
        for where, rate in _starting(result, way).items():
            if where.startswith("gpu") and rate > ABOVE_LIMIT * sheet.value:
                yield f"path {way}{where} is {rate:.6g}; {sheet.basis}: {sheet.value:.6g}"


#: Bytes of a sample of a kind, and samples of a batch that was not requested: src/programs/data_loading/samples.cpp. Of
#: speech, samples have several lengths, and this mean.
KINDS: Mapping[str, tuple[int | None, int]] = {"speech": (1230 * 80 * 4, 32), "deepcam": (768 * 1152 * 16 * 4, 2)}
LENGTHS_APART = {"speech": 0.1}
SHIFTS = {"": 0, "ki": 10, "mi": 20, "gi": 30}
#: Waiting, by the steps of a GPU: 0.2 to 1.0 points apart in 60 results, more on a host with other load. Steps of
#: a host scatter: not compared.
WAITS_POINTS = 25.0


def _kind(name: str) -> tuple[int | None, int]:
    said = re.fullmatch(r"(\d+)(ki|mi|gi|)", name)
    if said is None:
        return KINDS.get(name, (None, 0))
    size = int(said[1]) << SHIFTS[said[2]]
    return size, max(1, min(64, 2**25 // size)) if size else 0


def _loaded(result: Result) -> Texts:
    """Bytes follow from the samples of a kind, waiting from the step and from how many samples a second came."""
    counts = {(m.subject, m.at.text): m for m in _of(result, "samples")}
    for metric in _of(result, "rate", "waits"):
        count = counts.get((metric.subject, metric.at.text))
        kind = str(metric.at.get("kind"))
        size, usual = _kind(kind)
        if count is None or count.median <= 0:
            continue
        each, apart = 1e9 * metric.median / count.median, LENGTHS_APART.get(kind, EXACT)
        if metric.name == "rate" and size and not math.isclose(each, size, rel_tol=apart):
            yield f"{metric.id} and {count.id} give {each:.6g} B; a sample has {size}"
        step = number(result.path.get(f"step_ms.{kind}.{metric.subject.id}"))
        batch = number(result.parameters.get("batch")) or usual
        if metric.name != "waits" or metric.kind != "gpu" or step is None or not batch:
            continue
        waits = 100 * (1 - 1e-3 * step * count.median / batch)
        if abs(metric.median - waits) > WAITS_POINTS:
            yield f"{metric.id} is {metric.median:.4g} %; step_ms of path and {count.id} give {waits:.4g}"


def _data_loading(result: Result, request: Request, machine: Machine) -> Texts:
    """A step lasts as long as requested, or as its checksums alone where they or one more pass take longer."""
    yield from _loaded(result)
    asked, sums = number(result.parameters.get("step_ms")), _starting(result, "checksum_ms.")
    for where, step in _starting(result, "step_ms.").items():
        alone = sums.get(where, 0.0)
        if not asked or asked / STEP_APART <= step <= STEP_APART * max(asked, alone):
            continue
        if step > asked or step > STEP_APART * alone:
            yield f"path step_ms.{where} is {step:.6g}; parameter step_ms is {asked:g}, checksum_ms {alone:.6g}"


def _himeno(result: Result, request: Request, machine: Machine) -> Texts:
    asked = number(result.parameters.get("repetitions"))
    if result.parameters.get("timing") != "fixed" or not asked:
        return
    for where, count in _starting(result, "iterations.").items():
        if count != asked:
            yield f"path iterations.{where} is {count:g}; parameter repetitions is {asked:g}"


def _mpi_p2p(result: Result, request: Request, machine: Machine) -> Texts:
    ranks, partner = result.placement.ranks, number(result.parameters.get("partner"))
    if partner is not None and not 1 <= partner < ranks:
        yield f"parameter partner is {partner:g}; allowed: 1 to {ranks - 1}"
    said = result.path.get("partner")
    if said is not None and partner is not None and number(said) != partner:
        yield f"path partner is {said!r}; parameter partner is {partner:g}"


def _gemm(result: Result, request: Request, machine: Machine) -> Texts:
    """The library's algorithm of each product of a GPU: a rate without it cannot be repeated."""
    if request.token is None or result.parameters.get("backend") != "cuda":
        return
    wanted = {
        f"algorithm.{m.at.get('precision')}:{'x'.join(str(m.at[s]) for s in SIDES if s in m.at)}.{m.subject.id}"
        for m in _of(result, "gemm")
        if m.kind == "gpu"
    }
    yield from (f"path {key} is missing: the product was measured with it" for key in sorted(wanted - set(result.path)))
    for metric in _of(result, "over_first"):
        sides = "x".join(str(metric.at[side]) for side in SIDES if side in metric.at)
        key = f"algorithm.{metric.at.get('precision')}:{sides}.{metric.subject.id}"
        said = PROPOSED.match(str(result.path.get(key)))
        if said is None:
            continue
        which, proposed, tried = map(int, said.groups())
        if which > proposed or tried > proposed or which < 1:
            yield f"path {key} is number {which} of {proposed}, {tried} tried"
        elif which == 1 and not math.isclose(metric.value, 1, rel_tol=EXACT):
            yield f"{metric.id} is {metric.value:.6g}; path {key} is the library's first proposal"


#: How the algorithm of a product is noted.
PROPOSED = re.compile(r"number (\d+) of (\d+) proposed, (\d+) tried\b")


def _stencil_forms(result: Result, request: Request, machine: Machine) -> Texts:
    """One formulation, with as many parts as it has."""
    form, parts = result.parameters.get("form"), number(result.parameters.get("parts"))
    if result.path.get("form") != form:
        yield f"path form is {result.path.get('form')!r}; parameter form is {form!r}"
    own = 1 if form == "sequential" else result.placement.threads if form == "openmp" else None
    for metric in _of(result, "cells"):
        if metric.at.get("form", form) != form:
            yield f"{metric.id} is of form {metric.at['form']!r}; parameter form is {form!r}"
        if own is not None and metric.subject.first != own:
            yield f"{metric.id} is of {metric.subject.first} parts; {form} has {own}"
        if parts and metric.subject.first != parts:
            yield f"{metric.id} is of {metric.subject.first} parts; parameter parts is {parts:g}"


def _lu(result: Result, request: Request, machine: Machine) -> Texts:
    """The grid of a factorisation is that of its values; the refinements are those that were verified."""
    for key in ("grid", "n", "nb"):
        said, measured = result.parameters.get(key), {str(m.at[key]) for m in result.metrics if key in m.at}
        if said not in (None, "auto", 0) and measured and str(said) not in measured:
            yield f"parameter {key} is {said!r}; the values are of {', '.join(sorted(measured))}"
    most = result.parameters.get("maximum_refinements")
    for check in result.verification.checks if most is not None else ():
        found = re.search(r"declared maximum of (\d+) refinements", check.what)
        if found and number(most) != float(found[1]):
            yield f"parameter maximum_refinements is {most!r}; verified were at most {found[1]}"
            return


# ---- of other implementations --------------------------------------------------------------------------------

#: As `uname -m` names them; empty: unknown.
ARCHITECTURES = (
    "x86_64", "aarch64", "ppc64le", "ppc64", "riscv64", "s390x", "loongarch64", "sparc64", "i686", "armv7l", "",
)  # fmt: skip


def _foreign(result: Result) -> Texts:
    """An adapter knows nothing of host and build: what stands there it did not write."""
    host, build, place = result.host, result.build, result.placement
    implementation = result.parameters["implementation"]
    for name, said, written in (
        ("host.os", host.os, ""),
        ("host.kernel", host.kernel, ""),
        ("host.cpu", host.cpu, ""),
        ("build.type", build.type, "binary"),
        ("build.flags", build.flags, ""),
        ("placement.binding", place.binding, "none"),
        ("placement.places", place.places, ""),
    ):
        if said != written:
            yield f"{name} is {said!r}; the adapter of {implementation} writes {written!r}"
    if host.architecture not in ARCHITECTURES:
        yield f"host.architecture is {host.architecture!r}; allowed: {', '.join(filter(None, ARCHITECTURES))}"
    if build.backends != (implementation,):
        yield f"build.backends is {', '.join(build.backends) or 'empty'}; parameter implementation is {implementation}"
    if not all(word.strip() for word in result.command):
        yield "command contains an empty word"
    if not place.nodes:
        yield "placement.nodes is empty; an adapter names the nodes of the job"
    took = re.search(r"this took ([0-9.]+) s", str(result.path.get("official_time", "")))
    seconds = number(result.path.get("total_seconds"))
    if took and seconds is not None and not math.isclose(float(took[1]), seconds, rel_tol=1e-3):
        yield f"path total_seconds is {seconds:.6g}; official_time is {result.path['official_time']!r}"
    grid, ranks = re.fullmatch(r"(\d+)x(\d+)", str(result.parameters.get("grid", ""))), place.ranks
    if "grid" in result.parameters and (grid is None or int(grid[1]) * int(grid[2]) != ranks):
        yield f"parameter grid is {result.parameters['grid']!r}; {ranks} ranks ran"


BY_PROGRAM: Mapping[str, Callable[[Result, Request, Machine], Texts]] = {
    "stream": _stream,
    "daxpy": _daxpy,
    "stencil": _stencil,
    "hpcg": _hpcg,
    "overlap": _overlap,
    "storage_map": _storage_map,
    "data_loading": _data_loading,
    "stencil_forms": _stencil_forms,
    "himeno": _himeno,
    "gemm": _gemm,
    "mpi_p2p": _mpi_p2p,
    "hpl": _lu,
    "hpl_mxp": _lu,
}
