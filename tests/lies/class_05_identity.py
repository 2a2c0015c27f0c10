"""Results of another node, time, build, program or card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.lies import honest
from tests.lies.lie import Lie, both, each, put, without


def lies() -> Iterator[Lie]:
    for of in ("stream", "hpl", "daxpy", "mpi_p2p_host", "nccl", "osu", "xhpl", "xhpcg"):
        yield Lie(of, "another node", "host.name", put("host.name", "node2"))
        yield Lie(of, "another attempt's token", "token", put("token", "0" * 32))
        yield Lie(of, "no token", "token", put("token", None))
        yield Lie(
            of,
            "yesterday",
            "started|finished",
            both(put("started", "2026-11-01T00:00:00Z"), put("finished", "2026-11-01T00:00:10Z")),
        )
    yield Lie(
        "mpi_p2p_host", "a rank on another node", "node9", put("placement.nodes", ["node1", "node1", "node1", "node9"])
    )
    yield Lie("mpi_p2p_host", "three ranks named", "placement.nodes", put("placement.nodes", ["node1"] * 3))
    yield Lie("mpi_p2p_host", "all ranks elsewhere", "placement.nodes", put("placement.nodes", ["node7"] * 4))
    yield from each(
        "stream",
        ("started 2099", "started", put("started", "2099-01-01T00:00:00Z")),
        ("finished 2099", "finished", put("finished", "2099-01-01T00:00:00Z")),
        ("started 1970", "started", put("started", "1970-01-01T00:00:00Z")),
        ("finished before it started", "finished", put("finished", "2026-11-02T00:00:00Z")),
        ("month 13", "started", put("started", "2026-13-01T00:00:00Z")),
        ("hour 25", "finished", put("finished", "2026-11-22T25:00:00Z")),
        ("31st of November", "started", put("started", "2026-11-31T00:00:00Z")),
        ("no time", "started", put("started", "")),
        ("other revision", "version", put("version", "deadbeef")),
        ("revision unknown", "version", put("version", "unknown")),
        ("debug build", "build.type", put("build.type", "Debug")),
        ("no build type", "build.type", put("build.type", "")),
        ("-O0", "build.flags", put("build.flags", "-O0 -g")),
        ("-O3, then -O0", "-O0", put("build.flags", "-O3 -O0")),
        ("no flags", "build.flags", put("build.flags", "")),
        ("-Og", "-Og", put("build.flags", "-Og -fopenmp")),
        ("address sanitizer", "-fsanitize", put("build.flags", "-O3 -fsanitize=address")),
        ("coverage", "--coverage", put("build.flags", "-O2 --coverage")),
        ("without CUDA", "backend", put("build.backends", ["host"])),
        ("another program's name", "program", put("program", "daxpy")),
        ("another command", "command", put("command", lambda c: ["/bin/echo", *c[1:]])),
        ("an A100", "GPU 0 has name", put("devices.0.name", "NVIDIA A100-SXM4-80GB")),
        ("an H100", "GPU 0 has name", put("devices.0.name", "NVIDIA H100 80GB HBM3")),
        ("no name", "GPU 0 has name", put("devices.0.name", "")),
        ("another capability", "compute_capability", put("devices.0.compute_capability", "8.0")),
        ("half the memory", "memory_bytes", put("devices.0.memory_bytes", 70_000_000_000)),
        ("another card", "uuid", put("devices.0.uuid", "GPU-ffffffff-0000-0000-0000-000000000009")),
        ("no uuid", "GPU 0 has uuid none", put("devices.0.uuid", None)),
        ("an empty uuid", "GPU 0 has uuid none", put("devices.0.uuid", "")),
        ("index 3", "GPU", put("devices.0.index", 3)),
        ("no host", "host", without("host")),
        ("no devices", "devices", without("devices")),
    )
    yield from each(
        "stream_two",
        ("one card twice", "UUID", put("devices.1.uuid", "GPU-00000000-0000-0000-0000-000000000001")),
        ("the second has an empty uuid", "empty uuid", put("devices.1.uuid", "")),
        ("one index twice", "listed twice", put("devices.1.index", 0)),
        ("the second is an A100", "GPU 1 has name", put("devices.1.name", "NVIDIA A100-SXM4-80GB")),
    )


def twins() -> Iterator[tuple[str, str, str]]:
    """Honest runs under other circumstances: name, verdict, and the verdict of the run itself."""
    run = honest.run("stream")
    for name, verdict in _twins(run):
        yield name, verdict, run.verdict


def _twins(run: honest.Honest) -> Iterator[tuple[str, str]]:
    assert run.job.begin is not None and run.job.end is not None
    skewed = replace(
        run.job, node="node0", nodes=frozenset({"node0", "node1"}), begin=run.job.begin + 30, end=run.job.end - 1
    )
    yield "clocks of two nodes 30 s apart", run.judged(run.raw(), job=skewed).verdict
    yield (
        "30 s the other way",
        run.judged(run.raw(), job=replace(skewed, begin=run.job.begin - 30, end=run.job.end - 30)).verdict,
    )
    slow = replace(run.job, begin=run.job.begin - 600, end=run.job.end + 600)
    yield "a slow file system", run.judged(run.raw(), job=slow).verdict
    for name in ("node1.site.example.org", "NODE1", "node1"):
        raw = run.raw()
        raw["host"]["name"] = name
        yield f"the node calls itself {name}", run.judged(raw).verdict
    alias = replace(run.job, nodes=frozenset({"node1", "nid000123"}))
    yield "the scheduler has another name for it", run.judged(run.raw(), job=alias).verdict
    raw = run.raw()
    raw["version"] = raw["version"].removesuffix("-dirty") + "-dirty"
    yield "sources with changes of one's own", run.judged(raw).verdict
