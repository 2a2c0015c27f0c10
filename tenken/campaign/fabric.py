"""What a tournament of pairs found, as a record (program `fabric`) that clauses of a contract can use.

- `fabric.pair_share` of each pair alone, at {kind: within|across, pair: A+B}: its bandwidth as a share of what the
better half of its kind reached, 0 if the pair gave none. - `fabric.port_errors` of each port, at {node, port}: errors
that name a port, in 24 h. The counters are those of all
  tournaments of the campaign: the second one a day later covers the day. With `hours: 24`, a shorter record does not
  count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.campaign.tournament import LOADED, Answer, usual
from tenken.counters import COUNTERS, NOTED, Change
from tenken.judge import rejudge
from tenken.model import catalogue, result
from tenken.model.record import Job, Record
from tenken.model.request import Request
from tenken.parsers.foreign import document, metric

PROGRAM, CHECK, PAIR, ERRORS = "fabric", "FabricPairs", "pair_share", "port_errors"
DAY_S = 86400.0
_NO_LIMIT = "none: pairs are compared with those of their kind"
_READ = "a value of each pair, or none"

#: Its meaning, as in a metrics.yaml.
DECLARED: Mapping[str, Any] = {
    "program": PROGRAM, "title": "Pairs of nodes, and the ports between them", "section": "docs/fabric.md",
    "version": 1, "identity": [], "key": [PAIR, ERRORS], "lasts": "seconds",
    "metrics": {
        PAIR: {
            "title": "Bandwidth of a pair, as a share of the better half of its kind", "unit": "1",
            "direction": "higher", "statistic": "median", "per": ["ranks"], "limit": _NO_LIMIT, "plot": "bars",
            "min_count": 1, "across": False, "sign": "zero",
        },
        ERRORS: {
            "title": "Errors of a port in 24 h", "unit": "1", "direction": "lower", "statistic": "total",
            "per": ["ranks"], "limit": _NO_LIMIT, "plot": "bars", "min_count": 1, "across": False, "sign": "zero",
            "optional": True,
        },
    },
    "points": [
        {"metrics": [PAIR], "at": {"kind": "own", "pair": "own"}, "ragged": True},
        {"metrics": [ERRORS], "at": {"node": "own", "port": "own"}, "ragged": True},
    ],
    "verifications": [{"what": _READ, "of": [PAIR], "tolerance": 0, "count": 0}],
}  # fmt: skip
catalogue.declare(DECLARED, CHECK)


def shares(answers: Sequence[Answer]) -> dict[tuple[str, tuple[str, str]], float]:
    """The share of each isolated pair, by kind and nodes."""
    found: dict[tuple[str, tuple[str, str]], float] = {}
    for kind in dict.fromkeys(one.kind for one in answers if one.kind != LOADED):
        some = [one for one in answers if one.kind == kind]
        values = [one.bandwidth for one in some if one.bandwidth is not None]
        level = usual(values, higher=True)[0] if values else 1.0
        found |= {(kind, one.pair): (one.bandwidth or 0.0) / level for one in some}
    return found


def errors_in_a_day(change: Change) -> float | None:
    """Errors that name a port: the count, scaled to 24 h if the time was longer; None: some are unknown."""
    counts = [rise for name, rise in change.errors.items() if COUNTERS[name].rise != NOTED]
    if None in counts:
        return None
    return sum(filter(None, counts)) * DAY_S / max(change.seconds, DAY_S)


def archived(
    root: Path, session: str, like: Record, nodes: Sequence[str], answers: Sequence[Answer], changes: Iterable[Change]
) -> Record:
    """Archives the record; `like`: a record of the same machine, for partition and environment. Raises ArchiveError."""
    ranks = {"ranks": len(nodes)}
    metrics = [
        metric(PAIR, ranks, "1", "higher", [share], "median", kind=kind, pair="+".join(pair))
        for (kind, pair), share in sorted(shares(answers).items())
    ]
    changes = list(changes)
    for one in changes:
        if (errors := errors_in_a_day(one)) is not None:
            metrics.append(metric(ERRORS, ranks, "1", "lower", [errors], "total", node=one.node, port=one.port))
    verified = [{"what": _READ, "error": 0.0, "tolerance": 0.0, "passed": True}]
    seconds = min((one.seconds for one in changes), default=0.0)
    made = document(
        PROGRAM, "mpi_p2p", "1", ["tenken", "campaign", "pairs"], nodes[0], list(nodes), len(nodes),
        {"seconds": seconds}, metrics, verified, _NO_LIMIT,
    )  # fmt: skip
    found = result.parse(json.dumps(made), CHECK)
    request = Request(None, PROGRAM, CHECK, ("ranks",), (PAIR,), foreign=True, mode=like.mode, declared=DECLARED)
    record = Record(
        session=session, time=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}", system=like.system,
        partition=like.partition, environ=like.environ, check=CHECK, base_check=CHECK, parameters={}, mode=like.mode,
        program=PROGRAM, program_version=1, subjects=("ranks",), nodes=tuple(nodes),
        job=Job(facts={"sha256": {"result.json": seal.sha256(found.text.encode())}}),
        judgement=like.judgement, request=request, result=found,
    )  # fmt: skip
    record = Record(**{**vars(record), "judgement": rejudge.of_record(record)})
    archive.write(record, root)
    return record
