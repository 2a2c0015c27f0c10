"""Every verdict, from documents that an H200 wrote and that are doctored here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenken.model import verdicts as verdict
from tenken.model.judgement import Judgement
from tenken.paths import ROOT
from tests.support.judging import on_system

CAPTURED = ROOT / "tests" / "data" / "h200"


def captured(name: str) -> dict[str, Any]:
    """The document of a captured record."""
    return json.loads((CAPTURED / f"{name}.json").read_text())["document"]


def judge(raw: dict[str, Any], gpus: int = 1, subjects: tuple[str, ...] = ("gpu",), **more: Any) -> Judgement:
    """Judged as on the system h200 with `gpus` GPUs."""
    return on_system(raw, "h200", subjects, gpus=gpus, ranks=1, **more)


@pytest.mark.parametrize("name", ["stream-one-gpu", "memcopy-gpu-8gb"])
def test_what_the_h200_wrote_passes(name):
    found = judge(captured(name))
    assert found.verdict == verdict.PASS, found.message()
    assert all(j.efficiency and 0.85 < j.efficiency < 1 for j in found.judged.values())
