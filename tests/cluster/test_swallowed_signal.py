"""ReFrame raises once for SIGTERM and ignores further ones: if that was lost, the next poll ends the session."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from reframe.core.exceptions import ForceExitError
from reframe.frontend import executors

from tenken.reframe.schedulers.slurm import Slurm

SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in SIGNALS}
    signal.signal(signal.SIGTERM, executors._force_exit)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


class Interrupted(logging.Handler):
    """The signal arrives while a message is printed."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Exception:
            self.handleError(record)


def test_a_signal_that_a_log_message_swallowed_ends_the_session_at_the_next_poll(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scheduler = Slurm.__new__(Slurm)  # without jobs a poll queries nothing
    scheduler.poll()
    logger = logging.Logger("x")
    logger.addHandler(Interrupted())
    logger.warning("some message")
    assert "received signal 15" in capsys.readouterr().err, "otherwise this test shows nothing"
    with pytest.raises(ForceExitError, match="received a signal to end"):
        scheduler.poll()


@pytest.mark.parametrize("ignored", [(), SIGNALS[:2], SIGNALS[2:]])
def test_a_session_whose_shell_ignores_some_signals_is_not_ended(ignored: tuple[signal.Signals, ...]) -> None:
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)
    scheduler = Slurm.__new__(Slurm)
    scheduler.poll()
