"""A training step of a transformer by PyTorch: its speed, and whether every device computes the same bits.

    python3 training.py --model 1b --json result.json

Needs PyTorch, and nothing else of the suite: its folder is copied to the node. One process per device; with several
nodes a launcher starts this program once per node. Exit status 3 if PyTorch is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import socket
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PRECISIONS, PARALLEL, MODELS = ("bf16", "fp8"), ("none", "data", "tensor"), ("1b", "50m", "tiny")
ATTENTION = ("flash", "cudnn")
FAULTS = ("none", "weight", "gradient", "activation")
#: The number of a rank and of all ranks, as launchers state it.
RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
#: Seconds that processes wait for one another.
PATIENCE = 300
#: Micro-batches in sequences, the largest that fits into this share of the free memory.
BATCHES, FILLED = (8, 4, 2, 1), 0.85
#: Size of the products with which the step is compared, by the device.
PRODUCT = {"cuda": 8192, "cpu": 256}
OK, FAILED, WAIVED = 0, 1, 3
_RENDEZVOUS = "training-rendezvous.json"


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", choices=MODELS, default="1b")
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16", help="precision of products")
    parser.add_argument("--parallel", choices=PARALLEL, default="none", help="none: each device trains its own model")
    parser.add_argument("--processes", type=int, default=1, help="devices of each node")
    parser.add_argument(
        "--nodes", type=int, default=1, help="number of nodes; if above 1, a launcher starts this program on each"
    )
    parser.add_argument("--batch", type=int, default=0, help="sequences of a device; 0: the most that fit, up to 8")
    parser.add_argument(
        "--micro-batches", type=int, default=1, help="number per step: gradients are summed over them, then exchanged"
    )
    parser.add_argument("--seconds", type=float, default=5, help="duration of the timed part")
    parser.add_argument("--attention", choices=ATTENTION, default="flash", help="kernels of the timed part")
    parser.add_argument("--compiled", action="store_true", help="compile blocks by torch.compile")
    parser.add_argument("--plain", action="store_true", help="also time steps without events, in turns")
    parser.add_argument("--steps", type=int, default=6, help="deterministic ones; 0: none")
    parser.add_argument("--repeats", type=int, default=2, help="how often they are done")
    parser.add_argument("--every", type=int, default=3, help="deterministic steps between checksums of the state")
    parser.add_argument("--flips", type=int, default=0, help="bits to flip, one per run; 0: none")
    parser.add_argument("--sheet-tflops", type=float, default=0, help="peak of a GPU by its data sheet, for the report")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="threads of a process on the host")
    parser.add_argument(
        "--inject-fault", choices=FAULTS, default="none", help="fault to inject in one step of the last process"
    )
    parser.add_argument("--json", type=Path, default=Path("training.json"))
    parser.add_argument("--request", type=Path, help="ignored: the caller adds the token")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", default="", help=argparse.SUPPRESS)
    return parser


def given() -> argparse.Namespace:
    parser = options()
    found = parser.parse_args()
    for name, least, most in (
        ("processes", 1, 1024), ("nodes", 1, 100_000), ("batch", 0, 4096), ("micro_batches", 1, 4096),
        ("seconds", 0, 604_800),
        ("sheet_tflops", 0, 1e6), ("steps", 0, 100_000), ("every", 1, 100_000), ("flips", 0, 100_000),
        ("repeats", 2, 10_000), ("seed", 0, 2**31), ("threads", 1, 1024),
    ):  # fmt: skip
        if not least <= getattr(found, name) <= most:
            parser.error(f"--{name.replace('_', '-')} {getattr(found, name)} is invalid; allowed: {least} to {most}")
    if found.steps % found.every:
        parser.error(f"--steps {found.steps} is invalid; allowed: multiples of --every {found.every}")
    if found.flips and (found.parallel != "none" or found.steps == 0):
        parser.error("--flips is invalid here; allowed: with --parallel none and --steps above 0")
    if found.inject_fault != "none" and found.steps == 0:
        parser.error("--inject-fault is invalid here; allowed: with --steps above 0")
    return found


# ---- the process that starts the others --------------------------------------------------------------------------


def main() -> int:
    asked = given()
    if asked.worker is not None:
        return work(asked)
    started = now()
    if importlib.util.find_spec("torch") is None:
        print("training: PyTorch is missing")
        if first_node(asked):
            write(asked, started, [], "waived", f"library missing: PyTorch ({sys.executable} has no torch)")
        return WAIVED
    node = node_number(asked)
    try:
        store = meeting(asked, node)
        parts, errors = run(asked, node, store)
    except (OSError, ValueError) as error:
        parts, errors = [], [str(error)]
    if node > 0:
        for line in errors:
            print(f"training: {line}", file=sys.stderr)
        return FAILED if errors else OK
    waived = next((one["waived"] for one in parts if "waived" in one), "")
    status = "failed" if errors else "waived" if waived else "ok"
    write(asked, started, parts, status, "; ".join(errors) or waived)
    return {"ok": OK, "failed": FAILED, "waived": WAIVED}[status]


def now() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"


def node_number(asked: argparse.Namespace) -> int:
    if asked.nodes == 1:
        return 0
    return next((int(os.environ[name]) for name in RANK if os.environ.get(name, "").isdigit()), 0)


def first_node(asked: argparse.Namespace) -> bool:
    return node_number(asked) == 0


def meeting(asked: argparse.Namespace, node: int) -> str:
    """Where processes meet, `host:port`: with several nodes the first one writes it into the folder of the job."""
    path = Path(_RENDEZVOUS)
    if node == 0:
        host = "127.0.0.1" if asked.nodes == 1 else socket.gethostname()
        with socket.socket() as one:
            one.bind(("", 0))
            place = f"{host}:{one.getsockname()[1]}"
        if asked.nodes > 1:
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps({"place": place}))
            temporary.rename(path)
        return place
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if path.is_file():
            return str(json.loads(path.read_text())["place"])
        time.sleep(0.2)
    raise OSError(f"the first node wrote no {_RENDEZVOUS} within {PATIENCE} s: is its folder seen by all nodes?")


def part_file(rank: int) -> Path:
    return Path(f"training-part-{rank}.json")


def run(asked: argparse.Namespace, node: int, store: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Starts a process for each device of this node; returns the parts of all ranks on the first node, and the
    errors."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(i) for i in range(asked.processes)]
    if asked.backend == "cuda" and len(devices) < asked.processes:
        raise ValueError(f"{asked.processes} GPUs were requested; CUDA_VISIBLE_DEVICES has {visible}")
    processes = []
    ranks = range(node * asked.processes, (node + 1) * asked.processes)
    for local, rank in enumerate(ranks):
        part_file(rank).unlink(missing_ok=True)
        environment = {
            **os.environ,
            # sums of cuBLAS in one order (NVIDIA cuBLAS, results reproducibility)
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }
        if asked.backend == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = devices[local]
        else:
            environment["OMP_NUM_THREADS"] = str(asked.threads)
        if asked.nodes == 1:
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        command = [sys.executable, str(HERE / "training.py"), *sys.argv[1:], "--worker", str(rank), "--store", store]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    errors = []
    for rank, process in zip(ranks, processes, strict=False):
        _, told = process.communicate()
        sys.stderr.write(told)
        if process.returncode not in (OK, WAIVED):
            lines = [line for line in told.strip().splitlines() if line.strip()]
            why = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "no reason given")
            errors.append(f"rank {rank} on {platform.node()} ended with {process.returncode}: {why.strip()[:300]}")
    if node > 0 or errors:
        return [], errors
    parts = []
    until = time.monotonic() + PATIENCE
    for rank in range(asked.nodes * asked.processes):
        while not part_file(rank).is_file() and time.monotonic() < until:
            time.sleep(0.2)
        if not part_file(rank).is_file():
            return parts, [f"rank {rank} wrote no part of the result"]
        parts.append(json.loads(part_file(rank).read_text()))
        part_file(rank).unlink()
    return parts, []


# ---- the result -------------------------------------------------------------------------------------------------


def write(asked: argparse.Namespace, started: str, parts: list[dict[str, Any]], status: str, reason: str) -> None:
    """The result of version 2 (docs/result-format.md); the caller adds token, locks and load."""
    ok = status == "ok"
    first = parts[0] if ok else {}
    gpus = [one["device"] for one in parts if "device" in one and one["node"] == first["node"]] if ok else []
    document = {
        "schema": "tenken-result/2", "program": "training", "version": first.get("torch", ""),
        "command": [str(HERE / "training.py"), *sys.argv[1:]], "started": started, "finished": now(), "host": host(),
        "build": {"compiler": f"PyTorch {first.get('torch', '')}", "libraries": first.get("versions", {})},
        "status": status, "reason": reason,
        "parameters": {
            "backend": asked.backend, "model": asked.model, "parallel": asked.parallel, "precision": asked.precision,
            "batch": first.get("batch", asked.batch), "micro_batches": asked.micro_batches,
            "attention": asked.attention, "compiled": asked.compiled, "plain": asked.plain,
            "seconds": asked.seconds, "steps": asked.steps, "every": asked.every, "repeats": asked.repeats,
            "flips": asked.flips,
            "seed": asked.seed, "processes": asked.processes, "nodes": asked.nodes, "threads": asked.threads,
            "sheet_tflops": asked.sheet_tflops, "world": asked.processes * asked.nodes,
            "determinism": "on" if asked.steps else "off",
            "inject_fault": asked.inject_fault,
        },
        "placement": {
            "ranks": asked.nodes, "threads": asked.threads, "allowed_cpus": sorted(os.sched_getaffinity(0)),
            "nodes": [*dict.fromkeys(one["node"] for one in parts)] if asked.nodes > 1 and ok else [],
        },
        "devices": gpus,
        "health": health(parts if gpus else []),
        "series": series(asked, parts) if ok else [],
        "verification": verification(asked, parts) if ok else [],
        "provenance": provenance(asked, parts) if ok else {},
    }  # fmt: skip
    asked.json.write_text(json.dumps(document, separators=(",", ":")))


def health(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the GPUs of the first part's node, and of those of other nodes."""
    local = [one for one in parts if one["node"] == parts[0]["node"]]
    found = {
        "available": bool(local) and all(one.get("health") for one in local),
        "reason": next((one.get("health_why", "") for one in local if not one.get("health")), ""),
        "devices": [one["health"] for one in local if one.get("health")],
    }
    apart = [one for one in parts if one not in local and one.get("health")]
    return found | ({"elsewhere": [{**one["health"], "node": one["node"]} for one in apart]} if apart else {})


