"""A machine of machines.yaml: its files below a folder, the output of its tools, its detected description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

from tenken.machines import local
from tenken.machines.model import Partition, System
from tenken.machines.nvml import Bus

FILE = Path(__file__).with_name("machines.yaml")


@lru_cache(maxsize=1)
def machines() -> dict[str, dict[str, Any]]:
    """All of the file, by name."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


@dataclass
class FixtureMachine:
    """One of them."""

    name: str
    said: dict[str, Any]
    root: Path
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def expect(self) -> dict[str, Any]:
        return self.said["expect"]

    @property
    def fault(self) -> dict[str, Any]:
        return self.said["fault"]

    @property
    def architecture(self) -> str:
        return self.said["cpu"].get("machine", "x86_64")

    @property
    def cards(self) -> list[list[Any]]:
        """One entry of `gpus` for each GPU that the driver shows."""
        kinds = [self.said[key] for key in ("gpus", "more_gpus") if key in self.said]
        return [kind[1:] for kind in kinds for _ in range(kind[0])]

    @property
    def count(self) -> int:
        """GPUs that the description must have."""
        return self.expect.get("count", len(self.cards))

    def mended(self, root: Path) -> FixtureMachine:
        """The same node once the lost GPU is back."""
        kind = [self.count, *self.said["gpus"][1:]]
        found = FixtureMachine(self.name, {**self.said, "gpus": kind}, root)
        found.build()
        return found

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def build(self) -> None:
        """Writes /proc, /sys and /dev, and stores the output of the tools."""
        self._write_cpus(**{k: v for k, v in self.said["cpu"].items() if k != "machine"})
        on_bus = [("0x10de", "0x030200")] * self.said.get("on_bus", len(self.cards))
        on_bus += [("0x1002", "0x120000")] * self.said.get("amd_gpus", 0)
        for slot, (vendor, kind) in enumerate(on_bus):
            folder = f"sys/bus/pci/devices/0000:{slot + 16:02x}:00.0"
            self.write(f"{folder}/vendor", f"{vendor}\n")
            self.write(f"{folder}/class", f"{kind}\n")
            if self.cards and not (self.root / folder / "driver").is_symlink():
                (self.root / folder / "driver").symlink_to("../../../bus/pci/drivers/nvidia")
        files = self.said.get("device_files", self.said.get("on_bus", len(self.cards)))
        for index in range(files if self.cards else 0):
            self.write(f"dev/nvidia{index}", "")
        if "jetson" in self.said:
            self.write("proc/device-tree/model", self.said["jetson"] + "\0")
        if self.cards:
            self._answer_as_nvidia_smi()
        for path, text in self.said.get("files", {}).items():
            self.write(path, f"{text}\n")
        if "slurm" in self.said:
            self.answers["sinfo"] = self.said["slurm"]
        if "mpi" in self.said["tools"]:
            self.write("usr/lib/mpi/include/mpi.h", "")
            self.answers["/usr/bin/mpicxx -show"] = "g++ -I/usr/lib/mpi/include -lmpi"

    def _write_cpus(self, model: str | None, sockets: int, cores: int, threads: int, gib: int) -> None:
        logical = sockets * cores * threads
        for cpu in range(logical):
            base = f"sys/devices/system/cpu/cpu{cpu}/topology"
            self.write(f"{base}/physical_package_id", f"{cpu // cores % sockets}\n")
            self.write(f"{base}/core_id", f"{cpu % cores}\n")
        self.write("sys/devices/system/cpu/online", f"0-{logical - 1}\n")
        parts = {"Neoverse-V2": "CPU part\t: 0xd4f\n", None: "CPU part\t: 0xd83\n"}
        self.write("proc/cpuinfo", "processor\t: 0\n" + parts.get(model, f"model name\t: {model}\n"))
        self.write("proc/meminfo", f"MemTotal:       {gib * 2**20} kB\n")
        for socket in range(sockets):
            self.write(f"sys/devices/system/node/node{socket}/cpulist", "0\n")

    def _answer_as_nvidia_smi(self) -> None:
        mig = "Enabled" if self.said.get("mig") else "Disabled"
        rows = [
            f"{i}, GPU-00000000-0000-0000-0000-{i:012d}, {name}, {able}, {mib}, {generation}, {lanes}, {mig}"
            for i, (name, mib, able, generation, lanes, _) in enumerate(self.cards)
        ]
        self.answers["nvidia-smi --query-gpu="] = "\n".join(rows) + "\n"
        numbers = range(len(self.cards))
        lines = ["\t" + "\t".join(f"GPU{i}" for i in numbers) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
        for i in numbers:
            row = self.said["links"][i].split() if "links" in self.said else [str(self.cards[i][5])] * len(numbers)
            cells = [" X " if i == j else row[j] for j in numbers]
            lines.append(f"GPU{i}\t" + "\t".join(cells) + "\t0-31\t0\t\tN/A")
        self.answers["nvidia-smi topo -m"] = "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n"

    def run(self, command: Sequence[str]) -> str | None:
        """The output of the machine's tools."""
        line = " ".join(command)
        return next((text for start, text in self.answers.items() if line.startswith(start)), None)

    def which(self, name: str) -> str | None:
        """Where its PATH has a program."""
        tools = {"mpi": {"mpicxx", "mpirun"}}
        there = {"g++", "cmake", "make"}.union(*(tools.get(tool, {tool}) for tool in self.said["tools"]))
        there |= {"nvidia-smi"} if self.cards else set()
        there |= {"sinfo", "sbatch", "srun"} if "slurm" in self.said else set()
        return f"/usr/bin/{name}" if name in there else None

    def buses(self) -> list[Bus]:
        return [Bus(*self.said["bus"]) for _ in self.cards] if "bus" in self.said else []

    @cached_property
    def system(self) -> System:
        """As `tenken systems describe` would detect it there."""
        return local.describe(self.root, self.run, self.which, {}, self.architecture, self.buses)

    @property
    def partition(self) -> Partition:
        return self.system.partition(local.PARTITION)
