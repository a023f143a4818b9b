"""Trimming: what may leave its place, written down before it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from perdure.kernel.errors import Conflict, Corrupt
from perdure.kernel.ids import NO_TICK, Instant, Partition, Seq, Tick
from perdure.kernel.landing import CONSUMER, landing_start
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.pages import Page
from perdure.kernel.places import after, number
from perdure.kernel.record import Record
from perdure.kernel.records import head_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart
from perdure.kernel.upkeep import Consumer, consumer_key, required_key
from perdure.kernel.view import Decision, Key, Range, Reads, Removed, View
from perdure.kernel.wake import glimpsed_head

REMOVED_MAX: Final = 90
"""Log entries that one commit removes, beside the record of the trim, within COMMIT_ACTIONS_MAX."""

PAGES_LOOKED_AT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(Record):
    """How far a world's segments, checkpoints and log entries may be gone from their places.

    Rows of ticks up to ``segments_through`` are in the Iceberg tables. Of the checkpoints up
    to ``checkpoints_through`` only those of ``checkpoints`` are kept. Log entries up to
    ``log_through`` lie in archive objects; those up to ``removed_through`` nowhere else.
    """

    segments_through: Tick = NO_TICK
    checkpoints_through: Tick = NO_TICK
    checkpoints: tuple[Tick, ...] = ()
    log_through: Seq = Seq(0)
    removed_through: Seq = Seq(0)

    @property
    def key(self) -> Key[Trim]:
        return trim_key(self.partition)

    def may_lack_checkpoint(self, tick: Tick) -> bool:
        """Say whether the checkpoint of a tick was thinned out."""
        return tick <= self.checkpoints_through and tick not in self.checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive(Record):
    """Log entries ``first`` to ``last`` in one object, and the digest of its bytes."""

    immutable: ClassVar[bool] = True

    first: Seq
    last: Seq
    object: str
    sha256: str

    @property
    def key(self) -> Key[Archive]:
        return archive_key(self.partition, self.last)


@dataclass(frozen=True, slots=True)
class TrimRequest(WorldRequest):
    """Base of the requests of a trim: they stand in a line of their own, in nobody's way."""

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.ref.partition}#trim")


@dataclass(frozen=True, slots=True)
class Unread:
    """How far a world's log is done with: what of it every consumer has read, and no page names."""

    trim: Trim
    read_through: Seq
    named_from: Seq | None
    """First entry that an open page names."""


@dataclass(frozen=True, slots=True)
class FindUnread(TrimRequest):
    """Look up how far every consumer, the required ones too, has read a world's log."""

    def _consumers(self) -> Range[Consumer]:
        return Range(self.ref.partition, "consumer/", after("consumer/"), Consumer)

    def _pages(self) -> Range[Page]:
        return Range(self.ref.partition, "due/", after("due/"), Page, limit=PAGES_LOOKED_AT)

    def reads(self) -> Reads:
        world = self.ref.partition
        peeks = (head_key(world), trim_key(world), required_key(world))
        return Reads(peeks=peeks, ranges=(self._consumers(), self._pages()))

    def decide(self, view: View, now: Instant) -> Decision[Unread]:
        world = self.ref.partition
        head = glimpsed_head(view, self.ref)
        marks = {each.name: each.seq for each in view.find(self._consumers())}
        required = view.peek(required_key(world))
        names = {CONSUMER, *(() if required is None else required.names)}
        through = min((head.seq, *marks.values(), *(marks.get(name, Seq(0)) for name in names)))
        named = [
            entry.seq
            for page in view.find(self._pages())
            for entry in page.entries
            if entry.world is None
        ]
        return Decision(Unread(_trim(view, world), through, min(named, default=None)))


