"""Event sources: a queue's messages in batches to a function, as Lambda's pollers bring them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import click

from perdure_emulator.calls import settled
from perdure_emulator.declared import Source
from perdure_emulator.sandboxes import Runs, TimedOut
from perdure_emulator.sqs import Sqs

WAIT_SECONDS: Final = 1
"""How long a poll waits for a first message."""

FAILED_SECONDS: Final = 1.0
"""How long to wait after a queue could not be asked."""

FAILURES: Final = "batchItemFailures"

Delivered = Mapping[str, Any]
"""A message as ReceiveMessage spells it."""


class Polled(Protocol):
    """A queue, wherever it is."""

    arn: str
    region: str

    async def receive(self, most: int, *, wait_seconds: int) -> Sequence[Delivered]: ...

    async def delete(self, handles: Sequence[str]) -> None: ...


class Waiting(Protocol):
    """The queues of a deployment."""

    sqs: Sqs | None
    """Who answers for them, if they are here."""

    def polled(self, logical: str) -> Polled:
        """Return the queue of a logical id."""
        ...


async def poll(sandbox: Runs, source: Source, queue: Polled) -> None:
    """Give a queue's messages to a function, batch after batch, until cancelled.

    A batch that the function has then is not left.
    """

    async def serve(batch: Sequence[Delivered]) -> None:
        await _served(sandbox, source, queue, batch)

    while True:
        try:
            batch = await queue.receive(source.batch_size, wait_seconds=WAIT_SECONDS)
            if batch:
                await settled(serve(batch))
        except Exception as error:  # noqa: BLE001  # a poller outlives whatever befalls a queue
            _say(f"{queue.arn.rpartition(':')[2]} could not be read: {error}")
            await asyncio.sleep(FAILED_SECONDS)


async def poll_once(sandbox: Runs, source: Source, queue: Polled) -> Sequence[Delivered]:
    """Give one batch to a function; return those messages that stay in the queue.

    They are seen again after their visibility time-out, and become dead letters in time.
    """
    batch = await queue.receive(source.batch_size, wait_seconds=0)
    return await _served(sandbox, source, queue, batch) if batch else batch


async def _served(
    sandbox: Runs, source: Source, queue: Polled, batch: Sequence[Delivered]
) -> Sequence[Delivered]:
    failed = await _failed(sandbox, source, batch, sqs_event(batch, queue.arn, queue.region))
    done = [each for each in batch if each["MessageId"] not in failed]
    if done:
        await queue.delete([each["ReceiptHandle"] for each in done])
    return [each for each in batch if each["MessageId"] in failed]


def sqs_event(batch: Sequence[Delivered], arn: str, region: str) -> dict[str, Any]:
    """Shape messages as Lambda does. Source: AWS Lambda developer guide, "Using Lambda with SQS"."""
    return {
        "Records": [
            {
                "messageId": each["MessageId"],
                "receiptHandle": each["ReceiptHandle"],
                "body": each["Body"],
                "attributes": dict(each.get("Attributes", {})),
                "messageAttributes": {
                    name: _attribute(value)
                    for name, value in each.get("MessageAttributes", {}).items()
                },
                "md5OfBody": each["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": arn,
                "awsRegion": region,
            }
            for each in batch
        ]
    }


def failures(reply: Any, ids: frozenset[str]) -> frozenset[str]:
    """Return which messages a reply says have failed: all, if it is none that Lambda takes.

    Source: AWS Lambda developer guide, "Handling errors for an SQS event source", success and
    failure conditions. An id that is none of the batch's counts as one that cannot be read.
    """
    if reply is None:
        return frozenset()
    if not isinstance(reply, Mapping):
        return ids
    listed = reply.get(FAILURES)
    if listed is None:
        return frozenset()
    if not isinstance(listed, list):
        return ids
    named = [each.get("itemIdentifier") if isinstance(each, Mapping) else None for each in listed]
    found = [each for each in named if isinstance(each, str) and each in ids]
    return frozenset(found) if len(found) == len(named) else ids


async def _failed(
    sandbox: Runs, source: Source, batch: Sequence[Delivered], event: Mapping[str, Any]
) -> frozenset[str]:
    name, ids = sandbox.function.name, frozenset(each["MessageId"] for each in batch)
    try:
        reply: Any = await sandbox.invoke(event, seconds_max=sandbox.function.timeout_seconds)
    except TimedOut:
        _say(f"{name} ran out of time over {_counted(ids)}")
        return ids
    except Exception as error:  # noqa: BLE001  # the messages come again, as in the cloud
        _say(f"{name} failed over {_counted(ids)}: {error!r}")
        return ids
    return failures(reply, ids) if source.reports_failures else frozenset()


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    found = {f"{name[0].lower()}{name[1:]}": each for name, each in value.items()}
    return {"stringListValues": [], "binaryListValues": [], **found}


def _counted(ids: frozenset[str]) -> str:
    return "a message" if len(ids) == 1 else f"{len(ids)} messages"


def _say(what: str) -> None:
    click.echo(f"perdure: {what}", err=True)
