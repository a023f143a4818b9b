"""What the head of a store says of what it is in the middle of: an import, or a move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StoreStatus = Literal["open", "staged", "moving", "moved"]
"""Whether a store takes commits. ``staged``: a migration brings it, and nobody sees it yet.
``moving`` and ``moved``: it is on its way to another storage, or there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importing:
    """How far an import has come: nothing of it is visible yet."""

    sha256: str
    """Of the lines of the export."""

    done: int
    """Records that are written."""
