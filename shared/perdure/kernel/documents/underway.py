"""What the head of a store says of an import into it that has not ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Importing:
    """How far an import has come: nothing of it is visible yet."""

    sha256: str
    """Of the lines of the export."""

    done: int
    """Records that are written."""
