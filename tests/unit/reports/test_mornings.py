"""Sixty nights of forty nodes, and the mails of the important mornings.

The archive is written once, with the faults of the table; the mornings of MORNINGS are judged and mailed with the
commands of a night of examples/nightly. The table contains the line that is first reported on each night, and its
words; some sizes and nights were set to the results of the first run, each of them earlier or equivalent.
"""

from __future__ import annotations

import html
import os
import random
import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tenken.cli import main
from tenken.paths import ROOT
from tools import synthetic

pytestmark = [pytest.mark.nights, pytest.mark.slow, pytest.mark.xdist_group("mornings")]

NODES, NIGHTS, LEAF = 40, 60, 8
DRIFT, KERNEL, GPU, LINK, DRIVER, NEW, SPIKE, BAD_LEAF, DOT, DEAD, PROGRAM = 33, 34, 36, 38, 41, 43, 45, 46, 49, 52, 56
#: metric -> (check, places, level, noise between nights); a place is (kind, GPU, its peer)
HOST, GPUS, PAIR = (("host", -1, -1),), (("gpu", 0, -1), ("gpu", 1, -1)), (("pair", 0, 1),)
METRICS = {
    "triad": ("Stream", GPUS, 4360.0, 0.004),
    "dot": ("Stream", GPUS, 4100.0, 0.004),
    "host_triad": ("Stream", HOST, 380.0, 0.005),
    "h2d": ("Transfer", GPUS, 55.4, 0.004),
    "peer": ("Transfer", PAIR, 395.0, 0.003),
    "net": ("Transfer", HOST, 48.0, 0.005),
}
#: The loss of each value by a fault, by metrics, nodes and GPUs from its first night on.
FAULTS = (
    (GPU, lambda m, n, gpus: n == 5 and 1 in gpus, 0.04),
    (KERNEL, lambda m, n, gpus: m == "host_triad", -0.02),
    (LINK, lambda m, n, gpus: m == "peer" and n == 9, 0.08),
    (DRIVER, lambda m, n, gpus: m == "h2d", 0.02),
    (NEW, lambda m, n, gpus: m == "triad" and n == 39 and 1 in gpus, 0.05),
    (BAD_LEAF, lambda m, n, gpus: m == "net" and n // LEAF == 2, 0.06),
    (PROGRAM, lambda m, n, gpus: METRICS[m][0] == "Transfer", 0.03),
)


def value(rng: random.Random, metric: str, node: int, gpus: tuple[int, ...], night: int) -> float:
    _, _, level, noise = METRICS[metric]
    out = level * random.Random(f"{metric}/{node}/{gpus}").gauss(1, 0.003) * rng.gauss(1, noise)
    for first, concerns, part in FAULTS:
        out *= 1 - part * (night >= first and concerns(metric, node, gpus))
    if metric == "host_triad" and node == 11:
        out *= 1 - 0.001 * max(0, night - DRIFT + 1)
    return out * (0.7 if (metric, node, night) == ("triad", 2, SPIKE) else 1)


def write_nights(archive: Path) -> None:
    """Node 39 is added on night NEW, node 30 dies on night DEAD, and all lose a metric with another driver."""
    for night in range(NIGHTS):
        for node in range(NODES):
            if (node == 39 and night < NEW) or (node == 30 and night >= DEAD):
                continue
            rng, name = random.Random(f"mornings/{night}/{node}"), synthetic.node_name(node)
            driver = (*synthetic.DRIVERS, "590.44.01")[(night >= DRIVER) + (night >= DOT)]
            gpus = synthetic.devices(name, 2, driver)
            for number, check in enumerate(("Stream", "Transfer")):
                found = []
                for metric, (of, places, _, _) in METRICS.items():
                    for kind, *ends in places if of == check and (metric != "dot" or night < DOT) else ():
                        keys = {"host": ("host",), "gpu": ("gpu",), "pair": ("from", "to")}[kind]
                        subject = dict(zip(keys, [max(end, 0) for end in ends], strict=False))
                        at = tuple(end for end in ends if end >= 0)
                        found.append(synthetic.metric(metric, subject, [value(rng, metric, node, at, night)]))
                when = synthetic.FIRST + timedelta(days=night, minutes=node, seconds=number)
                record = synthetic.record("m", name, when, check, check.lower(), found, gpus)
                synthetic.write(archive, record, 2 * node + number)


def date(night: int) -> str:
    return str((synthetic.FIRST + timedelta(days=night)).date())


def morning(folder: Path, night: int) -> tuple[str, str]:
    """Judges and mails: the contents of the mailbox, empty on a quiet morning; and the page."""
    output, mail, store = folder / "gate", folder / "mail", folder / "s.duckdb"
    code = main(
        ["gate", "--archive", str(folder / "perflogs"), "--store", str(store), "--night", date(night),
         "--groups", str(folder / "groups.csv"), "--output", str(output),
         "--acknowledged", str(folder / "acknowledged.yaml"), *["--no-ingest"] * store.exists()]
    )  # fmt: skip
    mail.unlink(missing_ok=True)
    subprocess.run(
        [str(ROOT / "examples" / "nightly" / "post-mail.sh"), "page.html", "night.log", "0", str(output), str(code)],
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TENKEN_MAILTO": "ops@site", "MAILBOX": str(mail)},
        check=True,
    )
    return mail.read_text() if mail.exists() else "", (output / "nightly.html").read_text()


#: (a morning without it, the first one with it, words of one line of the mail)
TOLD = (
    (GPU, GPU + 1, ("GPU 1 of node n05", "4 metrics", "-3.")),
    (GPU + 2, LINK + 1, ("of node n09", "link", "peer", "-7.")),
    (GPU + 4, DRIVER + 1, ("Transfer h2d on partition gpu", "-2.", "driver 580.95.05 → 580.126.09 on all of")),
    (DRIVER + 1, NEW + 1, ("outlier", "GPU 1 of node n39", "triad", date(NEW), "-")),
    (SPIKE + 1, BAD_LEAF + 1, ("leaf l2 (8 of 8 nodes)", "Transfer net")),
    (BAD_LEAF + 1, DOT, ("Stream dot: missing on 40 nodes", f"since {date(DOT)} (80 series)", "580.126.09 → 590")),
    (DRIFT + 18, DEAD, ("node n30: silent since", date(DEAD))),
    (DEAD, PROGRAM + 1, ("Transfer on partition gpu", "3 metrics", "-2.")),
    (GPU + 2, DRIFT + 18, ("drift: node n11: Stream host_triad", "-1.")),
)  # fmt: skip
MORNINGS = sorted({GPU + 3, GPU + 4, *(night for before, first, _ in TOLD for night in (before, first))})


def lines(mail: str, words: tuple[str, ...]) -> list[str]:
    return [line for line in mail.splitlines() if all(word in line for word in words)]


def test_sixty_nights_of_forty_nodes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mail").write_text('#!/bin/sh\n{ printf "%s\\n" "$2"; cat; } > "$MAILBOX"\n')
    (tmp_path / "bin" / "mail").chmod(0o755)
    rows = [f"{synthetic.node_name(node)},l{node // LEAF}" for node in range(NODES)]
    (tmp_path / "groups.csv").write_text("\n".join(["node,leaf", *rows]) + "\n")
    write_nights(tmp_path / "perflogs")
    box = {night: morning(tmp_path, night) for night in MORNINGS}
    mails = {night: mail for night, (mail, _) in box.items()}
    assert mails[GPU] == "", "quiet: a gain of all nodes is no alarm, and one night is no finding"
    for before, first, words in TOLD:
        assert not lines(mails[before], words), words
        assert len(lines(mails[first], words)) == 1, (words, mails[first])
    assert not [mail for mail in mails.values() if "of node n02" in mail], "one bad night is never a finding"

    # after three mornings an open alarm is folded, below new ones
    for night, shown in ((GPU + 2, True), (GPU + 3, True), (GPU + 4, False)):
        (line,) = lines(mails[night], ("GPU 1 of node n05",))
        assert line.startswith("| ") is shown and ("still" in line) is not shown
    text = html.unescape(re.sub(r"<[^>]*>", "", box[NEW + 1][1]))
    assert text.index("GPU 1 of node n39") < text.index("Standing, reported before") < text.index("GPU 1 of node n05")
    assert "Nothing new" not in text, "an outlier is news on its first night"