def host() -> dict[str, Any]:
    name = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return {
        "name": platform.node(), "os": platform.platform(), "kernel": platform.release(),
        "architecture": platform.machine(), "cpu": name, "logical_cpus": os.cpu_count(),
    }  # fmt: skip


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def series(asked: argparse.Namespace, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values of each device by itself; or of all ranks together, whose slowest one counts at every step."""
    clock = "device" if asked.backend == "cuda" else "host"
    if asked.parallel == "none":
        return [{"clock": clock, **one, "subject": part["subject"]} for part in parts for one in part["series"]]
    ranks = {"ranks": len(parts)}
    found: list[dict[str, Any]] = []
    for one in parts[0]["series"]:
        same = [other for part in parts for other in part["series"] if _place(other) == _place(one)]
        if one["metric"] in ("alone", "product"):
            # of each rank, to identify the slowest one
            found += [
                {"clock": clock, **other, "at": {**other["at"], "rank": rank}, "subject": ranks}
                for rank, other in enumerate(same)
            ]
            continue
        if one["metric"] == "power":
            values = [sum(numbers) for numbers in zip(*(other["values"] for other in same), strict=False)]
            found.append({"clock": clock, **one, "values": values, "subject": ranks})
            continue
        shared = 1 if asked.parallel == "tensor" else len(same)
        counts = {name: number * shared for name, number in one.get("counts", {}).items()}
        seconds = [max(numbers) for numbers in zip(*(other["seconds"] for other in same), strict=False)]
        found.append({"clock": clock, **one, "counts": counts, "seconds": seconds, "subject": ranks})
    return found


def verification(asked: argparse.Namespace, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values of each device; for ranks together the worst one."""
    every = [one for part in parts for one in part["verification"]]
    if asked.parallel == "none":
        return every
    return [
        max(
            (one for one in every if one["name"] == name),
            key=lambda one: math.inf if one["error"] is None else one["error"],
        )
        for name in dict.fromkeys(one["name"] for one in every)
    ]


def _place(one: dict[str, Any]) -> tuple[str, str]:
    return one["metric"], json.dumps(one["at"], sort_keys=True)


def provenance(asked: argparse.Namespace, parts: list[dict[str, Any]]) -> dict[str, Any]:
    first = parts[0]
    found = {
        "operations_per_token": first["operations_per_token"], "parameters_of_model": first["parameters_of_model"],
        "loss_first": first["loss_first"], "loss_last": first["loss_last"],
        "fingerprints": [one["fingerprint"] for one in parts if "fingerprint" in one],
    }  # fmt: skip
    for index, part in enumerate(parts):
        found[f"memory_peak_bytes.rank{index}"] = part["memory_peak_bytes"]
        found |= {
            f"flips.{kind}.{outcome}": number for kind, by in part["flips"].items() for outcome, number in by.items()
        }
    return found


# ---- a process of one device -------------------------------------------------------------------------------------


def work(asked: argparse.Namespace) -> int:
    import torch
    import torch.distributed as dist

    version = tuple(int(one) for one in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 4):
        return waive(asked, f"library missing: PyTorch 2.4 or above ({sys.executable} has {torch.__version__})")
    cuda = asked.backend == "cuda"
    if cuda and not torch.cuda.is_available():
        return waive(asked, f"library missing: PyTorch with CUDA ({torch.__version__} finds no GPU)")
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        capability = torch.cuda.get_device_capability()
        least = {"bf16": (8, 0), "fp8": (8, 9)}[asked.precision]
        if capability < least:
            named = f"{asked.precision} needs compute capability {least[0]}.{least[1]}"
            return waive(asked, f"not supported by the device: {named}, it has {capability[0]}.{capability[1]}")
    elif asked.precision == "fp8":
        return waive(asked, "not supported by the device: FP8 needs a GPU")
    else:
        torch.set_num_threads(asked.threads)
    if asked.processes * asked.nodes > 1:
        # gloo to keep independent devices in step, NCCL for tensors on GPUs
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo", init_method=f"tcp://{asked.store}", rank=asked.worker,
            world_size=asked.processes * asked.nodes,
        )  # fmt: skip
    part = measured(asked, device, torch)
    part_file(asked.worker).with_suffix(".tmp").write_text(json.dumps(part))
    part_file(asked.worker).with_suffix(".tmp").rename(part_file(asked.worker))
    if dist.is_initialized():
        dist.destroy_process_group()
    return OK


