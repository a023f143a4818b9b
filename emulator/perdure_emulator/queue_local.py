"""The emulator's own queues, as event sources read them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from perdure_emulator.cloudformation import REGION
from perdure_emulator.declared import Queue
from perdure_emulator.queue_errors import QueueError
from perdure_emulator.queues import Message, Queues
from perdure_emulator.sqs import Sqs, delivered
from perdure_emulator.template_resources import queue_arn


class LocalQueues:
    """All of them, and who answers for them over HTTP."""

    def __init__(self, declared: Mapping[str, Queue], address: str) -> None:
        self._declared = declared
        self._queues = Queues(declared.values(), now_ms=now_ms, died=told)
        self._address = address
        self.sqs: Sqs | None = Sqs(self._queues, address)

    def polled(self, logical: str) -> LocalQueue:
        assert self.sqs is not None, "these are here"
        return LocalQueue(self._queues, self.sqs, self._declared[logical])

    def environment(self) -> dict[str, str]:
        """Return what makes an SDK find the queues: no credentials of anybody's go there."""
        return {
            "AWS_ENDPOINT_URL_SQS": self._address,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
        }


class LocalQueue:
    """A queue of this process."""

    region = REGION

    def __init__(self, queues: Queues, sqs: Sqs, queue: Queue) -> None:
        self.arn = queue_arn(queue.name)
        self._queues = queues
        self._sqs = sqs
        self._name = queue.name

    async def receive(self, most: int, *, wait_seconds: int) -> Sequence[dict[str, Any]]:
        found = await self._sqs.receive(self._name, most=most, wait_seconds=wait_seconds)
        return [delivered(each) for each in found]

    async def delete(self, handles: Sequence[str]) -> None:
        for handle in handles:
            with contextlib.suppress(QueueError):  # it took too long: the message comes again
                self._queues.delete(self._name, handle)


def now_ms() -> int:
    """Return the time by which messages are hidden, sent and forgotten: the real one."""
    return time.time_ns() // 1_000_000


def told(queue: Queue, message: Message) -> None:
    """Say that a message has become a dead letter."""
    times = "once" if message.received == 1 else f"{message.received} times"
    click.echo(
        f"perdure: message {message.id} of {queue.logical} was received {times} in vain; "
        f"it is in {queue.dead_letters}",
        err=True,
    )
