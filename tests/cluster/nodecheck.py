"""The node check on a node of the tests' Slurm: the real command, on a fake NVML and fake /proc and /sys.

A shell script in place of /opt/tenken/bin/python starts this file, with a folder that has a subfolder for each node:
`node.json` (the expectation), `root` (its files), `plant.json` (readings that its GPUs return instead). Children,
deadlines, state file and queries of the scheduler are real.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tenken.node import cli, expect, state
from tenken.node.check import Machine
from tenken.node.measure import STEPS
from tests.unit.node import fakes

GPUS = 4
#: The stagger and the pauses of a real node, divided by this.
FASTER = 10


class Wired:
    """Changes to the nodes by a test, in their common folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, names: list[str], slurm_conf: Path, share: float) -> None:
        """Healthy nodes, with one program that measures."""
        programs = self.folder / "programs"
        programs.mkdir(parents=True)
        series = [
            {"metric": "triad", "subject": {"gpu": i}, "counts": {"bytes": 44}, "seconds": [1e-8]} for i in range(GPUS)
        ]
        document = json.dumps({"program": "stream", "status": "ok", "reason": "", "series": series})
        stream = programs / "stream"
        stream.write_text(f'#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done\necho \'{document}\' > "$2"\n')
        stream.chmod(0o755)
        hidden = [fakes.bus(index) for index in range(GPUS, 8)]
        for name in names:
            root = self.folder / name / "root"
            for file, content in fakes.files().items():
                if not any(bus in file for bus in hidden):
                    (root / file).parent.mkdir(parents=True, exist_ok=True)
                    (root / file).write_text(content)
            self.plant(name)
            wanted = {
                "schema": expect.SCHEMA, "gpus": {"count": GPUS, "names": ["NVIDIA H200"], "nvlinks": 18},
                "host": {"shm_free_share": 0.0}, "programs": str(programs),
                "state": str(self.folder / name / "state.json"),
                "file_systems": [{"path": "/scratch", "type": "lustre", "write": True}],
                "drain": {"scheduler": "slurm", "partition": "gpu", "share": share, "conf": str(slurm_conf)},
            }  # fmt: skip
            state.write(self.folder / name / "node.json", wanted)

    def plant(self, name: str, driver: str = "580.159.04", **gpu3: Any) -> None:
        """What the node and its GPU 3 read from now on; empty: a healthy node."""
        state.write(self.folder / name / "plant.json", {"driver": driver, "gpu": gpu3})

    def calls(self, name: str) -> list[tuple[list[str], int]]:
        """Arguments and exit status of every check of a node."""
        try:
            lines = (self.folder / name / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [tuple(json.loads(line)) for line in lines]


def main(folder: Path, arguments: list[str]) -> int:
    """`-I -m tenken.node ACTION ...` on the node that the arguments name."""
    assert arguments[:3] == ["-I", "-m", "tenken.node"], arguments
    words = arguments[3:]
    name = words[1] if words[0] == "return" else words[words.index("--node") + 1]
    planted = json.loads((folder / name / "plant.json").read_text())
    nvml = fakes.Fake(GPUS)
    nvml.driver = planted["driver"]
    nvml.gpus[3].update(planted["gpu"])
    expect.FILE = folder / name / "node.json"
    cli.Machine = (
        lambda: Machine(  # type: ignore[assignment,misc]
            folder / name / "root", nvml, sleep=lambda seconds: time.sleep(seconds / FASTER), steps=STEPS[:1]
        )
    )
    status = cli.main(words)
    with (folder / name / "calls").open("a") as calls:
        calls.write(json.dumps([words, status]) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
