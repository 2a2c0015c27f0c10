"""Errors of system files, each one line for the person who wrote the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenken.errors import TenkenError


class SystemsError(TenkenError):
    """Base of everything that `systems` raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One fault of one file: where (line from 1) and what, allowed values included."""

    file: str
    line: int | None
    what: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.what}"


class SystemFileError(SystemsError):
    """A system file or the data sheets are wrong. `problems` has every fault, `str()` a line for each."""

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownSystemError(SystemsError):
    """There is no such system, partition or data sheet; the message lists those that are."""


class UnsetVariableError(SystemsError):
    """Variables that the user must set are unset or unusable; the message names all of them."""
