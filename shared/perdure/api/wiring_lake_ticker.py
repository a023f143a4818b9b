"""A ticker that tells how long its ticks take and what they come to."""

from __future__ import annotations

import time

from perdure.api.measures import tell
from perdure.kernel.fence import Grip
from perdure.kernel.ids import Instant
from perdure.kernel.places import WorldRef
from perdure.runtime.report import TickReport
from perdure.runtime.tick import Ticker


class MeasuredTicker(Ticker):
    """Tells metrics of each tick it has published."""

    async def tick(
        self,
        ref: WorldRef,
        grip: Grip,
        *,
        serves: Instant | None = None,
        hint: str | None = None,
        keep: bool = False,
    ) -> tuple[TickReport, Grip]:
        started = time.perf_counter()
        report, after = await super().tick(ref, grip, serves=serves, hint=hint, keep=keep)
        tell("ticks")
        if serves is not None:
            tell("ticks_missed", report.missed)
        tell("tick_ms", round((time.perf_counter() - started) * 1_000, 1))
        tell("tick_rows", report.rows)
        tell("commands_applied", report.applied)
        tell("commands_rejected", report.rejected)
        tell("commands_dead", report.dead)
        tell("open_commands", after.head.open_commands)
        return report, after
