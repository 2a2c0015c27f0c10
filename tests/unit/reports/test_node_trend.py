"""The node checks' values as series of the gate: a GPU whose values fall is found and named."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from tenken.archive import verify
from tenken.cli import main
from tenken.node import trend
from tests.unit.node import replay
from tools import synthetic

WANTED = {"system": "h200", "partition": "gpu"}
#: GPU 3 of node n02 loses 2.5 % of its bandwidth: less than a check before a job considers bad.
NIGHTS, FROM, SHARE = 45, 38, 0.975


def test_a_loss_that_no_single_check_is_told_of_is_found(tmp_path: Path, capsys: Any) -> None:
    chance, of = random.Random(46), replay.noise(0)
    wanted = WANTED | {"archive": str(tmp_path / "perflogs")}
    for night in range(NIGHTS):
        for node in range(2):
            values = replay.values(chance, of)
            if node == 1 and night >= FROM:
                values["stream.triad.gpu3"] *= SHARE
            when = synthetic.FIRST + timedelta(days=night, minutes=node)
            trend.append(wanted, f"n0{node + 1}", 0, "tenken: good: 8 GPUs", when.timestamp(), values)
    assert main(["archive", "verify", "--archive", str(tmp_path / "perflogs")]) == 0
    assert "2 logs of node checks have a seal in each line" in capsys.readouterr().out
    lines = (tmp_path / "perflogs/h200/gpu/node_check.n01.log").read_text().splitlines()
    assert len(lines) == NIGHTS + 1 and max(map(len, lines[1:])) < 500
    assert verify.check(tmp_path / "perflogs").faults == []
    options = ["--archive", str(tmp_path / "perflogs"), "--store", str(tmp_path / "s.duckdb"), "--max-age", "0"]
    assert main(["gate", *options, "--output", str(tmp_path / "out")]) == 1
    assert "GPU 3 of node n02: node_check triad still -2.4 % since 2025-10-09" in capsys.readouterr().out
    (finding,) = json.loads((tmp_path / "out" / "findings.json").read_text())["systems"][0]["findings"]
    assert finding["kind"] == "step" and finding["alarming"]
