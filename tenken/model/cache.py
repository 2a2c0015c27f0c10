"""Caches YAML files in a form that is read in a millisecond.

Reading all metrics.yaml takes more than a second, and so does reading all systems with line numbers and checking them
against a JSON Schema; `reframe -l` may take 1.5 s in all. Therefore the result is stored as JSON under `.cache/yaml/`
and `.cache/systems/`, one file per name, and used as long as its key (a hash of everything it was made from) is the
same. A cache that is missing, damaged, stale or not writable is never an error: the work is repeated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tenken.paths import CACHE


def key_of(parts: Iterable[bytes]) -> str:
    """Hash of several byte strings; moving bytes from one to the next changes it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def yaml(file: Path, text: str, folder: Path | None = CACHE / "yaml") -> Any:
    """`text`, the content of `file`, as YAML 1.2. Raises what ruamel.yaml raises."""

    def read() -> Any:
        from ruamel.yaml import YAML  # costs 60 ms

        return YAML(typ="safe", pure=True).load(text)

    return cached(folder, f"{file.parent.name}-{file.stem}", key_of([text.encode("utf-8", "surrogatepass")]), read)


def cached(folder: Path | None, name: str, key: str, compute: Callable[[], Any]) -> Any:
    """`compute()` (plain JSON data), or the result of an earlier call with that key. `folder=None`: no cache."""
    if folder is None:
        return compute()
    file = folder / f"{name}.json"
    found, data = _read(file, key)
    if found:
        return data
    data = compute()
    _write(file, key, data)
    return data


def _read(file: Path, key: str) -> tuple[bool, Any]:
    try:
        head, _, payload = file.read_bytes().partition(b"\n")
        if head.decode("ascii") != f"{key} {hashlib.sha256(payload).hexdigest()}":
            return False, None
        return True, json.loads(payload)
    except (OSError, ValueError):
        return False, None


def _write(file: Path, key: str, data: Any) -> None:
    with contextlib.suppress(TypeError, ValueError):
        payload = json.dumps(data, ensure_ascii=False, sort_keys=False, allow_nan=False).encode()
        if json.loads(payload) == data:  # JSON has no dates, and no keys that are numbers
            _replace(file, key, payload)


def _replace(file: Path, key: str, payload: bytes) -> None:
    head = f"{key} {hashlib.sha256(payload).hexdigest()}\n".encode("ascii")
    # The process id and 4 random bytes: runs on two nodes may share this folder.
    temporary = file.with_name(f".{file.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(head + payload)
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
