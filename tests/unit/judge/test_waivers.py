"""Waivers of what the machine can do, and of what cannot be checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import honest
from tests.support.planted import seen

#: A run that measured, and now claims that it cannot: reason, what the refusal names.
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
    ("nccl", "needs two GPUs: 1 is here", "claims 2 GPUs"),
    ("nccl", "needs more ranks: 2 needed, 2 given", "2 are available"),
    ("p2p", "needs two GPUs: 1 is here", "claims 2 GPUs"),
    ("p2p", "no peer access: cudaDeviceCanAccessPeer says 0", "peer"),
    ("mpi_p2p", "no device-buffer MPI: it crashed", "device_mpi"),
    ("mpi_p2p", "needs two GPUs: 1", "claims 2 GPUs"),
    ("migration", "no managed memory: cudaDevAttrManagedMemory is 0", "managed"),
    ("himeno", "no managed memory: it is slow", "managed"),
    ("gemm", "library missing: libcublas.so", "can be waived only for a lack of"),
    ("snapshot_io", "not supported by the device: no device", "cuda|GPU"),
    ("daxpy", "library missing: libgomp.so.1", "can be waived only for a lack of"),
    ("memcopy", "not supported by the device: too slow", "metrics|GPU"),
    ("stream", "not supported by the file system: O_DIRECT", "the result does not name the file system"),
    ("spmv_two", "needs two GPUs: found 1", "claims 2 GPUs"),
)


@pytest.mark.parametrize(("of", "reason", "says"), UNPROVEN)
def test_a_waiver_of_what_the_machine_can_do_is_no_waiver(of: str, reason: str, says: str) -> None:
    run = honest.run(of)
    waived = {**run.raw(), "status": "waived", "reason": reason}
    seen(run.judged(waived, status=3), f"{says}|metrics")
    if not says.startswith("metrics"):
        seen(run.judged({**waived, "metrics": [], "limits": {}}, status=3), says)


def test_a_claimed_capability_cannot_be_waived() -> None:
    run, gds, two = honest.run("no pageable"), honest.run("no gds"), honest.run("two gpus")
    claimed = replace(run.machine, capabilities=run.machine.capabilities | {"sam"})
    seen(run.judged(run.raw(), machine=claimed), "claims 'sam'")
    having = run.raw()
    having["devices"][0].update(pageable_memory_access=True)
    seen(run.judged(having), "pageable_memory_access")
    seen(two.judged(two.raw(), request=replace(two.request, gpus=2)), "GPUs")
    links = honest.run("p2p")
    waived = {**links.raw(), "status": "waived", "reason": "needs two GPUs: 1", "metrics": [], "limits": {}}
    unasked, unclaimed = replace(links.request, gpus=None), replace(links.machine, capabilities=frozenset())
    seen(links.judged(waived, status=3, request=unasked, machine=unclaimed), "the result lists 2 GPUs")
    stream = honest.run("stream")
    waived = {**stream.raw(), "status": "waived", "reason": "not supported by the device: no GPU"}
    waived |= {"metrics": [], "limits": {}, "devices": []}
    bare = replace(stream.machine, features=frozenset())
    seen(stream.judged(waived, status=3, machine=bare, request=replace(stream.request, gpus=1)), "1 GPUs are requested")
    seen(gds.judged(gds.raw(), machine=replace(gds.machine, capabilities=frozenset({"gds"}))), "gds")
    direct = gds.raw()
    direct["path"].update(cufile="GPUDirect Storage")
    seen(gds.judged(direct), "cufile")


@pytest.mark.parametrize("name", honest.WAIVED)
def test_an_honest_waiver_stays_one(name: str) -> None:
    assert honest.run(name).verdict == "WAIVED"
