"""Lets `reframe -c checks -r --system NAME` find the suite's configuration from the repository root.

ReFrame has no default place for its configuration. `python -m tenken.venv` writes one `.pth` line into the virtual
environment. When the current folder holds `config/settings.py` and `checks/`, it sets RFM_CONFIG_PATH to `config`,
unless the user has already set it (or RFM_CONFIG_FILES).
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

NAME = "tenken_reframe.pth"
LINE = (
    "import os; (os.path.isfile('config/settings.py') and os.path.isdir('checks') "
    "and 'RFM_CONFIG_FILES' not in os.environ "
    "and os.environ.setdefault('RFM_CONFIG_PATH', os.path.abspath('config')))\n"
)


def install(site_packages: Path) -> Path:
    """Write the `.pth` file into `site_packages` and return its path."""
    path = site_packages / NAME
    path.write_text(LINE, encoding="utf-8")
    return path


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        sys.exit("tenken.venv: not in a virtual environment; activate one first (. .venv/bin/activate)")
    print(install(Path(sysconfig.get_path("purelib"))))
