"""The errors that a user meets: each is one line that says what, where and which values are allowed."""

from __future__ import annotations


class TenkenError(Exception):
    """Base of all errors whose text is meant for the user as it stands."""


class CatalogueError(TenkenError):
    """A metrics.yaml is malformed."""


class ResultError(TenkenError):
    """A result is missing, truncated, not JSON or not of the schema."""


class RecordError(TenkenError):
    """A record is truncated, not JSON, of an unknown version or misshapen."""


class ArchiveError(TenkenError):
    """The archive cannot be written or a record in it cannot be read."""
