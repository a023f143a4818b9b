"""Draining: read the pages that are due, notice what is missing, and stop where order would end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.models.engine import Stage, Steps
from tests.models.records import Entry, Head, Key, Page, Place, cancelled_of, log_of, place_of
from tests.models.store import name

PAGES_MAX = 2
"""Pages one drain reads. 60 in the product; few here, so that the cut is met."""


class Due(NamedTuple):
    """One command to apply; these sort in the order of application."""

    place: Place
    sequence: int
    page: Key


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain has found."""

    head: Head
    commands: tuple[Due, ...]
    pages: tuple[Key, ...]
    unread: Key | None
    """The first page that the drain had no room for."""

    @property
    def is_cut(self) -> bool:
        return self.unread is not None

    def in_order(self, sequences: Iterable[int]) -> tuple[int, ...]:
        """Return those of ``sequences`` that were found, as often as they were found."""
        wanted = set(sequences)
        return tuple(due.sequence for due in self.commands if due.sequence in wanted)


def drain(stage: Stage, who: str, world: str, head: Head) -> Steps[Drained | None]:
    """Read what is due as of ``head``; None if what was read cannot be all there was."""
    contents, unread = yield from _pages(stage, who, world, head)
    commands = sorted(
        Due(place_of(key), sequence, key)
        for key, page in contents.items()
        for sequence in page
        if sequence >= head.cancelled_below
        and (sequence < head.next_sequence or not stage.rules.horizon)
    )
    sequences = [due.sequence for due in commands]
    if stage.rules.twice_check and len(set(sequences)) < len(sequences):
        return None
    if unread and stage.rules.cut:
        commands = [due for due in commands if _position(due) < unread[2:]]
    drained = Drained(head, tuple(commands), tuple(contents), unread)
    if stage.rules.log_check:
        yield
        if not _has_all_that_the_log_names(stage, world, drained):
            stage.store.tell(who, "misses what the log names and reads again")
            return None
    return drained


def _pages(
    stage: Stage, who: str, world: str, head: Head
) -> Steps[tuple[dict[Key, Page], Key | None]]:
    """Read pages due one after another, each as it is when its turn comes."""
    contents: dict[Key, Page] = {}
    last: Key = (world, "due")
    while True:
        yield
        due = [
            key
            for key in stage.store.keys(world, "due")
            if key > last and place_of(key).tick <= head.published + 1
        ]
        if not due:
            return contents, None
        if len(contents) == PAGES_MAX:
            return contents, due[0]
        last = due[0]
        contents[last] = stage.store.read(last)
        stage.store.tell(who, "drains {}: {}", name(last), sorted(contents[last]))


def _position(due: Due) -> tuple[int, ...]:
    return (*due.place, due.sequence)


def _has_all_that_the_log_names(stage: Stage, world: str, drained: Drained) -> bool:
    """Return whether every command that the log put into a page was met, or has an excuse."""
    head = drained.head
    met = {due.sequence for due in drained.commands}
    for seq in range(head.log_read + 1, head.seq + 1):
        entry: Entry | None = stage.store.read(log_of(world, seq))
        if entry is None:
            return False
        for page, sequences in entry.opened:
            for sequence in sequences - met:
                if not _is_excused(stage, world, drained, page, sequence):
                    return False
    return True


def _is_excused(stage: Stage, world: str, drained: Drained, page: Key, sequence: int) -> bool:
    """Return whether a drain may not have met ``sequence``: unread, cancelled, or not due."""
    head, unread = drained.head, drained.unread
    if sequence < head.cancelled_below or stage.store.read(cancelled_of(world, sequence)):
        return True
    is_due = place_of(page).tick <= head.published + 1
    return not is_due or (unread is not None and (*place_of(page), sequence) >= unread[2:])
