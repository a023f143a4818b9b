"""The words of forking over HTTP."""

from __future__ import annotations

from perdure.api.models import Body, TickNumber
from perdure.kernel.fork_source import Pending
from perdure.kernel.pace import MissedTicks


class ForkWorld(Body):
    name: str
    world_id: str | None = None
    """Chosen by the caller, it makes asking again safe: the same id is the same fork."""

    pending: Pending = "copy"
    """Whether the fork takes over what is open, or has nothing open."""

    at_tick: TickNumber | None = None
    """The tick expected to be the published one: no other can be forked."""

    every: str | None = None
    """How often the fork ticks by itself, as 10s, 1m, 2h or 1d; or `every_ms`."""

    every_ms: int | None = None
    missed: MissedTicks | None = None
    """What becomes of ticks that nobody was there for; `coalesce` if not said."""
