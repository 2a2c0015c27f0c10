"""Burn-in: all GPUs of a node and its host under load for a minute to a week, every result verified."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import run_after, variable
from reframe.core.exceptions import ReframeError

from tenken.reframe import node_errors
from tenken.reframe.base import TenkenCheck
from tenken.reframe.links import FIND_NCCL

#: Seconds of the rounds by mode, and the bounds of `-S burn_seconds`: a minute to a week.
SECONDS = {"burn-in": 600}
LEAST, MOST = 60, 7 * 24 * 3600
#: Seconds in addition to the rounds: data of each phase, the first round, and the measurements before and after.
BESIDE = 900
#: Faults of each class in each phase: if at most one is missed, the detected share is above 0.999 with 95 % confidence.
INJECTIONS = 5000


class BurnBase(TenkenCheck):
    """Rounds of products, memory, and copies. Longer by `-S burn_seconds=259200`."""

    program = "burn"
    tags = {"burn-in", "burn"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    prerun_cmds = [*FIND_NCCL.splitlines(), *node_errors.before()]
    postrun_cmds = node_errors.after()

    #: Seconds of the rounds; 0: those of the mode.
    burn_seconds = variable(int, value=0)
    #: A file that outlives the job: an interrupted run continues after its last round.
    burn_progress = variable(str, value="")

    @run_after("init")
    def require_seconds(self):
        """At listing: refuses a length out of range."""
        if self.burn_seconds and not LEAST <= self.burn_seconds <= MOST:
            raise ReframeError(f"{self.unique_name}: burn_seconds is {self.burn_seconds}; allowed: {LEAST} to {MOST}")

    @run_after("setup")
    def set_rounds(self):
        """Once the partition is known: the length of the mode or as requested."""
        seconds = self.burn_seconds or SECONDS.get(self.tenken_mode, LEAST)
        self.ask(seconds)

    def ask(self, seconds: int, **more) -> None:
        self.expected_parameters |= {"backend": "cuda", "seconds": seconds}
        self.arguments = {
            **self.arguments, **self.expected_parameters, "gpus": "all", "progress": self.burn_progress or None, **more,
        }  # fmt: skip
        self.time_limit = f"{seconds + BESIDE}s"


@rfm.simple_test
class Burn(BurnBase):
    """All GPUs at once. Before the rounds, products with and without verification in turns; after them, the power of
    the hottest phase.
    """

    descr = "burn-in of all GPUs of a node, every result checked"

    #: Seconds over which power is measured, after a third of it as warm-up.
    burn_power_seconds = variable(int, value=180)
    #: Seconds of each of ten turns of each phase of products, half of them without verification.
    burn_turn_seconds = variable(float, value=1.0)

    @run_after("setup")
    def set_rounds(self):
        """Once the partition is known: length, and seconds of the comparison, power measurement and warm-up."""
        seconds = self.burn_seconds or SECONDS.get(self.tenken_mode, LEAST)
        power = self.burn_power_seconds
        beside = {"compare-seconds": self.burn_turn_seconds, "power-seconds": power, "heat-seconds": power // 3}
        self.ask(seconds, **beside)


@rfm.simple_test
class BurnNode(BurnBase):
    """All GPUs at once, together with the memory and cores of the host."""

    descr = "burn-in of all GPUs of a node and its host, every result checked"
    #: GiB of the host's memory.
    burn_host_gib = variable(int, value=16)

    @run_after("setup")
    def load_host(self):
        """Once the partition is known: the load of the host in addition to that of the GPUs."""
        self.arguments = {**self.arguments, "with-host": True, "host-bytes": f"{self.burn_host_gib}Gi"}


@rfm.simple_test
class BurnDetection(BurnBase):
    """Faults injected by class into each phase, and the share that verification detects."""

    descr = "faults injected into a burn-in, by class and phase"
    metrics = ["injected", "masked", "found", "detected"]

    @run_after("setup")
    def set_rounds(self):
        """Once the partition is known: faults to inject on one GPU."""
        self.expected_parameters = {"backend": "cuda", "injections": INJECTIONS}
        self.arguments = {**self.expected_parameters, "gpus": "0"}
        self.gpus = 1


@rfm.simple_test
class BurnHost(BurnBase):
    """The phases on the host alone: its memory and cores."""

    descr = "burn-in of the host, every result checked"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    subjects = ["host"]

    @run_after("setup")
    def set_rounds(self):
        """Once the partition is known: length and time limit of a host without GPU."""
        seconds = self.burn_seconds or SECONDS.get(self.tenken_mode, LEAST)
        self.expected_parameters = {"backend": "host", "seconds": seconds}
        self.arguments = dict(self.expected_parameters)
        self.time_limit = f"{seconds + BESIDE}s"
