"""Reports: what one published tick did."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel import ranges
from perdure.kernel.drain import Drained
from perdure.kernel.ids import Instant, Tick, Token
from perdure.kernel.publish import Published
from perdure.runtime.compute import HookFailure


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one published tick did."""

    tick: Tick
    token: Token
    applied: int
    rejected: int
    retried: int
    dead: int
    rows: int
    entities: int
    more: bool
    """Commands that were due had to be left to the next tick."""

    hook_failures: tuple[HookFailure, ...] = ()
    missed: int = 0
    """Times of its schedule that had no tick of their own before this one."""

    next_at: Instant | None = None
    """What its schedule waits for next, if one asked for it."""


def report_of(published: Published, drained: Drained) -> TickReport:
    """Tell of a tick that was published."""
    manifest = published.manifest
    counts = {"rejected": 0, "retryable": 0, "dead_letter": 0}
    for outcome in manifest.outcomes:
        counts[outcome.status] += 1
    final = counts["rejected"] + counts["dead_letter"]
    return TickReport(
        tick=manifest.tick,
        token=manifest.token,
        applied=ranges.size(manifest.settled) - final,
        rejected=counts["rejected"],
        retried=counts["retryable"],
        dead=counts["dead_letter"],
        rows=sum(table.rows for table in manifest.tables),
        entities=manifest.entities,
        more=drained.more,
        missed=0 if manifest.scheduled is None else manifest.scheduled.missed,
        next_at=published.next_at,
    )
