"""Groups of nodes (switch, rack, lot) from a CSV file with a column `node` and one for each factor."""

from __future__ import annotations

import csv
from pathlib import Path

from tenken.model.job import short


class GroupsError(ValueError):
    """The file cannot be read or lacks its columns; one line with the error."""


def read(file: Path) -> dict[str, dict[str, str]]:
    """By factor, the group of each node, by its short name. Raises GroupsError."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GroupsError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    factors = [key for key in rows[0] if key and key != "node"] if rows else []
    if not factors or "node" not in rows[0]:
        raise GroupsError(f"{file} needs a column 'node' and one for each of rack, switch, lot, ...")
    return {f: {short(row["node"]): row[f] or "unknown" for row in rows} for f in factors}
