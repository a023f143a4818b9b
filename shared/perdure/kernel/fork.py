"""Forking: a copy of a world enters its catalog in one commit, with all that was open in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from perdure.kernel import ranges
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.consumers import OWN
from perdure.kernel.create import Identity, WorldInfo, described, scheduled
from perdure.kernel.errors import Conflict, Contended
from perdure.kernel.fork_source import Copy, Pending
from perdure.kernel.forked import forked_key, spelled_pages
from perdure.kernel.ids import NO_TICK, Instant, Partition, RunId, Seq, Tick
from perdure.kernel.lineage import partition_of
from perdure.kernel.pace import MissedTicks
from perdure.kernel.pages import Page
from perdure.kernel.record import Record
from perdure.kernel.records import Ancestor, Head, Manifest, Name, World, manifest_key
from perdure.kernel.upkeep import Consumer, Required
from perdure.kernel.view import Decision, Reads, View, Write
from perdure.kernel.wake import UNREAD_MS, appended, woken


@dataclass(frozen=True, slots=True)
class FindFork:
    """Return a fork that was made before, None if its id and name are free.

    Raises: WorldDestroyed, Conflict, NameTaken; Contended beside a running creation.
    """

    identity: Identity
    source_run: RunId
    """Tells a source from another of its id, in another storage."""

    at_tick: Tick | None = None

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.identity.ref.partition}#fork")

    def reads(self) -> Reads:
        return Reads(keys=self.identity.keys())

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo | None]:
        return Decision(_known(view, self.identity, self.source_run, self.at_tick))


@dataclass(frozen=True, slots=True)
class Birth:
    """Bring a fork into its catalog: record, name, head, pages and first log entry at once.

    The same id with the same identity (name, kind, parent) is a no-op.
    Raises: WorldDestroyed, Conflict, NameTaken.
    """

    identity: Identity
    copy: Copy
    run: RunId
    pending: Pending = "copy"
    every_ms: int | None = None
    missed: MissedTicks = "coalesce"
    by: Caller = LOCAL
    is_elsewhere: bool = False
    """In another storage: no ancestor can be read there."""

    first: Manifest | None = None
    """The source's whole state as the fork's own, if it goes elsewhere and there is one."""

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.identity.ref.catalog

    def reads(self) -> Reads:
        return Reads(keys=self.identity.keys())

    def decide(self, view: View, now: Instant) -> Decision[WorldInfo]:
        known = _known(view, self.identity, self.copy.world.run, None)
        if known is not None:
            return Decision(known)
        ref, source = self.identity.ref, self.copy.head
        world = self._world(now)
        name = Name(partition=ref.catalog, name=world.name, world=ref.world)
        pages = tuple(
            Page(partition=ref.partition, name=page.name, spelled=page.spelled)
            for page, _ in self.copy.pages
        )
        head, entry = appended(
            self._head(),
            "forked",
            self._facts(world),
            now,
            payload=spelled_pages((page.name, held) for page, held in self.copy.pages),
        )
        head, upkeep = scheduled(view, head, world, now)
        head, hints = woken(view, head, ref, Instant(now + UNREAD_MS))
        writes: list[Write] = [world, name, entry, *pages, *self._chosen(), *upkeep, *hints, head]
        manifest = self.first
        if manifest is not None:
            writes.append(manifest)
        elif source.published != NO_TICK:
            partition = partition_of(self.copy.world, source.published)
            manifest = view.peek(manifest_key(partition, source.published))
        entities = 0 if manifest is None else manifest.entities
        return Decision(described(world, head, entities), tuple(writes))

    def _chosen(self) -> Iterator[Record]:
        """Return the choices taken over, and a beginning for each consumer that is required."""
        partition = self.identity.ref.partition
        for record in self.copy.records:
            yield replace(record, partition=partition)
            for name in record.names if isinstance(record, Required) else ():
                if name not in OWN:
                    yield Consumer(partition=partition, name=name, seq=Seq(0))

    def _world(self, now: Instant) -> World:
        source, published = self.copy.world, self.copy.head.published
        # Also where it published nothing: the commands taken over are looked up there.
        last = Ancestor(world=source.world, run=source.run, up_to=published)
        return World(
            partition=self.identity.ref.catalog,
            storage=self.identity.ref.storage,
            world=self.identity.ref.world,
            name=self.identity.name,
            kind=self.identity.kind,
            run=self.run,
            parent=source.world,
            lineage=() if self.is_elsewhere else (*source.lineage, last),
            created_at=now,
            every_ms=self.every_ms,
            missed=self.missed,
            app=source.app,
            begins=Tick(0) if self.first is None else self.first.tick,
        )

    def _head(self) -> Head:
        source = self.copy.head
        dropped = self.pending == "drop"
        return Head(
            partition=self.identity.ref.partition,
            published=source.published,
            manifest_digest=source.manifest_digest if self.first is None else self.first.digest,
            next_sequence=source.next_sequence,
            next_entity_id=source.next_entity_id,
            cancelled_below=source.next_sequence if dropped else source.cancelled_below,
            open_commands=sum(ranges.size(held) for _, held in self.copy.pages),
            checkpoint=source.checkpoint if self.first is None else self.first.tick,
            required=source.required,
            configured=source.configured,
        )

    def _facts(self, world: World) -> dict[str, Any]:
        source, head = self.copy.world, self.copy.head
        return {
            "kind": world.kind,
            "name": world.name,
            "next_sequence": head.next_sequence,
            "pending": self.pending,
            "run": world.run,
            "source": source.world,
            "source_run": source.run,
            "source_seq": head.seq,
            "source_storage": source.storage,
            "tick": None if head.published == NO_TICK else head.published,
            "world": world.world,
            **self.by.facts,
        }


def _known(
    view: View, identity: Identity, source_run: RunId, at_tick: Tick | None
) -> WorldInfo | None:
    known = identity.known(view)
    if known is None:
        return None
    entry = view.peek(forked_key(identity.ref.partition))
    if entry is None:
        raise Contended(
            expected=f"all of world {identity.ref.world!r}", found="a part: its creation is running"
        )
    run, was = entry.facts.get("source_run"), entry.facts.get("tick")
    if run != source_run:
        raise Conflict(
            expected=f"world {identity.ref.world!r} as a fork of run {run}",
            found=f"a source of run {source_run}",
        )
    if at_tick not in {None, was}:
        raise Conflict(
            expected=f"world {identity.ref.world!r} as it was forked, at tick {was}",
            found=f"tick {at_tick} asked for",
        )
    return known