def waive(asked: argparse.Namespace, reason: str) -> int:
    part_file(asked.worker).write_text(json.dumps({"waived": reason}))
    return WAIVED


def versions_of(torch: Any, cuda: bool) -> dict[str, str]:
    """All libraries whose kernels compute the numbers."""
    found = {"torch": torch.__version__}
    if not cuda:
        return {**found, "instructions": torch.backends.cpu.get_cpu_capability()}
    nccl = torch.cuda.nccl.version()
    found |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    return {**found, "nccl": ".".join(map(str, nccl)) if isinstance(nccl, tuple) else str(nccl)}


def described(torch: Any, index: int, watch: Any) -> dict[str, Any]:
    """The GPU in the result's form; `index` as nvidia-smi counts."""
    facts, (major, minor) = torch.cuda.get_device_properties(0), torch.cuda.get_device_capability()
    free, total = torch.cuda.mem_get_info()
    place = {}
    if hasattr(facts, "pci_bus_id"):  # from PyTorch 2.8 on
        place["pci_bus_id"] = f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
    return {
        "index": index, "uuid": f"GPU-{facts.uuid}", "name": facts.name, "compute_capability": f"{major}.{minor}",
        "memory_bytes": total, "memory_free_bytes": free, "multiprocessors": facts.multi_processor_count,
        "l2_bytes": facts.L2_cache_size, "integrated": bool(facts.is_integrated),
        "cuda_runtime": torch.version.cuda, **place, **watch.describe(),
    }  # fmt: skip


