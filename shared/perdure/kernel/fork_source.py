"""A fork's source: a world read as of one moment, while it goes on undisturbed.

The source is peeked and never conditioned on. Its open pages are found through their range, and
read again with its head as one snapshot. What is open in them then is open; and where it is as
much as the head counts, it is all that is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, get_args

from perdure.kernel import limits, ranges
from perdure.kernel.capabilities import capabilities_key
from perdure.kernel.errors import (
    Conflict,
    Contended,
    NotFound,
    NotPublished,
    NotResumable,
    TooManyPending,
)
from perdure.kernel.ids import (
    NO_TICK,
    Instant,
    Partition,
    Seq,
    Tick,
)
from perdure.kernel.log import log_key
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.places import PageName, WorldRef, after
from perdure.kernel.ranges import Ranges
from perdure.kernel.record import Record
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import seen_world
from perdure.kernel.stored import StoredBatch
from perdure.kernel.upkeep import required_key
from perdure.kernel.view import Decision, Key, Range, Reads, View
from perdure.kernel.wake import check_active
from perdure.kernel.writers import check_mode

Pending = Literal["copy", "drop"]
"""What becomes of the source's open commands: the fork has them too, or has none."""

PENDINGS: Final[tuple[Pending, ...]] = get_args(Pending)

CopiedRecord = Callable[[Partition], Key[Any]]

COPIED_RECORDS: Final[tuple[CopiedRecord, ...]] = (required_key, capabilities_key)
"""Keys of the records that a fork takes over as they are: a choice made for a world goes on."""

Places = tuple[Partition, Seq]
"""Where a batch was admitted."""


@dataclass(frozen=True, slots=True)
class Source:
    """A world as it was just before its pages were read."""

    world: World
    head: Head
    names: frozenset[PageName]
    """Pages that the range shows; a running commit may hide some."""


@dataclass(frozen=True, slots=True)
class FindSource(WorldRequest):
    """Look at a world that is to be forked, and for pages with open commands.

    Raises: NotFound, WorldClosing, WorldDestroyed, WorldMoving, WorldMoved, UnknownWriterMode,
    NotResumable, TooManyPending.
    """

    @property
    def stream(self) -> Partition:
        return _beside(self.ref)

    def _due(self) -> Range[Page]:
        return Range(
            self.ref.partition, "due/", after("due/"), Page, limit=limits.FORK_PAGES_FOUND_MAX + 1
        )

    def reads(self) -> Reads:
        return Reads(peeks=(world_key(self.ref), head_key(self.ref.partition)))

    def decide(self, view: View, now: Instant) -> Decision[Source]:
        world, head = seen_world(view, self.ref)
        _check_forkable(head, self.ref)
        names = {page.name for page in view.find(self._due())}
        if len(names) > limits.FORK_PAGES_FOUND_MAX:
            raise _too_many(f"more than {limits.FORK_PAGES_FOUND_MAX}, cancelled ones included")
        return Decision(Source(world, head, frozenset(names)))


