"""What the job script's own lines and the scheduler say of one attempt: what a result's identity is held against."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")


@dataclass(frozen=True)
class JobAccount:
    """One attempt as it was seen from outside of the program. None or empty: nothing is known.

    `nodes` are short host names, by the scheduler's own map and the site's aliases; `node` is the one whose clock gave
    `begin` and `end`, seconds since 1970 around the command; `uuids` are those of the GPUs of the first node.
    """

    nodes: frozenset[str] = frozenset()
    node: str = ""
    begin: float | None = None
    end: float | None = None
    uuids: frozenset[str] = frozenset()


def short(host: str) -> str:
    """A host name without its domain, in lower case; an address stays whole."""
    return host if _ADDRESS.fullmatch(host) else host.split(".")[0].lower()
