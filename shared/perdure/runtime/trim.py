"""Trimming: what landed, was read by all and is old leaves its place, and nothing that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from perdure.kernel import limits
from perdure.kernel.create import Discover
from perdure.kernel.errors import Corrupt, Invalid
from perdure.kernel.ids import NO_TICK, Instant, Seq, StorageId, Tick, WorldId
from perdure.kernel.landing import landing_start
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindManifests, FindWorld, WorldState
from perdure.kernel.records import Manifest
from perdure.kernel.trim import (
    FindUnread,
    RecordArchive,
    RecordTrim,
    RemoveArchived,
    Trim,
    archived_through,
)
from perdure.lake.objects import ObjectStore
from perdure.runtime.archive import Packed, archived, archives_of
from perdure.runtime.findings import inspected
from perdure.runtime.ports import Executes
from perdure.runtime.sweep import Swept, sweep

GRACE_MS: Final = 24 * 60 * 60 * 1_000
"""Age below which nothing is trimmed, unless told otherwise."""

GRACE_MS_MIN: Final = limits.LEASE_MS_MAX
"""A reader, a fork or a resume that began before a trim read is over by then.
Source: the longest Lambda invocation."""

BLOCK_ENTRIES: Final = 1_000
"""Log entries of one archive object."""

ARCHIVE_BYTES_MAX: Final = 16_000_000
"""Bytes of log entries from which an archive object is closed, whatever their number."""

ENTRIES_AT_ONCE: Final = 25
"""Log entries read together: each may hold BATCH_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What a trim let go of, or would have."""

    segments: int = 0
    checkpoints: int = 0
    orphans: int = 0
    bytes: int = 0
    """Of all objects that are gone."""

    undecided: int = 0
    """Objects of ticks that may still be published: they stay."""

    archived: int = 0
    """Log entries moved to archives."""

    def __add__(self, other: Trimmed) -> Trimmed:
        return Trimmed(
            self.segments + other.segments,
            self.checkpoints + other.checkpoints,
            self.orphans + other.orphans,
            self.bytes + other.bytes,
            self.undecided + other.undecided,
            self.archived + other.archived,
        )


@dataclass(frozen=True, slots=True)
class Trimming:
    """Trims the worlds of one storage. Several may try at once: all of it is idempotent."""

    authority: Executes
    objects: ObjectStore
    storage: StorageId
    now: Callable[[], Instant]
    block_entries: int = BLOCK_ENTRIES

    async def trim(
        self,
        worlds: Sequence[WorldId],
        *,
        grace_ms: int = GRACE_MS,
        dry_run: bool = False,
        go_on: Callable[[], bool] = lambda: True,
    ) -> tuple[Trimmed, WorldId | None]:
        """Trim worlds, and say behind which to go on if ``go_on`` said no.

        Raises: Invalid for a grace below GRACE_MS_MIN; Unavailable kinds. Whatever was done
        until then stands.
        """
        if grace_ms < GRACE_MS_MIN:
            raise Invalid(expected=f"a grace of at least {GRACE_MS_MIN} ms", found=f"{grace_ms} ms")
        until = Instant(self.now() - grace_ms)
        needs = await self._needs_of_forks()
        total = Trimmed()
        for place, world in enumerate(worlds, start=1):
            ref = WorldRef(self.storage, world)
            one = _One(self, ref, until, needs.get(world, ()), dry_run=dry_run)
            total += await one.trimmed()
            if place < len(worlds) and not go_on():
                return total, world
        return total, None

    async def _needs_of_forks(self) -> dict[WorldId, list[Tick]]:
        """Return, by ancestor, up to which ticks forks rebuild from it.

        A fork that has written a checkpoint of its own needs none of its ancestors'. One that
        is made later starts from a checkpoint that is younger than the grace, or was the last
        one all that time: it is kept in any case.
        """
        needs: dict[WorldId, list[Tick]] = {}
        after: WorldId | None = None
        while True:
            page = await self.authority.execute(Discover(self.storage, after, limit=500))
            for info in page:
                if info.parent_world_id is None or info.status == "destroyed":
                    continue
                found = await self.authority.execute(
                    FindWorld(WorldRef(self.storage, info.world_id))
                )
                for ancestor in found.world.lineage:
                    if found.head.checkpoint <= ancestor.up_to:
                        needs.setdefault(ancestor.world, []).append(ancestor.up_to)
            if not page:
                return needs
            after = page[-1].world_id


@dataclass(frozen=True, slots=True)
class _One:
    """The trim of one world."""

    trimming: Trimming
    ref: WorldRef
    until: Instant
    """What was written later stays."""

    needs: Sequence[Tick]
    dry_run: bool

    async def trimmed(self) -> Trimmed:
        authority, objects = self.trimming.authority, self.trimming.objects
        # Objects are listed before the head is read: what is listed and not published by then
        # is of a writer that had the fence before.
        listed = await self._listed()
        found = await authority.execute(FindWorld(self.ref))
        trim = (await authority.execute(FindUnread(self.ref))).trim
        wanted = await self._wanted(found, trim)
        if wanted is not None:
            request = RecordTrim(
                self.ref, wanted.segments_through, wanted.checkpoints_through, wanted.checkpoints
            )
            trim = wanted if self.dry_run else await authority.execute(request)
        archives, through = await self._archives()
        entries, named = await self._entries(found)
        # An archive that does not show yet has an object: behind the first gap none is an orphan.
        trim = replace(trim, log_through=Seq(min(trim.log_through, through)))
        swept = await sweep(
            authority, objects, found, trim, listed, archives | named, dry_run=self.dry_run
        )
        return _told(swept, entries)

    async def _listed(self) -> dict[str, int]:
        world = self.ref.partition.replace("/", ".")
        listed: dict[str, int] = {}
        for kind in ("segment", "checkpoint", "archive"):
            listed |= await self.trimming.objects.sizes(f"{kind}/{world}/")
        return listed

    async def _archives(self) -> tuple[frozenset[str], Seq]:
        """Return the objects of the archives, and up to which entry these show without a gap."""
        found = [each async for each in archives_of(self.trimming.authority, self.ref)]
        return frozenset(each.object for each in found), archived_through(found, Seq(1))

    async def _wanted(self, found: WorldState, trim: Trim) -> Trim | None:
        """Return how far segments may go, and which checkpoints stay; None for no further."""
        ticks = await self._checkpoints(found, trim)
        old = [tick for tick, at in ticks.items() if at <= self.until]
        if not old:
            return None
        floor = old[-1]
        needed = {max((t for t in ticks if t <= up_to), default=NO_TICK) for up_to in self.needs}
        segments = min(found.landed, floor, *needed)
        kept = thinned([tick for tick in ticks if tick < floor], floor)
        return Trim(
            partition=self.ref.partition,
            segments_through=Tick(max(trim.segments_through, segments)),
            checkpoints_through=floor,
            checkpoints=tuple(sorted({*kept, floor, *(needed - {NO_TICK})} & set(ticks))),
            log_through=trim.log_through,
            removed_through=trim.removed_through,
        )

    async def _checkpoints(self, found: WorldState, trim: Trim) -> dict[Tick, Instant]:
        """Return the ticks of all checkpoints that are still kept, ascending, and their times."""
        ticks: dict[Tick, Instant] = dict.fromkeys(trim.checkpoints, Instant(0))
        at = Tick(max(trim.checkpoints_through + 1, _first_tick(found)))
        while at <= found.head.checkpoint:
            page = await self._manifests(at, found.head.checkpoint)
            ticks |= {each.tick: each.at for each in page if each.checkpoint is not None}
            at = Tick(page[-1].tick + 1)
        return ticks

    async def _manifests(self, first: Tick, last: Tick, **options: bool) -> tuple[Manifest, ...]:
        find = FindManifests(self.ref.partition, first, last, **options)
        return await self.trimming.authority.execute(find)

    async def _entries(self, found: WorldState) -> tuple[int, frozenset[str]]:
        """Move log entries that nobody has to read any more; count them, and name their objects."""
        authority = self.trimming.authority
        unread = await authority.execute(FindUnread(self.ref))
        through = min(unread.read_through, await self._drained(found, unread.trim))
        if unread.named_from is not None:
            through = Seq(min(through, unread.named_from - 1))
        trim, moved, names = unread.trim, 0, set[str]()
        if self.dry_run:
            size = self.trimming.block_entries
            return max(0, through - trim.log_through) // size * size, frozenset()
        await self._remove_archived()
        while trim.log_through + self.trimming.block_entries <= through:
            packed, last = await self._packed(Seq(trim.log_through + 1))
            await self.trimming.objects.put(packed.name, packed.data)
            first = Seq(trim.log_through + 1)
            named = RecordArchive(self.ref, first, last, packed.name, packed.sha256)
            await authority.execute(named)
            trim = await self._remove_archived()
            moved += last - first + 1
            names.add(packed.name)
        return moved, frozenset(names)

    async def _packed(self, first: Seq) -> tuple[Packed, Seq]:
        """Return the next archive and its last entry: so many entries, or so many bytes."""
        entries: list[LogEntry] = []
        stop, size = first + self.trimming.block_entries, 0
        while first + len(entries) < stop and size < ARCHIVE_BYTES_MAX:
            begin = first + len(entries)
            seqs = [Seq(seq) for seq in range(begin, min(stop, begin + ENTRIES_AT_ONCE))]
            keys = [log_key(self.ref.partition, seq) for seq in seqs]
            held = await inspected(self.trimming.authority, self.ref.partition, keys)
            found = [each.record for each in held if each.record is not None]
            entries += _chained([*entries[-1:], *found], seqs)
            size += sum(len(entry.payload) for entry in found)
        return archived(entries), entries[-1].seq

    async def _remove_archived(self) -> Trim:
        """Remove from the store what archives hold, also what a trim that died left behind."""
        while True:
            trim = await self.trimming.authority.execute(RemoveArchived(self.ref))
            if trim.removed_through >= trim.log_through:
                return trim

    async def _drained(self, found: WorldState, trim: Trim) -> Seq:
        """Return how far the log is older than the grace, and was drained."""
        at, first = found.published, _first_tick(found)
        while at >= first:
            page = await self._manifests(first, at, descending=True)
            for manifest in page:
                if manifest.at <= self.until:
                    return manifest.drained_seq
                if manifest.drained_seq < trim.log_through + self.trimming.block_entries:
                    return Seq(0)
            at = Tick(page[-1].tick - 1)
        return Seq(0)


def thinned(checkpoints: Iterable[Tick], floor: Tick) -> list[Tick]:
    """Return which checkpoints before ``floor`` stay: the oldest of each doubling of distance.

    So at most sixty of any number stay, a state far back is read from one about as far back
    again, and one that stays today moves on into the next doubling instead of falling out.
    """
    kept: dict[int, Tick] = {}
    for tick in sorted(checkpoints):
        kept.setdefault((floor - tick).bit_length(), tick)
    return sorted(kept.values())


def _first_tick(found: WorldState) -> Tick:
    return Tick(landing_start(found.world) + 1)


def _chained(entries: list[LogEntry], wanted: list[Seq]) -> list[LogEntry]:
    """Return the ``wanted`` last of entries, each chained to the one before. Raises Corrupt."""
    found = entries[-len(wanted) :]
    if [each.seq for each in found] != wanted or any(
        entry.previous != before.digest for before, entry in pairwise(entries)
    ):
        raise Corrupt(
            expected=f"log entries {wanted[0]} to {wanted[-1]}, each chained to the one before",
            found="others",
        )
    return found


def _told(swept: Swept, entries: int) -> Trimmed:
    return Trimmed(
        segments=swept.segments,
        checkpoints=swept.checkpoints,
        orphans=swept.orphans,
        bytes=swept.bytes,
        undecided=swept.undecided,
        archived=entries,
    )
