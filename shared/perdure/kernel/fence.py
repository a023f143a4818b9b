"""The fence: who may write a world, what its taking over says of the writers before, and probes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel import limits
from perdure.kernel.consumers import check_consumers
from perdure.kernel.errors import FenceHeld, StaleWriter, Stalled
from perdure.kernel.ids import Epoch, Holder, Instant, Tick
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Drain, Fence, Head, Probe, head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.wake import active_head
from perdure.kernel.writers import check_grip, check_writer, is_private

STALL_BACKOFF_MS = 60_000
"""A stalled world's fence is taken once a minute, then every two, four, … minutes."""


@dataclass(frozen=True, slots=True)
class Grip:
    """A fence held: the epoch to write under, and the head it was taken on."""

    epoch: Epoch
    holder: Holder
    until: Instant
    head: Head

    @property
    def tick(self) -> Tick:
        """The tick this writer may publish next."""
        return self.head.next_tick

    @property
    def careful(self) -> bool:
        """So many writers died on this tick that each step is named before it is taken."""
        drain = self.head.drain
        return drain.tick == self.tick and drain.starts >= limits.PROBE_FROM_STARTS


@dataclass(frozen=True, slots=True)
class TakeFence(WorldRequest):
    """Become the writer of an active world, if its fence is free, released or expired.

    The present holder keeps its epoch, and writes nothing while half of its lease remains.
    Raises ConsumerBehind while the tick before has not been read by all who must.
    """

    holder: Holder
    lease_ms: int

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def checked(self) -> TakeFence:
        """Return self if holder and lease are within the limits. Raises Invalid."""
        check_grip(self.holder, self.lease_ms)
        return self

    def decide(self, view: View, now: Instant) -> Decision[Grip]:
        head = active_head(view, self.ref)
        check_writer(head, self.ref, self.holder)
        fence = head.fence
        if not (is_private(head) and fence.holder == self.holder):
            # That of a private world must live on while it waits: each tick checks for itself.
            check_consumers(view, self.ref, head)
        until = Instant(now + self.lease_ms)
        if fence.holder == self.holder:
            if now < fence.until and fence.until - now >= self.lease_ms // 2:
                return Decision(Grip(fence.epoch, self.holder, fence.until, head))
            renewed = replace(head, fence=replace(fence, until=until))
            return Decision(Grip(fence.epoch, self.holder, until, renewed), (renewed,))
        if fence.is_held(now):
            raise FenceHeld(
                expected=f"a free fence on world {self.ref.world!r}",
                found=f"epoch {fence.epoch} held for {fence.until - now} ms more",
            )
        if fence.holder is not None:
            _check_stall(head, now)
        epoch = Epoch(fence.epoch + 1)
        taken = replace(
            head,
            fence=Fence(epoch=epoch, holder=self.holder, until=until),
            drain=_after_death(head) if fence.holder is not None else head.drain,
        )
        return Decision(Grip(epoch, self.holder, until, taken), (taken,))


def _check_stall(head: Head, now: Instant) -> None:
    if not head.is_stalled:
        return
    past = head.drain.starts - limits.STALLED_FROM_STARTS
    again = head.fence.until + STALL_BACKOFF_MS * 2 ** min(past, 10)
    if now < again:
        raise Stalled(
            expected=f"tick {head.next_tick} to survive its writers",
            found=f"{head.drain.starts} of them died; the next try is in {again - now} ms",
        )


def _after_death(head: Head) -> Drain:
    """Count one more death on the tick, and say who did it if a probe had cornered it."""
    drain = _drain_of_next_tick(head)
    starts = drain.starts + 1
    probe = drain.probe
    if probe is None or probe.stage != "apply" or probe.first != probe.last:
        return replace(drain, starts=starts)
    others = tuple(each for each in drain.culprits if each[0] != probe.first)
    culprits = (*others, (probe.first, starts))[-limits.CULPRITS_MAX :]
    return replace(drain, starts=starts, probe=None, culprits=culprits)


def _drain_of_next_tick(head: Head) -> Drain:
    return head.drain if head.drain.tick == head.next_tick else Drain(tick=head.next_tick)


@dataclass(frozen=True, slots=True)
class NameProbe(WorldRequest):
    """Write down what the holder is about to do, so that its death would name the cause."""

    epoch: Epoch
    probe: Probe

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = held_head(view, self.ref, self.epoch)
        if head.drain.probe == self.probe:
            return Decision(None)
        drain = _drain_of_next_tick(head)
        return Decision(None, (replace(head, drain=replace(drain, probe=self.probe)),))


@dataclass(frozen=True, slots=True)
class ReleaseFence(WorldRequest):
    """Let the fence go, if it is still this holder's. Idempotent.

    That of a private world stays with its holder to the end: nobody else could take it.
    """

    epoch: Epoch

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = view.get(head_key(self.ref.partition))
        if head is None or head.fence.epoch != self.epoch or head.fence.holder is None:
            return Decision(None)
        if is_private(head):
            return Decision(None)
        # Who lets go has survived what it named: the next death is not to be blamed on that.
        drain = replace(head.drain, probe=None)
        return Decision(None, (replace(head, fence=Fence(epoch=self.epoch), drain=drain),))


def held_head(view: View, ref: WorldRef, epoch: Epoch) -> Head:
    """Return the head of an active world whose fence has this epoch. Raises StaleWriter."""
    head = active_head(view, ref)
    if head.fence.epoch != epoch:
        raise StaleWriter(
            expected=f"the live epoch {head.fence.epoch} of world {ref.world!r}",
            found=f"epoch {epoch}",
        )
    return head
