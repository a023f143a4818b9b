"""The log of a document store: what follows one reads its commits here, in order, without a gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from perdure.kernel.documents.commit import (
    DocumentsRequest,
    check_open,
    check_whole,
    no_store,
)
from perdure.kernel.documents.errors import LogTrimmed, StaleCursor
from perdure.kernel.documents.places import DocumentStoreRef, log_sort
from perdure.kernel.documents.records import Logged, StoreHead, logged_key, store_head_key
from perdure.kernel.errors import Contended, Corrupt, InvalidValue, LineageChanged
from perdure.kernel.ids import Instant, Lineage, Seq
from perdure.kernel.places import after
from perdure.kernel.view import Decision, Range, Reads, Removed, View

LOG_PAGE_ENTRIES: Final = 100
"""Entries of one reading, unless it says how many."""

LOG_PAGE_ENTRIES_MAX: Final = 1_000
"""Entries that one reading may ask for."""

TRIM_ENTRIES_MAX: Final = 90
"""Entries that one trim removes, beside the head. Source: COMMIT_ACTIONS_MAX."""

LOG_KEPT_MIN: Final = 1_000
"""Newest entries that no trim removes: whoever lost the answer to a commit finds it among them."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Up to where somebody has read a log: the last commit, and its digest if that is known."""

    seq: Seq = Seq(0)
    digest: str | None = None
    lineage: Lineage | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Commits that follow a place without a gap, and the head as it was before they were read."""

    head: StoreHead
    entries: tuple[Logged, ...]
    end: LogPlace
    """Where the next reading begins."""

    @property
    def is_last(self) -> bool:
        """Say whether there is nothing behind these that the head speaks of."""
        return self.end.seq >= self.head.seq


@dataclass(frozen=True, slots=True)
class ReadLog(DocumentsRequest):
    """Return the commits behind a place, up to the first gap, each chained to the one before.

    Raises: NotFound; LogTrimmed; LineageChanged and StaleCursor for a place in another history;
    Contended for a commit that does not show yet; Corrupt for a chain that is broken.
    """

    place: LogPlace = LogPlace()
    limit: int = LOG_PAGE_ENTRIES

    def checked(self) -> ReadLog:
        """Return self if that can be read. Raises InvalidValue."""
        if type(self.place.seq) is not int or self.place.seq < 0:
            raise InvalidValue(expected="a seq of 0 or more", found=repr(self.place.seq))
        if type(self.limit) is not int or not 1 <= self.limit <= LOG_PAGE_ENTRIES_MAX:
            raise InvalidValue(
                expected=f"a limit of 1 to {LOG_PAGE_ENTRIES_MAX} entries", found=repr(self.limit)
            )
        return self

    @property
    def _range(self) -> Range[Logged]:
        first = log_sort(Seq(self.place.seq + 1))
        return Range(self.stream, first, after("log/"), Logged, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(peeks=(store_head_key(self.stream),), ranges=(self._range,))

    def decide(self, view: View, now: Instant) -> Decision[LogPage]:
        head = read_head(view, self.ref)
        check_place(head, self.place)
        entries, end = chained(head, self.place, view.find(self._range))
        if not entries and head.seq > self.place.seq:
            # On DynamoDB a range may not show yet what a running transaction has written.
            raise Contended(
                expected=f"commit {self.place.seq + 1} of document store {self.ref.store!r}",
                found=f"none, though its head is at {head.seq}",
            )
        return Decision(LogPage(head, tuple(entries), end))


@dataclass(frozen=True, slots=True)
class ProveLogGap(DocumentsRequest):
    """Say of a log whose next entry is not found whether it is lost, as of one moment.

    Raises: Corrupt if it is; LogTrimmed if it was trimmed away; NotFound; else nothing.
    """

    seq: Seq

    def reads(self) -> Reads:
        following = logged_key(self.stream, Seq(self.seq + 1))
        return Reads(peeks=(store_head_key(self.stream), following), snapshot=True)

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = read_head(view, self.ref)
        check_trimmed(head, self.seq)
        entry = view.peek(logged_key(self.stream, Seq(self.seq + 1)))
        if head.seq > self.seq and entry is None:
            raise Corrupt(
                expected=f"commit {self.seq + 1} of document store {self.ref.store!r}, whose head"
                f" is at {head.seq}",
                found="none",
            )
        return Decision(None)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What one trim came to."""

    log_from: Seq
    removed: int
    is_done: bool
    """Nothing is left of what may go: else ask again."""


