"""Waivers of what the machine can do, and of what nobody can check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.lies import honest
from tests.lies.lie import Lie

#: A run that measured, and says now that it cannot: reason, what the refusal names.
UNPROVEN = (
    ("stream", "not supported by the device: no CUDA device", "cuda|GPU"),
    ("stream", "not supported by the device: no GPU", "cuda|GPU"),
    ("stream", "library missing: libc.so.6", "can be waived only for a lack of"),
    ("stream", "library missing: libcudart.so.12", "can be waived only for a lack of"),
    ("stream", "library missing:", "detail"),
    ("stream", "library missing", "detail"),
    ("stream", "needs more ranks: 2 needed, 2 given", "2 are available"),
    ("stream", "needs more ranks: 1 needed, 4 given", "4 are available"),
    ("stream", "needs more ranks: many", "the number needed"),
    ("stream", "did not feel like it", "not a known reason"),
    ("stream", "NO PEER ACCESS: none", "not a known reason"),
    ("stream", "", "not a known reason"),
    ("stream", "no managed memory: none", "managed"),
    ("hpl", "library missing: libm.so.6", "can be waived only for a lack of"),
    ("nccl", "library missing: libpthread.so.0", "can be waived only for a lack of"),
    ("nccl", "needs two GPUs: 1 is here", "GPUs"),
    ("nccl", "needs more ranks: 2 needed, 2 given", "2 are available"),
    ("p2p", "needs two GPUs: 1 is here", "GPUs"),
    ("p2p", "no peer access: cudaDeviceCanAccessPeer says 0", "peer"),
    ("mpi_p2p", "no device-buffer MPI: it crashed", "device_mpi"),
    ("mpi_p2p", "needs two GPUs: 1", "GPUs"),
    ("migration", "no managed memory: cudaDevAttrManagedMemory is 0", "managed"),
    ("himeno", "no managed memory: it is slow", "managed"),
    ("gemm", "library missing: libcublas.so", "can be waived only for a lack of"),
    ("snapshot_io", "not supported by the device: no device", "cuda|GPU"),
    ("daxpy", "library missing: libgomp.so.1", "can be waived only for a lack of"),
    ("memcopy", "not supported by the device: too slow", "metrics|GPU"),
    ("spmv_two", "needs two GPUs: found 1", "GPUs"),
)


def lies() -> Iterator[Lie]:
    for number, (of, reason, names) in enumerate(UNPROVEN):

        def measured(raw: dict, reason: str = reason) -> None:
            raw.update(status="waived", reason=reason)

        def empty(raw: dict, reason: str = reason) -> None:
            raw.update(status="waived", reason=reason, metrics=[], limits={})

        yield Lie(of, f"{number} {reason!r}, with all its metrics", f"{names}|metrics", measured, {"status": 3})
        yield (
            Lie(of, f"{number} {reason!r}, without metrics", names, empty, {"status": 3})
            if reason != ("not supported by the device: too slow")
            else Lie(of, f"{number} {reason!r}, exit 0", "exited with 0", empty)
        )
    run = honest.run("no pageable")
    claimed = replace(run.machine, capabilities=run.machine.capabilities | {"sam"})
    yield Lie("no pageable", "although it is claimed", "claims 'sam'", lambda raw: None, {"machine": claimed})
    yield Lie(
        "no pageable",
        "although the GPU has it",
        "pageable_memory_access",
        lambda raw: raw["devices"][0].update(pageable_memory_access=True),
        {},
    )
    yield Lie(
        "two gpus",
        "although two are claimed",
        "GPUs",
        lambda raw: None,
        {"request": replace(honest.run("two gpus").request, gpus=2)},
    )
    gds = honest.run("no gds")
    yield Lie(
        "no gds",
        "although it is claimed",
        "gds",
        lambda raw: None,
        {"machine": replace(gds.machine, capabilities=frozenset({"gds"}))},
    )
    yield Lie(
        "no gds",
        "although cuFile has a direct path",
        "cufile",
        lambda raw: raw["path"].update(cufile="GPUDirect Storage"),
    )
    yield Lie("no osu", "belongs to another attempt", "token", lambda raw: raw.update(token="x"))
