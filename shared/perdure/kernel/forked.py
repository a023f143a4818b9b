"""Forked entries: what the first log entry of a fork says of the commands it took over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from perdure.kernel import ranges
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import CorruptLineage
from perdure.kernel.ids import Partition, Seq, Sequence, Tick
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.places import PageName
from perdure.kernel.ranges import Ranges
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Key, View

FORKED_SEQ = Seq(1)
"""Place of the entry in a fork's log."""


@dataclass(frozen=True)
class Takeover:
    """The commands that a fork took over: what was open in each page it copied."""

    pages: tuple[tuple[PageName, Ranges], ...]
    next_sequence: Sequence
    """The first sequence of the fork's own: those below were admitted by an ancestor."""

    @classmethod
    def of(cls, entry: LogEntry) -> Takeover:
        """Read what a ``forked`` entry says."""
        return cls(
            tuple(
                (
                    PageName(Tick(tick), priority, Sequence(first)),
                    tuple((Sequence(a), Sequence(z)) for a, z in held),
                )
                for tick, priority, first, held in entry.content["pages"]
            ),
            Sequence(entry.facts["next_sequence"]),
        )

    @cached_property
    def open(self) -> Ranges:
        """Every sequence that was taken over."""
        return ranges.union(*(held for _, held in self.pages))


def spelled_pages(pages: Iterable[tuple[PageName, Ranges]]) -> bytes:
    """Spell the payload of a ``forked`` entry."""
    named = [[name.tick, name.priority, name.first, list(held)] for name, held in pages]
    return canonical({"pages": named})


def forked_key(world: Partition) -> Key[LogEntry]:
    """Return where a fork's ``forked`` entry lies."""
    return log_key(world, FORKED_SEQ)


def takeover_of(view: View, world: Partition) -> Takeover:
    """Return what a fork took over. Raises CorruptLineage, Missing; SeenInPart for no entry."""
    entry = view.peek(forked_key(world))
    if entry is None or entry.kind != "forked":
        lost = CorruptLineage(
            expected=f"a log in {world} that begins with a fork",
            found="none" if entry is None else f"one that begins with {entry.kind!r}",
        )
        raise SeenInPart((forked_key(world),), lost)
    return Takeover.of(entry)
