"""Verifications of a result: what a program compared in its own output, and the error it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenken.model.subject import Subject


@dataclass(frozen=True)
class Check:
    """One verification: what was compared, the error found (None: not finite), the first wrong element. The tolerance
    comes from the catalogue (NaN: not looked up yet); results of version 1 state it.

    `name`, `subject` and `at` are those of metrics.yaml; version 1 names a verification by its text alone.
    """

    what: str
    error: float | None
    tolerance: float
    passed: bool
    detail: str = ""
    name: str = ""
    subject: Subject | None = None
    at: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verification:
    """The verification of the program's own output."""

    passed: bool
    checks: tuple[Check, ...] = ()
