"""When a stated statistic agrees with its samples, and how samples are packed to be compared at once."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

#: Relative and absolute difference between a stated statistic and that of the samples: programs print nine digits.
RELATIVE, ABSOLUTE = 1e-6, 1e-12


def numpy() -> Any:
    """numpy where it is loaded, as in the history; loading it takes as long as a thousand records."""
    return sys.modules.get("numpy")


@lru_cache(maxsize=1024)
def packed(count: int) -> Callable[..., bytes]:
    """What packs `count` numbers as doubles. Raises struct.error for anything else; truth values are numbers."""
    return struct.Struct(f"{count}d").pack
