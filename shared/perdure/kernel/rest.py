"""Rest: finding the worlds that have something to do, and letting the others sleep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.hints import HintsDue
from perdure.kernel.ids import Epoch, Instant, Partition
from perdure.kernel.landing import AUDIT, CONSUMER, is_unlanded
from perdure.kernel.places import wake_partition
from perdure.kernel.private import is_abandoned, retirement_due
from perdure.kernel.records import Head, head_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.upkeep import (
    Consumer,
    Schedule,
    Wake,
    consumer_key,
    schedule_key,
    wake_key,
)
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.wake import UNREAD_MS, moved_hint


@dataclass(frozen=True, slots=True)
class Wakes(HintsDue[Wake]):
    """List the hints of one shard that are due by ``through``, earliest first."""

    of: ClassVar[type[Wake]] = Wake

    @property
    def stream(self) -> Partition:
        return wake_partition(self.shard)

    def decide(self, view: View, now: Instant) -> Decision[tuple[Wake, ...]]:
        return Decision(self.found(view))


@dataclass(frozen=True, slots=True)
class Agenda:
    """What a hint comes to: a schedule's tick that is due, what waits to be copied, an end."""

    tick_due: Instant | None
    """The time of its schedule that waits for a tick."""

    unlanded: bool
    """Rows of published ticks wait to land."""

    unread: bool
    """Log entries wait to be in the audit table."""

    abandoned: bool = False
    """It is private and has outlived its holder: it must be retired."""

    stalled: bool = False
    """Every writer of its next tick died."""

    epoch: Epoch = Epoch(0)
    schedule: Schedule | None = None
    """That of an active world."""


@dataclass(frozen=True, slots=True)
class ReadAgenda(WorldRequest):
    """Check a hint against the world itself."""

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(
            peeks=(
                head_key(world),
                schedule_key(world),
                consumer_key(world, CONSUMER),
                world_key(self.ref),
                consumer_key(world, AUDIT),
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[Agenda]:
        world = self.ref.partition
        head = view.peek(head_key(world))
        if head is None:
            return Decision(Agenda(None, unlanded=False, unread=False))
        schedule = view.peek(schedule_key(world))
        if head.status != "active":
            schedule = None
        landing = view.peek(consumer_key(world, CONSUMER))
        unlanded = is_unlanded(head, landing, view.peek(world_key(self.ref)))
        unread = _unread(head, view.peek(consumer_key(world, AUDIT)))
        due = schedule is not None and schedule.next_at <= now
        return Decision(
            Agenda(
                tick_due=schedule.next_at if due and schedule else None,
                unlanded=unlanded,
                unread=unread,
                abandoned=is_abandoned(head, now),
                stalled=head.is_stalled,
                epoch=head.fence.epoch,
                schedule=schedule,
            )
        )


@dataclass(frozen=True, slots=True)
class Rest(WorldRequest):
    """Move a world's hint to when it is next needed, or remove it when nothing is left to do.

    A hint leaves only together with a write of the head, so that nobody's lowering of
    ``wake_at`` can be lost.
    """

    hint: str

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(
            keys=(
                head_key(world),
                schedule_key(world),
                consumer_key(world, CONSUMER),
                consumer_key(world, AUDIT),
                wake_key(self.ref, self.hint),
            ),
            peeks=(world_key(self.ref),),
        )

    def decide(self, view: View, now: Instant) -> Decision[Instant | None]:
        world = self.ref.partition
        head = view.get(head_key(world))
        schedule = view.get(schedule_key(world))
        landing = view.get(consumer_key(world, CONSUMER))
        audit = view.get(consumer_key(world, AUDIT))
        if head is None:
            return Decision(None)
        is_behind = is_unlanded(head, landing, view.peek(world_key(self.ref))) or _unread(
            head, audit
        )
        wanted = _wanted(head, schedule, now, is_behind=is_behind)
        after, writes = moved_hint(view, head, self.ref, self.hint, wanted)
        if not writes and after == head:
            return Decision(wanted)
        return Decision(wanted, (after, *writes))


def _unread(head: Head, audit: Consumer | None) -> bool:
    return head.seq > (audit.seq if audit is not None else 0)


def _wanted(
    head: Head, schedule: Schedule | None, now: Instant, *, is_behind: bool
) -> Instant | None:
    """Return when the world must be looked at next: for its schedule, a consumer, or its end."""
    times: list[Instant] = []
    if schedule is not None and head.status == "active":
        times.append(schedule.next_at)
    if is_behind:
        times.append(Instant(now + UNREAD_MS))
    retirement = retirement_due(head, now)
    if retirement is not None:
        times.append(retirement)
    return min(times, default=None)
