"""The schedules: functions called by the clock, as EventBridge calls them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from perdure_emulator.calls import settled
from perdure_emulator.cloudformation import ACCOUNT, REGION
from perdure_emulator.declared import Schedule
from perdure_emulator.sandboxes import Runs, TimedOut


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of schedules: it starts where it is told, and runs as fast. Functions have their own."""

    start: datetime
    speed: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.monotonic())

    def now(self) -> datetime:
        return self.start + timedelta(seconds=(self.monotonic() - self.begun) * self.speed)

    def seconds_until(self, moment: datetime) -> float:
        """Return how long it really is until a time of this clock; 0 if it has passed."""
        return max(0.0, (moment - self.now()).total_seconds() / self.speed)


def scheduled_event(schedule: Schedule, at: datetime) -> Any:
    """Shape the event of a schedule: its own input, or what AWS's scheduler says.

    Source: Amazon EventBridge Scheduler user guide, "Templated targets", Lambda Invoke.
    """
    if schedule.input is not None:
        return schedule.input
    kind = "schedule/default" if schedule.by == "aws.scheduler" else "rule"
    service = "scheduler" if schedule.by == "aws.scheduler" else "events"
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": schedule.by,
        "account": ACCOUNT,
        "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:{service}:{REGION}:{ACCOUNT}:{kind}/{schedule.name}"],
        "detail": "{}" if schedule.by == "aws.scheduler" else {},
    }


async def run(
    sandboxes: Iterable[Runs],
    clock: Clock,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call every function that has a schedule when its time comes, until cancelled."""
    async with asyncio.TaskGroup() as group:
        for sandbox in sandboxes:
            for schedule in sandbox.function.schedules:
                group.create_task(_follow(sandbox, schedule, clock, pause))


async def deliver(sandbox: Runs, schedule: Schedule, at: datetime) -> None:
    """Call a function with the event of a time, once more or too late as may be."""
    name = sandbox.function.name
    try:
        await sandbox.invoke(
            scheduled_event(schedule, at), seconds_max=sandbox.function.timeout_seconds
        )
    except TimedOut:
        click.echo(f"perdure: {name} ran out of time", err=True)
    except Exception as error:  # noqa: BLE001  # the next call tries again, as in the cloud
        click.echo(f"perdure: {name} failed: {error}", err=True)


async def _follow(
    sandbox: Runs,
    schedule: Schedule,
    clock: Clock,
    pause: Callable[[float], Awaitable[None]],
) -> None:
    due = schedule.expression.after(clock.start)
    while due is not None:
        while (seconds := clock.seconds_until(due)) > 0:
            await pause(seconds)
        await settled(deliver(sandbox, schedule, due))
        due = _following(schedule, due, clock.now())


def _following(schedule: Schedule, done: datetime, now: datetime) -> datetime | None:
    """Return the next time; if a function took long, one for all that has passed meanwhile."""
    due = schedule.expression.after(done)
    while due is not None and due < now:
        later = schedule.expression.after(due)
        if later is None or later > now:
            break
        due = later
    return due
