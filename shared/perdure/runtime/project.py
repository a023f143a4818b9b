"""Projection: every world's log copied into the audit table as events, exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table

from perdure.kernel.audit import Audited, FindAudited
from perdure.kernel.errors import Corrupt
from perdure.kernel.events import Event
from perdure.kernel.ids import Epoch, Holder, Seq, StorageId, Token, WorldId
from perdure.kernel.landing import (
    AUDIT,
    FinishIntent,
    Intent,
    IntentTable,
    OpenIntent,
    ReleaseLandingFence,
    TakeLandingFence,
)
from perdure.kernel.log import LogEntry
from perdure.kernel.logfeed import LogFeed
from perdure.kernel.places import WorldRef
from perdure.kernel.ranges import Ranges
from perdure.lake import audit
from perdure.lake.expire import expire
from perdure.lake.iceberg import Lake, head_of
from perdure.runtime.append import appended_once
from perdure.runtime.land import LEASE_MS
from perdure.runtime.passage import ENTRIES_READ, Passage, Teller, weight
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """How much one intent may take; a single log entry beyond them still goes, alone."""

    events_max: int = 100_000
    bytes_max: int = 32_000_000
    """Bytes of the batches that are in hand at once."""

    entries_max: int = 10_000
    worlds_max: int = 80


AUDIT_BOUNDS: Final = AuditBounds()


@dataclass(frozen=True, slots=True)
class Projected:
    """What a projection did: events and files added, and the log entries that were read."""

    events: int = 0
    files: int = 0
    entries: int = 0
    worlds: frozenset[WorldId] = frozenset()
    failed: tuple[tuple[WorldId, Corrupt], ...] = ()
    """Worlds of which nothing could be put into an intent: the others went on."""

    def __add__(self, other: Projected) -> Projected:
        return Projected(
            self.events + other.events,
            self.files + other.files,
            self.entries + other.entries,
            self.worlds | other.worlds,
            self.failed + other.failed,
        )


@dataclass(slots=True)
class _Budget:
    """What is still free in the intent that is being put together."""

    bounds: AuditBounds
    events: int = 0
    bytes: int = 0
    entries: int = 0
    passages: list[Passage] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        return not self._has_room(0, 0) or len(self.passages) >= self.bounds.worlds_max

    def take(self, entry: LogEntry) -> bool:
        """Count an entry in, if it fits; the very first always does."""
        size = weight(entry)
        if self.entries and not self._has_room(size, len(entry.payload)):
            return False
        self.events += size
        self.bytes += len(entry.payload)
        self.entries += 1
        return True

    def _has_room(self, events: int, size: int) -> bool:
        return (
            self.entries < self.bounds.entries_max
            and self.events + events <= self.bounds.events_max
            and self.bytes + size <= self.bounds.bytes_max
        )


@dataclass(frozen=True, slots=True)
class Projection:
    """Projects the logs of one storage. Several may try; the fence lets one at a time."""

    authority: Executes
    lake: Lake
    storage: StorageId
    claim: Callable[[], Awaitable[None]] | None = None
    """Asked before anything is written: raises Conflict where the tables are another's."""

    async def project(
        self,
        worlds: Sequence[WorldId],
        *,
        holder: Holder,
        new_token: Callable[[], Token],
        bounds: AuditBounds = AUDIT_BOUNDS,
        lease_ms: int = LEASE_MS,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Projected:
        """Finish what was begun, then project what the logs of ``worlds`` have since.

        A log is read up to its first gap, so no entry is ever passed over. ``go_on`` and
        ``holder`` are as in a landing. Raises: FenceHeld; StaleWriter if another took over;
        Unavailable: the next call, by whomever, finishes under the same batch id.
        """
        if self.claim is not None:
            await self.claim()
        take = TakeLandingFence(self.storage, holder, lease_ms, AUDIT)
        grip = await self.authority.execute(take)
        term = _Term(self, grip.epoch, lease_ms)
        done = Projected()
        try:
            if grip.intent is not None:
                done += await term.finish(grip.intent, await self._passages(grip.intent))
            waiting = list(dict.fromkeys(worlds))
            while waiting and go_on():
                passages, waiting, failed = await self._chosen(waiting, bounds)
                done += Projected(failed=tuple(failed))
                if passages:
                    projected = await term.project(new_token(), passages)
                    done += projected
                    unfit = {world for world, _ in projected.failed}
                    waiting = [world for world in waiting if world not in unfit]
            if done.files:
                await term.trim()
        finally:
            release = ReleaseLandingFence(self.storage, grip.epoch, AUDIT)
            await self.authority.execute(release)
        return done

    def opened(self) -> Table:
        """Open the audit table, made if it is not there yet."""
        return self.lake.created_as(audit.AUDIT)

    async def _chosen(
        self, waiting: list[WorldId], bounds: AuditBounds
    ) -> tuple[list[Passage], list[WorldId], list[tuple[WorldId, Corrupt]]]:
        """Return the next intent's entries, the worlds to ask again after it, and those not to."""
        budget = _Budget(bounds)
        rest = list(waiting)
        failed: list[tuple[WorldId, Corrupt]] = []
        while rest and not budget.is_spent:
            try:
                audited = await self.authority.execute(FindAudited(self._ref(rest[0])))
                taken, is_whole = await self._unread(audited, budget)
            except Corrupt as error:
                failed.append((rest.pop(0), error))
                continue
            if taken:
                budget.passages.append(Passage(audited.world, tuple(taken)))
            if not is_whole:
                break
            del rest[0]
        return budget.passages, rest, failed

    async def _unread(self, audited: Audited, budget: _Budget) -> tuple[list[LogEntry], bool]:
        """Return entries behind the watermark, and whether those were all there are now."""
        taken: list[LogEntry] = []
        at = audited.through
        while at < audited.head.seq:
            ref = audited.world.ref
            entries = await self.authority.execute(LogFeed(ref, at, ENTRIES_READ))
            if not entries:
                break  # a gap: the next call finds it closed
            for entry in entries:
                if not budget.take(entry):
                    return taken, False
                taken.append(entry)
            at = entries[-1].seq
        return taken, True

    async def _passages(self, intent: Intent) -> list[Passage]:
        """Return the entries of an intent that another opened."""
        found = []
        for part in intent.parts:
            ref = self._ref(part.world)
            audited = await self.authority.execute(FindAudited(ref))
            entries: list[LogEntry] = []
            while part.first + len(entries) <= part.last:
                after = Seq(part.first + len(entries) - 1)
                limit = min(ENTRIES_READ, part.last - after)
                entries += await self.authority.execute(LogFeed(ref, after, limit, to_head=True))
            found.append(Passage(audited.world, tuple(entries)))
        return found

    def _ref(self, world: WorldId) -> WorldRef:
        return WorldRef(self.storage, world)


@dataclass(frozen=True, slots=True)
class _Term:
    """One holder's time at the fence."""

    projection: Projection
    epoch: Epoch
    lease_ms: int

    async def project(self, batch: Token, passages: list[Passage]) -> Projected:
        """Open an intent for those of ``passages`` that can be told, and carry it out."""
        events, failed = await self._events(passages)
        passages = [each for each in passages if each.world.world not in failed]
        unfit = Projected(failed=tuple(failed.items()))
        if not passages:
            return unfit
        tables: tuple[IntentTable, ...] = ()
        if events:
            opened = await asyncio.to_thread(self.projection.opened)
            parent = head_of(opened)
            tables = (IntentTable(table=audit.AUDIT_TABLE, parent=parent, rows=len(events)),)
        parts = tuple(passage.part for passage in passages)
        storage = self.projection.storage
        intent = await self.projection.authority.execute(
            OpenIntent(storage, self.epoch, self.lease_ms, batch, parts, tables, AUDIT)
        )
        return unfit + await self._carried_out(intent, events)

    async def finish(self, intent: Intent, passages: list[Passage]) -> Projected:
        """Carry out an intent that another opened."""
        events, failed = await self._events(passages)
        for error in failed.values():
            raise error
        return await self._carried_out(intent, events)

    async def trim(self) -> None:
        """Expire old snapshots, while the fence is held and no intent is open."""
        await asyncio.to_thread(expire, await asyncio.to_thread(self.projection.opened))

    async def _carried_out(self, intent: Intent, events: list[Event]) -> Projected:
        """Bring the events into the table, then move the watermarks."""
        files = 0
        for each in intent.tables:
            if len(events) != each.rows:
                raise Corrupt(
                    expected=f"{each.rows} events of batch {intent.batch}", found=str(len(events))
                )
            files += await appended_once(
                self.projection.opened,
                intent.batch,
                each.parent,
                rows=partial(_rows, events),
                is_there=partial(audit.holds_event, event=events[0]),
            )
        storage = self.projection.storage
        await self.projection.authority.execute(
            FinishIntent(storage, self.epoch, self.lease_ms, intent, AUDIT)
        )
        return Projected(
            events=sum(each.rows for each in intent.tables),
            files=files,
            entries=sum(part.last - part.first + 1 for part in intent.parts),
            worlds=frozenset(part.world for part in intent.parts),
        )

    async def _events(self, passages: list[Passage]) -> tuple[list[Event], dict[WorldId, Corrupt]]:
        """Return the events of passages, sorted by (world, run, seq, index), and who has none."""
        teller = Teller(self.projection.authority, self._looked_up)
        found: list[Event] = []
        failed: dict[WorldId, Corrupt] = {}
        for passage in sorted(passages, key=lambda each: each.world.world):
            try:
                found += await teller.events(passage)
            except Corrupt as error:
                failed[passage.world.world] = error
        return found, failed

    def _looked_up(self, worlds: Sequence[WorldId], sequences: Ranges) -> list[Event]:
        table = self.projection.lake.opened_as(audit.AUDIT)
        return [] if table is None else audit.queued_events(table, worlds, sequences)


async def _rows(events: list[Event]) -> pa.Table:
    return audit.event_rows(events)
