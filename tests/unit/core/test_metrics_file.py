"""An error in a program's metrics.yaml is one line: file, key, what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenken.errors import CatalogueError
from tenken.model.catalogue import load_program
from tenken.paths import PROGRAMS

MISTAKES = {
    "unit": ("unit: GB/s", "unit: GBps", "metric daxpy: unit is 'GBps'; allowed: "),
    "direction": ("direction: higher", "direction: up", "metric daxpy: direction is 'up'; allowed: higher, lower"),
    "subject": ("per: [host]", "per: [node]", "metric daxpy: per is 'node'; allowed: host, gpu, pair, ranks"),
    "subject without a list": ("per: [host]", "per: host", "metric daxpy: per is 'host'; allowed: a list of host, gpu"),
    "no subject": ("per: [host]", "per: []", "metric daxpy: per is []; allowed: a list of host, gpu"),
    "name of a metric": ("  daxpy:\n", "  DAXPY rate:\n", "metric DAXPY rate: the name must be lower case letters"),
    "work": ("work: {bytes:", "work: {byte:", "work names 'byte'; allowed: bytes, operations, cells, samples"),
    "work without a formula": ("work: {bytes: ", "work: [bytes] # ", "work is ['bytes']; allowed: a map of bytes, "),
    "share of a run": ("timed: 0.1", "timed: 2.0", "timed is 2.0; allowed: true, false, or a share above 0"),
    "tolerance": ("tolerance: 0", "tolerance: -1", "verifications: tolerance is -1; allowed: 0 or above"),
    "tolerance that nothing meets": (
        "tolerance: 0",
        "tolerance: .nan",
        "verifications: tolerance is nan; allowed: 0 or",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line(case: str, tmp_path: Path) -> None:
    old, new, said = MISTAKES[case]
    text = (PROGRAMS / "daxpy" / "metrics.yaml").read_text()
    file = tmp_path / "daxpy" / "metrics.yaml"
    file.parent.mkdir()
    file.write_text(text)
    assert load_program(file).name == "daxpy"
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(CatalogueError) as caught:
        load_program(file)
    assert said in str(caught.value) and "\n" not in str(caught.value)