@dataclass(frozen=True, slots=True)
class RecordTrim(TrimRequest):
    """Write down which segments and checkpoints are let go of, before any is. Never takes back.

    Raises: Conflict for rows that are not landed, or that the last checkpoint lacks.
    """

    segments_through: Tick
    checkpoints_through: Tick
    checkpoints: tuple[Tick, ...]

    def reads(self) -> Reads:
        world = self.ref.partition
        peeks = (head_key(world), consumer_key(world, CONSUMER), world_key(self.ref))
        return Reads(keys=(trim_key(world),), peeks=peeks)

    def decide(self, view: View, now: Instant) -> Decision[Trim]:
        world = self.ref.partition
        head = glimpsed_head(view, self.ref)
        mark = view.peek(consumer_key(world, CONSUMER))
        made = view.peek(world_key(self.ref))
        assert made is not None, "it was found in its catalog"
        landed = landing_start(made) if mark is None else mark.tick
        through = max(self.segments_through, self.checkpoints_through)
        if self.segments_through > landed or through > head.checkpoint:
            raise Conflict(
                expected=f"ticks up to {min(landed, head.checkpoint)}, landed and in a checkpoint",
                found=f"tick {through}",
            )
        before = _trim(view, world)
        trim = replace(
            before,
            segments_through=Tick(max(before.segments_through, self.segments_through)),
        )
        if self.checkpoints_through >= before.checkpoints_through:
            trim = replace(
                trim,
                checkpoints_through=self.checkpoints_through,
                checkpoints=tuple(
                    tick for tick in self.checkpoints if not before.may_lack_checkpoint(tick)
                ),
            )
        return Decision(trim, () if trim == before else (trim,))


@dataclass(frozen=True, slots=True)
class RecordArchive(TrimRequest):
    """Name the object that holds the next log entries. They stay where they are, too, for now.

    Asked again after another was named for these entries, it changes nothing.
    """

    first: Seq
    last: Seq
    object: str
    sha256: str

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(trim_key(world), archive_key(world, self.last)))

    def decide(self, view: View, now: Instant) -> Decision[Trim]:
        world = self.ref.partition
        trim = _trim(view, world)
        if trim.log_through + 1 != self.first:
            return Decision(trim)
        archive = Archive(
            partition=world,
            first=self.first,
            last=self.last,
            object=self.object,
            sha256=self.sha256,
        )
        trim = replace(trim, log_through=self.last)
        return Decision(trim, (trim, archive))


@dataclass(frozen=True, slots=True)
class RemoveArchived(TrimRequest):
    """Remove the next log entries that an archive holds: it was named by a commit before."""

    def reads(self) -> Reads:
        return Reads(keys=(trim_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[Trim]:
        world = self.ref.partition
        trim = _trim(view, world)
        first = Seq(trim.removed_through + 1)
        if first > trim.log_through:
            return Decision(trim)
        # Once one reader has seen an archive, so does every other: nobody misses what goes now.
        last = min(self._shown(view, trim, first), trim.removed_through + REMOVED_MAX)
        keys = [log_key(world, Seq(seq)) for seq in range(first, last + 1)]
        view.require(keys=keys)
        trim = replace(trim, removed_through=Seq(last))
        gone: Iterable[Key[LogEntry]] = (key for key in keys if view.get(key) is not None)
        return Decision(trim, (trim, *(Removed(key) for key in gone)))

    def _shown(self, view: View, trim: Trim, first: Seq) -> Seq:
        """Return up to which entry archives show. Raises Missing, SeenInPart, at last Corrupt."""
        world = self.ref.partition
        through = archived_through(view.find(archives_from(world, first, REMOVED_MAX)), first)
        if through >= first:
            return Seq(min(through, trim.log_through))
        key = archive_key(world, trim.log_through)
        last = view.peek(key)
        if last is None or last.first > first:
            lost = Corrupt(expected=f"an archive of log entry {first} of {world}", found="none")
            raise SeenInPart((key,), lost)
        return last.last


@dataclass(frozen=True, slots=True)
class FindArchives(TrimRequest):
    """List the archives of a world that end at ``since`` or later, in order."""

    since: Seq = Seq(0)
    limit: int = 1_000

    def _range(self) -> Range[Archive]:
        return archives_from(self.ref.partition, self.since, self.limit)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Archive, ...]]:
        return Decision(tuple(view.find(self._range())))


def trim_key(world: Partition) -> Key[Trim]:
    return Key(world, "trim", Trim)


def archive_key(world: Partition, last: Seq) -> Key[Archive]:
    return Key(world, f"archive/{number(last)}", Archive)


def archives_from(world: Partition, seq: Seq, limit: int) -> Range[Archive]:
    """Name the archives that end at ``seq`` or later: the first of them holds it, if one does."""
    return Range(world, f"archive/{number(seq)}", after("archive/"), Archive, limit=limit)


def archived_through(archives: Iterable[Archive], first: Seq) -> Seq:
    """Return up to which entry archives, in order, hold all of a log from ``first`` on."""
    through = Seq(first - 1)
    for archive in archives:
        if archive.first > through + 1:
            break  # one does not show yet
        through = max(through, archive.last)
    return through


def _trim(view: View, world: Partition) -> Trim:
    return view.peek(trim_key(world)) or Trim(partition=world)
