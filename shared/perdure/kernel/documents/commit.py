"""A commit to a document store: staged writes, all of them or none, as one entry of its log."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.attempt import found_attempt
from perdure.kernel.documents.errors import (
    FollowsSource,
    IdsMoved,
    OwnerHeld,
    StoreDiverged,
    StoreImporting,
    StoreMoved,
    StoreMoving,
)
from perdure.kernel.documents.held import HeldOwner
from perdure.kernel.documents.lives import begin_lives
from perdure.kernel.documents.order import in_order
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import (
    Logged,
    StoreHead,
    store_head_key,
)
from perdure.kernel.documents.step import StagedWrite, Step
from perdure.kernel.documents.successors import head_after
from perdure.kernel.documents.tables import checked_name, tables_altered
from perdure.kernel.errors import InvalidId, NotFound, OutOfRange, StaleWriter, TooLarge
from perdure.kernel.ids import Epoch, Holder, Instant, Partition, Seq, Token
from perdure.kernel.limits import HOLDER_BYTES_MAX, LEASE_MS_MAX
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Reads, View

HELD_OWNERS_MAX: Final = 8
"""Owners of one store that are held at a time: the head, which every commit writes, tells of each.
Source: HEAD_BYTES_MAX, which eight holders with short names about fill."""


@dataclass(frozen=True, slots=True)
class DocumentsRequest:
    """Base of the requests that the head of one document store orders."""

    ref: DocumentStoreRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition


@dataclass(frozen=True, slots=True)
class OwnerGrip:
    """An owner's documents and tables in the hand of one process."""

    owner: str
    epoch: Epoch
    holder: Holder
    lease_ms: int = 0
    """How much longer it lasts from each commit that it is shown with, unless that says."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that happened."""

    seq: Seq
    next_id: int
    ids: tuple[int, ...] = ()
    """Ids that its creations have, in the order they were staged."""

    replayed: bool = False
    """It had happened before it was asked for again."""

    entry: Logged | None = field(default=None, compare=False, repr=False)
    """What the log has of it: whoever follows the store need not read that."""


@dataclass(frozen=True, slots=True)
class CommitWrites(DocumentsRequest):
    """Apply staged writes as the next commit.

    ``seen`` is the last commit its writer knows, if it tells: the attempt is then looked for among
    those behind it before it is taken for new. ``next_id`` is the least that may be given from now
    on. ``grip`` must hold, whatever is written; of ``grips`` those whose owners are. ``schema`` is what its
    tables were prepared at; without it, each table is held to what the store has of it.
    Raises: NotFound, OwnerHeld, StaleWriter, TableMigrating, StoreDiverged, StoreMoving,
    StoreMoved, FarBehind, IdsMoved, and what the writes raise.
    """

    staged: tuple[StagedWrite, ...]
    attempt: Token
    seen: Seq | None = None
    next_id: int = 0
    grip: OwnerGrip | None = None
    schema: int | None = None
    lease_ms: int = 0
    """How much longer the grips shall last, from now; 0 leaves that to each of them."""

    grips: tuple[OwnerGrip, ...] = ()
    set_aside: int | None = None
    """First of the ids that its writer has set aside for its creations, if it gives ids itself."""

    def reads(self) -> Reads:
        head = Reads(keys=(store_head_key(self.stream),))
        return Reads.union(head, *(each.reads(self.stream) for each in self.staged))

    def decide(self, view: View, now: Instant) -> Decision[Committed]:
        head = existing_head(view, self.ref)
        known = found_attempt(view, head, self.seen, self.attempt)
        if known is not None:
            return Decision(happened(known))
        check_open(head, self.ref)
        grips = self.grips if self.grip is None else (*self.grips, self.grip)
        if self.grip is not None:
            check_grip(head, self.grip)
        check_grips(head, {each.owner for each in self.staged}, grips)
        self._check_schema(head)
        self._check_ids(head)
        step = Step(view, head, max(head.next_id, self.next_id), proves_tables=self.schema is None)
        step.raise_to(max((each.names_id for each in self.staged), default=0))
        for each in in_order(self.staged):
            each.apply(step)
        begin_lives(step)
        head = check_owners(head, step.owners, grips, now)
        head = renewed(head, grips, now, self.lease_ms)
        after, entry = logged(head, step, self.attempt, now)
        reply = Committed(after.seq, after.next_id, tuple(step.created), entry=entry)
        return Decision(reply, (*step.writes(), entry, after))

    def _check_schema(self, head: StoreHead) -> None:
        if self.schema is not None and self.schema != head.schema:
            raise tables_altered(self.schema, head.schema)

    def _check_ids(self, head: StoreHead) -> None:
        if self.set_aside is not None and head.next_id > self.set_aside:
            raise IdsMoved(
                expected=f"ids from {self.set_aside} on to be free",
                found=f"a store that has given those up to {head.next_id - 1}",
            )


