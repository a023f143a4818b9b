"""Pages: which commands are open at one tick and priority, spelled to fit one write unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Self

from perdure.kernel import limits
from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, Seq, Sequence
from perdure.kernel.kept import kept
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

    @property
    def place(self) -> tuple[Partition | None, Seq, int, int]:
        """What tells the entry from the others of its page."""
        return (self.world, self.seq, self.group, self.attempts)

    def spelled(self) -> bytes:
        """Spell the entry as a list without its trailing defaults: sixty-four fit a page."""
        fields = [self.seq, self.group, self.count, self.open, self.attempts, self.world]
        while len(fields) > 3 and not fields[-1]:
            fields.pop()
        return canonical(fields)

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
        """Return the entry that :meth:`spelled` spelled. Raises TypeError, ValueError."""
        numbers = [seq, group, count, attempts, *chain.from_iterable(held or ())]
        if not all(type(each) is int for each in numbers) or not isinstance(world, str | None):
            raise TypeError("an entry of other types")
        return cls(
            seq=Seq(seq),
            group=group,
            count=count,
            open=tuple((Sequence(a), Sequence(z)) for a, z in held) if held else None,
            attempts=attempts,
            world=None if world is None else Partition(world),
        )


@dataclass(frozen=True, kw_only=True)
class Page(Record):
    """Commands still open at one tick and priority.

    ``spelled`` are the entries as canonical JSON: an admission that adds one more to the
    last page used reads none of the others.
    """

    name: PageName
    spelled: bytes

    @classmethod
    def of(cls, partition: Partition, name: PageName, entries: Iterable[PageEntry] = ()) -> Self:
        """Make a page of entries."""
        spelled = b",".join(entry.spelled() for entry in entries)
        return cls(partition=partition, name=name, spelled=b"[%b]" % spelled)

    @kept
    def entries(self) -> tuple[PageEntry, ...]:
        """The entries. Raises Corrupt."""
        try:
            return tuple(PageEntry.read(*held) for held in strict(self.spelled))
        except (TypeError, ValueError) as error:
            raise Corrupt(
                expected=f"a page at {self.partition} {self.name.sort}", found=str(error)
            ) from error

    @kept
    def key(self) -> Key[Page]:
        return page_key(self.partition, self.name)

    @property
    def has_room(self) -> bool:
        """Say whether one more fresh entry keeps the page within one write unit."""
        # Brackets within entries only make the count too high, and a new page too early.
        if self.spelled.count(b"[") > limits.PAGE_ENTRIES_MAX:
            return False
        size = len(self.partition) + len(self.name.sort) + len(self.spelled) + limits.ITEM_BYTES
        return size + limits.PAGE_ENTRY_BYTES_MAX <= limits.PAGE_BYTES_MAX

    def appended(self, entry: PageEntry) -> Page:
        """Return the page with one more entry."""
        return self._longer(entry.spelled())

    def admitted(self, seq: Seq, group: int, count: int) -> Page:
        """Return the page with one more entry, of a group just admitted."""
        return self._longer(b"[%d,%d,%d]" % (seq, group, count))

    def _longer(self, entry: bytes) -> Page:
        comma = b"," if len(self.spelled) > len(b"[]") else b""
        spelled = b"%b%b%b]" % (self.spelled[:-1], comma, entry)
        page = Page(partition=self.partition, name=self.name, spelled=spelled)
        page.__dict__["key"] = self.key  # as it would be spelled again
        return page

    def body(self) -> bytes:
        return self.spelled

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        if not (body.startswith(b"[") and body.endswith(b"]")):
            raise Corrupt(expected=f"a page at {partition} {sort}", found=repr(body[:60]))
        return cls(partition=partition, name=PageName.parse(sort), spelled=body)


def page_key(world: Partition, name: PageName) -> Key[Page]:
    return Key(world, name.sort, Page)
