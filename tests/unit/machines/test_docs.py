"""The example in the documentation is a file that works."""

from __future__ import annotations

import re
from collections.abc import Callable

from tenken.machines.model import System
from tenken.paths import ROOT


def test_the_example_is_valid(load: Callable[[str], System]) -> None:
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 1
    system = load(examples[0])
    assert system.partition("gpu").node.gpu_count == 4 and len(system.references) == 1
