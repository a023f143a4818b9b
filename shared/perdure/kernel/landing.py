"""Landing: how rows and events move into tables exactly once, one open intent at a time and lane.

Rows of published ticks go by the lane "landing", events of the log by the lane "audit". Both obey
the same rules; what differs is how a world's progress is counted: in ticks, or in log entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from perdure.kernel import limits
from perdure.kernel.errors import (
    Conflict,
    Corrupt,
    FenceHeld,
    Invalid,
    StaleWriter,
    TooLarge,
)
from perdure.kernel.ids import (
    NO_TICK,
    Epoch,
    Holder,
    Instant,
    Partition,
    Seq,
    StorageId,
    TableId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.places import Lane, WorldRef, landing_partition
from perdure.kernel.record import Record
from perdure.kernel.records import Fence, Head, World, world_key
from perdure.kernel.seen import SeenInPart
from perdure.kernel.upkeep import Consumer, consumer_key
from perdure.kernel.view import Decision, Key, Reads, Removed, View, Write
from perdure.kernel.writers import check_lease

CONSUMER: Final[Lane] = "landing"
"""Name of the watermark that says how far a world has landed."""

AUDIT: Final[Lane] = "audit"
"""Name of the watermark that says how far a world's log is in the audit table."""

INTENT_RECORDS_MAX = 90
"""Worlds and tables of one intent: its end writes a record for each, beside head and intent,
within COMMIT_ACTIONS_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingHead(Record):
    """The one record that orders a storage's landings."""

    fence: Fence = field(default_factory=Fence)
    intent: Token | None = None
    """Batch that is open: begun, and not known to be in every table."""

    finished: Token | None = None
    """Batch that was finished last, so that a repeated finish is known as such."""

    @property
    def key(self) -> Key[LandingHead]:
        return landing_head_key(self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentPart:
    """What a batch lands of one world, first and last included: ticks, or log entries.

    ``seq`` is the log entry of the last tick's publish, or the last entry itself.
    """

    world: WorldId
    first: int
    last: int
    seq: Seq


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentTable:
    """One table a batch appends to, and the snapshot it had before the first try."""

    table: TableId
    parent: int | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(Record):
    """What one batch lands: everything a successor needs to finish it under the same id.

    The rows are those the manifests of the ticks name; they are not repeated here.
    """

    batch: Token
    parts: tuple[IntentPart, ...]
    tables: tuple[IntentTable, ...]

    @property
    def key(self) -> Key[Intent]:
        return intent_key(self.partition, self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingTable(Record):
    """That a table exists, and how many rows were landed in it: an empty one was lost."""

    table: TableId
    rows: int
    batch: Token

    @property
    def key(self) -> Key[LandingTable]:
        return landed_table_key(self.partition, self.table)


@dataclass(frozen=True, slots=True)
class LandingGrip:
    """The landing fence held, and the intent that must be finished before another is opened."""

    epoch: Epoch
    until: Instant
    intent: Intent | None


@dataclass(frozen=True, slots=True)
class TakeLandingFence:
    """Become the one that lands a storage, if the fence is free, released or expired.

    The present holder keeps its epoch, and writes nothing while half of its lease remains.
    """

    storage: StorageId
    holder: Holder
    lease_ms: int
    lane: Lane = CONSUMER

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return landing_partition(self.storage, self.lane)

    def reads(self) -> Reads:
        if not 1 <= len(self.holder.encode()) <= limits.HOLDER_BYTES_MAX:
            raise Invalid(
                expected=f"a holder of 1 to {limits.HOLDER_BYTES_MAX} bytes",
                found=repr(self.holder),
            )
        check_lease(self.lease_ms)
        return Reads(keys=(landing_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[LandingGrip]:
        head = _head(view, self.stream)
        fence = head.fence
        intent = None if head.intent is None else _open_intent(view, self.stream, head.intent)
        until = Instant(now + self.lease_ms)
        if fence.holder == self.holder:
            if now < fence.until and fence.until - now >= self.lease_ms // 2:
                return Decision(LandingGrip(fence.epoch, fence.until, intent))
            renewed = replace(head, fence=replace(fence, until=until))
            return Decision(LandingGrip(fence.epoch, until, intent), (renewed,))
        if fence.is_held(now):
            raise FenceHeld(
                expected="a free landing fence",
                found=f"epoch {fence.epoch} held for {fence.until - now} ms more",
            )
        epoch = Epoch(fence.epoch + 1)
        taken = Fence(epoch=epoch, holder=self.holder, until=until)
        return Decision(LandingGrip(epoch, until, intent), (replace(head, fence=taken),))


@dataclass(frozen=True, slots=True)
class ReleaseLandingFence:
    """Let the landing fence go, if it is still of this epoch. Idempotent."""

    storage: StorageId
    epoch: Epoch
    lane: Lane = CONSUMER

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return landing_partition(self.storage, self.lane)

    def reads(self) -> Reads:
        return Reads(keys=(landing_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = _head(view, self.stream)
        if head.fence.epoch != self.epoch or head.fence.holder is None:
            return Decision(None)
        return Decision(None, (replace(head, fence=Fence(epoch=self.epoch)),))


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """Write down what a batch is going to land, before any table is touched.

    Refused unless every part begins where its world's watermark ends: two landings of one
    process cannot both open the same ticks. Raises: StaleWriter, Conflict, TooLarge.
    """

    storage: StorageId
    epoch: Epoch
    lease_ms: int
    batch: Token
    parts: tuple[IntentPart, ...]
    tables: tuple[IntentTable, ...]
    lane: Lane = CONSUMER

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return landing_partition(self.storage, self.lane)

    def reads(self) -> Reads:
        records = len(self.parts) + len(self.tables)
        if records > INTENT_RECORDS_MAX:
            raise TooLarge(
                expected=f"an intent of at most {INTENT_RECORDS_MAX} worlds and tables",
                found=str(records),
            )
        refs = [WorldRef(self.storage, part.world) for part in self.parts]
        return Reads(
            keys=(
                landing_head_key(self.stream),
                intent_key(self.stream, self.batch),
                *(consumer_key(ref.partition, self.lane) for ref in refs),
            ),
            peeks=tuple(world_key(ref) for ref in refs),
        )

    def decide(self, view: View, now: Instant) -> Decision[Intent]:
        head = _held_head(view, self.stream, self.epoch)
        intent = Intent(
            partition=self.stream, batch=self.batch, parts=self.parts, tables=self.tables
        )
        if head.intent is not None:
            if _open_intent(view, self.stream, head.intent) == intent:
                return Decision(intent)
            raise Conflict(
                expected="no open intent, or this one", found=f"open intent {head.intent}"
            )
        for part in self.parts:
            _landed_before(view, self.storage, self.lane, part)
        opened = replace(head, fence=_renewed(head, now, self.lease_ms), intent=self.batch)
        return Decision(intent, (opened, intent))


@dataclass(frozen=True, slots=True)
class FinishIntent:
    """Move the watermarks of a batch that is in every one of its tables.

    Asked again after it was done, it changes nothing. Raises StaleWriter.
    """

    storage: StorageId
    epoch: Epoch
    lease_ms: int
    intent: Intent
    lane: Lane = CONSUMER

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return landing_partition(self.storage, self.lane)

    def reads(self) -> Reads:
        worlds = (WorldRef(self.storage, part.world).partition for part in self.intent.parts)
        return Reads(
            keys=(
                landing_head_key(self.stream),
                self.intent.key,
                *(consumer_key(world, self.lane) for world in worlds),
                *(landed_table_key(self.stream, each.table) for each in self.intent.tables),
            ),
            peeks=tuple(
                world_key(WorldRef(self.storage, part.world)) for part in self.intent.parts
            ),
        )

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = _held_head(view, self.stream, self.epoch)
        batch = self.intent.batch
        if head.intent is None and head.finished == batch:
            return Decision(None)
        if head.intent != batch:
            raise StaleWriter(
                expected=f"open intent {batch}", found=f"open intent {head.intent or '(none)'}"
            )
        known = _open_intent(view, self.stream, batch)
        assert known == self.intent, "an open intent never changes"
        writes: list[Write] = [
            replace(
                head,
                fence=_renewed(head, now, self.lease_ms),
                intent=None,
                finished=batch,
            ),
            Removed(self.intent.key),
        ]
        for part in self.intent.parts:
            before = _landed_before(view, self.storage, self.lane, part)
            writes.append(_moved(before, part))
        writes += [self._tallied(view, each) for each in self.intent.tables]
        return Decision(None, tuple(writes))

    def _tallied(self, view: View, added: IntentTable) -> LandingTable:
        before = view.get(landed_table_key(self.stream, added.table))
        return LandingTable(
            partition=self.stream,
            table=added.table,
            rows=added.rows + (0 if before is None else before.rows),
            batch=self.intent.batch,
        )


def landing_start(world: World) -> Tick:
    """Return the tick before the first that a world itself can publish: a fork's is its parent's."""
    return world.lineage[-1].up_to if world.lineage else Tick(world.begins - 1)


def is_unlanded(head: Head, mark: Consumer | None, world: World | None) -> bool:
    """Say whether ticks that a world has published wait to land; ``mark`` is how far it has."""
    if mark is not None:
        return head.published > mark.tick
    return head.published > (NO_TICK if world is None else landing_start(world))


def landing_head_key(landing: Partition) -> Key[LandingHead]:
    return Key(landing, "head", LandingHead)


def intent_key(landing: Partition, batch: Token) -> Key[Intent]:
    return Key(landing, f"intent/{batch}", Intent)


def landed_table_key(landing: Partition, table: TableId) -> Key[LandingTable]:
    return Key(landing, f"landed/{table}", LandingTable)


def _head(view: View, landing: Partition) -> LandingHead:
    return view.get(landing_head_key(landing)) or LandingHead(partition=landing)


def _open_intent(view: View, landing: Partition, batch: Token) -> Intent:
    """Return the intent that the head speaks of. Raises Missing, SeenInPart, at last Corrupt."""
    key = intent_key(landing, batch)
    intent = view.get(key)
    if intent is None:
        lost = Corrupt(expected=f"the open intent {batch} of {landing}", found="none")
        raise SeenInPart((landing_head_key(landing), key), lost)
    return intent


def _held_head(view: View, landing: Partition, epoch: Epoch) -> LandingHead:
    head = _head(view, landing)
    if head.fence.epoch != epoch:
        raise StaleWriter(
            expected=f"the live epoch {head.fence.epoch} of the landing", found=f"epoch {epoch}"
        )
    return head


def _renewed(head: LandingHead, now: Instant, lease_ms: int) -> Fence:
    return replace(head.fence, until=max(head.fence.until, Instant(now + lease_ms)))


def _landed_before(view: View, storage: StorageId, lane: Lane, part: IntentPart) -> Consumer:
    """Return a world's watermark if ``part`` begins right behind it. Raises StaleWriter."""
    ref = WorldRef(storage, part.world)
    mark = view.get(consumer_key(ref.partition, lane))
    if mark is None:
        world = view.peek(world_key(ref))
        start = NO_TICK if world is None or lane != CONSUMER else landing_start(world)
        mark = Consumer(partition=ref.partition, name=lane, seq=Seq(0), tick=start)
    reached = mark.tick if lane == CONSUMER else mark.seq
    if not reached + 1 == part.first <= part.last:
        what = "tick" if lane == CONSUMER else "entry"
        raise StaleWriter(
            expected=f"world {part.world!r} to be landed up to {what} {part.first - 1}",
            found=f"landed up to {what} {reached}",
        )
    return mark


def _moved(mark: Consumer, part: IntentPart) -> Consumer:
    if mark.name == CONSUMER:
        return replace(mark, seq=max(mark.seq, part.seq), tick=Tick(part.last))
    return replace(mark, seq=Seq(part.last))
