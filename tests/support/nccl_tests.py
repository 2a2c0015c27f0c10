"""Outputs in the format of nccl-tests' sources (src/common.cu, src/util.cu); the figures are invented."""

from __future__ import annotations

from typing import Any


def output(
    benchmark: str = "all_reduce_perf", ranks: int = 4, sizes: tuple[int, int, int] = (1024, 4194304, 64),
    peak: float = 300.0, version: str = "2.17.1", validation: bool = True, wrong: dict[int, int] | None = None,
) -> str:  # fmt: skip
    """What `BENCHMARK -b .. -e .. -f .. -g RANKS -n 100 -c 1` prints. `version` empty: as before version 2.15, which
    printed none. `wrong`: wrong values by size, out of place."""
    first, last, factor = sizes
    of_bus = {"all_reduce_perf": 2 * (ranks - 1) / ranks, "sendrecv_perf": 1.0}.get(benchmark, (ranks - 1) / ranks)
    lines = [f"# nccl-tests version {version} nccl-headers=22703 nccl-library=22703"] if version else []
    lines += [f"# Collective test starting: {benchmark}"] if version else []
    lines += [
        f"# nThread 1 nGpus {ranks} minBytes {first} maxBytes {last} step: {factor}(factor) warmup iters: 20 "
        f"iters: 100 agg iters: 1 validation: {int(validation)} graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2d} Group  0 Pid   4711 on      node1 device {rank:2d} [0000:{rank + 1:02x}:00] NVIDIA H200"
            for rank in range(ranks)
        ),
        "#",
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong    (the same)",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
    ]  # fmt: skip
    told, size, bad = [], first, wrong or {}
    while size <= last:
        words = []
        for way, slower in enumerate((1.0, 1.02)):
            time = float(f"{slower * (10.0 + size / peak / 1e3):.2f}")
            algbw = size / time / 1e3
            told.append(algbw * of_bus)
            compared = validation and not (way == 1 and benchmark in ("alltoall_perf", "sendrecv_perf"))
            count = f"{bad.get(size, 0) * (way == 0):6g}" if compared else "   N/A"
            words.append(f"  {time:7.2f}  {algbw:6.2f}  {algbw * of_bus:6.2f}  {count}")
        operation = "sum" if benchmark == "all_reduce_perf" else "none"
        lines.append(f"{size:12d}  {size // 4:12d}     float  {operation:>6s}      -1{''.join(words)}")
        size *= factor
    failed = sum(bad.values())
    lines += [
        f"# Out of bounds values : {failed} {'FAILED' if failed else 'OK'}",
        f"# Avg bus bandwidth    : {sum(told) / len(told):g} ",
        "#",
        *([f"# Collective test concluded: {benchmark}"] if version else []),
    ]
    return "\n".join(lines) + "\n"


def job(*benchmarks: str, **how: Any) -> str:
    """The output of a job that runs several."""
    return "".join(f"TENKEN-NCCL-TESTS {one}\n{output(one, **how)}" for one in benchmarks or ("all_reduce_perf",))
