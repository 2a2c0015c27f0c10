"""Sixty nights of one machine, and what arrives in the mailbox each morning.

Three causes are planted: a node that is slow until it is repaired, a driver that costs all GPUs 3 % and is
acknowledged, a GPU that loses 6 %. At last a node dies. Every morning the night's records are taken in, judged and
mailed, by the same commands as in a night of examples/nightly.
"""

from __future__ import annotations

import os
import random
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tenken.cli import main
from tenken.paths import ROOT
from tools import synthetic

pytestmark = [pytest.mark.nights, pytest.mark.slow, pytest.mark.xdist_group("mornings")]

NODES, NIGHTS, FIRST_MORNING = 8, 60, 34
SLOW, REPAIRED, DRIVER, ACKNOWLEDGED, WEAK, DEAD = 37, 50, 42, 46, 47, 54


def write_night(archive: Path, night: int) -> None:
    for node in range(NODES):
        if node == 7 and night >= DEAD:
            continue
        rng = random.Random(f"mornings/{night}/{node}")
        name, new = synthetic.node_name(node), night >= DRIVER
        when = synthetic.FIRST + timedelta(days=night, minutes=node)
        gpus = synthetic.devices(name, 2, synthetic.DRIVERS[new])
        host = 380 * rng.gauss(1, 0.006) * (0.92 if node == 2 and SLOW <= night < REPAIRED else 1)
        found = [synthetic.metric("host_triad", {"host": 0}, [host])]
        for gpu in range(2):
            triad = 4360 * rng.gauss(1, 0.004) * (0.94 if (node, gpu) == (5, 1) and night >= WEAK else 1)
            found.append(synthetic.metric("triad", {"gpu": gpu}, [triad]))
        copies = [
            synthetic.metric("h2d", {"gpu": gpu}, [55.4 * rng.gauss(1, 0.004) * (0.97 if new else 1)])
            for gpu in range(2)
        ]
        for number, (check, program, metrics) in enumerate(
            (("Stream", "stream", found), ("Transfer", "transfer", copies))
        ):
            record = synthetic.record("m", name, when + timedelta(seconds=number), check, program, metrics, gpus)
            synthetic.write(archive, record, 2 * node + number)


def morning(folder: Path, night: int) -> str:
    """Take in, judge, mail: what is in the mailbox then, nothing on a quiet morning."""
    output, mail = folder / "gate", folder / "mail"
    code = main(
        ["gate", "--archive", str(folder / "perflogs"), "--store", str(folder / "s.duckdb"), "--max-age", "0",
         "--output", str(output), "--acknowledged", str(folder / "acknowledged.yaml")]
    )  # fmt: skip
    mail.unlink(missing_ok=True)
    subprocess.run(
        [str(ROOT / "examples" / "nightly" / "post-mail.sh"), "page.html", "night.log", "0", str(output), str(code)],
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TENKEN_MAILTO": "ops@site", "MAILBOX": str(mail)},
        check=True,
    )
    return mail.read_text() if mail.exists() else ""


def alarms(text: str) -> list[str]:
    """The rows of the table of findings."""
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| finding")]


def test_sixty_nights(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mail").write_text('#!/bin/sh\n{ printf "%s\\n" "$2"; cat; } > "$MAILBOX"\n')
    (tmp_path / "bin" / "mail").chmod(0o755)
    box: dict[int, str] = {}
    for night in range(NIGHTS):
        write_night(tmp_path / "perflogs", night)
        if night == ACKNOWLEDGED:
            since = (synthetic.FIRST + timedelta(days=DRIVER)).date()
            entry = f"system: m, night: {since}, size: -0.03, metric: h2d, reason: needed for X, owner: me"
            (tmp_path / "acknowledged.yaml").write_text(f"acknowledged:\n  - {{{entry}}}\n")
        if night >= FIRST_MORNING:
            box[night] = morning(tmp_path, night)

    assert all(box[night] == "" for night in range(FIRST_MORNING, SLOW + 1)), "quiet, and one night is no finding"
    first = min(night for night, text in box.items() if text)
    assert SLOW < first <= SLOW + 2 and box[first].startswith("Tenken: something got worse")
    for night in range(first, DRIVER):
        (row,) = alarms(box[night])
        assert "node n02" in row and "-8" in row and "nothing" in row

    told = min(night for night, text in box.items() if "driver" in text)
    assert told <= DRIVER + 2
    driver = next(row for row in alarms(box[told]) if "driver" in row)
    assert (
        "h2d" in driver and f"{synthetic.DRIVERS[0]} → {synthetic.DRIVERS[1]}" in driver and len(alarms(box[told])) == 2
    )
    assert not any("driver" in row for row in alarms(box[ACKNOWLEDGED])), "acknowledged"

    weak = min(night for night, text in box.items() if any("node n05" in row for row in alarms(text)))
    assert WEAK < weak <= WEAK + 2 and "GPU 1 of node n05" in box[weak]

    over = min(night for night in range(REPAIRED, NIGHTS) if not any("node n02" in row for row in alarms(box[night])))
    assert over <= REPAIRED + 3 and "back since" in box[over]
    assert [len(alarms(box[night])) for night in range(over, DEAD)] == [1] * (DEAD - over), "only the weak GPU"

    for night in range(DEAD, NIGHTS):
        assert "did not run last night, on n07" in box[night]
    assert all("node n07 has been silent since" in box[night] for night in range(DEAD + 2, NIGHTS)), (
        "until it is retired"
    )
