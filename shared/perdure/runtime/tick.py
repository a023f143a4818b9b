"""The tick: take the fence, apply what is due, compute, store, and publish in one commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakValueDictionary

from perdure.kernel.consumers import CheckConsumers
from perdure.kernel.drain import DrainDue, Drained
from perdure.kernel.errors import (
    ConsumerBehind,
    Contended,
    DrainStale,
    OutcomeUnknown,
    Refused,
    StaleWriter,
    StoreRefused,
)
from perdure.kernel.fence import Grip, NameProbe, ReleaseFence, TakeFence
from perdure.kernel.ids import Holder, Instant, Partition, Seq, Tick, Token
from perdure.kernel.places import WorldRef
from perdure.kernel.publish import Publish, Published, RegisterSignature, checked_outcomes
from perdure.kernel.records import Probe, TableRows, World
from perdure.kernel.refusals import NO_VERDICT
from perdure.kernel.settle import settlement
from perdure.lake.changes import Changes, TableChanges, changes, checkpoint, should_checkpoint
from perdure.lake.objects import ObjectStore
from perdure.lake.schema import signature_record
from perdure.lake.segment import Origin, stored_rows
from perdure.lake.state import WorldState
from perdure.runtime.app import App
from perdure.runtime.apply import OnFailure, Outcome, apply_drained
from perdure.runtime.choice import Choice, Choices
from perdure.runtime.compute import Computed, HookFailure, TickFacts, compute, tell
from perdure.runtime.moments import tell_changes
from perdure.runtime.ports import Executes
from perdure.runtime.preflight import preflight
from perdure.runtime.rebuild import Warm, rebuild
from perdure.runtime.report import TickReport, report_of
from perdure.runtime.steady import steadily
from perdure.runtime.warm import WarmWorlds

DRAIN_TRIES: Final = 12
"""Times a drain that met a running commit, or was overtaken, is read again."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Means:
    """What a ticker works with."""

    authority: Executes
    objects: ObjectStore
    app: App
    now: Callable[[], Instant]
    new_token: Callable[[], Token]
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


