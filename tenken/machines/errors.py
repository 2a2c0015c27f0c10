"""Errors of system files, each one line for the person who wrote the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tenken.errors import TenkenError


class SystemsError(TenkenError):
    """Base of everything that `systems` raises intentionally."""


@dataclass(frozen=True)
class Problem:
    """One error in one file: line (from 1) and description, including allowed values."""

    file: str
    line: int | None
    what: str
    #: Keys and positions from the top of the file.
    path: tuple[str | int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.what}"


class SystemFileError(SystemsError):
    """A system file or the data sheets are invalid. `problems` contains all errors, `str()` one line for each."""

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownSystemError(SystemsError):
    """No such system, partition or data sheet; the message lists the existing ones."""


class UnsetVariableError(SystemsError):
    """Variables that the user must set are unset or invalid; the message names all of them."""
