"""A rank that ends or hangs ends the run of all, with its reason: the same code in every program of several ranks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.programs.conftest import Outcome

pytestmark = pytest.mark.build

#: Short runs, and where the others wait: the rank may stop before they have left what comes before.
RUNS = {
    "hpcg": (("--nx", "16", "--target-seconds", "0.05"), "(?:dot product|set )"),
    "mpi_p2p": (("--max-bytes", "4Ki", "--factor", "16"), "bandwidth"),
    "stencil": (
        ("--nx", "40", "--ny", "30", "--nz", "25", "--scaling", "strong", "--exchange", "mpi"),
        "warming up mpi",
    ),
}


@pytest.mark.parametrize(
    ("program", "how"), [*((program, "stop") for program in RUNS), ("mpi_p2p", "exception"), ("mpi_p2p", "kill")]
)
def test_the_others_end_when_a_rank_dies(run_ranks: Callable[..., Outcome], program: str, how: str) -> None:
    arguments, place = RUNS[program]
    quick = ("--repetitions", "3", "--warmup-seconds", "0", "--patience-seconds", "5")
    begun = time.monotonic()
    outcome = run_ranks(program, 3, *quick, *arguments, "--inject-fault", f"rank-{how}")
    assert time.monotonic() - begun < 60
    assert outcome.code not in (0, 3)
    said = outcome.stdout + outcome.stderr
    if how == "exception":
        assert f"{program}: rank 2 on " in said and "ended by --inject-fault rank-exception" in said
    elif how == "kill":
        # on busy cores, the other ranks notice the silence before the launcher notices the death
        assert "signal 9" in said or "Killed" in said or "another rank has died or hangs" in said
    else:
        assert re.search(f"no progress for 5 s in: {place}", said), said
        assert outcome.document is not None and "another rank has died or hangs" in outcome.document["reason"]
