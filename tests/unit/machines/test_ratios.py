"""Ratios between machines: stored with their metric, refused with their line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenken.machines import loader
from tenken.machines.errors import SystemFileError
from tenken.machines.model import System
from tests.unit.machines.conftest import GOOD

RATIO = """\
ratios:
  - {metric: stream.triad, subject: gpu, at: {variant: x}, statistic: best, over: K40, against: nnz,
     ratio: [0.7, 0.3], date: "2017", published: R2, source: a paper}
"""


def test_a_ratio_is_kept(load: Callable[[str], System]) -> None:
    (ratio,) = load(GOOD + RATIO).ratios
    assert (ratio.program, ratio.metric, ratio.over, ratio.ratio) == ("stream", "triad", "K40", (0.7, 0.3))
    assert (ratio.published, ratio.at, ratio.statistic) == ("R2", {"variant": "x"}, "best")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stream.triad, subject: gpu, at", "stream.triade, subject: gpu, at", "unknown metric 'triade'"),
        ("subject: gpu, at", "subject: pair, at", "wrong subject 'pair' in ratio 1"),
        ("ratio: [0.7, 0.3]", "ratio: [0.7]", "ratio 1"),
        ("over: K40, ", "", "missing key 'over'"),
    ],
)
def test_a_wrong_ratio_is_named(load: Callable[[str], System], old: str, new: str, message: str) -> None:
    with pytest.raises(SystemFileError) as raised:
        load(GOOD + RATIO.replace(old, new))
    assert message in str(raised.value)


def test_the_published_ratio_of_2017_is_tied_to_its_metric() -> None:
    (ratio,) = loader.load("reedbush-h").ratios
    assert (ratio.program, ratio.metric, ratio.published) == ("spmv", "spmv", "R2")
