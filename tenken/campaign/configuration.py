"""Conformity of configurations: deviations among nodes and devices that should be configured identically."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Share of outliers above which they are a second kind and not a mistake.
_ODD = 0.1
#: An item that differs on every device (serial numbers) has about as many values as there are devices.
_OWN = 0.5


@dataclass(frozen=True)
class Odd:
    """A device that differs from the majority in one item."""

    name: str
    item: str
    value: str
    majority: str
    share: float

    def sentence(self) -> str:
        return f"{self.name}: {self.item} is {self.value}; {100 * self.share:.1f} % have {self.majority}"


@dataclass(frozen=True)
class Mixed:
    """An item without a clear majority, or in which more than a few differ; it is listed, and no node is reported."""

    item: str
    counts: Mapping[str, int]

    def sentence(self) -> str:
        kinds = ", ".join(f"{count} x {value}" for value, count in sorted(self.counts.items(), key=lambda x: -x[1])[:6])
        return f"{self.item} differs within the fleet: {kinds}"


def conformity(names: Sequence[str], settings: Sequence[Mapping[str, object]]) -> tuple[list[Odd], list[Mixed]]:
    """Nodes and devices that differ from the majority, with the item. An item that this one lacks and others have is
    `missing`."""
    odd: list[Odd] = []
    mixed: list[Mixed] = []
    known = [i for i, one in enumerate(settings) if one]  # a node without a result is unknown
    if len(known) < 3:
        return odd, mixed
    for item in sorted({key for one in settings for key in one}):
        values = {i: _shown(settings[i].get(item)) for i in known}
        counts = Counter(values.values())
        if len(counts) > max(_OWN * len(known), 2):
            continue
        (value, count), *_ = counts.most_common(1)
        others = len(known) - count
        if others > max(_ODD * len(known), 1):
            mixed.append(Mixed(item, dict(counts)))
            continue
        odd += [Odd(names[i], item, values[i], value, count / len(known)) for i in known if values[i] != value]
    return odd, mixed


def _shown(value: object) -> str:
    return "missing" if value is None else str(value)
