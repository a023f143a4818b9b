"""A queue in SQS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from perdure.api.invocation import ATTRIBUTE, current
from perdure.api.queue import DEFER_MS_MAX, SEND_MAX, Message
from perdure.api.settings import Settings
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.refusals import unanswered

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

PATIENT: Final = Config(
    connect_timeout=1, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 4}
)
"""Sending again is safe: the queue knows a message by its deduplication id."""


class SqsQueue:
    """A first-in-first-out queue of SQS."""

    def __init__(self, client: SQSClient, url: str) -> None:
        self._client = client
        self._url = url

    @property
    def name(self) -> str:
        return self._url.rpartition("/")[2]

    async def send(self, messages: Sequence[Message]) -> None:
        more = _correlated(current().correlation)
        entries: list[Any] = [
            {
                "MessageBody": each.body,
                "MessageGroupId": each.group,
                "MessageDeduplicationId": each.once,
                **more,
            }
            for each in messages
        ]
        await self._all(self._client.send_message_batch, "to take messages", entries)

    async def defer(self, receipts: Sequence[str], ms: int) -> None:
        seconds = -(-min(ms, DEFER_MS_MAX) // 1_000)
        entries: list[Any] = [
            {"ReceiptHandle": each, "VisibilityTimeout": seconds} for each in receipts
        ]
        call = self._client.change_message_visibility_batch
        await self._all(call, "to put messages back", entries)

    async def _all(self, call: Callable[..., Any], expected: str, entries: Sequence[Any]) -> None:
        """Call for all entries, part by part. Raises StoreUnavailable, when all parts had their turn."""
        failed: list[str] = []
        refused: ClientError | None = None
        for part in _parts(entries):
            numbered = [{"Id": str(number), **each} for number, each in enumerate(part)]
            try:
                answer = await asyncio.to_thread(call, QueueUrl=self._url, Entries=numbered)
            except BotoCoreError as error:  # no answer: the other parts would wait as long
                raise unanswered(f"queue {self.name} {expected}", error) from error
            except ClientError as error:
                refused = error
                continue
            failed += [
                f"{each['Code']}: {each.get('Message', '')}" for each in answer.get("Failed", ())
            ]
        if refused is not None:
            raise unanswered(f"queue {self.name} {expected}", refused) from refused
        if failed:
            raise StoreUnavailable(
                expected=f"queue {self.name} {expected}", found=f"{len(failed)} not: {failed[0]}"
            )


def queue(chosen: Settings, url: str) -> SqsQueue:
    """Return the queue at a URL."""
    client = boto3.client("sqs", endpoint_url=chosen.sqs_endpoint, config=PATIENT)
    return SqsQueue(client, url)


def _correlated(id: str) -> dict[str, Any]:
    """Return what makes a message say what it was sent for."""
    if not id:
        return {}
    return {"MessageAttributes": {ATTRIBUTE: {"DataType": "String", "StringValue": id}}}


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), SEND_MAX):
        yield items[start : start + SEND_MAX]
