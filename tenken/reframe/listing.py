"""What ReFrame lists: it reads all checks, submits nothing, and takes seconds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

#: Seconds after which a line states that ReFrame still reads the checks, and after which it is given up.
SAID_S, GIVEN_UP_S = 10.0, 600.0


def listed(command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """The answer of a command that lists checks. One that does not end has the status -9 and the reason as its
    error."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more) as process:
        try:
            try:
                output, errors = process.communicate(timeout=SAID_S)
            except subprocess.TimeoutExpired:
                print(
                    f"ReFrame still reads the checks after {SAID_S:.0f} s; given up after {GIVEN_UP_S / 60:.0f} min",
                    file=sys.stderr,
                )
                output, errors = process.communicate(timeout=GIVEN_UP_S - SAID_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = "", f"ReFrame did not list the checks within {GIVEN_UP_S / 60:.0f} min"
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)