class Ticker:
    """One writer: ticks worlds under fences of its own, and keeps warm what it has published."""

    def __init__(
        self,
        means: Means,
        holder: Holder,
        *,
        lease_ms: int = 60_000,
        on_failure: OnFailure = "stop",
    ) -> None:
        self._means = means
        self._holder = holder
        self._lease_ms = lease_ms
        self._on_failure: OnFailure = on_failure
        self._choices = Choices(means.authority, means.app, means.pause)
        self._warm = WarmWorlds()
        self._known: set[str] = set()
        self._ours: dict[Partition, World] = {}
        self._turns: WeakValueDictionary[Partition, asyncio.Lock] = WeakValueDictionary()

    def turn(self, ref: WorldRef) -> AbstractAsyncContextManager[object]:
        """Wait until nobody else of this process ticks the world: they would share a fence."""
        turn = self._turns.get(ref.partition)
        if turn is None:
            turn = self._turns[ref.partition] = asyncio.Lock()
        return turn

    async def take(self, ref: WorldRef) -> Grip:
        """Take or renew the fence of a world.

        A world that is new to this process is checked first; what :meth:`check` refuses keeps
        the fence untouched. Raises: FenceHeld, Stalled, and what closes the world.
        """
        await self.meet(ref)
        request = TakeFence(ref, self._holder, self._lease_ms).checked()
        return await self._means.authority.execute(request)

    async def meet(self, ref: WorldRef) -> None:
        """Check a world that is new to this process."""
        if ref.partition not in self._ours:
            await self.check(ref)

    async def check(self, ref: WorldRef) -> None:
        """Refuse a world that this writer cannot go on with, its fence untouched.

        What had to be read of its state for that is kept for the tick that follows.
        Raises: NotFound, and what :func:`preflight` raises.
        """
        means = self._means
        checked = await preflight(means, self._choices, self._holder, ref)
        self._ours[ref.partition] = checked.world
        self._warm.keep(ref.partition, checked)

    async def release(self, ref: WorldRef, grip: Grip) -> None:
        """Let the fence go. A fence lost meanwhile is no matter."""
        await self._means.authority.execute(ReleaseFence(ref, grip.epoch))

    async def tick(
        self,
        ref: WorldRef,
        grip: Grip,
        *,
        serves: Instant | None = None,
        hint: str | None = None,
        keep: bool = False,
    ) -> tuple[TickReport, Grip]:
        """Publish the next tick of a world whose fence is held.

        ``keep`` holds the fence on for the tick after; ``serves`` is the schedule's time that
        this tick answers, ``hint`` what it was found by. Raises: StaleWriter if another has written since; TickFailed if a
        processor failed; UnknownProcessor, UnknownResource if the application has it no
        longer; OutcomeUnknown; other Unavailable kinds. After all but OutcomeUnknown nothing of
        this tick was published.
        """
        if grip.head.required:  # before any work, not only at its end
            await self._means.authority.execute(CheckConsumers(ref))
        choice = await self._choices.of(ref, grip.head.configured)
        warm = await self._state(ref, grip)
        token, at = self._means.new_token(), self._means.now()
        for attempt in range(DRAIN_TRIES):
            try:
                drained = await self._drained(ref, grip.tick, warm.drained_seq)
                step = _Step(self, ref, grip, warm, drained, at)
                publish, after = await step.prepared(token, choice)
                held = self._lease_ms if keep else 0
                published = await self._publish(
                    replace(publish, serves=serves, hint=hint, lease_ms=held)
                )
            except DrainStale:
                # What was put under this token names rows of another drain.
                token = self._means.new_token()
                await self._means.pause(0.002 * attempt)
                continue
            except StaleWriter:
                self._warm.forget(ref.partition)
                raise
            self._keep(ref, published, after, warm)
            report = report_of(published, drained)
            failures = step.hook_failures + await _told(choice, step.facts, report, warm, after)
            for each in failures:
                where = (each.hook, report.tick, ref.world, each.code)
                _LOGGER.warning("hook %s failed in tick %d of world %s: %s", *where)
            return replace(report, hook_failures=failures), replace(grip, head=published.head)
        raise Contended(
            expected=f"a drain of tick {grip.tick} that stays true until it is published",
            found=f"{DRAIN_TRIES} that did not",
        )

    async def _state(self, ref: WorldRef, grip: Grip) -> Warm:
        warm = self._warm.get(ref.partition)
        head = grip.head
        if warm is not None and warm.fits(grip.epoch, head):
            self._warm.keep(ref.partition, replace(warm, epoch=grip.epoch))
            return warm
        world = self._ours[ref.partition]
        return await rebuild(self._means.authority, self._means.objects, ref, world, head)

    async def _drained(self, ref: WorldRef, tick: Tick, since: Seq) -> Drained:
        means = self._means
        request = DrainDue(ref, tick, since)
        return await steadily(means.authority, request, tries=DRAIN_TRIES, pause=means.pause)

    async def _publish(self, request: Publish) -> Published:
        """Publish until it is known whether it happened, or the fence has run out.

        Asking again is safe: the publication token makes it one tick.
        """
        deadline = self._means.now() + self._lease_ms
        attempt, unsure = 0, False
        while True:
            try:
                return await self._means.authority.execute(request)
            except ConsumerBehind:
                raise
            except NO_VERDICT as error:
                unsure |= isinstance(error, OutcomeUnknown)
                attempt += 1
                wait_ms = min(10 * 2**attempt, 2_000)
                lasts = isinstance(error, (Refused, StoreRefused))
                if not lasts and self._means.now() + wait_ms < deadline:
                    await self._means.pause(wait_ms / 1_000)
                    continue
                if unsure and not isinstance(error, OutcomeUnknown):
                    raise OutcomeUnknown(
                        expected=f"an answer to the publishing of tick {request.tick}",
                        found=f"none, then {error.code}: {error}",
                    ) from error
                raise

    def _keep(self, ref: WorldRef, published: Published, after: WorldState, before: Warm) -> None:
        manifest = published.manifest
        rows = sum(table.rows for table in manifest.tables)
        kept = Warm(
            before.world,
            published.head.fence.epoch,
            manifest.tick,
            published.head.manifest_digest,
            manifest.drained_seq,
            after,
            manifest.next_in_tick_entity_id,
            0 if manifest.checkpoint is not None else before.rows_since_checkpoint + rows,
        )
        self._warm.keep(ref.partition, kept)

    async def register(self, ref: WorldRef, table: TableChanges) -> None:
        """Write down what a table holds, once per process and table."""
        if table.table not in self._known:
            signature = signature_record(ref.catalog, table.types)
            await self._means.authority.execute(RegisterSignature(signature))
            self._known.add(table.table)

    @property
    def means(self) -> Means:
        return self._means

    @property
    def holder(self) -> Holder:
        return self._holder

    @property
    def lease_ms(self) -> int:
        return self._lease_ms

    @property
    def on_failure(self) -> OnFailure:
        return self._on_failure


