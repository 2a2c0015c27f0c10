"""Simulated sessions of nodes with more GPUs than any that was measured: a kept one of two GPUs, widened.

Each further GPU or pair of GPUs takes over what one of the two measured ones reported, every sample changed a little.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.archive import packed, records
from tenken.model.catalogue import program as catalogue
from tenken.model.engine import completed
from tenken.model.record import Record, parse
from tests.support.kept import VERSION_2

#: Half width of the change of one sample, below what two measured GPUs differ by.
NOISE = 5e-4
MEASURED = 2


@lru_cache(maxsize=1)
def measured() -> tuple[dict[str, Any], ...]:
    """The records of two GPUs as JSON; without figures over all GPUs, whose scaling was never measured."""
    found = []
    for path in records.paths(packed.folder_of(VERSION_2)):
        raw = json.loads(path.read_text(encoding="utf-8"))
        result = raw["result"]
        kinds = {kind for one in result["series"] for kind in one["subject"]}
        if result["status"] == "ok" and len(result["devices"]) == MEASURED and "ranks" not in kinds:
            found.append(raw)
    return tuple(found)


def _places(subject: dict[str, int], gpus: int) -> Iterator[tuple[dict[str, int], Callable[[str], str]]]:
    """Subjects that follow the example of one of two, and how its texts name them."""
    if "gpu" in subject:
        for new in range(subject["gpu"], gpus, 2):
            yield {"gpu": new}, _renamed({subject["gpu"]: new})
    elif "from" in subject:
        one, two = subject["from"], subject["to"]
        for first in range(gpus):
            for second in range(gpus):
                if first != second and (first < second) == (one < two):
                    yield {"from": first, "to": second}, _renamed({one: first, two: second})
    else:
        yield subject, str


def _renamed(names: dict[int, int]) -> Callable[[str], str]:
    """Puts other numbers after `gpu` and `GPU `, if all of a text's are known."""
    return lambda text: re.sub(r"(gpu|GPU )(\d+)", lambda m: f"{m[1]}{names.get(int(m[2]), int(m[2]))}", text)


def _subject_of(text: str) -> dict[str, int]:
    """The GPU or pair that a text names."""
    named = [int(number) for number in re.findall(r"(?:gpu|GPU )(\d+)", text)]
    if len(named) == MEASURED:
        return {"from": named[0], "to": named[1]}
    return {"gpu": named[0]} if named else {}


def widened(raw: dict[str, Any], gpus: int) -> dict[str, Any]:
    """A record of two GPUs as one of `gpus`, to be judged."""
    dice = random.Random(raw["check"])
    new = copy.deepcopy(raw)
    result = new["result"]
    result["series"] = []
    for one in raw["result"]["series"]:
        key = "seconds" if "seconds" in one else "values"
        for subject, _ in _places(one["subject"], gpus):
            samples = one[key]
            if subject != one["subject"]:
                samples = [sample * (1 + NOISE * dice.uniform(-1, 1)) for sample in samples]
            result["series"].append({**one, "subject": subject, key: samples})
    times: Counter[str] = Counter()
    result["verification"] = []
    for one in raw["result"]["verification"]:
        # a check that names no GPU exists once for each
        subject = _subject_of(one["name"]) or {"gpu": times[one["name"]]}
        times[one["name"]] += 1
        result["verification"] += [{**one, "name": name(one["name"])} for _, name in _places(subject, gpus)]
    result["provenance"] = {
        name(key): value
        for key, value in raw["result"]["provenance"].items()
        for _, name in _places(_subject_of(key), gpus)
    }
    if "links" in result:
        pairs = [(a, b) for a in range(gpus) for b in range(gpus) if a != b]
        result["links"] = [{**raw["result"]["links"][0], "first": a, "second": b} for a, b in pairs]
    result["devices"] = [_device(raw["result"]["devices"][index % 2], index) for index in range(gpus)]
    result["locks"]["held"] = ["host", *(device["uuid"] for device in result["devices"])]
    entries = raw["result"]["health"]["devices"]
    result["health"]["devices"] = [{**copy.deepcopy(entries[index % 2]), "index": index} for index in range(gpus)]
    # GPUs and pairs are measured one after another, or the job would have worked faster than time passed
    longer = len(result["series"]) / len(raw["result"]["series"])
    for key in ("seconds", "own_cpu_seconds"):
        result["load"][key] *= longer
    new["request"]["gpus"] = gpus
    return new


def _device(like: dict[str, Any], index: int) -> dict[str, Any]:
    return {
        **like,
        "index": index,
        "uuid": f"GPU-00000000-0000-0000-0000-{index + 1:012d}",
        "pci_bus_id": f"00000000:{index + 1:02X}:00.0",
        "serial": f"SERIAL{index + 1}",
    }


def session(
    gpus: int, change: Callable[[dict[str, Any]], None] = lambda raw: None, checks: Sequence[str] = ()
) -> list[Record]:
    """The session, or these of its checks, on a node of that many GPUs, each record's JSON changed beforehand."""
    found = []
    for raw in measured():
        if checks and raw["check"] not in checks:
            continue
        wide = widened(raw, gpus)
        change(wide)
        record = parse(json.dumps(wide), Path(f"{wide['check']}.json"))
        assert record.result is not None
        found.append(replace(record, result=completed(record.result, catalogue(record.program))))
    return found
