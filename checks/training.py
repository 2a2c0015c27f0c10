"""A training step of a transformer by the machine's PyTorch: its rate, its steadiness, and the same bits everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.paths import ROOT
from tenken.reframe.base import RESULT_FILE, JudgedCheck, command_line
from tenken.reframe.links import NEAR_GPU

#: By mode: seconds of the timed part, deterministic steps, and steps between checksums of weights and optimiser.
LENGTHS = {"quick": (2, 2, 2), "nightly": (30, 10, 5), "acceptance": (30, 10, 5), "published": (60, 20, 5)}
#: The program's output, without token and locks.
WRITTEN = "training.json"
# Finds a Python with PyTorch if none is named; if there is none, the last Python on PATH reports that. A module's
# PYTHONPATH shows its PyTorch to every Python, but its library loads into one version.
_FIND_PYTHON = """if [ -z "$TENKEN_PYTORCH" ]; then for TENKEN_PYTORCH in $(type -ap python3); do
  "$TENKEN_PYTORCH" -c 'from importlib import machinery as m, util as u; \
m.PathFinder.find_spec("_C", u.find_spec("torch").submodule_search_locations).origin.strip' 2>/dev/null && break
done; fi"""


class TrainingBase(JudgedCheck):
    """Forward, backward and AdamW of a decoder with BF16 or FP8 products, weights in FP32, tokens from a seed.

    Metrics: `step`, `tokens`, `rate`, `mfu`, `of_product`, `p99`, `worst`, `drift`, `phase`; `power`, `energy`;
    `deterministic` and `determinism_cost`. Fingerprints of the deterministic steps are compared between GPUs and with
    the archive. Waived without PyTorch; TENKEN_PYTORCH names a python3 that has it.
    """

    program = "training"
    ours = False
    on_gpus = True
    subjects = ["gpu"]
    cores = 0
    sourcesdir = str(ROOT / "src" / "programs" / "training")
    valid_systems = ["+cuda"]
    outputs = [RESULT_FILE, WRITTEN]
    time_limit = "30m"
    prerun_cmds = _FIND_PYTHON.splitlines()

    #: The model: 1b, 50m or tiny.
    model = variable(str, value="1b")
    #: Sequences per GPU; 0: as many as fit, up to 8.
    batch = variable(int, value=0)
    #: Micro-batches of a step of data parallelism, whose gradients are summed before they are exchanged.
    micro_batches = variable(int, value=2)
    #: Of products.
    products = "bf16"
    parallel = "none"
    backend = "cuda"

    def nodes_asked(self) -> int:
        return 1

    @run_after("setup")
    def set_lengths(self):
        """Once the partition is known: model, length and steps of the mode."""
        seconds, steps, every = LENGTHS[self.size_mode]
        quick = self.size_mode == "quick"
        # compiling takes as long as the steps of a shortened run; the exchange of tensor parallelism is not compiled
        compiled = not (quick or self.shortened) and self.parallel != "tensor" and self.backend == "cuda"
        wanted = {
            "backend": self.backend, "model": self.model, "precision": self.products, "parallel": self.parallel,
            "processes": (self.gpus or 1) if self.uses_gpus else 1, "nodes": self.nodes_asked(),
            "batch": self.batch or None, "micro-batches": self.micro_batches if self.parallel == "data" else None,
            "seconds": seconds, "steps": steps, "every": every, "compiled": compiled,
            "plain": compiled and self.parallel == "none",
        }  # fmt: skip
        gpu = self.machine.partition.node.gpu if self.uses_gpus else None
        sheet = gpu.tflops.get(self.products) if gpu else None
        self.arguments = {**wanted, "sheet-tflops": sheet, **self.arguments}
        self.expected_parameters = {
            key.replace("-", "_"): value for key, value in self.arguments.items() if value is not None
        }

    @run_before("run")
    def set_command(self):
        """Just before the job script is written: starts the script by the PyTorch of the site."""
        self.executable = '"$TENKEN_PYTORCH" training.py'
        fault = {"inject-fault": self.fault} if self.fault else {}
        self.executable_opts = command_line({**self.arguments, **fault, "json": WRITTEN})

    def judgement(self):
        """The program writes the result; the job script adds token, locks and load."""
        path = Path(self.stagedir, WRITTEN)
        if path.is_file():
            Path(self.stagedir, RESULT_FILE).write_text(json.dumps(self.stamp(json.loads(path.read_text()))))
        return super().judgement()


@rfm.simple_test
class TrainingStep(TrainingBase):
    """Each GPU trains its own model of 1.0 billion parameters, all at once."""

    descr = "a training step on every GPU of a node"
    share = 75
    tags = {"training", "compute", "quick", "acceptance", "nightly", "published"}
    precision = parameter(["bf16", "fp8"])

    @run_after("init")
    def choose_precision(self):
        """At listing: the precision; FP8 only in the modes without a time limit."""
        self.products = self.precision
        if self.precision == "fp8":
            self.tags = self.tags - {"quick", "acceptance"}


@rfm.simple_test
class TrainingParallel(TrainingBase):
    """All GPUs of a node train one model: data-parallel, each with its own tokens, or tensor-parallel, each with its
    part of heads and width. Additional metrics: `alone` by rank, `exposed`, `imbalance`; `scaling` by data.
    """

    descr = "a training step of all GPUs of a node together"
    share = 55
    tags = {"training", "links", "nccl", "acceptance", "nightly"}
    valid_systems = ["+cuda +gpus2"]
    subjects = ["ranks"]
    divided = parameter(["data", "tensor"])

    @run_after("init")
    def choose_parallel(self):
        """At listing: how the model is divided; tensor-parallel only in the modes without a time limit."""
        self.parallel = self.divided
        if self.divided == "tensor":
            self.tags = self.tags - {"acceptance"}


@rfm.simple_test
class TrainingBetweenNodes(TrainingBase):
    """All GPUs of several nodes train one model by data: two nodes, or as many as `-S
    TrainingBetweenNodes.num_nodes=64` gives. The launcher starts one process per node.
    """

    descr = "a training step of all GPUs of several nodes together"
    tags = {"training", "links", "nccl", "acceptance", "nightly"}
    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    uses_mpi = True
    parallel = "data"
    num_nodes = variable(int, value=2)
    num_tasks_per_node = 1
    env_vars = dict(NEAR_GPU)
    # rendezvous file of an earlier attempt
    outputs = [RESULT_FILE, WRITTEN, "training-rendezvous.json"]

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes."""
        self.need_nodes(self.num_nodes)

    def nodes_asked(self):
        return self.num_nodes

    @run_after("setup")
    def one_process_a_node(self):
        """Once the partition is known: a launched process on each node."""
        self.num_tasks = self.num_nodes


