"""One line for a value of `-S` that its variable cannot hold, instead of ReFrame's traceback."""

from __future__ import annotations

import math

from reframe.core.fields import remove_convertible
from reframe.core.meta import RegressionTestMeta


class Minutes(float):
    """A duration in minutes. Raises ValueError if it is negative or not finite."""

    def __new__(cls, value: float | str) -> Minutes:
        minutes = super().__new__(cls, value)
        if not 0 <= minutes < math.inf:
            raise ValueError(value)
        return minutes


_ALLOWED = {int: "a whole number", float: "a number", Minutes: "a number of minutes, 0 or above"}


def register() -> None:
    """Makes ReFrame refuse such a value with its variable and what is allowed."""
    setvar = RegressionTestMeta.setvar

    def set_or_refuse(cls, name, value):
        try:
            return setvar(cls, name, value)
        except (TypeError, ValueError):
            kinds = cls._rfm_var_space[name].field.valid_types
            allowed = " or ".join(_ALLOWED.get(kind, kind.__name__) for kind in kinds)
            # ReFrame turns other errors of a check file into a warning
            raise SystemExit(f"tenken: -S {name}={remove_convertible(value)}: allowed: {allowed}") from None

    RegressionTestMeta.setvar = set_or_refuse
