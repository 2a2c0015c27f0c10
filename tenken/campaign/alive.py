"""A line of output at least every ten seconds, even while the work waits for a scheduler or reads for minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

#: Seconds without output after which a line is printed: on a loaded machine it was 2.9 s late, during a long step of
#: numpy.
SILENCE_S = 7.0


class Alive:
    """Context in which `say` prints a line whenever nothing was printed for SILENCE_S: `doing` and its duration. Other
    output must call `said`. Uses wall-clock time, since people wait.
    """

    def __init__(self, say: Callable[[str], None], doing: str = "", silence: float = SILENCE_S) -> None:
        self.say, self.silence = say, silence
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._said = time.monotonic()
        self._doing, self._since = doing, time.monotonic()

    def doing(self, what: str) -> None:
        """Sets the current activity."""
        self._doing, self._since = what, time.monotonic()

    def said(self) -> None:
        self._said = time.monotonic()

    def __enter__(self) -> Alive:
        self._over.clear()
        self.said()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(min(0.5, self.silence / 4)):
            now = time.monotonic()
            if now - self._said >= self.silence:
                self._said = now
                self.say(f"{time.strftime('%H:%M:%S', time.gmtime())} {self._doing} ({now - self._since:.0f} s so far)")
