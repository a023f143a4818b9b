"""Creation and description: a world enters its catalog in one commit, and can be told from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.consumers import ConsumerInfo, consumer_reads, consumers_of
from perdure.kernel.errors import (
    Conflict,
    Contended,
    Invalid,
    NameTaken,
    NotResumable,
    WorldDestroyed,
)
from perdure.kernel.floor import check_floor, floor_key
from perdure.kernel.ids import (
    NO_TICK,
    Epoch,
    Holder,
    Instant,
    Partition,
    RunId,
    StorageId,
    Tick,
    WorldId,
    checked_id,
)
from perdure.kernel.lineage import partition_of
from perdure.kernel.pace import MISSED_TICKS, MissedTicks
from perdure.kernel.places import WorldRef, after, catalog_partition
from perdure.kernel.records import (
    Fence,
    Head,
    Name,
    Status,
    World,
    WriterMode,
    head_key,
    manifest_key,
    name_key,
    world_key,
)
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import seen_world
from perdure.kernel.shown import shown
from perdure.kernel.upkeep import Schedule
from perdure.kernel.view import Decision, Key, Range, Reads, View, Write
from perdure.kernel.wake import UNREAD_MS, appended, woken
from perdure.kernel.writers import check_grip, check_mode, is_private

EVERY_MS_MIN = 1_000
EVERY_MS_MAX = 31 * 24 * 60 * 60 * 1_000


@dataclass(frozen=True, slots=True)
class WorldInfo:
    """What is told of a world. ``published_tick`` is None before the first tick."""

    world_id: WorldId
    name: str
    kind: str
    run_id: RunId
    parent_world_id: WorldId | None
    status: Status
    writer_mode: str
    published_tick: Tick | None
    next_tick: Tick
    epoch: Epoch
    entities: int
    pending_commands: int
    stalled: bool
    every_ms: int | None
    missed: MissedTicks
    """What becomes of ticks of its schedule that were missed."""
    created_at: Instant
    fence_held_until: Instant | None = None
    """End of its writer's lease; None if nobody holds the fence, past if its holder died."""
    consumers: tuple[ConsumerInfo, ...] = ()
    """Who reads the log, told with one world only: in a list of worlds it is left out."""


