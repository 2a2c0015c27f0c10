"""Where the parts of the suite are, found from this file so that nothing depends on the current folder.

In a checkout everything is where a site edits it. In an installed wheel the catalogue and the data sheets are package
data, and `TENKEN_ROOT`, else the current folder, contains a site's own files, archive and pages.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "data"


def _root() -> Path:
    named = os.environ.get("TENKEN_ROOT")
    if named:
        return Path(named).resolve()
    return Path.cwd() if _DATA.is_dir() else _PACKAGE.parent


def _data(relative: str) -> Path:
    """A folder or file of the checkout if it exists; otherwise its copy in the package."""
    return ROOT / relative if (ROOT / relative).exists() or not _DATA.is_dir() else _DATA / relative


ROOT = _root()
SRC = ROOT / "src"
PROGRAMS = _data("src/programs")
CHECKS = ROOT / "checks"
SYSTEMS = ROOT / "systems"
HARDWARE = _data("systems/hardware.yaml")
KINDS = _data("systems/kinds.yaml")
REPORTS = ROOT / "reports"
CACHE = ROOT / ".cache"


#: Characters that ReFrame's job scripts and make accept in the name of a folder: letters of any language, digits and
#: these.
_USABLE = re.compile(r"[\w./+@%=-]+")


def unusable(folder: Path) -> str | None:
    """One line with the reason why nothing can run from a folder of this name; None if it can.

    ReFrame writes paths without quotes into its job scripts. PATH and Python's search path are divided at colons, a
    compiler's options for the linker, which name the folder of an MPI, at commas.
    """
    odd = sorted({character for character in str(folder) if not _USABLE.fullmatch(character)})
    if not odd:
        return None
    shown = ", ".join("a space" if c == " " else repr(c) if not c.isprintable() else c for c in odd)
    return f"{folder}: ReFrame cannot run from a path with {shown}; allowed: letters, digits and . _ - / + @ % ="


def archive_root() -> Path:
    """The archive: the folder named by TENKEN_ARCHIVE, else `perflogs/` of the checkout."""
    named = os.environ.get("TENKEN_ARCHIVE")
    return Path(named).resolve() if named else ROOT / "perflogs"


if __name__ == "__main__":
    # scripts/need.sh checks this before anything is created
    problem = unusable(_PACKAGE.parent)
    if problem:
        sys.exit(f"tenken: {problem}")
