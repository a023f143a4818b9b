"""Sweeping: what commits have left of superseded contents is dropped, a part with each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.kernel.documents.commit import DocumentsRequest, check_open, no_store
from perdure.kernel.documents.leftover import Leftover, contents_before, leftovers
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, Reads, Removed, View, Write

COUNTED_MAX: Final = 100
"""Documents whose leftovers a sweep counts. It drops those of the first."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep came to."""

    dropped: int
    left: int
    """Contents that wait for another sweep: 0 is the end. Counted for COUNTED_MAX documents."""


@dataclass(frozen=True, slots=True)
class SweepContents(DocumentsRequest):
    """Drop superseded contents that commits had no room to drop: of one document, DROPPED_MAX.

    Nobody can read them, so nothing is logged and the store's seq stays. Ask until none is left.
    Raises: NotFound.
    """

    def reads(self) -> Reads:
        head = store_head_key(self.stream)
        return Reads(keys=(head,), ranges=(leftovers(self.stream, COUNTED_MAX),))

    def decide(self, view: View, now: Instant) -> Decision[Swept]:
        head = view.get(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        waiting = view.find(leftovers(self.stream, COUNTED_MAX))
        if not waiting:
            return Decision(Swept(0, 0))
        check_open(head, self.ref)
        first, rest = waiting[0], sum(each.count for each in waiting[1:])
        wanted = contents_before(self.stream, first.id, first.before)
        found = view.find(wanted)
        left = first.count - len(found) if len(found) == wanted.limit else 0
        told: Write = Removed(first.key)
        if left > 0:
            told = Leftover(partition=self.stream, id=first.id, before=first.before, count=left)
        # The head goes with it, as with every commit: who decides on it may read all else.
        writes = (*(Removed(each.key) for each in found), told, head)
        return Decision(Swept(len(found), max(left, 0) + rest), writes)
