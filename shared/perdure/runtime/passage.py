"""Passages: stretches of a world's log with all that is needed to tell their events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from perdure.kernel import ranges
from perdure.kernel.audit import FindAudited
from perdure.kernel.errors import Corrupt, NotFound
from perdure.kernel.events import Event, events_of, queued, told_of
from perdure.kernel.ids import Seq, Tick, WorldId
from perdure.kernel.landing import IntentPart
from perdure.kernel.log import LogEntry
from perdure.kernel.logfeed import LogFeed
from perdure.kernel.places import WorldRef
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Manifest, World
from perdure.runtime.manifests import manifests_of
from perdure.runtime.ports import Executes

ENTRIES_READ: Final = 32
"""Log entries of one read: a batch may have some megabytes."""

Lookup = Callable[[Sequence[WorldId], Ranges], list[Event]]
"""Finds ``queued`` events of worlds, by sequence, in the audit table; it may take its time."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive log entries of one world."""

    world: World
    entries: tuple[LogEntry, ...]

    @property
    def part(self) -> IntentPart:
        last = self.entries[-1].seq
        return IntentPart(world=self.world.world, first=self.entries[0].seq, last=last, seq=last)

    @property
    def events_max(self) -> int:
        """About how many events they tell of: what was retried is not counted."""
        return sum(map(weight, self.entries))


def weight(entry: LogEntry) -> int:
    """Return about how many events an entry tells of."""
    if entry.kind == "admitted":
        return int(entry.facts["count"])
    if entry.kind == "published":
        return int(entry.facts["applied"]) + int(entry.facts["failed"])
    return 1


@dataclass(slots=True)
class Teller:
    """Tells the events of passages, each command by the name it was admitted under."""

    authority: Executes
    look_up: Lookup
    _known: dict[int, Event] = field(default_factory=dict)

    async def events(self, passage: Passage) -> list[Event]:
        """Return the events of a passage, in order.

        A command's name comes from the passage itself, from the audit table, which has
        whatever was admitted before it, or, for what a fork took over, from its ancestors:
        their part of the table, and their logs behind it. Raises Corrupt.
        """
        world = passage.world
        manifests = await self._manifests(passage)
        own = {e.seq: queued(world, e) for e in passage.entries if e.kind == "admitted"}
        known = _by_sequence(each for held in own.values() for each in held)
        told = ranges.union(
            *(told_of(entry, manifests.get(entry.seq)) for entry in passage.entries)
        )
        lacking = ranges.difference(told, ranges.ranges(known))
        if lacking:
            known |= await self._admitted_before(world, lacking)
        found: list[Event] = []
        for entry in passage.entries:
            if entry.kind == "admitted":
                found += own[entry.seq]
            else:
                found += events_of(world, entry, manifests.get(entry.seq), known)
        return found

    async def _manifests(self, passage: Passage) -> dict[int, Manifest]:
        """Return the manifests of the ticks that a passage publishes, by log entry."""
        published = [entry for entry in passage.entries if entry.kind == "published"]
        if not published:
            return {}
        first, last = (Tick(entry.facts["tick"]) for entry in (published[0], published[-1]))
        found = await manifests_of(self.authority, passage.world.ref.partition, first, last)
        return {manifest.seq: manifest for manifest in found}

    async def _admitted_before(self, world: World, lacking: Ranges) -> dict[int, Event]:
        """Find the ``queued`` events of commands that were admitted before a passage.

        A sequence may be of two worlds: a fork and its parent go on from the same number.
        The nearer world's is meant, for it has none that its parent gave before the fork.
        """
        ancestors = [part.world for part in reversed(world.lineage)]
        behind = [await self._behind(WorldRef(world.storage, each), lacking) for each in ancestors]
        # The table after the watermarks of the logs, so that nothing falls between the two.
        nearest = [world.world, *ancestors]
        landed = await asyncio.to_thread(self.look_up, nearest, lacking)
        events = [each for held in behind for each in held] + landed
        rank = {each: number for number, each in enumerate(nearest)}
        events.sort(key=lambda each: rank[each.world_id], reverse=True)
        named = _by_sequence(events)
        named = {each: named[each] for each in named if ranges.contains(lacking, each)}
        left = ranges.difference(lacking, ranges.ranges(named))
        if left and not ancestors:
            raise Corrupt(
                expected=f"admissions of sequences {left} in the log of {world.world!r}",
                found="none in the audit table",
            )
        return named

    async def _behind(self, ref: WorldRef, wanted: Ranges) -> list[Event]:
        """Return what an ancestor's log admitted of ``wanted`` and the table may not have."""
        try:
            audited = await self.authority.execute(FindAudited(ref))
        except NotFound:
            return []  # it lives in another storage: its commands keep their numbers
        found: list[Event] = []
        after = audited.through
        while True:
            # What a gap hides would be told without its name, and for ever.
            entries = await self.authority.execute(LogFeed(ref, after, ENTRIES_READ, to_head=True))
            for entry in entries:
                if entry.kind != "admitted":
                    continue
                if entry.facts["first_sequence"] > wanted[-1][1]:
                    return found
                found += queued(audited.world, entry)
            if not entries:
                return found
            after = Seq(entries[-1].seq)


def _by_sequence(events: Iterable[Event]) -> dict[int, Event]:
    """Return events by the sequence of their command, the last of each."""
    return {each.sequence: each for each in events if each.sequence is not None}
