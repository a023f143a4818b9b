"""Creation and description: a world enters its catalog in one commit, and can be told from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel import limits
from perdure.kernel.errors import (
    Conflict,
    Contended,
    Invalid,
    NameTaken,
    NotFound,
    WorldDestroyed,
)
from perdure.kernel.floor import check_floor, floor_key
from perdure.kernel.ids import (
    NO_TICK,
    Epoch,
    Instant,
    Partition,
    RunId,
    StorageId,
    Tick,
    WorldId,
    checked_id,
)
from perdure.kernel.places import WorldRef, after, catalog_partition
from perdure.kernel.records import (
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
from perdure.kernel.upkeep import Schedule
from perdure.kernel.view import Decision, Range, Reads, View, Write
from perdure.kernel.wake import appended, woken

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
    writer_mode: WriterMode
    published_tick: Tick | None
    next_tick: Tick
    epoch: Epoch
    entities: int
    pending_commands: int
    stalled: bool
    every_ms: int | None
    created_at: Instant


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
        created_at=world.created_at,
    )


@dataclass(frozen=True, slots=True)
class CreateWorld:
    """Register a world: identity, name, head and first log entry, all or none.

    The same id with the same identity (name, kind, writer mode) is a no-op.
    """

    ref: WorldRef
    name: str
    run: RunId
    kind: str = ""
    writer_mode: WriterMode = "resumable"
    every_ms: int | None = None
    app: str = ""

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.catalog

    def reads(self) -> Reads:
        catalog = self.ref.catalog
        return Reads(
            keys=(
                world_key(self.ref),
                name_key(catalog, self.name),
                head_key(self.ref.partition),
                floor_key(catalog),
            )
        )

    def checked(self) -> CreateWorld:
        """Return self if ids, name and schedule are well formed. Raises Invalid kinds."""
        checked_id(self.ref.world, what="a world id")
        checked_id(self.name, what="a world's name", bytes_max=limits.NAME_BYTES_MAX)
        if self.kind:
            checked_id(self.kind, what="a world's kind")
        if self.every_ms is not None and not EVERY_MS_MIN <= self.every_ms <= EVERY_MS_MAX:
            raise Invalid(
                expected=f"a tick every {EVERY_MS_MIN} to {EVERY_MS_MAX} ms",
                found=f"{self.every_ms} ms",
            )
        return self

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo]:
        known = view.get(world_key(self.ref))
        head = view.get(head_key(self.ref.partition))
        if known is not None and head is not None:
            return Decision(self._known(view, known, head))
        check_floor(view, self.ref.catalog)
        claim = view.get(name_key(self.ref.catalog, self.name))
        if known is not None or (claim is not None and claim.world == self.ref.world):
            raise Contended(
                expected=f"all of world {self.ref.world!r} or nothing",
                found="a part: its creation is running",
            )
        if claim is not None:
            raise NameTaken(
                expected=f"a name no other world has; {self.name!r} is free in this storage",
                found=f"world {claim.world!r} of that name",
            )
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
            app=self.app,
        )
        name = Name(partition=self.ref.catalog, name=self.name, world=self.ref.world)
        fresh = Head(partition=self.ref.partition, writer_mode=self.writer_mode)
        facts = {"kind": self.kind, "name": self.name, "run": self.run, "world": self.ref.world}
        fresh, entry = appended(fresh, "created", facts, now)
        writes: list[Write] = [world, name, entry]
        if self.every_ms is not None:
            due = Instant(now + self.every_ms)
            fresh, hints = woken(view, fresh, self.ref, due)
            writes += [
                Schedule(partition=self.ref.partition, every_ms=self.every_ms, next_at=due),
                *hints,
            ]
        return Decision(described(world, fresh, 0), (*writes, fresh))

    def _known(self, view: View, known: World, head: Head) -> WorldInfo:
        if head.status == "destroyed":
            raise WorldDestroyed(
                expected="an id that was never used", found=f"{self.ref.world!r} is destroyed"
            )
        asked = (self.name, self.kind, self.writer_mode)
        found = (known.name, known.kind, known.writer_mode)
        if asked != found:
            raise Conflict(
                expected=f"world {self.ref.world!r} with the identity it was created with,"
                f" (name, kind, writer mode) = {found}",
                found=str(asked),
            )
        return described(known, head, _entities(view, head))


@dataclass(frozen=True, slots=True)
class Describe(WorldRequest):
    """Tell what is known of one world."""

    def reads(self) -> Reads:
        return Reads(peeks=(world_key(self.ref), head_key(self.ref.partition)))

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo]:
        world = view.peek(world_key(self.ref))
        head = view.peek(head_key(self.ref.partition))
        if world is None or head is None:
            raise NotFound(expected="a world that exists", found=f"no world {self.ref.world!r}")
        return Decision(described(world, head, _entities(view, head)))


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
            manifest_key(head.partition, head.published)
            for head in found
            if head.published != NO_TICK
        )
        view.require(peeks=marks)
        return Decision(
            tuple(
                described(world, head, _entities(view, head))
                for world, head in zip(worlds, found, strict=True)
            )
        )


def _entities(view: View, head: Head) -> int:
    if head.published == NO_TICK:
        return 0
    manifest = view.peek(manifest_key(head.partition, head.published))
    return 0 if manifest is None else manifest.entities