def attention(name: str) -> Any:
    """The kernels of attention. Flash attention has a backward pass with a fixed order of sums, which PyTorch selects
    in deterministic mode; cuDNN's has none. The plain products are for a host."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    first = SDPBackend.CUDNN_ATTENTION if name == "cudnn" else SDPBackend.FLASH_ATTENTION
    return sdpa_kernel([first, SDPBackend.MATH])


def measured(asked: argparse.Namespace, device: Any, torch: Any) -> dict[str, Any]:
    """Everything that one process measures, as its part of the result."""
    from nvml import Watch
    from shapes import SHAPES
    from trainer import WARM_UP, Fault, Trainer, product_seconds

    cuda, rank = device.type == "cuda", asked.worker
    shape = SHAPES[asked.model]
    index = rank % asked.processes
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}" if cuda else ""
    watch = Watch(uuid) if cuda else None
    batch = asked.batch
    if batch == 0:
        room = FILLED * torch.cuda.mem_get_info()[0] if cuda else math.inf
        eager = asked.steps > 0 or not asked.compiled
        copies = (asked.parallel == "data") + (asked.micro_batches > 1)
        batch = next((one for one in BATCHES if shape.bytes_needed(one, not eager, copies) <= room), 0)
        if batch == 0:
            need = shape.bytes_needed(1, not eager) / 2**30
            return {"waived": f"not supported by the device: the model {asked.model} needs {need:.0f} GiB"}
    world = asked.processes * asked.nodes
    subject = {"gpu": index} if cuda else {"host": 0}
    if asked.parallel != "none":
        subject = {"ranks": world}
    part: dict[str, Any] = {
        "node": platform.node(), "subject": subject, "torch": torch.__version__, "batch": batch, "flips": {},
        "versions": versions_of(torch, cuda), "operations_per_token": shape.operations_a_token,
        "parameters_of_model": shape.parameters, "series": [], "verification": [], "memory_peak_bytes": 0,
    }  # fmt: skip
    if watch is not None:
        part["device"] = described(torch, index, watch)
    trainer = Trainer(
        shape, batch, asked.seed, device, asked.precision == "fp8", asked.parallel, rank, world,
        asked.micro_batches,
    )  # fmt: skip
    counts = {"tokens": trainer.tokens_a_step, "operations": trainer.tokens_a_step * shape.operations_a_token}

    def add(metric: str, seconds: list[float], at: dict[str, Any] | None = None, **counted: float) -> None:
        part["series"].append({"metric": metric, "at": at or {}, "counts": counted, "seconds": seconds})

    def verify(name: str, error: float, **wrong: Any) -> None:
        # JSON has no infinity: null has not passed
        found = {"name": name, "error": error if math.isfinite(error) else None, "subject": subject}
        part["verification"].append({**found, "first_wrong": {"rank": rank, **wrong}} if wrong else found)

    with attention(asked.attention):
        if asked.compiled:
            trainer.compile()
        size = PRODUCT[device.type]
        seconds = product_seconds(device, size, 0.6 if cuda else 0.05)
        add("product", seconds, operations=2.0 * size**3)
        first = float(trainer.step())
        for _ in range(WARM_UP - 1):
            trainer.step()
        if asked.plain or asked.parallel != "none":
            trainer.timed(0, 1, asked.plain)  # parts that are compiled or allocated once more
        with watch.watching() if watch else _nothing():
            if asked.parallel != "none":
                with trainer.by_itself():
                    for _ in range(2):
                        trainer.step()
                    own = trainer.timed(asked.seconds / 3, 10)
                add("alone", own.steps)
                trainer.reset()
                first = float(trainer.step())
            timed = trainer.timed(asked.seconds, 10, asked.plain, watch.joules if watch else None)
    add("step", timed.steps, **counts)
    for name, lasted in timed.phases.items():
        add("phase", lasted, {"part": name})
    if timed.plain:
        add("plain", timed.plain)
    if timed.joules:
        part["series"].append({"metric": "power", "at": {}, "values": [timed.joules / timed.seconds]})
    part["loss_first"], part["loss_last"] = (one if math.isfinite(one) else None for one in (first, timed.losses[-1]))
    # an untrained model has the logarithm of the vocabulary as its loss
    verify("first_loss", abs(first / math.log(shape.vocabulary) - 1))
    verify("learns", timed.losses[-1] / first)

    if asked.steps:
        deterministic(asked, trainer, torch, part, verify, add, Fault)
    if cuda:
        part["memory_peak_bytes"] = torch.cuda.max_memory_allocated()
    if watch is not None:
        part["health"], part["health_why"] = watch.health(index), watch.why
    return part


def deterministic(
    asked: argparse.Namespace, trainer: Any, torch: Any, part: Any, verify: Any, add: Any, fault: Any
) -> None:
    """The same steps twice from the same state: their fingerprints, their times, and whether they repeat."""
    import random

    cuda, rank = trainer.device.type == "cuda", trainer.rank
    if cuda:
        torch.cuda.empty_cache()
    if asked.compiled:
        torch.use_deterministic_algorithms(True)
    else:  # the same without importing the compiler
        torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    last = rank == asked.processes * asked.nodes - 1
    planted = None
    if asked.inject_fault != "none" and last:
        planted = fault.drawn(random.Random(asked.seed), asked.steps, asked.inject_fault)
    with attention("flash"):
        times: list[float] = []
        prints = []
        for attempt in range(asked.repeats):
            trainer.reset()
            prints.append(trainer.deterministic(asked.steps, asked.every, None if attempt else planted, times))
        wrong = [attempts for attempts in zip(*prints, strict=True) if len(set(attempts)) > 1]
        if wrong:
            last_one = wrong[0][-1]
            step, tensor, digest = next(one for one in wrong[0] if one != last_one)
            verify("repeats", len(wrong), step=step, tensor=tensor, found=digest, again=last_one[2])
        else:
            verify("repeats", 0)
        add("deterministic", times)
        if asked.flips:
            trainer.reset()
            part["flips"] = trainer.flips(asked.flips, asked.steps, asked.every, asked.seed)
            total = {name: sum(by[name] for by in part["flips"].values()) for name in ("found", "masked", "missed")}
            verify("flips", total["missed"])
            for name in ("found", "masked"):
                part["series"].append({"metric": f"flips_{name}", "at": {}, "values": [total[name]]})
    world = asked.processes * asked.nodes
    shared = "" if asked.parallel == "none" else f" {asked.parallel} {world}"
    shared += f" micro-batches {asked.micro_batches}" if asked.micro_batches > 1 else ""
    part["fingerprint"] = {
        "kind": part["device"]["name"] if cuda else host()["cpu"],
        "algorithm": f"training {asked.model} {asked.precision} batch {trainer.batch}{shared}",
        "seed": asked.seed, "versions": part["versions"], "node": platform.node(),
        "device": part["device"]["uuid"] if cuda else f"{platform.node()} process {rank}", "prints": prints[0],
        **({"gpu": part["device"]["index"]} if cuda else {}),
    }  # fmt: skip


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
