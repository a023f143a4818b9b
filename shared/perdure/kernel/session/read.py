"""Reading a journal: entries behind a seq, with the head that they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdure.kernel.errors import Contended, Corrupt, LineageChanged
from perdure.kernel.ids import Instant, Lineage, Seq
from perdure.kernel.places import after, number
from perdure.kernel.session.frames import Entry, entry_key
from perdure.kernel.session.journal import SessionRequest, whole_session
from perdure.kernel.session.records import (
    Session,
    SessionHead,
    SessionRef,
    session_head_key,
    session_key,
)
from perdure.kernel.view import Decision, Range, Reads, View

PAGE_ENTRIES = 200
"""Entries of one reading."""


@dataclass(frozen=True, slots=True)
class JournalPage:
    """Entries that follow a seq without a gap, and the head as it was before they were read."""

    session: Session
    head: SessionHead
    entries: tuple[Entry, ...]

    @property
    def is_last(self) -> bool:
        """Say whether there is nothing behind these that the head speaks of."""
        return not self.entries or self.entries[-1].last >= self.head.seq


@dataclass(frozen=True, slots=True)
class ReadJournal(SessionRequest):
    """Return the entries that begin behind ``seq``, up to the first gap.

    ``lineage`` is that of the journal which the reader has read before, if any.
    Raises: NotFound, LineageChanged; Corrupt for a head whose entries are not there.
    """

    seq: Seq
    limit: int = PAGE_ENTRIES
    lineage: Lineage | None = None

    @property
    def _range(self) -> Range[Entry]:
        first = f"log/{number(self.seq + 1)}"
        return Range(self.stream, first, after("log/"), Entry, limit=self.limit)

    def reads(self) -> Reads:
        keys = (session_key(self.ref), session_head_key(self.ref.partition))
        return Reads(peeks=keys, ranges=(self._range,))

    def decide(self, view: View, now: Instant) -> Decision[JournalPage]:
        session, head = found_journal(view, self.ref, self.lineage)
        entries = following(self.seq, view.find(self._range))
        return Decision(page_of(session, head, self.seq, entries))


@dataclass(frozen=True, slots=True)
class ProveGap(SessionRequest):
    """Say of a journal whose next entry is not found whether it is lost, as of one moment.

    Raises: Corrupt if the head speaks of a frame that is not there; else nothing.
    """

    seq: Seq

    def reads(self) -> Reads:
        following = entry_key(self.stream, Seq(self.seq + 1))
        return Reads(peeks=(session_head_key(self.stream), following), snapshot=True)

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = view.peek(session_head_key(self.stream))
        entry = view.peek(entry_key(self.stream, Seq(self.seq + 1)))
        if head is not None and head.seq > self.seq and entry is None:
            raise Corrupt(
                expected=f"frame {self.seq + 1} of session {self.ref.session!r}, whose head is"
                f" at {head.seq}",
                found="none",
            )
        return Decision(None)


def found_journal(
    view: View, ref: SessionRef, lineage: Lineage | None
) -> tuple[Session, SessionHead]:
    """Return identity and head of a session whose journal is the one that its reader knows.

    Raises: NotFound, LineageChanged; Corrupt if the two are of different journals.
    """
    session, head = found_session(view, ref)
    check_lineage(session, lineage)
    if head.lineage != session.lineage:
        raise Corrupt(expected=f"the journal of lineage {session.lineage}", found=head.lineage)
    return session, head


def following(seq: Seq, found: Iterable[Entry]) -> list[Entry]:
    """Return those entries, from the first on, that begin behind ``seq`` without a gap."""
    entries: list[Entry] = []
    for entry in found:
        if entry.first != seq + 1:
            break
        entries.append(entry)
        seq = entry.last
    return entries


def page_of(session: Session, head: SessionHead, seq: Seq, entries: Sequence[Entry]) -> JournalPage:
    """Return what was found behind ``seq``. Raises Contended if the head speaks of more than that."""
    if not entries and head.seq > seq:
        # On DynamoDB a range may not show yet what a running transaction has written.
        raise Contended(
            expected=f"frame {seq + 1} of session {session.session!r}",
            found=f"none, though its head is at {head.seq}",
        )
    return JournalPage(session, head, tuple(entries))


def found_session(view: View, ref: SessionRef) -> tuple[Session, SessionHead]:
    """Return identity and head of a session, to be read and nothing else. Raises NotFound."""
    session, head = view.peek(session_key(ref)), view.peek(session_head_key(ref.partition))
    return whole_session(ref, session, head)


def check_lineage(session: Session, lineage: Lineage | None) -> None:
    """Refuse a reader who has read another journal of that name. Raises LineageChanged."""
    if lineage is not None and lineage != session.lineage:
        raise LineageChanged(
            expected=f"lineage {session.lineage} of session {session.session!r}", found=lineage
        )
