"""A small catalogue and a valid system file that tests modify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.machines import loader
from tenken.machines.model import System

CATALOGUE = """\
program: stream
title: STREAM
section: docs/stream.md
version: 1
identity: []
metrics:
  copy: &kernel
    {title: Copy, unit: GB/s, direction: higher, statistic: median, per: [host, gpu], limit: none, plot: bars}
  scale: *kernel
  add: *kernel
  triad: *kernel
"""

GOOD = """\
title: A machine
status: active
variables:
  TENKEN_GROUP: {meaning: project group, required: true}
  TENKEN_QUEUE: {meaning: queue, default: short}
  TENKEN_RESERVATION: {meaning: reservation}
environments:
  cuda: {features: [cuda, mpi], cc: gcc, cxx: g++, cuda: nvcc, modules: [cuda/12.6]}
  host: {features: [openmp], cc: gcc, cxx: g++}
partitions:
  gpu:
    scheduler: slurm
    launcher: srun
    launcher_options: ["--ntasks-per-node={num_tasks_per_node}", "${SITE_OPTIONS}"]
    access: ["-A ${TENKEN_GROUP}", "-p ${TENKEN_QUEUE}", "--reservation=${TENKEN_RESERVATION}"]
    gpu_request: ["--gpus-per-node={num_gpus_per_node}"]
    environments: [cuda, host]
    features: [cuda, mpi]
    capabilities: [managed, peer]
    time_limit: 1:30:00
    node:
      architecture: x86_64
      host: Xeon-8468
      sockets: 2
      cores: 96
      gpus: {sheet: H100-SXM-80GB, count: 4, pair_links: all}
references:
  - metric: stream.triad
    subject: gpu
    partition: gpu
    value: 3000
    lower: -0.05
    upper: 0.1
    unit: GB/s
    statistic: median
    date: 2026-01-31
    driver: "570.20"
    source: own runs
    environ: [cuda]
    parameters: {array_bytes: 1073741824}
"""


@pytest.fixture
def src(tmp_path: Path) -> Path:
    """A source folder with one program."""
    folder = tmp_path / "src" / "stream"
    folder.mkdir(parents=True)
    (folder / "metrics.yaml").write_text(CATALOGUE)
    return folder.parent


@pytest.fixture
def load(tmp_path: Path, src: Path) -> Callable[[str], System]:
    """Load a system file from its text."""

    def load_text(text: str) -> System:
        file = tmp_path / "systems" / "machine.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return loader.load_file(file, src=src, cache_folder=None, strict=True)

    return load_text
