"""Runs one command of a scheduler and reports in one line what went wrong."""

from __future__ import annotations

import os

import reframe.utility.osext as osext
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessTimeout

#: Users set their own form of Slurm's times (`relative`, `%a %T`), which loses the date.
_FORMS = {"SLURM_TIME_FORMAT": "standard"}


class CommandError(JobSchedulerError):
    """A command of the scheduler failed. `said`: all its output; `missing`: the command does not exist."""

    def __init__(self, text: str, said: str = "", missing: bool = False) -> None:
        super().__init__(text)
        self.said = said
        self.missing = missing


def not_on_path(command: str) -> CommandError:
    return CommandError(
        f"{command} is not on PATH: run this on a node from which jobs are submitted (a login node)", "", True
    )


def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
    """Standard output of a command, with a mark for each byte that is not UTF-8, since other users' job names may
    contain anything. Raises CommandError if it is missing, hangs or ends with a status not in `ok`.
    """
    try:
        environment = {**os.environ, **_FORMS}
        done = osext.run_command(words, timeout=timeout, encoding="utf-8", errors="replace", env=environment)
    except FileNotFoundError:
        raise not_on_path(words[0]) from None
    except SpawnedProcessTimeout:
        raise CommandError(f"{words[0]} did not respond within {timeout:g} s") from None
    except OSError as error:
        raise CommandError(f"{words[0]} could not be run: {error.strerror}") from None
    if done.returncode not in ok:
        said = "\n".join(part.strip() for part in (done.stderr, done.stdout) if part.strip())
        line = said.splitlines()[0] if said else "it printed nothing"
        raise CommandError(f"{words[0]} ended with {done.returncode}: {line}", said)
    return done.stdout
