"""What a number belongs to, and at which point of a sweep it was measured."""

from __future__ import annotations

import json
import re
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("host", "gpu", "pair", "ranks")

_compact = json.JSONEncoder(separators=(",", ":")).encode
_IN_ID = re.compile(r"gpu(\d+)-gpu(\d+)$|gpu(\d+)$|ranks=?(\d+)$|host$")


@dataclass(frozen=True)
class Subject:
    """The host, one GPU (`first` is its index), an ordered pair of GPUs (`first` to `second`) or `first` ranks."""

    kind: str
    first: int = 0
    second: int | None = None

    @classmethod
    def of(cls, raw: Mapping[str, int]) -> Subject:
        """From a result's object: {"host": 0}, {"gpu": 1}, {"from": 0, "to": 1}, {"ranks": 4}. Otherwise ValueError."""
        found = tuple(raw.items())
        known = _KNOWN.get(found)
        if known is not None and type(found[0][1]) is type(found[-1][1]) is int:  # truth values equal numbers
            return known
        if all(type(number) is int for _, number in found):
            if len(found) == 1 and found[0][0] in ("host", "gpu", "ranks"):
                return _remembered(found, cls(*found[0]))
            if set(raw) == {"from", "to"}:
                return _remembered(found, cls("pair", raw["from"], raw["to"]))
        raise ValueError(f"{dict(raw)!r} is not a subject; allowed: host, gpu, from and to, ranks")

    @classmethod
    def in_id(cls, text: str) -> Subject | None:
        """From the part of a metric's id: "gpu0", "gpu0-gpu1", "ranks4", "host"; None for other text."""
        found = _IN_ID.match(text)
        if found is None:
            return None
        if found[1]:
            return cls("pair", int(found[1]), int(found[2]))
        if found[3]:
            return cls("gpu", int(found[3]))
        return cls("ranks", int(found[4])) if found[4] else cls("host")

    def as_json(self) -> dict[str, int]:
        if self.kind == "pair":
            assert self.second is not None
            return {"from": self.first, "to": self.second}
        return {self.kind: self.first}

    @property
    def id(self) -> str:
        """As in the id of a metric."""
        if self.kind == "pair":
            return f"gpu{self.first}-gpu{self.second}"
        return self.kind if self.kind == "host" else f"{self.kind}{self.first}"

    @property
    def place(self) -> str:
        """In words, without the node: "host", "GPU 0", "GPU 0 → 1", "4 ranks"."""
        if self.kind == "pair":
            return f"GPU {self.first} → {self.second}"
        if self.kind == "gpu":
            return f"GPU {self.first}"
        return f"{self.first} ranks" if self.kind == "ranks" else "host"

    @property
    def gpus(self) -> tuple[int, ...]:
        """Indices of its GPUs."""
        if self.kind == "pair":
            assert self.second is not None
            return (self.first, self.second)
        return (self.first,) if self.kind == "gpu" else ()


#: Cached: an archive has millions of values of a few subjects.
_KNOWN: dict[tuple[tuple[str, int], ...], Subject] = {}
_REMEMBERED = 4096


def _remembered(raw: tuple[tuple[str, int], ...], subject: Subject) -> Subject:
    if len(_KNOWN) < _REMEMBERED:
        _KNOWN[raw] = subject
    return subject


@dataclass(frozen=True)
class Coordinates(Mapping[str, Any]):
    """The point of a sweep: (key, value) sorted by key; the unit is in the key."""

    items_: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Coordinates:
        return NOWHERE if raw == {} else cls(tuple(sorted(raw.items())))

    def __getitem__(self, key: str) -> Any:
        for name, value in self.items_:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def items(self) -> ItemsView[str, Any]:
        """Faster than Mapping's, which looks up each key again and took a tenth of the time of judging."""
        return dict(self.items_).items()

    @property
    def id(self) -> str:
        """As in the id of a metric: ".bytes=4096.kernel=tile"; empty without a sweep."""
        return "".join(f".{key}={value}" for key, value in self.items_)

    @property
    def text(self) -> str:
        """Compact JSON; empty without a sweep."""
        return _compact(dict(self.items_)) if self.items_ else ""


#: The point of all metrics without a sweep.
NOWHERE = Coordinates()


def split_metric_id(metric_id: str) -> tuple[str, str, dict[str, str]]:
    """'peer.gpu0-gpu1.bytes=4096' -> ('peer', 'gpu0-gpu1', {'bytes': '4096'})."""
    name, _, rest = metric_id.partition(".")
    # A coordinate's value may contain a point (ratio=0.5): only a part with '=' starts the next coordinate.
    subject, at, key = "", {}, ""
    for part in rest.split(".") if rest else []:
        if "=" in part:
            key, _, value = part.partition("=")
            at[key] = value
        elif key:
            at[key] += "." + part
        else:
            subject = f"{subject}.{part}" if subject else part
    return name, subject, at
