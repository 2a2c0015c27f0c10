"""Adjusts the virtual environment, by two `.pth` lines that Python runs when it starts.

Modules of a site set PYTHONPATH to packages of other versions, also of another Python, and Python searches it first.
The first line has it searched last: by `reframe`, `tenken` and jobs alike, while other programs find it as it was.

The second lets `reframe -c checks -r --system NAME` find the suite's configuration: ReFrame has no default place for
it. When the current folder holds `config/settings.py` and `checks/`, RFM_CONFIG_PATH is set to `config`, unless the
user has already set it (or RFM_CONFIG_FILES).
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

#: Python reads these files in the order of their names, and the others import.
NAME = "00_tenken.pth"
LINES = (
    "import os, sys; sys.path.sort(key=[os.path.abspath(folder) for folder in "
    "os.environ.get('PYTHONPATH', '').split(os.pathsep)].__contains__)\n"
    "import os; (os.path.isfile('config/settings.py') and os.path.isdir('checks') "
    "and 'RFM_CONFIG_FILES' not in os.environ "
    "and os.environ.setdefault('RFM_CONFIG_PATH', os.path.abspath('config')))\n"
)


def install(site_packages: Path) -> Path:
    """Write the `.pth` file into `site_packages` and return its path."""
    path = site_packages / NAME
    path.write_text(LINES, encoding="utf-8")
    return path


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        sys.exit("tenken.venv: not in a virtual environment; activate one first (. .venv/bin/activate)")
    print(install(Path(sysconfig.get_path("purelib"))))
