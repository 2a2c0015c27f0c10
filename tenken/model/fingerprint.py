"""Fingerprints: checksums of intermediate results of a deterministic computation, compared between devices.

Devices of one kind that compute from the same seed with the same libraries must produce the same bits, now and in the
past; otherwise one of them is wrong. A program states them in its provenance:

    "fingerprints": [{"kind": "NVIDIA H200", "algorithm": "...", "seed": 1, "versions": {"torch": "2.11.0"},
                      "node": "...", "gpu": 0, "device": "GPU-...", "prints": [[step, "tensor", "digest"], ...]}, ...]
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tenken.errors import ResultError

#: Where a result has them.
IN_PROVENANCE = "fingerprints"


@dataclass(frozen=True)
class Key:
    """What determines every bit: the kind of device as its driver names it, the data sheet's name in hardware.yaml
    (empty: none), versions of all libraries, the algorithm with its sizes and number of devices, and the seed.
    """

    kind: str
    sheet: str
    versions: Mapping[str, str]
    algorithm: str
    seed: int

    @property
    def but_versions(self) -> str:
        """A digest of all but the versions."""
        return _digest([self.kind, self.sheet, self.algorithm, self.seed])

    @property
    def of_versions(self) -> str:
        return _digest(sorted(self.versions.items()))

    def versions_text(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in sorted(self.versions.items()))


@dataclass(frozen=True)
class Trace:
    """The fingerprints of one device in order: step, name of the tensor, digest. `device`: its UUID or serial number;
    `since`: when it was archived; empty for a trace of this run. Names of tensors include the shard if devices compute
    different ones.
    """

    device: str
    prints: tuple[tuple[int, str, str], ...]
    node: str = ""
    gpu: int | None = None
    since: str = ""

    @property
    def digest(self) -> str:
        return _digest(self.prints)

    def text(self) -> str:
        """The device in a message."""
        where = f"{self.node} gpu{self.gpu}" if self.gpu is not None else self.node
        return f"{where} ({self.device})".strip() + (f" on {self.since}" if self.since else "")


@dataclass(frozen=True)
class Deviation:
    """The first fingerprint in which a device differs: `expected` is the value on which `of` devices agree; empty
    without a majority, when any of them may be wrong.
    """

    trace: Trace
    step: int
    tensor: str
    found: str
    expected: str
    of: int

    def text(self) -> str:
        """One clause of a message."""
        first = f"{self.trace.text()}: first differs at step {self.step}, {self.tensor}: {self.found}"
        if not self.expected:
            return f"{first}; no majority"
        return f"{first}; {self.of} {'device has' if self.of == 1 else 'devices have'} {self.expected}"


@dataclass(frozen=True)
class Comparison:
    """Devices compared with each other. `positions`: fingerprints that at least two of them have."""

    positions: int = 0
    deviations: tuple[Deviation, ...] = field(default=())

    @property
    def equal(self) -> bool:
        """Whether something was compared, and nothing differed."""
        return self.positions > 0 and not self.deviations


def compare(traces: Sequence[Trace]) -> Comparison:
    """Compare devices, position by position in the order of steps.

    A device that differs from a majority drops out of the comparison, since a wrong bit makes all that follows wrong.
    Without a majority, all devices of that position are named and the comparison ends. Archived and present traces
    count alike, so a single device is compared with others and with its own past.
    """
    said = [{(step, tensor): digest for step, tensor, digest in one.prints} for one in traces]
    left = set(range(len(traces)))
    compared, found = 0, []
    for step, tensor in _positions(traces):
        here = {index: said[index][step, tensor] for index in sorted(left) if (step, tensor) in said[index]}
        if len(here) < 2:
            continue
        compared += 1
        digest, most = Counter(here.values()).most_common(1)[0]
        decided = 2 * most > len(here)
        for index, own in here.items():
            if not decided or own != digest:
                found.append(Deviation(traces[index], step, tensor, own, digest if decided else "", most))
                left.discard(index)
        if not decided:
            break
    return Comparison(compared, tuple(found))


def _positions(traces: Sequence[Trace]) -> Iterator[tuple[int, str]]:
    """Steps in order; within a step, tensors in the order in which they were computed."""
    by_step: dict[int, dict[str, None]] = {}
    for one in traces:
        for step, tensor, _ in one.prints:
            by_step.setdefault(step, {}).setdefault(tensor)
    for step in sorted(by_step):
        yield from ((step, tensor) for tensor in by_step[step])


@dataclass(frozen=True)
class Stated:
    """The trace of a device as a program states it. `kind`: as the driver names the device."""

    kind: str
    algorithm: str
    seed: int
    versions: Mapping[str, str]
    device: str
    node: str
    prints: tuple[tuple[int, str, str], ...]
    gpu: int | None = None

    @property
    def trace(self) -> Trace:
        return Trace(self.device, self.prints, self.node, self.gpu)

    def key(self, sheet: str = "") -> Key:
        return Key(self.kind, sheet, self.versions, self.algorithm, self.seed)


def by_key(traces: Iterable[Stated]) -> list[tuple[Key, list[Stated]]]:
    """What must be equal for a comparison: kind of device, versions, algorithm and seed."""
    found: list[tuple[Key, list[Stated]]] = []
    for one in traces:
        key = one.key()
        members = next((members for other, members in found if other == key), None)
        if members is None:
            found.append((key, members := []))
        members.append(one)
    return found


def stated(provenance: Mapping[str, Any]) -> tuple[Stated, ...]:
    """The traces in a result's provenance; empty if the program has none. Raises ResultError."""
    try:
        found = msgspec.convert(provenance.get(IN_PROVENANCE, ()), tuple[Stated, ...])
    except msgspec.ValidationError as error:
        raise ResultError(f"provenance.{IN_PROVENANCE}: {error}") from None
    for one in found:
        places = [(step, tensor) for step, tensor, _ in one.prints]
        if not places or len(set(places)) < len(places):
            what = "has no fingerprint" if not places else "has one step and tensor twice"
            raise ResultError(f"provenance.{IN_PROVENANCE}: {one.trace.text()}: {one.algorithm} {what}")
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()[:16]