@rfm.simple_test
class TrainingFlips(TrainingBase):
    """Detection by the fingerprints: one bit of a weight, a gradient or an activation is flipped at a random step, 300
    times. Additional metrics: `flips_found`, `flips_masked`. Verified: none that changed the state is missed.
    """

    descr = "bits flipped in a training step, found by its fingerprints"
    share = 55
    tags = {"training", "acceptance"}
    model = "50m"
    arguments = {"seconds": 2, "steps": 20, "every": 5, "flips": 300, "batch": 4, "plain": False, "compiled": False}

    @run_after("setup")
    def require_counts(self):
        """Once the partition is known: the metrics that must be reported."""
        self.metrics = ["step", "deterministic", "flips_found", "flips_masked"]


@rfm.simple_test
class TrainingHost(TrainingBase):
    """A tiny model on the host, with 60 flipped bits: tests the fingerprints; the rates are not meaningful."""

    descr = "a training step on the host"
    share = 10
    tags = {"training", "acceptance"}
    valid_systems = ["*"]
    subjects = ["host"]
    on_gpus = False
    backend = "cpu"
    model = "tiny"
    arguments = {"seconds": 1, "steps": 6, "every": 3, "flips": 60, "batch": 2}

    @run_after("setup")
    def refuse_others(self):
        """Once the partition is known: refuses GPUs."""
        if self.gpus:
            raise ReframeError(f"{self.unique_name}: gpus is {self.gpus}; allowed: 0")
