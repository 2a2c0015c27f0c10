"""The example in the documentation is a file that works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tenken.machines import loader
from tenken.machines.model import System
from tenken.paths import ROOT


def test_the_example_is_valid(load: Callable[[str], System], tmp_path: Path) -> None:
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    whole, *parts = examples
    system = load(whole)
    assert system.partition("gpu").node.gpu_count == 4 and len(system.references) == 1
    # the fragment shown next to it fits into it
    (ratios,) = (part for part in parts if part.startswith("ratios:"))
    file = tmp_path / "with-ratios.yaml"
    file.write_text(f"{whole}\n{ratios}")
    both = loader.load_file(file, cache_folder=None)
    assert len(both.ratios) == len(system.ratios) + 1
