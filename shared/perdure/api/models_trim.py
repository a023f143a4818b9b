"""The words of trimming: what may go, and what went."""

from __future__ import annotations

from perdure.api.models import Body, Reply


class Trim(Body):
    grace: str = "1d"
    """Age below which nothing goes, as 30m, 12h or 7d; at least 15m."""

    dry_run: bool = False
    """Only tell what would go."""

    after: str | None = None
    """The world behind which to go on, from the answer before."""


class Trimmed(Reply):
    segments: int
    checkpoints: int
    orphans: int
    """Objects that nothing names and nobody can publish any more."""
    bytes: int
    """Of all objects that went."""
    undecided: int
    """Objects of ticks that may still be published: they stay."""
    archived: int
    """Log entries moved to archives."""
    worlds: int
    next: str | None
    """Ask again with this as ``after``: time ran out. None at the end."""
