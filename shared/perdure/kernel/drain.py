"""The drain: what is due, read so that nothing half-visible is taken for the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from perdure.kernel import limits, ranges
from perdure.kernel.batch import StoredBatch, StoredCommand
from perdure.kernel.errors import Contended
from perdure.kernel.ids import NO_TICK, Instant, Partition, Seq, Sequence, Tick
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName, WorldRef, number
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Head, cancelled_key, head_key, manifest_key
from perdure.kernel.status import glimpsed_head
from perdure.kernel.view import Decision, Key, Range, Reads, View


class DueCommand(NamedTuple):
    """One command due, in the order of application: (tick, priority, sequence)."""

    tick: Tick
    priority: int
    sequence: Sequence
    attempts: int
    command: StoredCommand


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One page entry as the drain saw it."""

    entry: PageEntry
    held: Ranges


@dataclass(frozen=True, slots=True)
class Drained:
    """Everything one tick may settle, and the pages it was found in."""

    head: Head
    pages: tuple[tuple[PageName, tuple[HeldEntry, ...]], ...]
    commands: tuple[DueCommand, ...]
    more: bool
    """Commands are due that this tick leaves to the next."""


@dataclass(frozen=True, slots=True)
class DrainDue:
    """Read what is due at a tick: at most DRAIN_PAGES_MAX pages and DRAIN_COMMANDS_MAX commands.

    The head is read before the pages, and sequences that it does not know yet are left
    alone. What the log since the last manifest names as due must be in the pages; if it is
    not, a running commit hides it: Contended, read again.
    """

    ref: WorldRef
    tick: Tick

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition

    def _range(self) -> Range[Page]:
        return Range(
            self.ref.partition,
            "due/",
            f"due/{number(self.tick + 1)}/",
            Page,
            limit=limits.DRAIN_PAGES_MAX + 1,
        )

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),), ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[Drained]:
        head = glimpsed_head(view, self.ref)
        found = view.find(self._range())
        unread = found[limits.DRAIN_PAGES_MAX].name if len(found) > limits.DRAIN_PAGES_MAX else None
        pages = found[: limits.DRAIN_PAGES_MAX]
        recent = self._recent(view, head)
        batches = self._batches(view, head, pages, recent)
        held = tuple((page.name, tuple(_held(page, batches, self.ref.partition))) for page in pages)
        commands = sorted(_due(held, head, batches, self.ref.partition), key=_order)
        self._check(view, head, commands, unread, batches)
        more = unread is not None or len(commands) > limits.DRAIN_COMMANDS_MAX
        if unread is not None:
            bound = (unread.tick, unread.priority, unread.first)
            # Where every page read holds only what comes behind that bound, the order yields:
            # a tick that takes nothing would read the same pages for ever.
            commands = [each for each in commands if _order(each) < bound] or commands
        return Decision(Drained(head, held, tuple(commands[: limits.DRAIN_COMMANDS_MAX]), more))

    def _recent(self, view: View, head: Head) -> list[Key[LogEntry]]:
        """Return the keys of the log since the last published tick's own drain.

        What was admitted between that drain and its publication was checked by nobody yet.
        """
        world = self.ref.partition
        since = Seq(0)
        if head.published != NO_TICK:
            manifest = view.peek(manifest_key(world, head.published))
            if manifest is None:
                raise Contended(expected=f"the manifest of tick {head.published}", found="none yet")
            since = manifest.drained_seq
        return [log_key(world, Seq(seq)) for seq in range(since + 1, head.seq + 1)]

    def _batches(
        self, view: View, head: Head, pages: Iterable[Page], recent: Iterable[Key[LogEntry]]
    ) -> dict[tuple[Partition, Seq], StoredBatch]:
        own = self.ref.partition
        places = {
            (entry.world or own, entry.seq)
            for page in pages
            for entry in page.entries
            if entry.world is not None or entry.seq <= head.seq
        }
        keys = [log_key(*place) for place in places]
        view.require(peeks=dict.fromkeys((*keys, *recent)))
        return {
            (key.partition, entry.seq): StoredBatch.of(entry)
            for key in keys
            for entry in [_visible(view, key)]
        }

    def _check(
        self,
        view: View,
        head: Head,
        commands: list[DueCommand],
        unread: PageName | None,
        batches: dict[tuple[Partition, Seq], StoredBatch],
    ) -> None:
        """Raise Contended where pages and log disagree: a running commit shows in part."""
        seen = [each.sequence for each in commands]
        if len(set(seen)) < len(seen):
            raise Contended(expected="each open command in one page", found="one in two")
        recent = [_visible(view, key) for key in self._recent(view, head)]
        named: list[Ranges] = []
        for entry in recent:
            if entry.kind == "admitted" and any(
                tick <= self.tick for tick, *_ in entry.facts["groups"]
            ):
                known = batches.get((entry.partition, entry.seq))
                named.append(_named_due(known or StoredBatch.of(entry), self.tick, unread))
        marks = [each.facts["sequence"] for each in recent if each.kind == "cancelled"]
        lacking = ranges.difference(ranges.union(*named), ranges.ranges((*seen, *marks)))
        lacking = ranges.from_sequence(lacking, head.cancelled_below)
        if lacking and not self._cancelled_since(view, lacking):
            raise Contended(
                expected=f"sequences {lacking} of the log in their pages",
                found="pages that do not name them yet",
            )

    def _cancelled_since(self, view: View, lacking: Ranges) -> bool:
        """Say whether all that pages lack was cancelled after the head was read."""
        if ranges.size(lacking) > limits.LOAD_KEYS_MAX:
            return False
        marks = [cancelled_key(self.ref.partition, each) for each in ranges.members(lacking)]
        view.require(peeks=marks)
        return all(view.peek(mark) is not None for mark in marks)


def _order(command: DueCommand) -> tuple[Tick, int, Sequence]:
    return command[:3]


def _visible(view: View, key: Key[LogEntry]) -> LogEntry:
    entry = view.peek(key)
    if entry is None:
        raise Contended(expected=f"log entry {key.sort}", found="none yet: its commit is running")
    return entry


def _held(
    page: Page, batches: dict[tuple[Partition, Seq], StoredBatch], own: Partition
) -> Iterator[HeldEntry]:
    for entry in page.entries:
        batch = batches.get((entry.world or own, entry.seq))
        if batch is not None:  # else it was admitted after the head was read
            yield HeldEntry(entry, entry.open or batch.group_ranges[entry.group])


def _due(
    pages: Iterable[tuple[PageName, tuple[HeldEntry, ...]]],
    head: Head,
    batches: dict[tuple[Partition, Seq], StoredBatch],
    own: Partition,
) -> Iterator[DueCommand]:
    for name, entries in pages:
        for each in entries:
            batch = batches[each.entry.world or own, each.entry.seq]
            attempts = each.entry.attempts
            for first, last in ranges.from_sequence(each.held, head.cancelled_below):
                start = first - batch.first_sequence
                stop = last - batch.first_sequence + 1
                for command in batch.commands(start, stop):
                    yield DueCommand(name.tick, name.priority, command.sequence, attempts, command)


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
