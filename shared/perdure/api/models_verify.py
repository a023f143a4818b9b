"""The words of verification: what to look at, and what was found."""

from __future__ import annotations

from perdure.api.models import Body, Reply, TickNumber


class VerifyWorld(Body):
    """Which ticks to verify; from the first and to the last if nothing is said."""

    from_tick: TickNumber | None = None
    to_tick: TickNumber | None = None


class Finding(Reply):
    kind: str
    """What is wrong: `head`, `log`, `manifest`, `signature`, `inline`, `segment`, `checkpoint`,
    `landed`, `settled` or `recomputed`."""
    where: str
    expected: str
    found: str


class Verified(Reply):
    checked_ticks: int
    next_tick: int | None
    """Where to go on: time ran out. None at the end."""
    findings: list[Finding]