@dataclass(frozen=True, slots=True)
class TrimLog(DocumentsRequest):
    """Remove the oldest entries of the log, up to ``through``, at most TRIM_ENTRIES_MAX of them.

    The newest LOG_KEPT_MIN stay whatever it asks for. Raises: NotFound, StoreImporting,
    StoreMoving, StoreMoved.
    """

    through: Seq

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[Trimmed]:
        head = view.get(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        check_whole(head, self.ref)
        last = min(self.through, head.seq - LOG_KEPT_MIN)
        through = min(last, head.log_from - 1 + TRIM_ENTRIES_MAX)
        keys = [logged_key(self.stream, Seq(seq)) for seq in range(head.log_from, through + 1)]
        if not keys:
            return Decision(Trimmed(head.log_from, 0, is_done=True))
        check_open(head, self.ref)
        view.require(peeks=keys)
        # What is not there is gone: a damaged log can still be trimmed.
        gone = [Removed(key) for key in keys if view.peek(key) is not None]
        trimmed = replace(head, log_from=Seq(through + 1))
        reply = Trimmed(trimmed.log_from, len(gone), is_done=through == last)
        return Decision(reply, (trimmed, *gone))


def read_head(view: View, ref: DocumentStoreRef) -> StoreHead:
    """Return the head of a store, to be read and nothing else. Raises NotFound, StoreImporting."""
    head = view.peek(store_head_key(ref.partition))
    if head is None:
        raise no_store(ref)
    check_whole(head, ref)
    return head


def check_trimmed(head: StoreHead, seq: Seq) -> None:
    """Refuse to read behind a commit whose followers have left the log. Raises LogTrimmed."""
    if seq + 1 < head.log_from:
        raise LogTrimmed(
            expected=f"a log that has commit {seq + 1}", found=f"one that begins at {head.log_from}"
        )


def check_place(head: StoreHead, place: LogPlace) -> None:
    """Refuse a place that is in no log, or not in this one.

    Raises: LogTrimmed, LineageChanged, StaleCursor.
    """
    if place.lineage is not None and place.lineage != head.lineage:
        raise LineageChanged(expected=f"lineage {head.lineage}", found=place.lineage)
    check_trimmed(head, place.seq)
    if place.seq > head.seq:
        raise StaleCursor(
            expected=f"a place up to commit {head.seq}, the last", found=f"commit {place.seq}"
        )
    if place.seq == head.seq:
        _check_digest(place, head.digest)


def chained(
    head: StoreHead, place: LogPlace, found: Iterable[Logged]
) -> tuple[list[Logged], LogPlace]:
    """Return the entries that follow a place without a gap, and the place behind them.

    Raises: StaleCursor if they follow another commit than the place's; Corrupt if they do not
    follow one another, or do not lead to the head.
    """
    entries: list[Logged] = []
    seq, previous = place.seq, None
    for entry in found:
        if entry.seq != seq + 1:
            break
        if previous is None:
            _check_digest(place, entry.previous)
        elif entry.previous != previous:
            raise _broken(entry.seq, entry.previous, previous)
        seq, previous = entry.seq, entry.digest
        if seq == head.seq and previous != head.digest:
            raise _broken(seq, head.digest, previous)
        entries.append(entry)
    digest = previous if entries else place.digest
    return entries, LogPlace(seq, digest, head.lineage)


def _check_digest(place: LogPlace, digest: str) -> None:
    if place.digest is not None and place.digest != digest:
        raise StaleCursor(
            expected=f"commit {place.seq} with digest {digest[:12]}…",
            found=f"a place behind {place.digest[:12]}…: another history",
        )


def _broken(seq: Seq, said: str, found: str) -> Corrupt:
    return Corrupt(
        expected=f"a log whose digest is {said[:12]}… at commit {seq}", found=f"{found[:12]}…"
    )
