"""Contents that a document no longer needs: dropped by the commit that replaces them, or later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.kernel.documents import places
from perdure.kernel.documents.records import Document, Revision
from perdure.kernel.documents.step import Step
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.places import number
from perdure.kernel.record import Record
from perdure.kernel.view import Key, Range

DROPPED_MAX: Final = 40
"""Superseded contents of one document that one commit drops. Source: COMMIT_ACTIONS_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover(Record):
    """That contents of a document before a commit are of no use, and still lie there.

    No reading looks at them: a document's value begins with its base, and a document that ended,
    or whose id is another's by now, has nothing before that.
    """

    id: DocumentId
    before: Seq
    count: int

    @property
    def key(self) -> Key[Leftover]:
        return leftover_key(self.partition, self.id)


def leftover_key(store: Partition, id: DocumentId) -> Key[Leftover]:
    return Key(store, places.leftover_sort(id), Leftover)


def leftovers(store: Partition, limit: int) -> Range[Leftover]:
    """Return where it is told what is left."""
    return Range(store, places.LEFTOVERS, places.LEFTOVERS_END, Leftover, limit=limit)


def contents_before(store: Partition, id: DocumentId, before: Seq) -> Range[Revision]:
    """Return where the oldest contents of a document lie, before a commit."""
    prefix = places.revisions_prefix(id)
    return Range(store, prefix, prefix + number(before), Revision, limit=DROPPED_MAX)


def supersede(step: Step, document: Document) -> None:
    """Have a document's contents of before this commit dropped: what fits, once all else is written.

    ``document`` is as it is just before its new base or its end.
    """
    if document.base == step.seq:
        return  # created here, or given a base here, which has superseded the rest
    count = document.deltas + (document.last != step.seq)
    id = document.id

    def drop(step: Step, room: int) -> int:
        wanted = contents_before(step.store, id, step.seq)
        key = leftover_key(step.store, id)
        found = step.find(wanted)
        # What was left before lies before the base: if nothing does, nothing was left.
        is_more = bool(found) and found[0].seq < document.base
        before = step.read(key) if is_more else None
        total = count + (0 if before is None else before.count)
        dropped = found[: max(0, min(len(found), room - 1))]
        for each in dropped:
            step.remove(each.key)
        left = total - len(dropped)
        if left:
            step.put(Leftover(partition=step.store, id=id, before=step.seq, count=left))
        elif before is not None:
            step.remove(key)
        return len(dropped) + 1

    step.finish_with(id, drop)
