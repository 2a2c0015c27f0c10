"""What a check needs to know about the machine it runs on: the system file as seen from one partition."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe.core.containers import ContainerPlatform
from reframe.core.exceptions import ReframeError

from tenken.machines import loader
from tenken.machines.errors import UnsetVariableError
from tenken.machines.facts import facts
from tenken.machines.model import Environment, Partition, System, fill
from tenken.model.machine import Machine as Facts
from tenken.paths import ROOT
from tenken.reframe import joblines

#: Apptainer's defaults: name, processes and shared memory of this host (health and locks depend on them), and the
#: environment of the job, except for what belongs to the image.
_AS_ON_THE_HOST = (
    "--network=host --uts=host --pid=host --ipc=host",
    r"$(compgen -e | sed '/^\(PATH\|HOME\|PWD\|SHLVL\|_\|LD_.*\)$/d; s/^/-e /')",
)


@dataclass(frozen=True)
class Machine:
    """One partition and environment of a system."""

    system: System
    partition: Partition
    environment: Environment

    @classmethod
    def of(cls, partition: Any, environment: Any) -> Machine:
        """From ReFrame's current partition and environment. Raises ReframeError if the system file lacks them."""
        system_name, partition_name = partition.fullname.split(":")
        return cls.named(system_name, partition_name, environment.name)

    @classmethod
    def named(cls, system_name: str, partition: str, environment: str) -> Machine:
        """By names. Raises SystemsError or KeyError if the system files lack them."""
        system = loader.load(system_name).expand(os.environ, strict=False)
        return cls(system, system.partition(partition), system.environments[environment])

    def require_variables(self) -> None:
        """Raise ReframeError with the user variables that this system needs and that are not set."""
        try:
            self.system.expand(os.environ)
        except UnsetVariableError as error:
            raise ReframeError(str(error)) from None
        if not self.partition.usable:
            raise ReframeError(
                f"system {self.system.name!r}: partition {self.partition.name!r}: scheduler "
                f"{self.partition.scheduler!r} cannot be used: {self.partition.scheduler_status}"
            )

    @property
    def cores(self) -> int | None:
        """Physical cores of a node."""
        return self.partition.node.cores

    @property
    def slots(self) -> int | None:
        """The maximum number of ranks on the CPUs of one node; None: unknown, or not enforced."""
        node = self.partition.node
        if self.partition.scheduler == "local" or not node.cores:
            return None
        return node.cores * (node.threads_per_core or 1)

    @property
    def gpus(self) -> int | None:
        """GPUs of a node."""
        return self.partition.node.gpu_count

    @property
    def gpu_memory_gib(self) -> float:
        """Memory of one GPU in GiB: as detected, otherwise from the data sheet; 0 without a GPU."""
        node = self.partition.node
        if node.gpu_memory_bytes:
            return node.gpu_memory_bytes / 2**30
        return node.gpu.memory_gib if node.gpu else 0.0

    @property
    def gpu_resource(self) -> bool:
        """Whether GPUs must be requested at this site."""
        return bool(self.partition.gpu_request)

    @property
    def builds_on_login(self) -> bool:
        return self.partition.builds_on_login

    @property
    def measured_where_built(self) -> bool:
        """Whether programs are compiled on the machine being measured."""
        return self.builds_on_login and self.partition.scheduler == "local"

    @property
    def nvcc(self) -> str | None:
        """The CUDA compiler of this environment; None if it does not build CUDA."""
        return (self.environment.cuda or "nvcc") if "cuda" in self.environment.features else None

    def cmake_options(self) -> list[str]:
        """CMake options for the capabilities of this environment and the GPUs of this partition."""
        features = self.environment.features
        options = [f"-DCMAKE_CXX_COMPILER={self.environment.cxx}"]
        # OFF is also stated, since the build tree keeps what an earlier session chose
        options += [f"-DTENKEN_{n.upper()}={'ON' if n in features else 'OFF'}" for n in ("cuda", "openacc", "mpi")]
        if "cuda" in features:
            architectures = self.partition.node.cuda_architectures
            if architectures:
                options.append(f"-DCMAKE_CUDA_ARCHITECTURES={shlex.quote(architectures)}")
            if self.environment.cuda:
                options.append(f"-DCMAKE_CUDA_COMPILER={self.environment.cuda}")
        return options

    def in_image(self, command: str, folder: str, *beside: str, gpus: bool = False) -> str:
        """A command as run in `folder`: in the suite's image if the partition has one, otherwise unchanged. The folders
        `beside` are mounted as well.
        """
        container = self.partition.image
        if container is None:
            return command
        platform = ContainerPlatform.create(container.platform)
        platform.image, platform.command = shlex.quote(str(container.image)), command
        # paths inside and outside are the same, since results are written there; libraries that a job script finds with
        # Python (BLAS, HDF5) are in the virtual environment
        venv = [sys.prefix] if sys.prefix != sys.base_prefix and not Path(sys.prefix).is_relative_to(ROOT) else []
        places = [
            str(ROOT),
            *venv,
            folder,
            *beside,
            *([self.partition.local_storage] if self.partition.local_storage else []),
        ]
        platform.mount_points = [(place, place) for place in dict.fromkeys(places)]
        platform.mount_stagedir, platform.workdir = None, shlex.quote(folder)
        platform.with_cuda, platform.options = gpus, list(container.options)
        if container.platform == "Docker":
            platform.mount_points = [*platform.mount_points, ("/tmp", "/tmp")]
            platform.options = [*_AS_ON_THE_HOST, *container.options]
        return str(platform.launch_command(folder))

    @property
    def image_modules(self) -> tuple[str, ...]:
        """Modules that provide the platform of the suite's image."""
        return self.partition.image.modules if self.partition.image else ()

    def begin_commands(self, token: str, folder: str, outputs: Sequence[str]) -> list[str]:
        """Shell lines before all others: attempt, nodes and GPUs, site settings, required modules."""
        modules = [*self.partition.modules, *self.environment.modules]
        has_gpus = self.gpus is None or self.gpus > 0
        begin = joblines.begin(has_gpus, token, folder, outputs)
        return [*begin, *self.partition.prerun, *joblines.need_modules(modules)]

    def launcher_options(self, num_tasks: int, num_tasks_per_node: int) -> list[str]:
        """The site's options of the MPI launcher."""
        values = {"num_tasks": num_tasks, "num_tasks_per_node": num_tasks_per_node}
        return [fill(option, values) for option in self.partition.launcher_options]

    def facts(self) -> Facts:
        """Facts about the machine that a judgement requires."""
        return facts(self.system, self.partition, self.environment)
