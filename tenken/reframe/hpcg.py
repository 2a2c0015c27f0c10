"""The base of HPCG's checks: for the suite's solver and for a site's binary."""

from __future__ import annotations

from reframe.core.builtins import variable

from tenken.reframe.base import TenkenCheck

#: Seconds of timed sets by mode. An official HPCG run takes 1800 s, so every document states that it is not one.
SECONDS = {"quick": 1, "acceptance": 10, "nightly": 20, "published": 60}


#: Points along each side of one GPU's grid, and the memory they need in GiB.
SIDES = ((256, 15), (192, 7), (128, 3), (64, 1))


class HpcgBase(TenkenCheck):
    """GFLOP/s by HPCG's own count, its validity tests, and the report in its own format next to the document.

    Metrics: `raw`, `rating` (with the overheads of convergence and setup), `set`, `spmv`, `mg`, `setup`, `optimise`,
    `iterations`, `dot` and `of_dot`, its ratio to a solver with three passes over the matrix per level.
    """

    program = "hpcg"
    tags = {"hpcg"}

    #: Points along each side of a rank's grid, a multiple of 8; None: by mode and memory.
    side = variable(int, type(None), value=None)

    #: Seconds of timed sets; None: by mode.
    seconds = variable(int, type(None), value=None)

    def ask(self, backend: str, side: int, **more: object) -> None:
        """Sets the arguments and the parameters that the document must repeat."""
        chosen = {"backend": backend, "nx": self.side or side}
        seconds = SECONDS[self.size_mode] if self.seconds is None else self.seconds
        self.arguments = {
            **chosen,
            "target-seconds": seconds,
            "repetitions": 100,
            "hpcg-file": "HPCG-Benchmark_3.1_tenken.txt",
            **more,
            **self.arguments,
        }
        self.expected_parameters = {
            **chosen,
            "repetitions": 100,
            **{k: v for k, v in more.items() if k == "ranks"},
            **self.expected_parameters,
        }

    def side_for_memory(self) -> int:
        """The largest grid that fits on a GPU of this machine; the smallest if its memory is unknown."""
        memory = self.machine.gpu_memory_gib
        return next((side for side, gib in SIDES if memory > gib), SIDES[-1][0])
