"""The first version of a system file, written from the reports of the scheduler and this machine."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenken.errors import printable
from tenken.machines import cluster, hardware, local
from tenken.machines.cluster import Queue
from tenken.machines.errors import SystemsError
from tenken.machines.local import Runner, Which, run_command
from tenken.machines.model import GpuSheet, Node, System

#: Modules that a first system file may need, by prefixes of their names.
_MODULES = re.compile(r"(?i)(cuda|nvhpc|nvidia|gcc|gnu|openmpi|ompi|hpcx|mpich|mvapich|cray-mpich|intel-?mpi)(/|-|$)")

#: The output of a test rank.
_RANK = "TENKEN-RANK"


class NothingSeenError(SystemsError):
    """The scheduler does not respond here; the message names the command that was tried."""


@dataclass
class Draft:
    """The text of a system file, and what could not be detected."""

    text: str
    unseen: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


def draft(
    name: str, scheduler: str, here: System, run: Runner = run_command, which: Which = shutil.which,
    env: Mapping[str, str] | None = None,
) -> Draft:  # fmt: skip
    """A system file for `scheduler` (slurm, pbs or local). `here`: this machine, as detected. Raises NothingSeenError
    if the scheduler lists no partition with nodes.
    """
    made = Draft("")
    node = here.partition(local.PARTITION).node
    if scheduler == "local":
        queues = [_this_node(node)]
    else:
        asked = cluster.ASKED[scheduler]
        queues = cluster.listed_queues(scheduler, run, made.unseen)
        if not queues:
            why = "is not on PATH" if which(asked) is None else "lists no available partition with nodes"
            raise NothingSeenError(f"{asked} {why}: run this on a login node of the cluster, or omit --from-here")
    mpi = "mpi" in here.partition(local.PARTITION).features
    if not mpi:
        made.unseen.append("an MPI that can build and start programs: load its module and run this again")
    lines = [
        "# Written by `tenken systems new` from what the scheduler and this machine report. Review it: what could not",
        "# be determined is left out, and guesses are marked. `tenken systems validate` reports every error.",
        "",
        f"title: {_text(name)}",
        "status: active",
        "facts:",
        f"  date: {datetime.date.today().isoformat()}",
        f"  source: {_text(f'looking at {scheduler} and at {socket.gethostname()}')}",
        f"modules_system: {_modules_system(env or {})}",
        *_modules(run, made),
        *_variables(scheduler),
        "",
        "environments:",
    ]
    with_gpus = any(queue.gpus for queue in queues)
    names = _environments(lines, local.compilers(run, which, env or {}, with_gpus, mpi), made, with_gpus)
    lines += ["", "partitions:"]
    taken: set[str] = set()
    for queue in queues:
        lines += _partition(queue, scheduler, names, mpi, here, taken, made, run)
    made.text = "\n".join(lines) + "\n"
    return made


def _this_node(node: Node) -> Queue:
    memory = None if node.memory_bytes is None else node.memory_bytes // 2**20
    kind = node.gpu.name if node.gpu else None
    return Queue("node", 1, node.sockets, node.cores, node.threads_per_core, memory, node.gpu_count or 0, kind)


def _text(value: str) -> str:
    """A YAML scalar in double quotes (JSON's strings are YAML's)."""
    return json.dumps(value, ensure_ascii=False)


def _modules_system(env: Mapping[str, str]) -> str:
    if env.get("LMOD_CMD"):
        return "lmod"
    if env.get("MODULESHOME"):
        return "tmod4" if env.get("MODULES_CMD") else "envmod"
    return "nomod"


def _modules(run: Runner, made: Draft) -> list[str]:
    """Compilers, CUDA and MPI from `module avail`, as a comment to choose from."""
    printed = run(["bash", "-lc", "module -t avail 2>&1"]) or ""
    found = [line.strip() for line in printed.splitlines() if _MODULES.match(line.strip())]
    if not found:
        made.unseen.append("modules: `module avail` lists no compiler, CUDA or MPI")
        return []
    made.seen.append(f"{len(found)} modules of compilers, CUDA and MPI")
    return [f"# modules here: {', '.join(found[:40])}"]


def _variables(scheduler: str) -> list[str]:
    rows = {
        "slurm": [("TENKEN_ACCOUNT", "account for --account"), ("TENKEN_RESERVATION", "reservation")],
        "pbs": [("TENKEN_GROUP", "project group for -W group_list")],
    }.get(scheduler, [])
    return ["", "variables:", *(f"  {name}: {{meaning: {_text(what)}}}" for name, what in rows)] if rows else []


def _environments(lines: list[str], found: Mapping[str, local.Environment], made: Draft, with_gpus: bool) -> list[str]:
    for environment in found.values():
        lines += [
            f"  {environment.name}:",
            f"    features: [{', '.join(sorted(environment.features))}]",
            f"    cc: {environment.cc}",
            f"    cxx: {environment.cxx}",
        ]
        if environment.cuda:
            lines.append(f"    cuda: {_text(environment.cuda)}")
    if with_gpus and "cuda" not in found:
        made.unseen.append("nvcc: load CUDA's module and run this again, or add an environment and a feature `cuda`")
    return list(found)


def _partition(
    queue: Queue, scheduler: str, environments: Sequence[str], mpi: bool, here: System, taken: set[str], made: Draft,
    run: Runner,
) -> list[str]:  # fmt: skip
    sheet, guessed = sheet_of(queue, here)
    name = _name(queue, taken)
    lines = [f"  {name}:"]
    access = {
        "slurm": [f"--partition={queue.name}", "--account=${TENKEN_ACCOUNT}", "--reservation=${TENKEN_RESERVATION}"],
        "pbs": [f"-q {queue.name}", "-W group_list=${TENKEN_GROUP}"],
    }.get(scheduler, [])
    lines += [f"    scheduler: {scheduler}", *_launcher(run, scheduler, mpi, queue, made)]
    if access:
        lines += ["    access:", *(f"      - {_text(option)}" for option in access)]
    if queue.gpus and scheduler == "slurm":
        lines.append('    gpu_request: ["--gpus-per-node={num_gpus_per_node}"]')
    if queue.gpus and queue.gpu_option:
        lines.append(f'    gpu_request: ["{queue.gpu_option}={{num_gpus_per_node}}"]')
    described = None if sheet else _described(queue, scheduler, here)
    known = [one for one in environments if one == "host" or sheet or described]
    lines.append(f"    environments: [{', '.join(known)}]")
    # a feature that no environment builds is rejected: without nvcc here, GPUs are described now and checked later
    features = [*(["cuda"] if "cuda" in known else []), *(["mpi"] if mpi else [])]
    lines.append(f"    features: [{', '.join(features)}]")
    if queue.time_limit and queue.time_limit != "00:00:00":
        lines.append(f"    time_limit: {queue.time_limit}")
    if scheduler == "local":
        lines.append("    max_jobs: 1")
    node = here.partition(local.PARTITION).node
    # a GPU that shares its memory or its package with a CPU has NVIDIA's Arm cores as host
    on_arm = sheet is not None and (sheet.host_link is None or "C2C" in sheet.host_link.kind)
    architecture, why = ("aarch64", f"with {queue.gpu_kind}") if on_arm else (node.architecture, "as here")
    lines.append(f"    build: {'login' if architecture == node.architecture else 'job'}")
    lines += ["    node:", f"      architecture: {architecture}   # {why}"]
    if queue.nodes > 1 or scheduler != "local":
        lines.append(f"      count: {queue.nodes}")
    # the number of cores is at least the number of threads that the scheduler offers
    for key, value in (
        ("sockets", queue.sockets),
        ("cores", queue.cores),
        ("threads_per_core", queue.threads_per_core),
    ):
        if value and (key == "cores" or queue.sockets):
            lines.append(f"      {key}: {value}")
    whole = node.host is not None and node.cores == (node.sockets or 0) * node.host.cores
    if node.host and whole and (node.sockets, node.cores) == (queue.sockets, queue.cores):
        lines.append(f"      host: {node.host.name}   # as here")
    if queue.memory_mib:
        lines.append(f"      memory_gib: {queue.memory_mib / 1024:.4g}")
    lines += described or _gpus(queue, sheet, guessed, name, made)
    gpus = f"{queue.gpus} x {sheet.name if sheet else queue.gpu_kind or 'GPU'}" if queue.gpus else "no GPU"
    if queue.instances:
        made.unseen.append(f"partition {name}: {queue.instances} MIG instances on each node are not whole GPUs")
    made.seen.append(f"partition {name}: {queue.nodes} nodes, {queue.cores or '?'} cores, {gpus}")
    return lines


def _described(queue: Queue, scheduler: str, here: System) -> list[str] | None:
    """For GPUs of this machine without a data sheet: what the driver reports."""
    node = here.partition(local.PARTITION).node
    kinds = set(node.gpu_names)
    if scheduler != "local" or node.gpu is not None or len(kinds) != 1 or not queue.gpus:
        return None
    if not (node.gpu_memory_bytes and node.compute_capability):
        return None
    return [
        "      gpus:   # there is no data sheet; as reported by the driver",
        f"        model: {_text(kinds.pop())}",
        f"        memory_gib: {node.gpu_memory_bytes / 2**30:.4g}",
        f'        compute_capability: "{node.compute_capability}"',
        f"        count: {queue.gpus}",
    ]


def _gpus(queue: Queue, sheet: GpuSheet | None, guessed: bool, name: str, made: Draft) -> list[str]:
    if not queue.gpus:
        return []
    if sheet is None:
        kind = queue.gpu_kind or "not reported"
        made.unseen.append(f"the data sheet of the {queue.gpus} GPUs of partition {name} ({kind}): add `gpus` by hand")
        return [
            f"      # gpus: {{sheet: ..., count: {queue.gpus}}}   # scheduler name: {kind}; without a data sheet:",
            f'      # gpus: {{model: "as nvidia-smi -L prints it", memory_gib: ..., compute_capability: "...", '
            f"count: {queue.gpus}}}",
        ]
    switched = queue.gpus == 8 and sheet.gpu_links is not None and "SXM" in sheet.name
    links = ", pair_links: all" if switched else ""
    if queue.gpus > 1 and sheet.gpu_links is not None and not switched:
        made.unseen.append(
            f"how many NVLinks join two GPUs of partition {name}: `nvidia-smi topo -m` on a node shows it"
        )
    comment = f"   # guessed from the scheduler's {queue.gpu_kind!r}" if guessed else ""
    return [f"      gpus: {{sheet: {sheet.name}, count: {queue.gpus}{links}}}{comment}"]


def sheet_of(queue: Queue, here: System) -> tuple[GpuSheet | None, bool]:
    """The data sheet of a queue's GPUs, and whether it is a guess. It is that of the local GPU if its name contains the
    scheduler's term, otherwise the first matching sheet (SXM first). The term is a driver's name with `_` for blanks
    (Slurm's AutoDetect), or consists of whole words of a name: `v100s` does not match `V100-SXM2`.
    """
    if not queue.gpus or not queue.gpu_kind:
        return None, False
    named = queue.gpu_kind.lower().replace("_", " ")
    word = "".join(_words(named))

    def fits(sheet: GpuSheet) -> bool:
        if any(re.fullmatch(name, named, re.I) for name in sheet.drivers_names):
            return True
        runs = [
            words[first:last]
            for words in map(_words, (sheet.name, *sheet.device_names))
            for first, last in itertools.combinations(range(len(words) + 1), 2)
        ]
        # `l4`, `tesla` and `80gb` do not identify a model, unless a sheet begins with them
        told = [run for run in runs if run[0] == _words(sheet.name)[0] or sum(map(len, run)) > 4]
        return bool(re.search(r"[a-z]\d", word)) and word in map("".join, told)

    mine = here.partition(local.PARTITION).node.gpu
    if mine is not None and fits(mine):
        return mine, mine.name != queue.gpu_kind
    fitting = [sheet for sheet in hardware.load().gpus.values() if fits(sheet)]
    fitting.sort(key=lambda sheet: "SXM" not in sheet.name)
    return (fitting[0], True) if fitting else (None, False)


def _words(name: str) -> list[str]:
    """`NVIDIA A100-SXM4-80GB` -> a100, sxm, 80."""
    found = re.findall(r"[a-z0-9]+", re.sub(r"^(nvidia|tesla)\b", "", name.lower().strip()))
    return [re.sub(r"^(sxm)\d$|^(\d+)gb$", lambda m: m[1] or m[2], word) for word in found if word != "nvidia"]


def _name(queue: Queue, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "-", queue.name.lower()).strip("-_")
    name = name if re.match(r"[a-z]", name) else f"p{name}"
    if name in taken:
        name = f"{name}-{re.sub(r'[^a-z0-9]+', '', (queue.gpu_kind or '').lower()) or queue.cores or len(taken)}"
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def _launcher(run: Runner, scheduler: str, mpi: bool, queue: Queue, made: Draft) -> list[str]:
    """How ranks are started: by srun if it has the plug-in of the local MPI and can start a rank with it (a listed
    plug-in may lack its library on the nodes); otherwise by the MPI's own launcher. With a different plug-in each rank
    would run alone.
    """
    if scheduler == "local" or not mpi:
        return [
            f"    launcher: {'srun' if scheduler == 'slurm' else 'mpirun' if mpi or scheduler == 'pbs' else 'local'}"
        ]
    version = run(["mpirun", "--version"]) or ""
    wanted, library = ("pmix", r"libpmix\.so") if "Open" in version else ("pmi2", "")
    plugins = run(["bash", "-c", "srun --mpi=list 2>&1"]) or ""
    libraries = run(["/sbin/ldconfig", "-p"]) or ""
    if scheduler == "slurm" and re.search(rf"\b{wanted}\b", plugins) and re.search(library, libraries):
        rank = [f"--partition={queue.name}", "--nodes=1", "--ntasks=1", "--time=1", "--immediate=8"]
        refusal = _refusal(run, ["srun", f"--mpi={wanted}", *rank])
        if refusal is None:
            return ["    launcher: srun", f'    launcher_options: ["--mpi={wanted}"]']
        made.unseen.append(
            f"whether `srun --mpi={wanted}` starts ranks in partition {queue.name}: a test with one rank failed "
            f"({refusal}), so mpirun was chosen"
        )
    if scheduler == "pbs" and "Open" in version:
        components = run(["ompi_info", "--parsable"])
        if components is not None and not re.search(r"^mca:plm:tm:", components, re.M):
            made.seen.append("Open MPI without PBS support: the nodes of the job are passed to it")
            agent = "--mca plm_rsh_agent pbs_tmrsh"
            return ["    launcher: openmpi-hosts", f'    launcher_options: ["{agent}"]']
    option = "--map-by ppr:{num_tasks_per_node}:node" if "Open" in version else "-ppn {num_tasks_per_node}"
    return ["    launcher: mpirun", f'    launcher_options: ["{option}"]']


def _refusal(run: Runner, launch: list[str]) -> str | None:
    """Why a launch command does not start a rank, in its own words; None if it does."""
    said = run(["sh", "-c", f"timeout 9 {shlex.join(launch)} echo {_RANK} 2>&1 || true"])
    if said is None:
        return "no answer within 9 s"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if _RANK in lines:
        return None
    # the first error is the cause; the others are consequences
    errors = [line for line in lines if "error" in line.lower()]
    reason = re.sub(r"\s+", " ", (errors or lines[-1:] or ["no answer within 9 s"])[0])
    return printable(reason)[:200]


def write(path: Path, text: str) -> None:
    """Write the file completely or not at all. Raises FileExistsError, OSError, and SystemFileError if it is not
    valid.
    """
    from tenken.machines import loader

    half = path.with_name(f".{path.stem}.half") / path.name
    if path.exists():
        raise FileExistsError(path)
    half.parent.mkdir(exist_ok=True)
    try:
        half.write_text(text, encoding="utf-8")
        loader.load_file(half, cache_folder=None, strict=True)
        half.rename(path)
    finally:
        shutil.rmtree(half.parent, ignore_errors=True)