def _check_forkable(head: Head, ref: WorldRef) -> None:
    check_active(head, ref)
    check_mode(head.writer_mode)
    if head.writer_mode != "resumable":
        raise NotResumable(
            expected="a world that others may go on with",
            found=f"{ref.world!r} is {head.writer_mode}",
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A source's head, some of its pages and the records to be copied, all of one moment."""

    head: Head
    pages: tuple[Page, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ReadPages(WorldRequest):
    """Read pages, as many as one snapshot takes, together with the head. Raises Contended."""

    names: tuple[PageName, ...]

    @property
    def stream(self) -> Partition:
        return _beside(self.ref)

    def reads(self) -> Reads:
        world = self.ref.partition
        copied = (key_of(world) for key_of in COPIED_RECORDS)
        pages = (page_key(world, name) for name in self.names)
        return Reads(peeks=(head_key(world), *copied, *pages), snapshot=True)

    def decide(self, view: View, now: Instant) -> Decision[Seen]:
        world = self.ref.partition
        head = view.peek(head_key(world))
        if head is None:
            raise NotFound(expected="a world that exists", found=f"no world {self.ref.world!r}")
        _check_forkable(head, self.ref)
        pages = (view.peek(page_key(world, name)) for name in self.names)
        records = (view.peek(key_of(world)) for key_of in COPIED_RECORDS)
        return Decision(
            Seen(
                head,
                tuple(page for page in pages if page is not None),
                tuple(record for record in records if record is not None),
            )
        )


READ_PAGES_MAX: Final = limits.LOAD_KEYS_MAX - 10
"""Pages of one snapshot: there is room for the head and what else is copied."""


@dataclass(frozen=True, slots=True)
class ReadGroups:
    """Tell which sequences each group of some batches has: at most LOAD_KEYS_MAX of them."""

    places: tuple[Places, ...]

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.places[0][0]}#fork")

    def reads(self) -> Reads:
        return Reads(peeks=tuple(log_key(*place) for place in self.places))

    def decide(self, view: View, now: Instant) -> Decision[dict[Places, list[Ranges]]]:
        found: dict[Places, list[Ranges]] = {}
        for place in self.places:
            entry = view.peek(log_key(*place))
            if entry is None:
                raise Contended(
                    expected=f"the batch of log entry {place[1]}",
                    found="none yet: its commit is running",
                )
            found[place] = StoredBatch.of(entry).group_ranges
        return Decision(found)


@dataclass(frozen=True, slots=True)
class Copy:
    """What a fork takes over: its source at one moment, and what is open there, page by page."""

    world: World
    head: Head
    pages: tuple[tuple[Page, Ranges], ...]
    records: tuple[Record, ...]


def batches_of(pages: tuple[Page, ...]) -> list[Places]:
    """Return where the commands of some pages were admitted, each place once."""
    return list(
        dict.fromkeys(
            (entry.world or page.partition, entry.seq) for page in pages for entry in page.entries
        )
    )


def copied(world: World, seen: Seen, groups: dict[Places, list[Ranges]], pending: Pending) -> Copy:
    """Put together what a fork takes over.

    Raises: TooManyPending; Contended if the pages hold less than the head counts: a running
    commit hid some, or opened them after their range was read.
    """
    pages: list[tuple[Page, Ranges]] = []
    for page in seen.pages if pending == "copy" else ():
        entries: list[PageEntry] = []
        held: list[Ranges] = []
        for entry in page.entries:
            place = (entry.world or page.partition, entry.seq)
            every = entry.open or groups[place][entry.group]
            alive = ranges.from_sequence(every, seen.head.cancelled_below)
            if not alive:
                continue
            held.append(alive)
            entries.append(replace(entry, world=place[0]))
        if entries:
            taken = Page.of(page.partition, page.name, entries)
            pages.append((taken, ranges.union(*held)))
    found = sum(ranges.size(held) for _, held in pages)
    if pending == "copy" and found != seen.head.open_commands:
        raise Contended(expected=f"{seen.head.open_commands} open commands", found=str(found))
    if len(pages) > limits.FORK_PAGES_MAX:
        raise _too_many(str(len(pages)))
    return Copy(world, seen.head, tuple(pages), seen.records)


def check_tick(ref: WorldRef, head: Head, at_tick: Tick | None) -> None:
    """Refuse a fork at any tick but the published one. Raises NotPublished, Conflict."""
    if at_tick is None or at_tick == head.published:
        return
    of = NotPublished if at_tick > head.published else Conflict
    found = "no tick yet" if head.published == NO_TICK else f"tick {head.published}"
    raise of(
        expected=f"the published tick of world {ref.world!r}, the only one that can be forked:"
        f" {found}",
        found=f"tick {at_tick} asked for",
    )


def _beside(ref: WorldRef) -> Partition:
    """Name a line of its own for forks, so that they never stand in the source's."""
    return Partition(f"{ref.partition}#fork")


def _too_many(found: str) -> TooManyPending:
    return TooManyPending(
        expected=f"at most {limits.FORK_PAGES_MAX} pages of open commands", found=found
    )
