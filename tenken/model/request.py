"""What a check requests from one attempt: written before the program starts, compared with the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tenken.errors import ResultError

SCHEMA = "tenken-request/1"


@dataclass(frozen=True)
class Request:
    """One attempt's request. `token` identifies this attempt. The program repeats it; the adapter of a third-party
    program copies it from the job's output. `metrics` are required for every kind in `subjects` (None: all of the
    program's that are not optional); `mode` is that of the run (quick, acceptance, ...); `foreign` marks a third-party
    program. `parameters` must be in the result with these values; `points` are required values by name, kind and
    coordinates; `gpus`, `cores`, `ranks` and `nodes` are counts, None if not requested.
    """

    token: str | None
    program: str
    check: str = ""
    subjects: tuple[str, ...] = ()
    metrics: tuple[str, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    gpus: int | None = None
    cores: int | None = None
    ranks: int | None = None
    nodes: int | None = None
    arguments: tuple[str, ...] = ()
    foreign: bool = False
    mode: str = ""
    #: Revision of the sources that were built; None: it is not known.
    revision: str | None = None
    #: For a program without metrics.yaml: a replacement for it.
    declared: Mapping[str, Any] | None = None
    #: Sections that are required in addition to those of the schema, since earlier programs did not write them.
    sections: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Request:
        """From a record. Raises ResultError if it is of another version or malformed."""
        if raw.get("schema") != SCHEMA:
            raise ResultError(f"request is {raw.get('schema')!r}; this version reads {SCHEMA}")
        try:
            return msgspec.convert(raw, cls)
        except msgspec.ValidationError as error:
            raise ResultError(f"request has missing or malformed keys: {error}") from None

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA, "token": self.token, "program": self.program, "check": self.check,
            "subjects": list(self.subjects), "metrics": None if self.metrics is None else list(self.metrics),
            "parameters": dict(self.parameters), "points": [[n, k, dict(at)] for n, k, at in self.points],
            "gpus": self.gpus, "cores": self.cores, "ranks": self.ranks, "nodes": self.nodes,
            "arguments": list(self.arguments), "foreign": self.foreign, "mode": self.mode, "revision": self.revision,
            **({} if self.declared is None else {"declared": self.declared}),
            **({"sections": list(self.sections)} if self.sections else {}),
        }  # fmt: skip

    def text(self) -> str:
        """As the file in the stage folder that is passed to the program."""
        return json.dumps(self.as_json(), indent=1, sort_keys=True) + "\n"
