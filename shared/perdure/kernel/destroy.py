"""Destroying: a world closes, tells its hooks once, and is history from its last entry on.

Three commits, each of which may be the last one its process lives to make: the world is
closing; its hooks were told; it is destroyed. Whoever asks again goes on where the records
say that the one before stopped. The name stays taken and the id is spent: what was published
under them stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.consumers import check_read
from perdure.kernel.errors import (
    Contended,
    FenceHeld,
    NotQuiescent,
    StaleWriter,
)
from perdure.kernel.ids import Epoch, Holder, Instant, Partition, Seq
from perdure.kernel.places import WorldRef
from perdure.kernel.record import Record
from perdure.kernel.records import Drain, Fence, Head, Status, head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.upkeep import required_key
from perdure.kernel.view import Decision, Key, Reads, View
from perdure.kernel.wake import INACTIVE, UNREAD_MS, appended, existing_head, glimpsed_head, woken
from perdure.kernel.writers import check_grip


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Record):
    """How far the end of a world has come. ``seq`` is its log entry `closing`."""

    seq: Seq
    at: Instant
    told_at: Instant | None = None
    """When every hook had been told; it is not done again."""

    @property
    def key(self) -> Key[Closing]:
        return closing_key(self.partition)


@dataclass(frozen=True, slots=True)
class Close:
    """The answer to :class:`BeginClosing`: the epoch to go on under, and what is left to do."""

    status: Status
    epoch: Epoch
    told: bool

    @property
    def is_over(self) -> bool:
        """The world was destroyed before."""
        return self.status == "destroyed"


@dataclass(frozen=True, slots=True)
class BeginClosing(WorldRequest):
    """Take the fence of an active or closing world, and let nobody in any more.

    A live writer does not hinder it, whatever the writer mode: from this commit on that
    writer's epoch is past, and admissions and publications find a world that is closing.
    Another who is closing it does, for as long as its lease runs: hooks are told once. With
    ``spares_held`` a world whose fence is held is left alone.
    """

    holder: Holder
    lease_ms: int
    spares_held: bool = False
    by: Caller = LOCAL

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), closing_key(world)))

    def checked(self) -> BeginClosing:
        """Return self if holder and lease are within the limits. Raises Invalid."""
        check_grip(self.holder, self.lease_ms)
        return self

    def decide(self, view: View, now: Instant) -> Decision[Close]:
        head = existing_head(view, self.ref)
        if head.status == "destroyed":
            return Decision(Close("destroyed", head.fence.epoch, told=True))
        if head.status not in {"active", "closing"}:
            raise INACTIVE[head.status](
                expected="a world that stays here", found=f"{self.ref.world!r} is {head.status}"
            )
        if head.status == "closing" or self.spares_held:
            self._check_free(head, now)
        until = Instant(now + self.lease_ms)
        is_mine = head.status == "closing" and head.fence.holder == self.holder
        epoch = head.fence.epoch if is_mine else Epoch(head.fence.epoch + 1)
        taken = replace(
            head, status="closing", fence=Fence(epoch=epoch, holder=self.holder, until=until)
        )
        if head.status == "closing":
            begun = _begun(view, self.ref)
            return Decision(Close("closing", epoch, told=begun.told_at is not None), (taken,))
        after, entry = appended(taken, "closing", {"epoch": epoch, **self.by.facts}, now)
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        begun = Closing(partition=self.ref.partition, seq=entry.seq, at=now)
        return Decision(Close("closing", epoch, told=False), (after, entry, begun, *hints))

    def _check_free(self, head: Head, now: Instant) -> None:
        fence = head.fence
        if fence.is_held(now) and fence.holder != self.holder:
            raise FenceHeld(
                expected=f"nobody else to be closing world {self.ref.world!r}"
                if head.status == "closing"
                else f"a free fence on world {self.ref.world!r}",
                found=f"epoch {fence.epoch} held for {fence.until - now} ms more",
            )


@dataclass(frozen=True, slots=True)
class CheckClosingRead(WorldRequest):
    """Say that every required consumer has read the closing entry. Raises ConsumerBehind."""

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(peeks=(head_key(world), closing_key(world), required_key(world)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = glimpsed_head(view, self.ref)
        if head.status == "closing":
            check_read(view, self.ref, head, _begun(view, self.ref).seq)
        return Decision(None)


@dataclass(frozen=True, slots=True)
class MarkTold(WorldRequest):
    """Write down that every hook was told, so that nobody tells them again. Raises StaleWriter."""

    epoch: Epoch

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), closing_key(world)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = existing_head(view, self.ref)
        if head.status == "destroyed":
            return Decision(None)
        _check_mine(head, self.ref, self.epoch)
        begun = _begun(view, self.ref)
        if begun.told_at is not None:
            return Decision(None)
        return Decision(None, (replace(begun, told_at=now),))


@dataclass(frozen=True, slots=True)
class FinishDestroy(WorldRequest):
    """Write a world's last log entry: what is open in its pages is rejected by it.

    Destroying what is destroyed changes nothing. Raises: StaleWriter for another epoch,
    ConsumerBehind, NotQuiescent while hooks have not been told; then it stays closing.
    """

    epoch: Epoch
    by: Caller = LOCAL

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), closing_key(world)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = existing_head(view, self.ref)
        if head.status == "destroyed":
            return Decision(None)
        _check_mine(head, self.ref, self.epoch)
        begun = _begun(view, self.ref)
        check_read(view, self.ref, head, begun.seq)
        if begun.told_at is None:
            raise NotQuiescent(
                expected=f"the hooks of world {self.ref.world!r} to be told of its end",
                found="that they were not",
            )
        after, entry = appended(ended(head), "destroyed", end_facts(head, self.by), now)
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        return Decision(None, (after, entry, *hints))


@dataclass(frozen=True, slots=True)
class LeaveClosing(WorldRequest):
    """Let the fence of a closing world go, so that whoever asks next can go on. Idempotent."""

    epoch: Epoch

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = view.get(head_key(self.ref.partition))
        if head is None or head.status != "closing" or head.fence.epoch != self.epoch:
            return Decision(None)
        if head.fence.holder is None:
            return Decision(None)
        return Decision(None, (replace(head, fence=Fence(epoch=self.epoch)),))


def ended(head: Head) -> Head:
    """Return the head of a world that is destroyed: no writer, nothing open, nothing dying."""
    return replace(
        head,
        status="destroyed",
        fence=Fence(epoch=head.fence.epoch),
        drain=Drain(),
        open_commands=0,
    )


def end_facts(head: Head, by: Caller) -> dict[str, object]:
    """Return what a world's last log entry says: which commands it rejects, and how many."""
    return {
        "cancelled_below": head.cancelled_below,
        "next_sequence": head.next_sequence,
        "rejected": head.open_commands,
        **by.facts,
    }


def closing_key(world: Partition) -> Key[Closing]:
    return Key(world, "closing", Closing)


def _begun(view: View, ref: WorldRef) -> Closing:
    begun = view.peek(closing_key(ref.partition))
    if begun is None:
        raise Contended(
            expected=f"how far the end of world {ref.world!r} has come",
            found="nothing yet: a running commit was seen in part",
        )
    return begun


def _check_mine(head: Head, ref: WorldRef, epoch: Epoch) -> None:
    if head.status != "closing" or head.fence.epoch != epoch:
        raise StaleWriter(
            expected=f"the live epoch {head.fence.epoch} of world {ref.world!r}, which is"
            f" {head.status}",
            found=f"epoch {epoch}",
        )
