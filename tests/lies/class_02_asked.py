"""What was asked did not come, or something else came: metrics, points, subjects, parameters, arguments, devices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.lies.lie import Change, Lie, both, drop, each, named, nth, put, without


def half(name: str) -> Change:
    """The larger half of a sweep does not come."""

    def change(raw: Any) -> None:
        sizes = sorted({m["at"]["bytes"] for m in raw["metrics"] if m["name"] == name})
        drop(lambda m: m.get("at", {}).get("bytes", 0) >= sizes[len(sizes) // 2])(raw)

    return change


def half_verified_too(raw: Any) -> None:
    """The same, and its verifications with it."""
    sizes = sorted({m["at"]["bytes"] for m in raw["metrics"]})
    left = sizes[: len(sizes) // 2]
    drop(lambda m: m["at"]["bytes"] not in left)(raw)
    texts = [f"{size} B" if size < 1024 else f"{size // 1024} KiB" for size in left]
    raw["verification"]["checks"] = [
        c for c in raw["verification"]["checks"] if any(f", {text}, " in c["what"] for text in texts)
    ]


def unasked(**at: Any) -> Change:
    """One more point that nobody asked for."""

    def change(raw: Any) -> None:
        metric = copy.deepcopy(next(m for m in raw["metrics"] if set(at) <= set(m.get("at", {}))))
        metric["at"].update(at)
        subject = metric["id"].split(".")[1]
        keys = ".".join(f"{k}={str(v).lower()}" for k, v in sorted(metric["at"].items()))
        metric["id"] = f"{metric['name']}.{subject}.{keys}"
        raw["metrics"].append(metric)
        raw["limits"][metric["id"]] = {"unknown": "a lie"}

    return change


def renumbered(raw: Any) -> None:
    """The only GPU is said to be another."""
    raw["devices"] = raw["devices"][:1]
    raw["health"]["devices"] = raw["health"]["devices"][:1]
    drop(lambda m: m["subject"].get("gpu") == 1)(raw)


def of_gpu(gpu: int, *names: str) -> Change:
    return drop(lambda m: m["subject"].get("gpu") == gpu and (not names or m["name"] in names))


def matrix_gone(gpu: int) -> Change:
    def change(raw: Any) -> None:
        matrix = next(m["at"]["matrix"] for m in raw["metrics"] if m["name"] == "spmv")
        drop(lambda m: m["subject"].get("gpu") == gpu and m.get("at", {}).get("matrix") == matrix)(raw)

    return change


def lies() -> Iterator[Lie]:
    for of, name, value in (
        ("daxpy", "elements", -1000000),
        ("daxpy", "warmup_seconds", -0.5),
        ("stream", "energy_seconds", -1),
        ("stream", "warmup_seconds", -1e-9),
        ("gemm", "sustained_seconds", -1.2),
        ("hpl", "taper", -16),
        ("hpl_mxp", "look_ahead", -1),
        ("himeno", "target_seconds", -60),
        ("memcopy", "trials", -1),
        ("spmv", "variant_warmup_seconds", -0.05),
        ("stencil", "temporal_block", -1),
        ("transfer", "sweep_max_bytes", -67108864),
        ("mpi_p2p_host", "window", -64),
        ("nccl", "warmup_seconds", -0.3),
        ("snapshot_host", "block_bytes", -2097152),
        ("storage_map", "decide_seconds", -0.5),
    ):
        yield Lie(of, f"parameter {name} below 0", f"parameter {name} is -", put(f"parameters.{name}", value))
    for of, name, value in (
        ("osu", "buffers", "device"), ("osu", "buffers", None), ("nccl_tests", "operations_each", 10),
        ("nccl_tests", "iterations", 1), ("nccl_tests", "gpus", 8), ("nccl_tests", "implementation", "nccl"),
        ("nccl_tests", "min_bytes", 65536), ("nccl_tests", "factor", 2),
    ):  # fmt: skip
        yield Lie(of, f"another {name}: {value}", f"parameter {name}", put(f"parameters.{name}", value))
    yield Lie("nccl_tests", "no buffers in place", "place", drop(lambda m: m["at"].get("place") == "in"))
    yield Lie("nccl_tests", "one size without its way in place", "place=in", drop(nth("perf_all_reduce", 5)))
    for of, name in (
        ("stream", "memcpy"), ("himeno", "behind_explicit"), ("snapshot_host", "read_around"),
        ("snapshot_host", "write_hyperslab_over_asis"), ("storage_map", "read_cached"), ("storage_map", "best_write"),
        ("transpose", "htod"), ("transpose", "speedup"), ("transpose", "dtoh_speedup"),
    ):  # fmt: skip
        yield Lie(of, f"optional {name} is left out", name, drop(named(name)))
    for of, name in (
        ("access_patterns", "device_by_gpu"),
        ("daxpy", "daxpy"),
        ("gemm", "gemm"),
        ("himeno", "iteration"),
        ("hpcg", "raw"),
        ("hpl", "residual"),
        ("hpl_mxp", "factor_error"),
        ("memcopy", "memcpy"),
        ("migration", "ramp"),
        ("mpi_p2p_host", "latency"),
        ("nccl", "sendrecv"),
        ("overlap_host", "gain"),
        ("snapshot_host", "read"),
        ("spmv_host", "best"),
        ("stencil", "copy"),
        ("storage_map", "adaptive"),
        ("stream", "triad"),
        ("transfer", "htod_pinned"),
        ("osu", "osu_bandwidth"),
        ("xhpl", "residual"),
        ("xhpcg", "rating"),
    ):
        yield Lie(of, f"metric {name} does not come", name, drop(named(name)))
    for of, name, names in (
        ("access_patterns", "plateau", "plateau.*pattern"),
        ("access_patterns", "remote_by_gpu", "pattern"),
        ("himeno", "iteration", "iteration"),
        ("hpl_mxp_host", "phase", "phase.*part"),
        ("hpl", "phase", "part"),
        ("migration", "plateau", "plateau.*phase"),
        ("mpi_p2p_host", "bandwidth", "bandwidth.*bytes"),
        ("mpi_p2p_host", "bcast", "bcast"),
        ("nccl", "all_reduce", "all_reduce"),
        ("nccl", "all_gather_time", "all_gather_time"),
        ("overlap_host", "loop", "loop|mode"),
        ("snapshot_host", "write", "write.*particles|write"),
        ("snapshot_io", "read_hyperslab_over_asis", "particles"),
        ("spmv_host", "prepare", "prepare"),
        ("storage_map", "adaptive_over_best", "adaptive_over_best"),
        ("transfer", "htod_latency", "htod_latency"),
        ("transfer", "dtoh_sweep", "dtoh_sweep"),
        ("transpose", "total", "total"),
        ("transpose", "kernel", "kernel"),
        ("p2p", "peer_time", "peer_time|peer"),
        ("stencil_gpus", "cells", "cells|exchange"),
    ):
        yield Lie(of, f"first point of {name} does not come", names, drop(nth(name)))
    yield Lie("nccl", "half a sweep", "bytes", half("all_reduce"))
    yield Lie("nccl", "half a sweep, verified as far", "bytes", half_verified_too)
    yield Lie("mpi_p2p_host", "half a sweep", "bytes", half("latency"))
    yield Lie("p2p", "half a sweep", "bytes", half("peer_by_size"))
    yield Lie("nccl", "a size that nobody asked for", "not requested", unasked(bytes=2048))
    yield Lie("mpi_p2p_host", "buffers that nobody asked for", "buffers", unasked(buffers="managed"))
    yield Lie("transfer", "a size that nobody asked for", "bytes", unasked(bytes=16))
    yield from each(
        "spmv_two",
        ("one matrix less on GPU 1", "gpu1", matrix_gone(1)),
        ("spmv of one GPU alone", "GPU 1|gpu1", of_gpu(1, "spmv", "prepare", "best")),
        ("one GPU of two", "GPU", renumbered),
        ("dot of one GPU alone", "dot of GPU 1", of_gpu(1, "dot")),
    )
    yield from each(
        "stream_two",
        ("one GPU of two", "GPUs found|command|GPU", renumbered),
        ("no triad of GPU 1", "triad of GPU 1", of_gpu(1, "triad")),
        ("no memcpy of GPU 1", "memcpy of gpu1", of_gpu(1, "memcpy")),
        ("one by one", "at_once", put("parameters.at_once", False)),
    )
    for of, key, value in (
        ("access_patterns", "bytes", 1024),
        ("access_patterns", "placement", "explicit"),
        ("access_patterns", "trials", 0),
        ("gemm", "cases", "fp16"),
        ("gemm", "data", "zeros"),
        ("gemm", "repetitions", 1),
        ("gemm", "sustained_seconds", 0.01),
        ("himeno", "size", "S"),
        ("himeno", "memory", "explicit"),
        ("hpcg", "nx", 16),
        ("hpcg", "target_seconds", 0.1),
        ("hpl", "n", "1024"),
        ("hpl", "nb", "64"),
        ("hpl", "look_ahead", "off"),
        ("hpl_mxp", "low", "bf16"),
        ("memcopy", "bytes", 8192),
        ("memcopy", "copies", "kernel"),
        ("migration", "repetitions", 5),
        ("mpi_p2p", "buffers", "host"),
        ("mpi_p2p_host", "max_bytes", 1024),
        ("mpi_p2p_host", "window", 1),
        ("mpi_p2p_host", "ranks", 2),
        ("nccl", "operations", "all_reduce"),
        ("nccl", "gpus", "0"),
        ("overlap_host", "modes", "none"),
        ("p2p", "transfers", "peer"),
        ("p2p", "staged_bytes", 1024),
        ("snapshot_host", "cold", True),
        ("snapshot_host", "methods", "posix"),
        ("spmv_host", "precision", "single"),
        ("stencil", "points", 27),
        ("stencil", "precision", "double"),
        ("stencil", "scaling", "strong"),
        ("storage_map", "situations", "write"),
        ("stream", "array_bytes", 1024),
        ("stream", "backend", "host"),
        ("transfer", "kinds", "pinned"),
        ("transpose", "sizes", "64"),
        ("xhpl", "n", 100),
        ("osu", "implementation", "ours"),
    ):
        yield Lie(of, f"parameter {key} is {value}", key, put(f"parameters.{key}", value))
    for of in ("daxpy", "gemm", "hpl", "mpi_p2p_host", "nccl", "spmv", "stencil", "stream", "transpose", "himeno_host"):
        yield Lie(of, "a fault was injected", "inject_fault", put("parameters.inject_fault", "bit"))
        yield Lie(of, "inject_fault is not stated", "inject_fault", without("parameters.inject_fault"))
    yield Lie("mpi_p2p_host", "another number of ranks", "ranks", put("placement.ranks", 2))
    yield Lie("hpcg_ranks", "one rank of four", "ranks", put("placement.ranks", 1))
    yield Lie("xhpl", "one rank of four", "ranks", put("placement.ranks", 1))
    yield Lie("stream", "other arguments", "command", put("command", lambda c: [c[0], "--backend", "cuda"]))
    yield Lie("hpl", "other arguments", "command", put("command", lambda c: [*c[:-4], "--n", "64"]))
    yield Lie(
        "gemm",
        "one argument less",
        "command",
        put("command", lambda c: [w for w in c if w != "fp64_tensor,tf32,fp16,fp8_e4m3"]),
    )
    yield Lie("stream", "nothing at all", "missing|devices|GPU", both(put("metrics", []), put("limits", {})))
    yield Lie("nccl", "nothing at all", "missing", both(put("metrics", []), put("limits", {})))