def happened(entry: Logged) -> Committed:
    """Return what a commit came to that the log has."""
    ids = [each["id"] for each in entry.told() if each["w"] == "document.create"]
    return Committed(entry.seq, entry.next_id, tuple(ids), replayed=True, entry=entry)


def existing_head(view: View, ref: DocumentStoreRef) -> StoreHead:
    """Return the head of a store of which commits are asked, and condition the commit on it.

    Whether it takes one is for :func:`check_open` to say, once it is known that one is needed.
    Raises: NotFound; StoreImporting, StoreMoving; StoreDiverged for a replica that was told what
    does not fit, FollowsSource for any other.
    """
    head = view.get(store_head_key(ref.partition))
    if head is None:
        raise no_store(ref)
    check_whole(head, ref)
    check_undivided(head, ref)
    if head.follows:
        raise FollowsSource(
            expected=f"document store {ref.store!r} to take commits of its own",
            found="a replica: promote it first",
        )
    return head


def check_whole(head: StoreHead, ref: DocumentStoreRef) -> None:
    """Refuse to look at half an import, or half a move. Raises StoreImporting, StoreMoving."""
    if head.importing is not None:
        raise StoreImporting(
            expected=f"document store {ref.store!r} as a whole",
            found=f"an import of {head.importing.sha256[:12]}… that has not ended",
        )
    if head.status == "staged":
        raise StoreMoving(
            expected=f"document store {ref.store!r} as a whole",
            found="what a migration has brought of it, which has not ended or was given up",
        )


def check_open(head: StoreHead, ref: DocumentStoreRef) -> None:
    """Refuse to write to a store that lives elsewhere, or soon will. Raises StoreMoving, StoreMoved."""
    if head.status != "open":
        kind = StoreMoved if head.status == "moved" else StoreMoving
        raise kind(
            expected=f"document store {ref.store!r} to take commits here",
            found=f"one that is {head.status} to another storage",
        )


def check_undivided(head: StoreHead, ref: DocumentStoreRef) -> None:
    """Refuse what is not what its source was. Raises StoreDiverged."""
    if head.diverged is not None:
        raise StoreDiverged(
            expected=f"document store {ref.store!r} as its source is", found=head.diverged
        )


def no_store(ref: DocumentStoreRef) -> NotFound:
    """Return the refusal of a store that is not there."""
    return NotFound(
        expected="a document store that exists", found=f"no document store {ref.store!r}"
    )


def check_grips(
    head: StoreHead, owners: AbstractSet[str | None], grips: Sequence[OwnerGrip]
) -> None:
    """Refuse a writer to whom an owner of these belongs no more. Raises StaleWriter."""
    for grip in grips:
        if grip.owner in owners:
            check_grip(head, grip)


def check_grip(head: StoreHead, grip: OwnerGrip) -> None:
    """Refuse a grip that was let go of or overtaken. Raises StaleWriter."""
    held = None
    for each in head.held:
        if each.owner == grip.owner:
            held = each
            break
    if held is None or (held.epoch, held.holder) != (grip.epoch, grip.holder):
        found = "released" if held is None else f"epoch {held.epoch}"
        raise StaleWriter(expected=f"epoch {grip.epoch} on owner {grip.owner!r}", found=found)


def check_owners(
    head: StoreHead, owners: AbstractSet[str], grips: Sequence[OwnerGrip], now: Instant
) -> StoreHead:
    """Refuse to write what another has in hand, and end the holds of these that have run out.

    Whoever wrote beside a hold has made what its holder knows untrue: it must not go on.
    Raises: OwnerHeld, StaleWriter.
    """
    check_grips(head, owners, grips)
    free = owners - {grip.owner for grip in grips}
    if not free:
        return head
    for owner in sorted(free):
        held = head.held_by(owner, now)
        if held is not None:
            raise OwnerHeld(
                expected=f"owner {owner!r} to be in nobody else's hand",
                found=f"epoch {held.epoch}, for {held.until - now} ms more",
            )
    left = tuple(each for each in head.held if each.owner not in free)
    return head if len(left) == len(head.held) else replace(head, held=left)


