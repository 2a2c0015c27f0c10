"""Claims of path: emptied, of no known word or key, left out, or contradicted by what the same run measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lies import honest
from tests.lies.lie import Change, Lie, both, each, put, remade


def path(key: str, value: Any) -> Change:
    """Sets a claim; the first key that begins so, where it ends in *."""

    def change(raw: Any) -> None:
        raw["path"][_key(raw, key)] = value

    return change


def gone(*keys: str) -> Change:
    """Takes claims away: all that begin so."""

    def change(raw: Any) -> None:
        found = [key for key in raw["path"] if any(key == k or (k[-1] == "*" and key.startswith(k[:-1])) for k in keys)]
        assert found, keys
        for key in found:
            del raw["path"][key]

    return change


def _key(raw: Any, key: str) -> str:
    return next(k for k in raw["path"] if k.startswith(key[:-1])) if key.endswith("*") else key


def scaled(key: str, factor: float) -> Change:
    """A number of path that is off, itself alone."""

    def change(raw: Any) -> None:
        raw["path"][_key(raw, key)] *= factor

    return change


def slower(name: str, factor: float, kind: str = "") -> Change:
    """A metric at another rate than the claim stands for; all that follows from its samples follows."""

    def change(raw: Any) -> None:
        found = [m for m in raw["metrics"] if m["name"] == name and kind in str(m.get("at", {}).get("buffers", ""))]
        assert found, name
        for metric in found:
            remade(raw, metric, [factor * value for value in metric["samples"]])

    return change


#: Claims that must come: run, key.
REQUIRED = (
    ("access_patterns", "backend"), ("gemm", "backend"), ("gemm", "fp64_emulation"), ("himeno", "backend"),
    ("hpcg", "exchange"), ("hpcg", "official_time"), ("hpcg", "rank_grid"), ("hpcg_ranks", "columns"),
    ("hpl", "update"), ("hpl", "fp64_emulation"), ("hpl", "panel"), ("hpl_host", "blas"), ("hpl_mxp", "update"),
    ("memcopy", "host_stores"), ("mpi_p2p", "gpu_path"), ("mpi_p2p", "of_peer_copy"), ("mpi_p2p_host", "rank1"),
    ("nccl", "nvlink_multicast"), ("overlap", "file_system"), ("p2p", "link.gpu0-gpu1"),
    ("p2p", "peer_access.gpu1-gpu0"), ("snapshot_io", "cufile"), ("snapshot_host", "o_direct"), ("spmv", "best.*"),
    ("storage_map", "folder"), ("stream", "backend"), ("stream_host", "stores"), ("stencil_gpus", "exchange.p2p"),
    ("transpose", "padded_kernel"), ("osu", "implementation"), ("xhpl", "implementation"),
    ("xhpcg", "implementation"),
)  # fmt: skip


def clock_of_words(raw: Any) -> None:
    raw["path"]["host_clock_gbs.triad.gpu0"] = "as fast"


def lies() -> Iterator[Lie]:
    for name in ("copy", "scale", "add", "triad", "dot"):
        key = f"host_clock_gbs.{name}.gpu0"
        yield Lie(
            "stream", f"{name} by the device's clock alone", key, lambda raw, key=key: raw["path"].pop(key) and None
        )
    yield Lie("stream", "the host's clock tells a word", "host_clock_gbs.triad", clock_of_words)
    for of, key in REQUIRED:
        name = key.rstrip("*").split(".")[0]
        yield Lie(of, f"{key} is left out", name, gone(key))
        yield Lie(of, f"{key} is emptied", name, path(key, ""))
        yield Lie(of, f"{key} is of another kind", name, path(key, -1e9 if key == "of_peer_copy" else None))
    for of in ("stream", "p2p", "mpi_p2p", "hpcg", "snapshot_io", "xhpl"):
        yield Lie(of, "path is empty", "path .* is missing", put("path", {}))
        yield Lie(of, "a key that nobody declared", "gpu_direct", path("gpu_direct", "GPUDirect"))
    yield from each(
        "mpi_p2p",
        ("staged through the host", "gpu_path", path("gpu_path", "staged through the host")),
        ("gpudirect", "gpu_path", path("gpu_path", "gpudirect")),
        ("GPUDirect with a blank", "gpu_path", path("gpu_path", "GPUDirect ")),
        ("not GPUDirect", "gpu_path", path("gpu_path", "not GPUDirect")),
        ("between nodes, on one node", "gpu_path|nodes", both(path("gpu_path", "between nodes"), path("nodes", 2))),
        ("no peer copy, although it came", "gpu_path", path("gpu_path", "not known: no peer copy to compare with")),
        ("5 % of the peer copy", "gpu_path.* 5 %|of_peer_copy|of the same run", slower("bandwidth", 0.05, "device")),
        (
            "5 % of the peer copy, told so",
            "gpu_path|of the same run",
            both(slower("bandwidth", 0.05, "device"), scaled("of_peer_copy", 0.05)),
        ),
        ("a share that was not measured", "of_peer_copy", path("of_peer_copy", 0.7)),
        ("a share of 5 %", "of_peer_copy", path("of_peer_copy", 0.05)),
        ("a share that is a word", "of_peer_copy", path("of_peer_copy", "all")),
        ("a rank on another node", "rank1", path("rank1", "node7, CPUs 0-31 of NUMA node 0, GPU 1")),
        ("two nodes", "nodes", path("nodes", 2)),
    )
    yield from each(
        "p2p",
        ("a link of no kind", "link.gpu0-gpu1", path("link.gpu0-gpu1", "fast")),
        ("an empty link", "link.gpu0-gpu1", path("link.gpu0-gpu1", "")),
        ("access as a word", "peer_access", path("peer_access.gpu0-gpu1", "yes")),
        ("access as a number", "peer_access", path("peer_access.gpu0-gpu1", 1)),
        ("no access, but it was read", "peer_access.gpu0-gpu1", path("peer_access.gpu0-gpu1", False)),
        (
            "another kind than the link says",
            "the system file has 18 links",
            both(path("link_kind.gpu0-gpu1", "PCIe"), path("link_count.gpu0-gpu1", 1)),
        ),
        ("the host's clock ten times as fast", "host_clock_gbs.peer", scaled("host_clock_gbs.peer.*", 10)),
    )
    yield from each(
        "stream",
        ("another back end", "backend", path("backend", "host")),
        ("a back end of no name", "backend", path("backend", "gpu")),
        ("the host's clock ten times as fast", "host_clock_gbs.triad", scaled("host_clock_gbs.triad.*", 10)),
        ("the host's clock ten times as slow", "host_clock_gbs.triad", scaled("host_clock_gbs.triad.*", 0.1)),
        (
            "the device's clock runs at half speed",
            "host_clock_gbs|limit|below|beyond",
            lambda raw: [remade(raw, m, [2 * v for v in m["samples"]]) for m in raw["metrics"]] and None,
        ),
    )
    yield from each(
        "snapshot_io",
        ("cuFile has a direct path", "cufile_probe", path("cufile", "GPUDirect Storage")),
        ("cuFile of another word", "cufile", path("cufile", "direct")),
        (
            "cuFile works, but is not used",
            "cufile_probe",
            path("cufile_probe", "works with CUFILE_ALLOW_COMPAT_MODE=false"),
        ),
        ("a probe that says nothing", "cufile_probe", path("cufile_probe", "fine")),
        ("O_DIRECT of another word", "o_direct", path("o_direct", "yes")),
        ("no file system", "file_system", path("file_system", "")),
    )
    yield Lie("storage_map", "O_DIRECT refused, and measured", "o_direct", path("o_direct", "refused by ext4: no"))
    yield from each(
        "spmv",
        ("the best is a slow one", "best.", path("best.*", "csr_row")),
        ("the best was not measured", "best.", path("best.*", "magic")),
    )
    yield from each(
        "hpcg_ranks",
        ("ranks in another grid", "rank_grid", path("rank_grid", "1 x 1 x 1")),
        ("no exchange between ranks", "exchange", path("exchange", "none")),
        ("another rate of the product", "gbs.product", scaled("gbs.product", 1.5)),
        ("fewer seconds", "gbs.cycle", scaled("phase_seconds.cycle", 0.5)),
        ("more sets", "gbs", scaled("sets", 2)),
        ("columns of another word", "columns", path("columns", "fast")),
    )
    yield Lie("hpcg", "an exchange of one rank", "exchange", path("exchange", "nccl 2.28.9"))
    yield from each(
        "stencil_gpus",
        ("more operations per cell", "flops_of_cell", scaled("flops_of_cell", 2)),
        ("another rate", "gflops", scaled("gflops.*", 2)),
        ("peer copies of another word", "exchange.p2p", path("exchange.p2p", "fast")),
        ("not by peer copies", "exchange.p2p", path("exchange.p2p", "cudaMemcpyPeerAsync, peer access")),
    )
    yield from each(
        "gemm",
        ("FP64 emulated", "fp64_emulation", path("fp64_emulation", "on")),
        ("FP64 emulated by mantissas", "fp64_emulation", path("fp64_emulation", "off, 55 bits")),
    )
    yield Lie("hpl", "another update", "update", path("update", "cublasGemmEx FP32"))
    yield Lie(
        "hpl_mxp_host", "another algorithm", "algorithm", path("algorithm", "LU with partial pivoting, no refinement")
    )
    yield Lie("nccl", "eight GPUs", "gpus", path("gpus", 8))
    yield Lie("xhpl", "another implementation", "implementation", path("implementation", "HPL-NVIDIA 99"))
    yield Lie("osu", "a note that adapters do not write", "mpi_says_cuda", path("mpi_says_cuda", "yes"))


def official(raw: Any) -> None:
    """An official run lasts as many times longer as it has more sets."""
    raw["path"]["official_time"] = "yes"
    for key in raw["path"]:
        if key == "sets" or key.startswith("phase_seconds."):
            raw["path"][key] *= 1000


def twins() -> Iterator[tuple[str, str, str]]:
    """Other honest claims and notes: name, verdict, and the verdict of the run itself."""
    told: tuple[tuple[str, str, Change], ...] = (
        ("stream", "another launch", path("launch.triad.*", "512 threads x 2 pairs, streaming, one pass")),
        ("stream", "slower health readings", path("health_reading_ms", 40.0)),
        ("stream", "a kernel without these files", gone("health_reading_ms")),
        ("stream", "launches cost a thousandth", scaled("host_clock_gbs.triad.*", 0.999)),
        ("stream_host", "a compiler without streaming stores", path("stores", "as the compiler chose")),
        ("p2p", "links counted beside their kind", both(
            path("link_kind.gpu0-gpu1", "NVLink through a switch"), path("link_count.gpu0-gpu1", 18))),
        ("p2p", "the driver does not name the link", both(
            path("link.gpu0-gpu1", "not known"), path("link_kind.gpu0-gpu1", "not known"),
            path("link_count.gpu0-gpu1", None))),
        ("mpi_p2p", "ranks by full names", path("rank1", "node1.site.example.org, CPUs 0-15 of NUMA node 0, GPU 1")),
        ("mpi_p2p", "of the same share, rounded", path("of_peer_copy", 0.987)),
        ("overlap_host", "no O_DIRECT on this file system", path("o_direct", "refused by tmpfs: Invalid argument")),
        ("snapshot_io", "memory as a file system", path("note.file_system", "files on tmpfs are memory, no storage")),
        ("hpl", "another panel", path("panel", "cuSOLVER")),
        ("nccl", "NCCL chooses", path("nvlink_multicast", "as NCCL chooses")),
        ("hpcg", "an official run", official),
    )  # fmt: skip
    yield from honest.altered(told)
