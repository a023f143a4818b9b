"""Runs of many ticks on request, within the time there is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from perdure.kernel.create import Describe
from perdure.kernel.errors import ConsumerBehind, Invalid
from perdure.kernel.fence import Grip
from perdure.kernel.ids import NO_TICK, Instant, Tick
from perdure.kernel.limits import TICK_MAX
from perdure.kernel.places import WorldRef
from perdure.kernel.run import StartRun
from perdure.runtime.compute import HookFailure
from perdure.runtime.report import TickReport
from perdure.runtime.tick import Ticker

TICK_RESERVE_MS: Final = 2_000
"""No tick is started with less time than this left."""

HOOK_FAILURES_MAX: Final = 20
"""Different failures of hooks that a run reports; the log has each of them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Where a run stands. ``done`` is False when time ran out first: ask again."""

    published_tick: Tick | None
    ticks: int
    done: bool
    applied: int
    rejected: int
    retried: int
    dead: int
    rows: int
    entities: int
    hook_failures: tuple[HookFailure, ...] = ()
    """Each different failure once, and at most HOOK_FAILURES_MAX of them."""


@dataclass(slots=True)
class _Sum:
    ticks: int = 0
    applied: int = 0
    rejected: int = 0
    retried: int = 0
    dead: int = 0
    rows: int = 0
    hook_failures: dict[HookFailure, None] = field(default_factory=dict)

    def add(self, report: TickReport) -> None:
        self.ticks += 1
        self.applied += report.applied
        self.rejected += report.rejected
        self.retried += report.retried
        self.dead += report.dead
        self.rows += report.rows
        for failure in report.hook_failures:
            if len(self.hook_failures) < HOOK_FAILURES_MAX:
                self.hook_failures[failure] = None


async def run_ticks(
    ticker: Ticker,
    ref: WorldRef,
    *,
    ticks: int | None = None,
    to_tick: int | None = None,
    deadline: Instant,
    request: str | None = None,
) -> Ran:
    """Tick a world ``ticks`` times, or until ``to_tick`` is published, or until ``deadline``.

    ``ticks`` needs ``request``, an id under which the same call again leads to the same tick.
    Raises: Invalid kinds, NotFound, FenceHeld, StaleWriter, TickFailed, Unavailable kinds.
    """
    if ticks is not None:
        # Before the run leaves its key in a world that this process may not tick.
        await ticker.meet(ref)
    target = await _target(ticker, ref, ticks, to_tick, request)
    async with ticker.turn(ref):
        return await _run(ticker, ref, target, deadline)


async def _run(ticker: Ticker, ref: WorldRef, target: Tick, deadline: Instant) -> Ran:
    info = await ticker.means.authority.execute(Describe(ref))
    published = NO_TICK if info.published_tick is None else info.published_tick
    total, entities = _Sum(), info.entities
    if published >= target:
        return _ran(total, published, entities, done=True)
    grip = await ticker.take(ref)
    try:
        published = grip.head.published
        while published < target and ticker.means.now() + TICK_RESERVE_MS < deadline:
            keep = published + 1 < target
            try:
                report, grip = await ticker.tick(ref, grip, keep=keep)
            except ConsumerBehind:
                if total.ticks == 0:
                    raise
                break  # what was published is told; who asks again is told to wait
            total.add(report)
            published, entities = report.tick, report.entities
    finally:
        await released(ticker, ref, grip)
    return _ran(total, published, entities, done=published >= target)


async def _target(
    ticker: Ticker, ref: WorldRef, ticks: int | None, to_tick: int | None, request: str | None
) -> Tick:
    if (ticks is None) == (to_tick is None):
        raise Invalid(
            expected="either ticks or to_tick", found="both" if ticks is not None else "neither"
        )
    if to_tick is not None:
        if not 0 <= to_tick <= TICK_MAX:
            raise Invalid(expected=f"to_tick from 0 to {TICK_MAX}", found=str(to_tick))
        return Tick(to_tick)
    assert ticks is not None, "one of the two is given"
    key = ticker.means.new_token() if request is None else request
    return await ticker.means.authority.execute(StartRun(ref, key, ticks).checked())


async def released(ticker: Ticker, ref: WorldRef, grip: Grip) -> None:
    """Let the fence go unless the last publish did."""
    if grip.head.fence.holder is not None:
        await ticker.release(ref, grip)


def _ran(total: _Sum, published: Tick, entities: int, *, done: bool) -> Ran:
    return Ran(
        published_tick=None if published == NO_TICK else published,
        ticks=total.ticks,
        done=done,
        applied=total.applied,
        rejected=total.rejected,
        retried=total.retried,
        dead=total.dead,
        rows=total.rows,
        entities=entities,
        hook_failures=tuple(total.hook_failures),
    )
