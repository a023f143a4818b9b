"""Runs of many ticks: on request, or because a schedule is due, within the time there is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from perdure.kernel.create import Describe
from perdure.kernel.errors import ConsumerBehind, Invalid, PerdureError
from perdure.kernel.fence import Grip
from perdure.kernel.ids import NO_TICK, Instant, StorageId, Tick
from perdure.kernel.limits import TICK_MAX
from perdure.kernel.places import WAKE_SHARDS, WorldRef
from perdure.kernel.rest import ReadAgenda, Rest, Wakes
from perdure.kernel.run import StartRun
from perdure.runtime.abandoned import retire_abandoned
from perdure.runtime.compute import HookFailure
from perdure.runtime.tick import Ticker, TickReport

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
        await _released(ticker, ref, grip)
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


async def _released(ticker: Ticker, ref: WorldRef, grip: Grip) -> None:
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


@dataclass(frozen=True, slots=True)
class Round:
    """What one look at the wake partitions came to."""

    ticked: tuple[TickReport, ...]
    unlanded: tuple[WorldRef, ...]
    failed: tuple[tuple[WorldRef, PerdureError], ...]
    retired: tuple[WorldRef, ...] = ()
    """Private worlds whose holder had died."""


async def run_due(ticker: Ticker, storage: StorageId, *, deadline: Instant) -> Round:
    """Tick every world of a storage whose schedule is due, and name the worlds whose rows wait to land.

    Private worlds that have outlived their holder are retired. A table may hold the hints of
    other storages, too: their rows belong elsewhere, so they are left to their own.
    A world that fails is reported and stays due; the others go on. A duplicate of this call
    does nothing twice: each tick serves one time of its world's schedule.
    """
    ticked: list[TickReport] = []
    unlanded: list[WorldRef] = []
    failed: list[tuple[WorldRef, PerdureError]] = []
    retired: list[WorldRef] = []
    execute = ticker.means.authority.execute
    for shard in range(WAKE_SHARDS):
        for hint in await execute(Wakes(shard, ticker.means.now())):
            if ticker.means.now() + TICK_RESERVE_MS >= deadline:
                return Round(tuple(ticked), tuple(unlanded), tuple(failed), tuple(retired))
            ref = WorldRef(hint.storage, hint.world)
            if ref.storage != storage:
                continue
            agenda = await execute(ReadAgenda(ref))
            if agenda.unlanded:
                unlanded.append(ref)
            try:
                if agenda.tick_due is not None:
                    ticked.append(await _serve(ticker, ref, agenda.tick_due))
                if agenda.abandoned and await retire_abandoned(ticker, ref):
                    retired.append(ref)
            except ConsumerBehind:
                continue  # not now: the world stays due until it has been read
            except PerdureError as error:
                failed.append((ref, error))
                continue
            await execute(Rest(ref, hint.sort))
    return Round(tuple(ticked), tuple(unlanded), tuple(failed), tuple(retired))


async def _serve(ticker: Ticker, ref: WorldRef, due: Instant) -> TickReport:
    async with ticker.turn(ref):
        grip = await ticker.take(ref)
        try:
            report, grip = await ticker.tick(ref, grip, serves=due)
        finally:
            await _released(ticker, ref, grip)
        return report
