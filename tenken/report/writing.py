"""Files that a reader never sees incomplete."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(target: Path, text: str) -> None:
    """Writes by rename, so that a reader sees the old or the new page, never a partial one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".tmp-", suffix=".html", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
