"""The drain: what is due, read so that nothing half-visible is taken for the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from perdure.kernel import limits, ranges
from perdure.kernel.errors import Contended, StaleWriter
from perdure.kernel.forked import Takeover
from perdure.kernel.ids import Instant, Partition, Seq, Sequence, Tick
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.places import PageName, after, number
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Head, cancelled_key, head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.stored import StoredBatch, StoredCommand
from perdure.kernel.view import Decision, Key, Range, Reads, View
from perdure.kernel.wake import glimpsed_head


class DueCommand(NamedTuple):
    """One command due, in the order of application: (tick, priority, sequence)."""

    tick: Tick
    priority: int
    sequence: Sequence
    attempts: int
    command: StoredCommand


class Span(NamedTuple):
    """Commands of one batch that are due together and follow each other.

    Spans share no command, so in the order of (tick, priority, first) their commands are in
    the order of application.
    """

    tick: Tick
    priority: int
    first: Sequence
    last: Sequence
    attempts: int
    batch: StoredBatch

    @property
    def place(self) -> tuple[Tick, int, Sequence]:
        return self[:3]

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def until(self, last: int) -> Span:
        """Return the span without what comes behind ``last``."""
        return self._replace(last=Sequence(min(self.last, last)))

    def singles(self) -> Iterator[Span]:
        """Yield a span for each command."""
        for each in ranges.members(((self.first, self.last),)):
            yield self._replace(first=each, last=each)

    def commands(self) -> Iterator[StoredCommand]:
        start = self.first - self.batch.first_sequence
        return self.batch.commands(start, start + self.size)


class HeldEntry(NamedTuple):
    """One page entry as the drain saw it."""

    entry: PageEntry
    batch: StoredBatch
    held: Ranges


@dataclass(frozen=True)
class Drained:
    """Everything one tick may settle, and the pages it was found in."""

    head: Head
    pages: tuple[tuple[PageName, tuple[HeldEntry, ...]], ...]
    spans: tuple[Span, ...]
    """What is due, in the order of application."""

    more: bool
    """Commands are due that this tick leaves to the next."""

    @cached_property
    def commands(self) -> tuple[DueCommand, ...]:
        """What is due one by one: ten thousand of them take as long as their application."""
        return tuple(
            DueCommand(span.tick, span.priority, command.sequence, span.attempts, command)
            for span in self.spans
            for command in span.commands()
        )


_Batches = dict[tuple[Partition, Seq], StoredBatch]
"""Batches by where they were admitted."""


@dataclass(frozen=True, slots=True)
class DrainDue(WorldRequest):
    """Read what is due at a tick: at most DRAIN_PAGES_MAX pages and DRAIN_COMMANDS_MAX commands.

    The head is read before the pages, and sequences that it does not know yet are left
    alone. What the log since the last drain names as due must be in the pages; if it is not,
    a running commit hides it: Contended, read again. Raises StaleWriter for a tick that
    another has published.
    """

    tick: Tick
    since: Seq
    """``drained_seq`` of the tick before: what came later was checked by no drain yet."""

    def _due(self) -> Range[Page]:
        return Range(
            self.ref.partition,
            "due/",
            f"due/{number(self.tick + 1)}/",
            Page,
            limit=limits.DRAIN_PAGES_MAX + 1,
        )

    def reads(self) -> Reads:
        world = self.ref.partition
        # The log comes along to spare a load: what lacks in its range is asked for by name.
        log = Range(world, log_key(world, Seq(self.since + 1)).sort, after("log/"), LogEntry)
        return Reads(peeks=(head_key(world),), ranges=(self._due(), log))

    def decide(self, view: View, now: Instant) -> Decision[Drained]:
        head = glimpsed_head(view, self.ref)
        if head.published >= self.tick:
            raise StaleWriter(
                expected=f"tick {head.next_tick} next in world {self.ref.world!r}",
                found=f"tick {self.tick}",
            )
        found = view.find(self._due())
        unread = found[limits.DRAIN_PAGES_MAX].name if len(found) > limits.DRAIN_PAGES_MAX else None
        pages = found[: limits.DRAIN_PAGES_MAX]
        batches = self._batches(view, head, pages)
        held = tuple((page.name, tuple(_held(page, batches))) for page in pages)
        spans = sorted(_spans(held, head.cancelled_below), key=attrgetter("place"))
        self._check(view, head, spans, unread, batches)
        more = unread is not None or sum(each.size for each in spans) > limits.DRAIN_COMMANDS_MAX
        if unread is not None:
            # Where every page read holds only what comes behind that bound, the order yields:
            # a tick that takes nothing would read the same pages for ever.
            spans = list(_before(spans, unread)) or spans
        return Decision(Drained(head, held, tuple(_first(spans, limits.DRAIN_COMMANDS_MAX)), more))

    def _recent(self, head: Head) -> list[Key[LogEntry]]:
        """Return the keys of the log since the last drain.

        What was admitted between that drain and its publication was checked by nobody yet.
        """
        return [log_key(self.ref.partition, Seq(n)) for n in range(self.since + 1, head.seq + 1)]

    def _batches(self, view: View, head: Head, pages: Iterable[Page]) -> _Batches:
        places = dict.fromkeys(  # in the order of pages, whatever texts hash to
            _place(page, entry)
            for page in pages
            for entry in page.entries
            if entry.world is not None or entry.seq <= head.seq
        )
        keys = [log_key(*place) for place in places]
        view.require(peeks=dict.fromkeys((*keys, *self._recent(head))))
        return {
            (key.partition, entry.seq): StoredBatch.of(entry)
            for key in keys
            for entry in [_visible(view, key)]
        }

    def _check(
        self,
        view: View,
        head: Head,
        spans: list[Span],
        unread: PageName | None,
        batches: _Batches,
    ) -> None:
        """Raise Contended where pages and log disagree: a running commit shows in part."""
        seen = ranges.union(tuple((each.first, each.last) for each in spans))
        if ranges.size(seen) < sum(each.size for each in spans):
            raise Contended(expected="each open command in one page", found="one in two")
        recent = [_visible(view, key) for key in self._recent(head)]
        named: list[Ranges] = []
        for entry in recent:
            if entry.kind == "admitted" and any(
                tick <= self.tick for tick, *_ in entry.facts["groups"]
            ):
                known = batches.get((entry.partition, entry.seq))
                named.append(_named_due(known or StoredBatch.of(entry), self.tick, unread))
            elif entry.kind == "forked":
                named.append(self._taken_over(view, Takeover.of(entry), unread))
        marks = ranges.ranges(each.facts["sequence"] for each in recent if each.kind == "cancelled")
        lacking = ranges.difference(ranges.union(*named), ranges.union(seen, marks))
        lacking = ranges.from_sequence(lacking, head.cancelled_below)
        if lacking and not self._cancelled_since(view, lacking):
            raise Contended(
                expected=f"sequences {lacking} of the log in their pages",
                found="pages that do not name them yet",
            )

    def _taken_over(self, view: View, takeover: Takeover, unread: PageName | None) -> Ranges:
        """Return what a fork took over and must be met: what is due, up to the first unread page.

        And what is not due if its page is not there: no later drain looks at this entry again.
        """
        later = [page for page in takeover.pages if page[0].tick > self.tick]
        keys = [page_key(self.ref.partition, name) for name, _ in later]
        view.require(peeks=keys)
        lost = [held for key, (_, held) in zip(keys, later, strict=True) if view.peek(key) is None]
        due = [
            held
            for name, held in takeover.pages
            if name.tick <= self.tick and (unread is None or name < unread)
        ]
        return ranges.union(*due, *lost)

    def _cancelled_since(self, view: View, lacking: Ranges) -> bool:
        """Say whether all that pages lack was cancelled after the head was read."""
        if ranges.size(lacking) > limits.LOAD_KEYS_MAX:
            return False
        marks = [cancelled_key(self.ref.partition, each) for each in ranges.members(lacking)]
        view.require(peeks=marks)
        return all(view.peek(mark) is not None for mark in marks)


def _place(page: Page, entry: PageEntry) -> tuple[Partition, Seq]:
    """Return where the commands of a page entry were admitted."""
    return (entry.world or page.partition, entry.seq)


def _visible(view: View, key: Key[LogEntry]) -> LogEntry:
    entry = view.peek(key)
    if entry is None:
        raise Contended(expected=f"log entry {key.sort}", found="none yet: its commit is running")
    return entry


def _held(page: Page, batches: _Batches) -> Iterator[HeldEntry]:
    for entry in page.entries:
        batch = batches.get(_place(page, entry))
        if batch is not None:  # else it was admitted after the head was read
            yield HeldEntry(entry, batch, entry.open or batch.group_ranges[entry.group])


def _spans(
    pages: Iterable[tuple[PageName, tuple[HeldEntry, ...]]], least: Sequence
) -> Iterator[Span]:
    for name, entries in pages:
        for entry, batch, held in entries:
            for first, last in ranges.from_sequence(held, least):
                yield Span(name.tick, name.priority, first, last, entry.attempts, batch)


def _before(spans: Iterable[Span], unread: PageName) -> Iterator[Span]:
    """Yield what comes before the first command of a page in the order of application."""
    for span in spans:
        if span.place < (unread.tick, unread.priority, unread.first):
            is_beside = (span.tick, span.priority) == (unread.tick, unread.priority)
            yield span.until(unread.first - 1) if is_beside else span


def _first(spans: Iterable[Span], count: int) -> Iterator[Span]:
    """Yield so many commands."""
    for span in spans:
        if count <= 0:
            return
        yield span.until(span.first + count - 1)
        count -= span.size


def _named_due(batch: StoredBatch, tick: Tick, unread: PageName | None) -> Ranges:
    """Return the sequences that an admission says are due, up to the first unread page."""
    named: list[Ranges] = []
    for (due, _), held in zip(batch.groups, batch.group_ranges, strict=True):
        if due[0] > tick or (unread is not None and due > (unread.tick, unread.priority)):
            continue
        if unread is not None and due == (unread.tick, unread.priority):
            named.append(ranges.difference(held, ranges.from_sequence(held, unread.first)))
        else:
            named.append(held)
    return ranges.union(*named)
