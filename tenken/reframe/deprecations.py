"""Avoids searches of the call stack for warnings that ReFrame ignores, which took half the time of loading the checks.

To attribute a deprecation warning, ReFrame reads the source of every frame of the stack. It does so twice for each
check that it instantiates, even for the deprecated names in its base class, whose warnings it suppresses there.
"""

from __future__ import annotations

import warnings

from reframe.core import fields, variables
from reframe.core.warnings import ReframeDeprecationWarning


def register() -> None:
    """Have ReFrame attribute only warnings that are shown."""
    warn = variables.user_deprecation_warning

    def where_it_is_seen(message, *arguments, **options):
        if not ignored():
            warn(message, *arguments, **options)

    for module in (fields, variables):
        module.user_deprecation_warning = where_it_is_seen


def ignored() -> bool:
    """Whether the first filter, which decides, ignores all deprecation warnings of ReFrame, wherever they come from."""
    action, message, category, module, line = warnings.filters[0] if warnings.filters else ("", None, Warning, None, 0)
    return (
        action == "ignore"
        and issubclass(ReframeDeprecationWarning, category)
        and message is None
        and module is None
        and line == 0
    )
