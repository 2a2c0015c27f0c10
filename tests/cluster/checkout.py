"""A checkout of a site on a test cluster: its own folder of systems, everything else as here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenken.paths import ROOT


class Checkout:
    """Below the tested checkout, at the same depth as `.cache/tests-src-build`, so that ccache has its objects."""

    def __init__(self, root: Path, cluster: Mapping[str, str], login: Mapping[str, str]) -> None:
        """`cluster`: variables of the cluster's commands; `login`: the environment of a login node."""
        self.root = root
        for name in ("src", "checks", "config", "scripts", "tenken", "pyproject.toml"):
            (root / name).symlink_to(ROOT / name)
        (root / "systems").mkdir()
        (root / "systems" / "hardware.yaml").symlink_to(ROOT / "systems" / "hardware.yaml")
        kept = {k: v for k, v in login.items() if not k.startswith(("TENKEN_", "RFM_", "SLURM_"))}
        path = [str(Path(sys.executable).parent), login["PATH"], "/usr/sbin"]
        self.environment = {
            **kept, **cluster, "PATH": os.pathsep.join(path), "TENKEN_ROOT": str(root),
            "TENKEN_ARCHIVE": str(root / "perflogs"), "TENKEN_LOCKS": os.environ["TENKEN_LOCKS"],
            "RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n",
        }  # fmt: skip

    def __call__(self, *words: str) -> subprocess.CompletedProcess[Any]:
        return subprocess.run(
            words, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False, timeout=1800
        )
