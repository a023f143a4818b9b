"""Schedules: which time of its schedule a tick serves, and what becomes of times that went by.

A time is missed when a later one has come before a tick served it. What then happens is the
world's own choice, and the next manifest says it:

- ``coalesce``: one tick stands for all of them;
- ``catch_up``: each of them gets a tick of its own, one after another;
- ``skip``: none of them is ticked for; the world goes on at its next regular time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from perdure.kernel.ids import Instant
from perdure.kernel.pace import Scheduled
from perdure.kernel.places import MINUTE_MS
from perdure.kernel.records import head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.upkeep import Schedule, schedule_key
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.wake import active_head, woken

SKIP_AFTER_MS: Final = 2 * MINUTE_MS
"""No tick comes too late to be made up for within this. Source: EventBridge Scheduler fires once
a minute, up to a minute late."""


def passed(schedule: Schedule, now: Instant) -> int:
    """Return how many times have come after the one that the schedule waits for."""
    return max(0, now - schedule.next_at) // schedule.every_ms


def has_more(schedule: Schedule, now: Instant) -> bool:
    """Say whether another tick is due as soon as the next one is published."""
    return schedule.missed == "catch_up" and passed(schedule, now) > 0


def served(schedule: Schedule, now: Instant) -> Schedule:
    """Return the schedule after one tick."""
    steps = 1 if schedule.missed == "catch_up" else passed(schedule, now) + 1
    return replace(schedule, next_at=_later(schedule, steps), skipped=0)


def told(schedule: Schedule, now: Instant) -> Scheduled:
    """Say for a manifest which time its tick serves, and how many were missed before it."""
    folded = 0 if schedule.missed == "catch_up" else passed(schedule, now)
    return Scheduled(
        serves=schedule.next_at, policy=schedule.missed, missed=schedule.skipped + folded
    )


def is_to_skip(schedule: Schedule, now: Instant) -> bool:
    """Say whether what the schedule waits for is given up: it is too late for that."""
    late_ms = now - schedule.next_at
    return schedule.missed == "skip" and late_ms >= max(schedule.every_ms, SKIP_AFTER_MS)


@dataclass(frozen=True, slots=True)
class SkipMissed(WorldRequest):
    """Let a world that skips what it missed wait for its next regular time.

    Returns when that is; None if there is nothing to skip: it has been done, or a tick was.
    """

    serves: Instant
    """The time that whoever asks found the schedule waiting for."""

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), schedule_key(world)))

    def decide(self, view: View, now: Instant) -> Decision[Instant | None]:
        head = active_head(view, self.ref)
        schedule = view.get(schedule_key(self.ref.partition))
        if schedule is None or schedule.next_at != self.serves or not is_to_skip(schedule, now):
            return Decision(None)
        steps = passed(schedule, now) + 1
        following = replace(
            schedule, next_at=_later(schedule, steps), skipped=schedule.skipped + steps
        )
        after, hints = woken(view, head, self.ref, following.next_at)
        return Decision(following.next_at, (following, *((after, *hints) if hints else ())))


def _later(schedule: Schedule, steps: int) -> Instant:
    return Instant(schedule.next_at + steps * schedule.every_ms)
