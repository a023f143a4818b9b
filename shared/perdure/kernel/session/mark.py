"""Marks: how far a journal was folded, and where the fold lies. A hint that saves reading."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.ids import Instant, Partition, Seq
from perdure.kernel.record import Record
from perdure.kernel.session.frames import PayloadRef, Place
from perdure.kernel.session.journal import SessionRequest
from perdure.kernel.view import Decision, Key, Reads, View


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldMark(Record):
    """An object that holds what a journal comes to up to a frame: it can be made again."""

    seq: Seq
    digest: str
    """That of the frame."""

    ref: PayloadRef

    @property
    def key(self) -> Key[FoldMark]:
        return mark_key(self.partition)

    @property
    def place(self) -> Place:
        return Place(self.seq, self.digest)


def mark_key(session: Partition) -> Key[FoldMark]:
    return Key(session, "fold", FoldMark)


@dataclass(frozen=True, slots=True)
class ReadMark(SessionRequest):
    """Return the mark of a session, if there is one."""

    def reads(self) -> Reads:
        return Reads(peeks=(mark_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[FoldMark | None]:
        return Decision(view.peek(mark_key(self.stream)))


@dataclass(frozen=True, slots=True)
class SetMark(SessionRequest):
    """Let a mark replace an older one, and return the one that is needed no longer."""

    mark: FoldMark

    def reads(self) -> Reads:
        return Reads(keys=(mark_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[PayloadRef | None]:
        known = view.get(mark_key(self.stream))
        if known is not None and known.seq >= self.mark.seq:
            return Decision(self.mark.ref if known.ref != self.mark.ref else None)
        left = None if known is None or known.ref == self.mark.ref else known.ref
        return Decision(left, (self.mark,))