def renewed(
    head: StoreHead, grips: Sequence[OwnerGrip], now: Instant, lease_ms: int = 0
) -> StoreHead:
    """Let grips that still hold last for their leases from now, if that is longer."""
    if not lease_ms and not any(grip.lease_ms for grip in grips):
        return head
    until = {
        (grip.owner, grip.epoch, grip.holder): Instant(now + (lease_ms or grip.lease_ms))
        for grip in grips
        if lease_ms or grip.lease_ms
    }

    def renewed_one(each: HeldOwner) -> HeldOwner:
        longest = until.get((each.owner, each.epoch, each.holder))
        return each if longest is None else each.lasting(longest, now)

    held = tuple(map(renewed_one, head.held))
    return head if held == head.held else replace(head, held=held)


def logged(head: StoreHead, step: Step, attempt: Token, now: Instant) -> tuple[StoreHead, Logged]:
    """Return the head and the log entry that a step leads to."""
    entry = Logged(
        partition=head.partition,
        seq=step.seq,
        at=now,
        attempt=attempt,
        next_id=step.next_id,
        previous=head.digest,
        writes=step.told,
    )
    return head_after(head, step.seq, entry.digest, step.next_id, step.schema), entry


@dataclass(frozen=True, slots=True)
class TakeOwner(DocumentsRequest):
    """Take an owner's documents and tables in hand, if nobody has them whose lease runs.

    The same holder keeps its epoch while its lease runs. A lease of 0 holds until somebody else
    takes the owner, or writes what is its.
    Raises: OwnerHeld, NotFound, StoreDiverged, StoreMoving, StoreMoved; TooLarge if
    HELD_OWNERS_MAX others are held.
    """

    owner: str
    holder: Holder
    lease_ms: int

    def checked(self) -> TakeOwner:
        """Return self if a head can tell of it. Raises InvalidId, OutOfRange."""
        checked_name(self.owner, what="an owner")
        if not 1 <= len(canonical(self.holder)) - 2 <= HOLDER_BYTES_MAX:
            raise InvalidId(
                expected=f"a holder of 1 to {HOLDER_BYTES_MAX} bytes", found=shown(self.holder)
            )
        if type(self.lease_ms) is not int or not 0 <= self.lease_ms <= LEASE_MS_MAX:
            raise OutOfRange(
                expected=f"a lease of 0 to {LEASE_MS_MAX} ms", found=shown(self.lease_ms)
            )
        return self

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[OwnerGrip, StoreHead]]:
        head = existing_head(view, self.ref)
        check_open(head, self.ref)
        held = head.held_by(self.owner, now)
        until = Instant(now + self.lease_ms)
        if held is not None and held.holder != self.holder:
            raise OwnerHeld(
                expected=f"owner {self.owner!r} to be in nobody's hand",
                found=f"epoch {held.epoch}, for {held.until - now} ms more",
            )
        epoch = Epoch(head.epoch + 1) if held is None else held.epoch
        until = until if held is None else max(until, held.until)
        mine = HeldOwner(owner=self.owner, epoch=epoch, holder=self.holder, until=until)
        rest = tuple(each for each in head.held if each.owner != self.owner)
        if len(rest) >= HELD_OWNERS_MAX:  # who has waited longest with a lease that is over
            gone = next((each for each in rest if not each.is_running(now)), None)
            rest = tuple(each for each in rest if each is not gone)
        if len(rest) >= HELD_OWNERS_MAX:
            raise TooLarge(
                expected=f"at most {HELD_OWNERS_MAX} owners of document store {self.ref.store!r}"
                " held at a time",
                found=str(len(rest) + 1),
            )
        after = replace(head, epoch=max(head.epoch, epoch), held=(*rest, mine))
        grip = OwnerGrip(self.owner, epoch, self.holder, self.lease_ms)
        return Decision((grip, after), (after,))


@dataclass(frozen=True, slots=True)
class ReleaseOwner(DocumentsRequest):
    """Let go of an owner; nothing if another has it by now, or the store is elsewhere."""

    grip: OwnerGrip

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = view.get(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        mine = (self.grip.owner, self.grip.epoch, self.grip.holder)
        rest = tuple(each for each in head.held if (each.owner, each.epoch, each.holder) != mine)
        if rest == head.held or head.status != "open":
            return Decision(None)
        return Decision(None, (replace(head, held=rest),))
