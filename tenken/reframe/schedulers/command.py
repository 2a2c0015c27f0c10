"""Runs one command of a scheduler and says in one line what went wrong."""

from __future__ import annotations

import reframe.utility.osext as osext
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessTimeout


class CommandError(JobSchedulerError):
    """A command of the scheduler failed. `said`: all that it printed; `missing`: it is not there at all."""

    def __init__(self, text: str, said: str = "", missing: bool = False) -> None:
        super().__init__(text)
        self.said = said
        self.missing = missing


def not_on_path(command: str) -> CommandError:
    return CommandError(f"{command} is not on PATH: run this where jobs are submitted from (a login node)", "", True)


def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
    """Standard output of a command. Raises CommandError when it is missing, hangs or ends otherwise than in `ok`."""
    try:
        done = osext.run_command(words, timeout=timeout)
    except FileNotFoundError:
        raise not_on_path(words[0]) from None
    except SpawnedProcessTimeout:
        raise CommandError(f"{words[0]} gave no answer within {timeout:g} s") from None
    except OSError as error:
        raise CommandError(f"{words[0]} could not be run: {error.strerror}") from None
    if done.returncode not in ok:
        said = "\n".join(part.strip() for part in (done.stderr, done.stdout) if part.strip())
        line = said.splitlines()[0] if said else "it said nothing"
        raise CommandError(f"{words[0]} ended with {done.returncode}: {line}", said)
    return done.stdout
