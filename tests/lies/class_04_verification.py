"""Verifications that trust themselves: their own tolerance, their own name, their own word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lies.lie import Lie, both, check, each, put

OURS = (
    "access_patterns",
    "daxpy",
    "gemm",
    "himeno",
    "hpcg",
    "hpl",
    "hpl_mxp",
    "memcopy",
    "migration",
    "mpi_p2p_host",
    "nccl",
    "overlap_host",
    "snapshot_host",
    "spmv_host",
    "stencil",
    "storage_map",
    "stream",
    "stream_host",
    "stream_openacc",
    "stencil_openacc",
    "transfer",
    "transpose",
)


def one_less(raw: Any) -> None:
    raw["verification"]["checks"].pop()


def only_first(raw: Any) -> None:
    del raw["verification"]["checks"][1:]


def twin(raw: Any) -> None:
    """The first verification in the place of the last."""
    raw["verification"]["checks"][-1] = raw["verification"]["checks"][0]


def lies() -> Iterator[Lie]:
    for of in OURS:
        yield Lie(of, "an error within a tolerance of its own", "tolerance", check(-1, error=1e7, tolerance=1e9))
        yield Lie(of, "a negative error", "error -", check(0, error=-1e-9))
        yield Lie(of, "verified nothing", "verif", put("verification", {"passed": True, "checks": []}))
        yield Lie(of, "a check called nothing", "nothing", check(-1, what="nothing"))
    for of in (
        "access_patterns",
        "gemm",
        "himeno",
        "hpcg",
        "hpl",
        "hpl_mxp",
        "mpi_p2p_host",
        "nccl",
        "overlap_host",
        "snapshot_host",
        "spmv_host",
        "stencil",
        "stream",
        "transfer",
        "transpose",
        "memcopy",
    ):
        yield Lie(of, "the last check does not come", "verification", one_less)
    for of in (
        "hpcg",
        "hpl_mxp",
        "nccl",
        "stream",
        "stream_host",
        "stream_openacc",
        "transfer",
        "spmv_two",
        "mpi_mixed",
    ):
        yield Lie(of, "only the first check comes", "verification", only_first)
        yield Lie(of, "the first check in place of the last", "verification", twin)
    yield Lie(
        "spmv_two",
        "GPU 1 is not verified",
        "gpu1",
        lambda raw: raw["verification"].update(
            checks=[c for c in raw["verification"]["checks"] if "gpu1" not in c["what"]]
        ),
    )
    yield Lie(
        "stream_two",
        "GPU 1 is not verified",
        "gpu1",
        lambda raw: raw["verification"].update(
            checks=[c for c in raw["verification"]["checks"] if "gpu1" not in c["what"]]
        ),
    )
    yield from each(
        "hpl",
        (
            "a residual of a million beside fine checks",
            "residual",
            lambda raw: next(m for m in raw["metrics"] if m["name"] == "residual").update(
                value=1e6, best=1e6, median=1e6, p5=1e6, p95=1e6, samples=[1e6] * 3
            ),
        ),
        ("a repetition less", "repetition", one_less),
        ("failed, with status ok", "verification failed", put("reason", "verification failed")),
        ("marked as failed", "failed", put("verification.passed", False)),
        ("a check that did not pass", "failed", check(1, passed=False)),
        ("an error that is not finite", "failed", check(1, error=None)),
        (
            "of another size",
            "N 64|verif",
            check(1, what="N 64, NB 32, 1x1, repetition 2: ||Ax-b|| / (eps (||A|| ||x|| + ||b||) N), A made anew"),
        ),
        ("tolerance a little wider", "tolerance", check(0, tolerance=17.0)),
    )
    yield from each(
        "xhpl",
        ("residual above 16 called fine", "tolerance", check(0, error=20.0, tolerance=30.0)),
        ("no residual was compared", "verif", put("verification.checks", [])),
        ("said by another program", "not declared by hpl", check(0, what="fine")),
        ("FAILED", "failed", both(check(0, passed=False), put("verification.passed", False))),
    )
    yield from each(
        "xhpcg",
        ("one test less", "is missing", one_less),
        ("a wider tolerance", "tolerance", check(0, error=1.0, tolerance=2.0)),
        ("not valid", "failed", check(-1, error=1.0, passed=False)),
    )
    yield from each(
        "osu",
        ("without -c", "verified nothing", put("verification.checks", [])),
        ("one of two validated", "osu_bw|is missing", one_less),
        ("a tolerance of its own", "tolerance", check(0, error=1.0, tolerance=1.0)),
    )
