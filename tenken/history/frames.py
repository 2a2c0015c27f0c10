"""pandas frames from the store, and the samples of a row from the archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenken.archive import records
from tenken.history.ingest import ingest, require
from tenken.history.store import default_path, open_store
from tenken.paths import archive_root

if TYPE_CHECKING:
    import pandas


def history(
    archive: str | Path | None = None, store: str | Path | None = None, fresh: bool = True, **where: Any
) -> pandas.DataFrame:
    """See `tenken.history.history`."""
    root = require(Path(archive) if archive else archive_root())
    with open_store(Path(store) if store else default_path(root), root) as opened:
        if fresh:
            ingest(opened, root)
        known = [row[0] for row in opened.rows("DESCRIBE history")]
        unknown = sorted(set(where) - set(known))
        if unknown:
            raise ValueError(f"history has no column {unknown[0]!r}; allowed: {', '.join(known)}")
        terms, values = [], []
        for name, value in where.items():
            terms.append(f'"{name}" IN (SELECT unnest(?))')
            values.append(list(value) if isinstance(value, (list, tuple, set)) else [value])
        condition = f"WHERE {' AND '.join(terms)}" if terms else ""
        return opened.frame(f"SELECT * FROM history {condition} ORDER BY time, series", values)


def samples(row: Any, archive: str | Path | None = None) -> list[float]:
    """See `tenken.history.samples`. Empty for a row of a performance log, which has none."""
    if not str(row["file"]).endswith(".json"):
        return []
    record = records.read((Path(archive) if archive else archive_root()) / str(row["file"]))
    metrics = record.result.metrics if record.result else ()
    return list(next(m.samples for m in metrics if m.id == row["id"]))
