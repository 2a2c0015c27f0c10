"""Stand-ins for the parts of `tenken` that reports reads, used only while that package lacks them."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def _records(
    perflogs: Path,
    session: str | None = None,
    system: str | None = None,
    on_damaged: Callable[[Path, str], None] | None = None,
) -> Iterator[Any]:
    for path in sorted(Path(perflogs).glob("*/*/????-??-??/*/*.json")):
        if path.name.startswith(".tmp-") or (session and f"-{session}-" not in path.name):
            continue
        try:
            content = json.loads(path.read_text())
            yield types.SimpleNamespace(**{"document_text": "", **content}, path=path)
        except (OSError, ValueError, TypeError) as error:
            if on_damaged:
                on_damaged(path, str(error))


def _last_session(perflogs: Path) -> str | None:
    names = sorted(p.name for p in (Path(perflogs) / ".sessions").glob("*"))
    return names[-1] if names else None


def install() -> None:
    root = Path(__file__).resolve().parents[2]
    parts = {
        "archive": {"records": _records, "last_session": _last_session},
        "paths": {"ROOT": root, "SRC": root / "src", "PERFLOGS": root / "perflogs"},
        "catalogue": {"load_catalogue": lambda src: {}},
    }
    for name, members in parts.items():
        if importlib.util.find_spec(f"tenken.{name}") is None:
            import tenken

            module = types.ModuleType(f"tenken.{name}")
            module.__dict__.update(members)
            sys.modules[f"tenken.{name}"] = module
            setattr(tenken, name, module)
