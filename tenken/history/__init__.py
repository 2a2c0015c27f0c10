"""History, statistics, gate and pages over the archive.

For notebooks: `from tenken.history import history; history("perflogs")` is a pandas frame, one row per metric value.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def history(
    archive: str | Path | None = None, store: str | Path | None = None, fresh: bool = True, **where: Any
) -> pandas.DataFrame:
    """All values of an archive, oldest first: time, night, machine, node, GPU, value, unit, fingerprint and more.

    Keywords name columns: `history(system="h200", metric="triad")`; a list means any of them. `fresh=False` answers
    from the store without reading the archive. Raises ValueError for an unknown column, TenkenError for an archive or a
    store that cannot be read.
    """
    from tenken.history import frames

    return frames.history(archive, store, fresh, **where)


def samples(row: Any, archive: str | Path | None = None) -> list[float]:
    """The samples of one row of `history`, in the order measured, from the archive."""
    from tenken.history import frames

    return frames.samples(row, archive)
