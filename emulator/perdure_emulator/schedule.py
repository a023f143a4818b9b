"""The schedule: functions called again and again, as EventBridge Scheduler calls them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from perdure_emulator.sandboxes import Runs, TimedOut


def scheduled_event(name: str, at: datetime) -> dict[str, Any]:
    """Shape the event of a schedule that has no input of its own.

    Source: Amazon EventBridge Scheduler user guide, "Templated targets", Lambda Invoke.
    """
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": "000000000000",
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "local",
        "resources": [f"arn:aws:scheduler:local:000000000000:schedule/default/{name}"],
        "detail": "{}",
    }


async def run(sandboxes: Iterable[Runs], *, speed: float) -> None:
    """Call every function that has a schedule when its time comes, until cancelled.

    ``speed`` is how many minutes pass in one.
    """
    async with asyncio.TaskGroup() as group:
        for sandbox in sandboxes:
            for seconds in sandbox.function.every_seconds:
                group.create_task(_repeat(sandbox, seconds / speed))


async def _repeat(sandbox: Runs, seconds: float) -> None:
    name = sandbox.function.name
    while True:
        await asyncio.sleep(seconds)
        event = scheduled_event(name, datetime.now(UTC))
        try:
            await sandbox.invoke(event, seconds_max=sandbox.function.timeout_seconds)
        except TimedOut:
            click.echo(f"perdure: {name} ran out of time", err=True)
        except Exception as error:  # noqa: BLE001  # the next call tries again, as in the cloud
            click.echo(f"perdure: {name} failed: {error}", err=True)
