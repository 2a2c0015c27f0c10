"""Errors that a user sees: each is one line with what, where and the allowed values."""

from __future__ import annotations

import re

# Control characters except tab and newline, characters that change the direction of writing, invisible ones, unpaired
# surrogates.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """`text` made safe for a terminal, which a program's or a document's text must never control. ESC becomes
    `\\x1b`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class TenkenError(Exception):
    """Base of all errors whose text is shown to the user unchanged."""

    def __init__(self, *words: object) -> None:
        super().__init__(*(printable(word) if isinstance(word, str) else word for word in words))


class CatalogueError(TenkenError):
    """A metrics.yaml is malformed."""


class ResultError(TenkenError):
    """A result is missing, truncated, not JSON or not of the schema."""


class RecordError(TenkenError):
    """A record is truncated, not JSON, of an unknown version or malformed."""


class ArchiveError(TenkenError):
    """The archive cannot be written or a record in it cannot be read."""
