"""Replicas: a store that applies the log of another, commit by commit, and takes none of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents import replaying
from perdure.kernel.documents.commit import (
    DocumentsRequest,
    check_open,
    check_undivided,
    check_whole,
    logged,
    no_store,
)
from perdure.kernel.documents.errors import NotAFollower, StillBound
from perdure.kernel.documents.lives import begin_lives
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, DocumentStoreRef
from perdure.kernel.documents.records import Logged, StoreHead, logged_key, store_head_key
from perdure.kernel.documents.step import Step
from perdure.kernel.errors import Contended, Corrupt, NewerWriter, Refused
from perdure.kernel.ids import Epoch, Instant, Partition, Seq
from perdure.kernel.limits import COMMIT_ACTIONS_MAX
from perdure.kernel.view import Decision, Reads, View

_MALFORMED: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying one commit came to."""

    seq: Seq
    """The last commit that the replica has."""

    diverged: str | None = None
    """What did not fit: nothing of the commit was applied, and no other will be."""


@dataclass(frozen=True, slots=True)
class ApplyLogged(DocumentsRequest):
    """Apply a commit of the source as the replica's next, with all that it was there.

    It is checked against the replica's own records: whatever does not fit makes the replica
    diverged, for good. ``epoch`` is the last that the source has given, as far as that is known.
    What does not fit may be a commit before it that shows in part: unless it ``is_sure`` that none
    does, or its store is, it is Contended.
    Raises: NotFound, StoreImporting, StoreDiverged; StillBound while anybody has an owner in hand;
    NotAFollower for another commit than the next, or a store that is no replica; NewerWriter for
    a write that this version does not know.
    """

    entry: Logged
    epoch: Epoch = Epoch(0)
    is_sure: bool = False

    def reads(self) -> Reads:
        head = Reads(keys=(store_head_key(self.stream),))
        try:
            return Reads.union(head, replaying.reads_of(self.stream, self.entry.told()))
        except (Refused, *_MALFORMED):
            return head  # it does not fit, as is said once it is known to be the next

    def decide(self, view: View, now: Instant) -> Decision[Applied]:
        head = self._head(view, now)
        if self.entry.seq == head.seq and self.entry.digest == head.digest:
            return Decision(Applied(head.seq))  # it was asked for before
        check_open(head, self.ref)
        if self.entry.seq != head.seq + 1:
            raise NotAFollower(
                expected=f"commit {head.seq + 1}, the next of the replica",
                found=f"commit {self.entry.seq}",
            )
        if self.entry.previous != head.digest:
            return self._diverged(
                head,
                f"commit {self.entry.seq} follows another commit than {head.seq} as it is here",
            )
        step = Step(view, head, head.next_id, keeps_jobs=True)
        wrong = self._replayed(step)
        if wrong is not None:
            return self._unfit(view, head, wrong)
        after, entry = logged(head, step, self.entry.attempt, self.entry.at)
        if entry.digest != self.entry.digest:
            return self._unfit(view, head, "it says less or more than it does")
        after = replace(after, epoch=max(head.epoch, self.epoch))
        writes = (*step.writes(), entry, after)
        if len(writes) > COMMIT_ACTIONS_MAX:
            return self._diverged(
                head, f"commit {self.entry.seq}: {len(writes)} records, which no commit has"
            )
        return Decision(Applied(after.seq), writes)

    def _head(self, view: View, now: Instant) -> StoreHead:
        head = view.get(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        check_whole(head, self.ref)
        check_follows(head, self.ref)
        held = next((each for each in head.held if each.is_running(now)), None)
        if held is not None:
            raise StillBound(
                expected="a replica that nobody has a part of in hand",
                found=f"owner {held.owner!r}, for {held.until - now} ms more",
            )
        return head

    def _replayed(self, step: Step) -> str | None:
        """Apply every write, and say what does not fit. Raises Missing, Corrupt, NewerWriter."""
        try:
            many = self.entry.told()
            replaying.require_rows(step, many)
            for told in many:
                replaying.replay(step, told)
            begin_lives(step)
        except (NewerWriter, Corrupt):
            raise
        except Refused as error:
            return str(error)
        except _MALFORMED as error:
            return f"a write that is not spelled as writes are: {error!r}"
        if not step.next_id <= self.entry.next_id <= SAFE_INTEGER_MAX:
            return f"next id {self.entry.next_id}, where {step.next_id - 1} is taken"
        step.next_id = self.entry.next_id
        return None

    def _unfit(self, view: View, head: StoreHead, wrong: str) -> Decision[Applied]:
        found = f"commit {self.entry.seq}: {wrong}"
        if not (self.is_sure or view.is_snapshot):
            raise Contended(expected=f"document store {self.ref.store!r} in full", found=found)
        return self._diverged(head, found)

    def _diverged(self, head: StoreHead, found: str) -> Decision[Applied]:
        found = found[:DIVERGED_CHARACTERS_MAX]
        return Decision(Applied(head.seq, found), (replace(head, diverged=found),))


DIVERGED_CHARACTERS_MAX: Final = 300
"""What a head keeps of why. Source: HEAD_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class PromoteReplica(DocumentsRequest):
    """Let a replica take commits of its own, and none of its source any more.

    Nobody who has an owner of the source in hand has it here: the epoch is another. The same again
    changes nothing. Raises: NotFound, StoreImporting, StoreDiverged.
    """

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[StoreHead]:
        head = view.get(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        check_whole(head, self.ref)
        check_undivided(head, self.ref)
        if not head.follows:
            return Decision(head)
        check_open(head, self.ref)
        promoted = replace(head, follows=False, epoch=Epoch(head.epoch + 1))
        return Decision(promoted, (promoted,))


def check_follows(head: StoreHead, ref: DocumentStoreRef) -> None:
    """Refuse a store that follows no other, or has not what its source has.

    Raises: StoreDiverged, NotAFollower.
    """
    check_undivided(head, ref)
    if not head.follows:
        raise NotAFollower(
            expected=f"document store {ref.store!r} to be a replica",
            found="one with commits of its own",
        )


def check_chain(entries: Sequence[Logged]) -> None:
    """Refuse commits that do not follow one another. Raises NotAFollower."""
    for before, entry in pairwise(entries):
        if entry.seq != before.seq + 1:
            raise NotAFollower(expected=f"commit {before.seq + 1}", found=f"commit {entry.seq}")
        if entry.previous != before.digest:
            raise NotAFollower(
                expected=f"a commit behind {before.digest[:12]}…, commit {before.seq}",
                found=f"commit {entry.seq} behind {entry.previous[:12]}…",
            )


def spelled_entry(entry: Logged) -> bytes:
    """Spell a commit to be sent, with its digest."""
    return b'{"digest":"%s",%s' % (entry.digest.encode(), entry.body()[1:])


def sent_entry(store: Partition, spelled: bytes | Mapping[str, Any]) -> Logged:
    """Return a commit that was sent. Raises Corrupt if it is not what was sent."""
    try:
        told = dict(strict(spelled) if isinstance(spelled, bytes) else spelled)
        digest = told.pop("digest")
        seq = Seq(int(told["seq"]))
        entry = Logged.read(store, logged_key(store, seq).sort, canonical(told))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(expected="a commit as it was sent", found=repr(error)) from error
    if entry.digest != digest:
        raise Corrupt(
            expected=f"commit {entry.seq} with digest {str(digest)[:12]}…",
            found=f"{entry.digest[:12]}…: it was damaged on its way",
        )
    return entry
