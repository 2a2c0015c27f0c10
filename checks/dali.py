"""NVIDIA DALI for comparison with data_loading: the same samples, read by the loader used in training."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from tenken.paths import ROOT
from tenken.reframe.foreign import Figure, ForeignCheck

#: For each mode: batches of an epoch, timed epochs, ms of a step.
LOADS = {"quick": (4, 3, 5), "acceptance": (8, 10, 20), "nightly": (8, 5, 20), "published": (16, 10, 20)}


class DaliBase(ForeignCheck):
    """Samples as npy files, shuffled again in each epoch, read by DALI's pipeline while the step holds a batch.

    Metrics: `samples` per second, `rate` in GB/s and `waits`, the share of time in which the step waits, one sample per
    epoch. Verified: every word in the epoch before, the sum of each sample in the others, and that each epoch reads
    each sample once. Waived if python3 has no nvidia.dali; TENKEN_DALI names a folder that has it.
    """

    tags = {"storage", "acceptance", "published"}
    sourcesdir = str(ROOT / "src" / "programs" / "data_loading" / "dali")
    command = "python3 dali_loading.py"
    version_pattern = r"^DALI (\S+),"
    figures = {
        "samples": Figure("samples per second", "samples/s", "higher", r"^samples (\S+) samples/s$", min_count=3),
        "rate": Figure("bytes of samples per second", "GB/s", "higher", r"^rate (\S+) GB/s$", min_count=3),
        "waits": Figure(
            "share of the time that the step waits for samples", "%", "lower", r"^waits (\S+) %$", min_count=3,
            sign="zero",
        ),
    }  # fmt: skip
    required_lines = [r"^verified \d+ samples in \d+ epochs: 0 wrong, 0 not read once, shuffled anew$"]
    time_limit = "30m"

    #: The folder to write in, on the file system that is measured.
    storage_path = variable(str, value=".")
    #: Whether a training step by PyTorch holds each batch, instead of waiting.
    trains = False
    #: DALI's reader: `cpu`, or `gpu`, which reads by cuFile.
    reader = "cpu"
    #: Of the samples.
    kind = parameter(["speech", "deepcam"])

    @run_after("setup")
    def expect_command(self):
        """Once the partition is known: the script's command line, and the parameters that its output must state."""
        batches, epochs, step = LOADS[self.size_mode]
        python, hold = ('"${TENKEN_PYTORCH:-python3}"', "--train") if self.trains else ("python3", f"--step-ms {step}")
        self.command = (
            'PYTHONPATH="${TENKEN_DALI:-}${TENKEN_DALI:+:}${PYTHONPATH:-}" '
            f"{python} dali_loading.py --reader {self.reader} --kind {self.kind} --batches {batches} --epochs {epochs} "
            f"{hold} --path {self.storage_path}"
        )
        super().expect_command()
        if self.machine.cores:
            self.env_vars.setdefault("OMP_NUM_THREADS", self.machine.cores)
        self.expected_parameters |= {"kind": self.kind, "batches": batches, "epochs": epochs}

    def declared(self):
        return {**super().declared(), "libraries": ["nvidia.dali", "torch"]}

    def waived_document(self, first):
        return {**super().waived_document(first), "reason": f"library missing: {first}"}


@rfm.simple_test
class DataLoadingDaliCpu(DaliBase):
    """DALI's CPU reader into host memory."""

    descr = "loading of training data by NVIDIA DALI, CPU reader"
    program = "dali_cpu"


@rfm.simple_test
class DataLoadingDaliGpu(DaliBase):
    """DALI's GPU reader into the memory of a GPU, by cuFile: GPUDirect Storage if available, otherwise its copies."""

    descr = "loading of training data by NVIDIA DALI, GPU reader"
    program = "dali_gpu"
    reader = "gpu"
    on_gpus = True
    valid_systems = ["+cuda"]


class TrainingDaliBase(DaliBase):
    """Training as the load: a recurrent speech encoder by PyTorch, similar to RNN-T, holds each batch. The published
    training was RNN-T of MLPerf. Verified additionally: its loss falls. Waived without PyTorch; TENKEN_PYTORCH names a
    Python that has it, of the version for which DALI was made.
    """

    tags = {"storage", "training", "published"}
    kind = parameter(["speech"])
    trains = True
    required_lines = [*DaliBase.required_lines, r"^trained \d+ steps: loss \S+ to \S+, falling$"]


@rfm.simple_test
class TrainingDaliCpu(TrainingDaliBase):
    """A training step whose batches DALI's CPU reader loads."""

    descr = "training with NVIDIA DALI as its loader, CPU reader"
    program = "dali_cpu_training"


@rfm.simple_test
class TrainingDaliGpu(TrainingDaliBase):
    """A training step whose batches DALI's GPU reader loads, by cuFile."""

    descr = "training with NVIDIA DALI as its loader, GPU reader"
    program = "dali_gpu_training"
    reader = "gpu"
    on_gpus = True
    valid_systems = ["+cuda"]
