"""Where the parts of the suite live, found from this file so that nothing depends on the current folder."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
CHECKS = ROOT / "checks"
SYSTEMS = ROOT / "systems"
CACHE = ROOT / ".cache"


def archive_root() -> Path:
    """The archive: the folder named by TENKEN_ARCHIVE, else `perflogs/` of the checkout."""
    named = os.environ.get("TENKEN_ARCHIVE")
    return Path(named).resolve() if named else ROOT / "perflogs"
