"""Sets up a small campaign of host probes whose documents the test creates, and runs its commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenken.archive import records as archive
from tenken.campaign import journal
from tenken.paths import ROOT
from tests.cluster.conftest import document

CHECKS = """
import os
from pathlib import Path

import reframe as rfm
from tests.reframe.checks.doctored.doctored import HandsOut


class Probe(HandsOut):
    cores = None

    def case_of_test(self):
        folder = Path("{folder}")
        own = folder / f"{{os.environ.get('TENKEN_ON_NODE')}}.json"
        return str(own if own.is_file() else folder / "usual.json"), "sleep 0", "1m"


@rfm.simple_test
class CampaignProbeA(Probe):
    pass


@rfm.simple_test
class CampaignProbeB(Probe):
    pass
"""


@dataclass
class Small:
    """A campaign `small` over `nodes` of `system`, all of its files in `folder`."""

    folder: Path
    environment: dict[str, str]

    def lay_out(
        self,
        system: str,
        partition: str,
        nodes: str,
        slow: str,
        factor: float = 0.2,
    ) -> None:
        home = self.folder / "campaigns"
        home.mkdir()
        usual = document()
        (self.folder / "usual.json").write_text(json.dumps(usual))
        (self.folder / f"{slow}.json").write_text(json.dumps(scaled(usual, factor)))
        check = self.folder / "probe.py"
        check.write_text(CHECKS.format(folder=self.folder))
        (home / "small.yaml").write_text(
            f"system: {system}\npartition: {partition}\nnodes: '{nodes}'\nminutes: 5\n"
            f"checks: {{paths: ['{check}'], environments: [host]}}\nretest: {{runs: 1}}\n"
        )

    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}
        own = {"TENKEN_CAMPAIGNS": str(self.folder / "campaigns"), "TENKEN_ARCHIVE": str(self.folder / "perflogs")}
        # as users have it
        own["TENKEN_PATIENCE"] = "blocked=00:10:00"
        return {**kept, **own, **self.environment, "PYTHONPATH": str(ROOT)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.campaign", *words], cwd=ROOT, env=self.env(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def call(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        output, _ = process.communicate(timeout=170)
        return process.returncode, output

    def killed_when(self, words: Sequence[str], ready: str, timeout: float = 60) -> None:
        """kill -9 as soon as the journal contains one more event of that kind."""
        before = self.events().count(ready)
        process = self.start(*words)
        until = time.time() + timeout
        while self.events().count(ready) <= before and process.poll() is None and time.time() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def events(self) -> list[str]:
        path = self.folder / "campaigns" / "small" / journal.FILE
        if not path.is_file():
            return []
        return [json.loads(line)["event"] for line in path.read_text().splitlines() if line.endswith("}")]

    def records(self) -> list[archive.Record]:
        return list(archive.records(self.folder / "perflogs"))


def scaled(whole: dict, factor: float) -> dict:
    """A document in which all figures for which higher is better are smaller by a factor."""
    made = json.loads(json.dumps(whole))
    for metric in made["metrics"]:
        if metric["direction"] == "higher":
            for key, value in metric.items():
                if key == "samples":
                    metric[key] = [v * factor for v in value]
                elif key in ("value", "best", "median", "p5", "p95", "mean"):
                    metric[key] = value * factor
    return made
