"""Serving a schedule: one world's ticks that are due, as many as there is time for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from perdure.kernel.errors import ConsumerBehind
from perdure.kernel.ids import Epoch, Instant
from perdure.kernel.places import MINUTE_MS, WorldRef
from perdure.kernel.rest import ReadAgenda, Rest
from perdure.kernel.schedule import SkipMissed, has_more, is_to_skip
from perdure.kernel.upkeep import Schedule
from perdure.runtime.abandoned import retire_abandoned
from perdure.runtime.dispatch import Due
from perdure.runtime.report import TickReport
from perdure.runtime.run import TICK_RESERVE_MS, released
from perdure.runtime.tick import Ticker

PATIENCE_MS: Final = 1_000
"""A tick whose time is so near is waited for; a later one is left to be asked for again."""


@dataclass(frozen=True, slots=True)
class Served:
    """What serving one world came to."""

    ticks: tuple[TickReport, ...] = ()
    early_ms: int = 0
    """So long before its time it was asked for: nothing was done, ask again then."""

    again: Due | None = None
    """What is to be asked for next, before a dispatch would find it."""

    retired: bool = False


async def serve(ticker: Ticker, due: Due, *, deadline: Instant) -> Served:
    """Tick a world for the time of its schedule that ``due`` names, and for those due after it.

    What the schedule waits for no more has been served: asked for twice, it is done once.
    Raises: FenceHeld, Stalled, ConsumerBehind, TickFailed, and what else keeps this process
    from the world; then it stays due.
    """
    execute, now = ticker.means.authority.execute, ticker.means.now
    agenda = await execute(ReadAgenda(due.ref))
    served, schedule = Served(), agenda.schedule
    if schedule is not None and schedule.next_at == due.serves:
        early_ms = schedule.next_at - now()
        if early_ms > PATIENCE_MS:
            return Served(early_ms=early_ms)
        if early_ms > 0:
            await ticker.means.pause(early_ms / 1_000)
        due = replace(due, epoch=agenda.epoch)
        served = await _ticked(ticker, due, schedule, lambda: now() + TICK_RESERVE_MS < deadline)
        if served.ticks:  # whose publish has moved the hint
            return served
    elif due.serves is None and agenda.abandoned:
        served = Served(retired=await retire_abandoned(ticker, due.ref))
    if due.hint is not None:
        await execute(Rest(due.ref, due.hint))
    return served


async def _ticked(
    ticker: Ticker, due: Due, schedule: Schedule, has_time: Callable[[], bool]
) -> Served:
    ref, now = due.ref, ticker.means.now
    if is_to_skip(schedule, now()):
        following = await ticker.means.authority.execute(SkipMissed(ref, schedule.next_at))
        return Served(again=_again(ref, schedule, following, due.epoch, now()))
    reports: list[TickReport] = []
    following = None
    async with ticker.turn(ref):
        grip = await ticker.take(ref)
        try:
            more = True
            while more and (has_time() or not reports):
                more = has_more(schedule, now()) and has_time()
                hint = None if more else due.hint
                report, grip = await ticker.tick(
                    ref, grip, serves=schedule.next_at, hint=hint, keep=more
                )
                reports.append(report)
                following = report.next_at
                if following is None:  # published before, by an attempt of ours that got no answer
                    break
                schedule = replace(schedule, next_at=following)
        except ConsumerBehind:
            if not reports:
                raise
        finally:
            await released(ticker, ref, grip)
    return Served(tuple(reports), again=_again(ref, schedule, following, grip.epoch, now()))


def _again(
    ref: WorldRef, schedule: Schedule, following: Instant | None, epoch: Epoch, now: Instant
) -> Due | None:
    """Return what a dispatch, which comes once a minute, would find too late."""
    if following is None or (schedule.every_ms >= MINUTE_MS and following > now):
        return None
    return Due(ref, following, epoch)
