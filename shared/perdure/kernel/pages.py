"""Pages: which commands are open at one tick and priority, spelled to fit one write unit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, Seq, Sequence
from perdure.kernel.places import PageName
from perdure.kernel.ranges import Ranges
from perdure.kernel.record import Record
from perdure.kernel.view import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """Commands of one admission that are open in a page.

    ``world`` is the partition of the log that holds them, None for the page's own (a fork's
    pages name an ancestor's log). ``open`` is None while all of the group is open.
    """

    seq: Seq
    group: int
    count: int
    open: Ranges | None = None
    attempts: int = 0
    world: Partition | None = None

    def spelled(self) -> list[Any]:
        """Return the entry as a list without its trailing defaults: sixty-four fit a page."""
        fields = [self.seq, self.group, self.count, self.open, self.attempts, self.world]
        while len(fields) > 3 and not fields[-1]:
            fields.pop()
        return fields

    @classmethod
    def read(
        cls,
        seq: int,
        group: int,
        count: int,
        held: list[list[int]] | None = None,
        attempts: int = 0,
        world: str | None = None,
    ) -> Self:
        """Return the entry that :meth:`spelled` spelled."""
        return cls(
            seq=Seq(seq),
            group=group,
            count=count,
            open=tuple((Sequence(a), Sequence(z)) for a, z in held) if held else None,
            attempts=attempts,
            world=None if world is None else Partition(world),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Record):
    """Commands still open at one tick and priority."""

    name: PageName
    entries: tuple[PageEntry, ...]

    @property
    def key(self) -> Key[Page]:
        return page_key(self.partition, self.name)

    def body(self) -> bytes:
        return canonical([entry.spelled() for entry in self.entries])

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        try:
            entries = tuple(PageEntry.read(*held) for held in json.loads(body))
            return cls(partition=partition, name=PageName.parse(sort), entries=entries)
        except (TypeError, ValueError) as error:
            raise Corrupt(expected=f"a page at {partition} {sort}", found=str(error)) from error


def page_key(world: Partition, name: PageName) -> Key[Page]:
    return Key(world, name.sort, Page)