def described(world: World, head: Head, entities: int) -> WorldInfo:
    """Put catalog record and head together."""
    return WorldInfo(
        world_id=world.world,
        name=world.name,
        kind=world.kind,
        run_id=world.run,
        parent_world_id=world.parent,
        status=head.status,
        writer_mode=world.writer_mode,
        published_tick=None if head.published == NO_TICK else head.published,
        next_tick=head.next_tick,
        epoch=head.fence.epoch,
        entities=entities,
        pending_commands=head.open_commands,
        stalled=head.is_stalled,
        every_ms=world.every_ms,
        missed=world.missed,
        created_at=world.created_at,
        fence_held_until=None if head.fence.holder is None else head.fence.until,
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """What a caller says of a world that is to be: asked for again, it must be the same."""

    ref: WorldRef
    name: str
    kind: str
    writer_mode: WriterMode
    parent: WorldId | None = None
    holder: Holder | None = None
    """Who holds a private world from the start, and is the only one to be told of it."""

    def checked(self) -> Identity:
        """Return self if id, name and kind are well formed. Raises InvalidId."""
        checked_id(self.ref.world, what="a world id")
        checked_id(self.name, what="a world's name", bytes_max=limits.NAME_BYTES_MAX)
        if self.kind:
            checked_id(self.kind, what="a world's kind")
        return self

    def keys(self) -> tuple[Key[Any], ...]:
        """Return the keys that :meth:`known` names."""
        return (
            world_key(self.ref),
            name_key(self.ref.catalog, self.name),
            head_key(self.ref.partition),
            floor_key(self.ref.catalog),
        )

    def known(self, view: View) -> WorldInfo | None:
        """Return the world if it was made before, None if id and name are free.

        Raises: WorldDestroyed, Conflict, NameTaken; Contended beside a running creation.
        """
        known = view.get(world_key(self.ref))
        head = view.get(head_key(self.ref.partition))
        if known is not None and head is not None:
            return self._same(view, known, head)
        check_floor(view, self.ref.catalog)
        claim = view.get(name_key(self.ref.catalog, self.name))
        if known is not None or (claim is not None and claim.world == self.ref.world):
            raise Contended(
                expected=f"all of world {self.ref.world!r} or nothing",
                found="a part: its creation is running",
            )
        if claim is not None:
            raise NameTaken(
                expected=f"name {self.name!r} to be free in this storage",
                found=f"world {claim.world!r}, which has it",
            )
        return None

    def _same(self, view: View, known: World, head: Head) -> WorldInfo:
        if head.status == "destroyed":
            raise WorldDestroyed(
                expected="an id that was never used", found=f"{self.ref.world!r} is destroyed"
            )
        asked = (self.name, self.kind, self.writer_mode, self.parent)
        found = (known.name, known.kind, known.writer_mode, known.parent)
        if asked != found:
            raise Conflict(
                expected=f"world {self.ref.world!r} with the identity it was created with,"
                f" (name, kind, writer mode, parent) = {found}",
                found=str(asked),
            )
        if is_private(head) and head.fence.holder != self.holder:
            raise NotResumable(
                expected=f"the first holder of private world {self.ref.world!r}",
                found="another who would create it",
            )
        return described(known, head, _entities(view, known, head))


def checked_pace(every_ms: int | None, missed: str) -> None:
    """Refuse a schedule that no world can have. Raises Invalid."""
    if missed not in MISSED_TICKS:
        expected = f"missed to be one of {', '.join(MISSED_TICKS)}"
        raise Invalid(expected=expected, found=shown(missed))
    if every_ms is not None and not EVERY_MS_MIN <= every_ms <= EVERY_MS_MAX:
        raise Invalid(
            expected=f"a tick every {EVERY_MS_MIN} to {EVERY_MS_MAX} ms", found=f"{every_ms} ms"
        )


def scheduled(view: View, head: Head, world: World, now: Instant) -> tuple[Head, tuple[Write, ...]]:
    """Let a new world tick by itself, if it is to. Raises Missing."""
    if world.every_ms is None:
        return head, ()
    due = Instant(now + world.every_ms)
    head, hints = woken(view, head, world.ref, due)
    schedule = Schedule(
        partition=head.partition, every_ms=world.every_ms, next_at=due, missed=world.missed
    )
    return head, (schedule, *hints)


@dataclass(frozen=True, slots=True)
class CreateWorld:
    """Register a world: identity, name, head and first log entry, all or none.

    The same id with the same identity (name, kind, writer mode) is a no-op. A private world
    (``cleanup_only``) is held by ``holder`` from this commit on: there is no moment at which
    another could have it, and only that holder is answered again.
    """

    ref: WorldRef
    name: str
    run: RunId
    kind: str = ""
    writer_mode: WriterMode = "resumable"
    every_ms: int | None = None
    missed: MissedTicks = "coalesce"
    app: str = ""
    holder: Holder | None = None
    lease_ms: int = 0
    by: Caller = LOCAL

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.catalog

    def reads(self) -> Reads:
        return Reads(keys=self._identity.keys())

    @property
    def _identity(self) -> Identity:
        return Identity(self.ref, self.name, self.kind, self.writer_mode, holder=self.holder)

    def checked(self) -> CreateWorld:
        """Return self if ids, name and schedule are well formed. Raises Invalid kinds."""
        self._identity.checked()
        checked_pace(self.every_ms, self.missed)
        check_mode(self.writer_mode)
        if self.writer_mode == "cleanup_only":
            self._check_holder()
        elif self.holder is not None:
            raise Invalid(expected="a holder of a private world only", found="one of a public")
        return self

    def _check_holder(self) -> None:
        if self.every_ms is not None:
            raise Invalid(expected="a private world without a schedule", found="one with")
        check_grip(self.holder or "", self.lease_ms)

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo]:
        known = self._identity.known(view)
        if known is not None:
            return Decision(known)
        world = World(
            partition=self.ref.catalog,
            storage=self.ref.storage,
            world=self.ref.world,
            name=self.name,
            kind=self.kind,
            run=self.run,
            writer_mode=self.writer_mode,
            created_at=now,
            every_ms=self.every_ms,
            missed=self.missed,
            app=self.app,
        )
        name = Name(partition=self.ref.catalog, name=self.name, world=self.ref.world)
        fresh = Head(partition=self.ref.partition, writer_mode=self.writer_mode)
        facts = {"kind": self.kind, "name": self.name, "run": self.run, "world": self.ref.world}
        fresh, entry = appended(fresh, "created", {**facts, **self.by.facts}, now)
        fresh, unread = woken(view, fresh, self.ref, Instant(now + UNREAD_MS))
        upkeep: list[Write] = [*unread]
        if self.holder is not None:
            until = Instant(now + self.lease_ms)
            fresh = replace(fresh, fence=Fence(epoch=Epoch(1), holder=self.holder, until=until))
            fresh, hints = woken(view, fresh, self.ref, until)
            upkeep += hints
        fresh, more = scheduled(view, fresh, world, now)
        return Decision(described(world, fresh, 0), (world, name, entry, *upkeep, *more, fresh))


@dataclass(frozen=True, slots=True)
class Describe(WorldRequest):
    """Tell what is known of one world, and of who reads its log if that is asked for."""

    with_consumers: bool = False

    def reads(self) -> Reads:
        peeks = (world_key(self.ref), head_key(self.ref.partition))
        more = consumer_reads(self.ref) if self.with_consumers else Reads()
        return Reads.union(Reads(peeks=peeks), more)

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo]:
        world, head = seen_world(view, self.ref)
        info = described(world, head, _entities(view, world, head))
        if self.with_consumers:
            info = replace(info, consumers=consumers_of(view, head))
        return Decision(info)


@dataclass(frozen=True, slots=True)
class Discover:
    """List the worlds of a storage, also destroyed ones, by id.

    Beside a running creation a world may lack its head: it is never passed over.
    Raises Contended.
    """

    storage: StorageId
    after: WorldId | None
    limit: int

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return catalog_partition(self.storage)

    def _range(self) -> Range[World]:
        first = "world/" if self.after is None else f"world/{self.after}\0"
        return Range(self.stream, first, after("world/"), World, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[WorldInfo, ...]]:
        worlds = view.find(self._range())
        heads = tuple(head_key(world.ref.partition) for world in worlds)
        view.require(peeks=heads)
        found: list[Head] = []
        for world, key in zip(worlds, heads, strict=True):
            head = view.peek(key)
            if head is None:
                raise Contended(
                    expected=f"all of world {world.world!r}", found="a part: asked beside a commit"
                )
            found.append(head)
        marks = tuple(
            manifest_key(partition_of(world, head.published), head.published)
            for world, head in zip(worlds, found, strict=True)
            if head.published != NO_TICK
        )
        view.require(peeks=marks)
        return Decision(
            tuple(
                described(world, head, _entities(view, world, head))
                for world, head in zip(worlds, found, strict=True)
            )
        )


def _entities(view: View, world: World, head: Head) -> int:
    if head.published == NO_TICK:
        return 0
    manifest = view.peek(manifest_key(partition_of(world, head.published), head.published))
    return 0 if manifest is None else manifest.entities