class _Step:
    """One attempt at one tick: everything before the commit, all of which may die unseen."""

    def __init__(
        self,
        ticker: Ticker,
        ref: WorldRef,
        grip: Grip,
        warm: Warm,
        drained: Drained,
        at: Instant,
    ) -> None:
        self._ticker = ticker
        self._means = ticker.means
        self._ref = ref
        self._world = warm.world
        self._grip = grip
        self._warm = warm
        self._drained = drained
        self._at = at
        self.facts = TickFacts(self._world.world, self._world.run, grip.tick, at)
        self.hook_failures: tuple[HookFailure, ...] = ()

    async def prepared(self, token: Token, choice: Choice) -> tuple[Publish, WorldState]:
        """Apply, compute and store; return the request that would publish it."""
        outcome = await self._applied()
        computed = await self._computed(outcome.state, choice)
        found = changes(self._warm.state, computed.state)
        tables = await self._stored(found.tables, token)
        whole = await self._checkpoint(computed.state, found, tables, token)
        settled = settlement(
            self._drained,
            self._grip.tick,
            applied=outcome.applied,
            rejected=outcome.rejected,
            charged=outcome.charged,
        )
        publish = Publish(
            ref=self._ref,
            tick=self._grip.tick,
            token=token,
            epoch=self._grip.epoch,
            holder=self._ticker.holder,
            drained=settled.drained,
            drained_seq=self._drained.head.seq,
            moved=settled.moved,
            outcomes=checked_outcomes(settled.outcomes),
            tables=tables,
            checkpoint=whole,
            processors=computed.processors,
            entities=computed.state.entities,
            next_in_tick_entity_id=computed.next_in_tick_entity_id,
            at=self._at,
        )
        return publish, computed.state

    async def _applied(self) -> Outcome:
        careful = self._grip.head.drain if self._grip.careful else None
        return await apply_drained(
            self._warm.state,
            self._drained,
            self._means.app.registry,
            on_failure=self._ticker.on_failure,
            careful=careful,
            named=self._named,
        )

    async def _named(self, probe: Probe) -> None:
        await self._means.authority.execute(NameProbe(self._ref, self._grip.epoch, probe))

    async def _computed(self, state: WorldState, choice: Choice) -> Computed:
        if self._grip.careful:
            await self._named(Probe(stage="compute"))
        self.hook_failures = await tell(choice.told("PreTick"), self.facts)
        return await compute(
            state,
            choice.processors,
            self._means.app.registry,
            self.facts,
            next_in_tick_entity_id=self._warm.next_entity_id,
            resources=choice.resources,
        )

    async def _stored(
        self, tables: tuple[TableChanges, ...], token: Token, *, is_checkpoint: bool = False
    ) -> tuple[TableRows, ...]:
        origin = Origin(self._world.world, self._world.run, self._grip.tick, token)
        for table in tables:
            await self._ticker.register(self._ref, table)
        puts = [
            stored_rows(
                table.table,
                table.rows,
                world=self._ref.partition,
                origin=origin,
                objects=self._means.objects,
                is_checkpoint=is_checkpoint,
            )
            for table in tables
        ]
        if len(puts) == 1:  # as most ticks: no task need be made of it
            return (await puts[0],)
        return tuple(await asyncio.gather(*puts))

    async def _checkpoint(
        self, state: WorldState, found: Changes, tables: tuple[TableRows, ...], token: Token
    ) -> tuple[TableRows, ...] | None:
        rows = self._warm.rows_since_checkpoint + found.rows
        last = self._grip.head.checkpoint
        if not should_checkpoint(self._grip.tick, last, rows, state.entities):
            return None
        if found.is_whole:
            return tables
        return await self._stored(checkpoint(state), token, is_checkpoint=True)


async def _told(
    choice: Choice, facts: TickFacts, report: TickReport, before: Warm, after: WorldState
) -> tuple[HookFailure, ...]:
    """Tell hooks of what is published, and return what failed, also what is no longer there."""
    failures = await tell_changes(choice, facts, before.state, after)
    return choice.lacking + failures + await tell(choice.told("PostTick"), report)
