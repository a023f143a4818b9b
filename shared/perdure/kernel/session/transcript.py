"""Reading a journal from the middle: the entries that hold what is behind any frame."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.ids import Instant, Lineage, Seq
from perdure.kernel.places import after, number
from perdure.kernel.session.frames import Entry, Place
from perdure.kernel.session.journal import SessionRequest
from perdure.kernel.session.read import JournalPage, following, found_journal, page_of
from perdure.kernel.session.records import session_head_key, session_key
from perdure.kernel.view import Decision, Range, Reads, View

PAGE_ENTRIES = 25
"""Entries of one reading: each may hold some megabytes."""


@dataclass(frozen=True, slots=True)
class ReadEntries(SessionRequest):
    """Return entries that follow each other, from the one that holds the frame behind ``seq`` on.

    Raises: NotFound, LineageChanged, Corrupt; Contended for a frame that the head speaks of and
    that is not found.
    """

    seq: Seq
    limit: int = PAGE_ENTRIES
    lineage: Lineage | None = None

    @property
    def _before(self) -> Range[Entry]:
        """The one entry that begins last, of those that may hold the wanted frame."""
        last = f"log/{number(self.seq + 1)}"
        return Range(self.stream, "log/", last, Entry, limit=1, descending=True)

    @property
    def _behind(self) -> Range[Entry]:
        first = f"log/{number(self.seq + 1)}"
        return Range(self.stream, first, after("log/"), Entry, limit=self.limit)

    def reads(self) -> Reads:
        keys = (session_key(self.ref), session_head_key(self.ref.partition))
        before = (self._before,) if self.seq else ()
        return Reads(peeks=keys, ranges=(*before, self._behind))

    def decide(self, view: View, now: Instant) -> Decision[JournalPage]:
        session, head = found_journal(view, self.ref, self.lineage)
        before = view.find(self._before) if self.seq else []
        holding = [entry for entry in before if entry.last > self.seq]
        behind = holding[-1].last if holding else self.seq
        entries = [*holding, *following(behind, view.find(self._behind))]
        return Decision(page_of(session, head, self.seq, entries))


def place_before(page: JournalPage) -> Place:
    """Return the place that the entries of a page follow, as the first of them says."""
    first = page.entries[0]
    return Place(Seq(first.first - 1), first.previous)
