"""Whether the last commit of a document store shows whole: DynamoDB shows one record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Any, Final, Protocol

from perdure.kernel.documents.records import Logged, StoreHead, logged_key, store_head_key
from perdure.kernel.documents.told_records import tells_rows, told_records
from perdure.kernel.errors import Refused, StoreRefused
from perdure.kernel.ids import Partition, Seq
from perdure.kernel.view import Key, Missing, Reads, View

SNAPSHOT_KEYS: Final = 50
"""Records read as of one moment, the head among them. Source: TransactGetItems takes 4 MB, and a
record BODY_INLINE_BYTES_MAX."""

STORES_MAX: Final = 1_024
"""Document stores of which a process remembers which commit showed whole. Source: choice."""

_MALFORMED: Final = (KeyError, TypeError, ValueError, AttributeError, AssertionError)


class Views(Protocol):
    """Loads records without asking for anything."""

    async def view(self, reads: Reads) -> View: ...


class Showing(Enum):
    """What is known of the last commit."""

    WHOLE = auto()
    NAMES_NO_ROWS = auto()
    """What its log entry names shows; the rows of its writes by condition may not."""

    UNKNOWN = auto()
    UNKNOWABLE = auto()
    """The store does not say of a snapshot that it is one."""

    OVERTAKEN = auto()
    """Another is the last by now."""


class WholeCommits:
    """Remembers which commit of each store shows whole: its writer was answered, or somebody looked."""

    def __init__(self) -> None:
        self._known: dict[Partition, tuple[Seq, str]] = {}

    def note(self, store: Partition, seq: Seq, digest: str) -> None:
        """Take in that a commit shows whole. Those before the last do anyway."""
        self._known.pop(store, None)
        self._known[store] = (seq, digest)
        if len(self._known) > STORES_MAX:
            del self._known[next(iter(self._known))]

    def has(self, head: StoreHead) -> bool:
        """Say whether the last commit, as a head tells it, is known to show whole."""
        # Whoever has cut its log entry off, or imported the store, came behind it.
        return head.seq < head.log_from or (
            self._known.get(head.partition) == (head.seq, head.digest)
        )


async def showing(views: Views, head: StoreHead, whole: WholeCommits) -> Showing:
    """Look at all that the last commit has written until it shows, as far as the log tells.

    No snapshot is to be had of a record in the midst of a commit: what is read behind one shows
    what the commit has left. Before a commit begins, the one before it has ended.
    """
    if whole.has(head):
        return Showing.WHOLE
    key = logged_key(head.partition, head.seq)
    try:
        view = await _snapshot(views, head, [key])
        entry = None if view is None else view.peek(key)
        if view is None:
            return Showing.OVERTAKEN
        if not view.is_snapshot or entry is None:
            return Showing.UNKNOWN if view.is_snapshot else Showing.UNKNOWABLE
        return await _looked_at(views, head, entry, view, whole)
    except (StoreRefused, Refused, *_MALFORMED):
        return Showing.UNKNOWN  # too large, damaged, or of a newer version: the reading goes on


async def _looked_at(
    views: Views, head: StoreHead, entry: Logged, view: View, whole: WholeCommits
) -> Showing:
    while True:
        try:
            told_records(view, head.partition, entry)
        except Missing as missing:
            for keys in _parts(missing.reads.peeks):
                part = await _snapshot(views, head, keys)
                if part is None:
                    return Showing.OVERTAKEN
                view.merge(part)
        else:
            break
    if not tells_rows(entry):
        return Showing.NAMES_NO_ROWS
    whole.note(head.partition, head.seq, head.digest)
    return Showing.WHOLE


async def stands(views: Views, head: StoreHead, view: View) -> bool:
    """Say whether each record of a reading is, as of one commit, what it was seen to be.

    When it has returned, no record of the reading is in the midst of that commit any more.
    """
    is_same = True
    for keys in _parts(view.stored):
        part = await _snapshot(views, head, keys)
        if part is None:
            return False
        is_same &= all(part.version(key) == view.version(key) for key in keys)
    return is_same


async def _snapshot(views: Views, head: StoreHead, keys: Iterable[Key[Any]]) -> View | None:
    """Load records as of the commit of a head; None if it is not the last any more."""
    head_key = store_head_key(head.partition)
    peeks = tuple(dict.fromkeys((head_key, *keys)))
    view = await views.view(Reads(peeks=peeks, snapshot=True))
    found = view.peek(head_key)
    is_last = found is not None and (found.seq, found.digest) == (head.seq, head.digest)
    return view if is_last else None


def _parts(keys: Iterable[Key[Any]]) -> Iterator[list[Key[Any]]]:
    # The head is one of each part, and may change without a commit: an owner is held.
    left = [key for key in keys if key.sort != "head"]
    for start in range(0, len(left), SNAPSHOT_KEYS - 1):
        yield left[start : start + SNAPSHOT_KEYS - 1]
