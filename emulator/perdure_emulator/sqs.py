"""The queues over HTTP: AWS's JSON protocol, as the SDKs speak it.

Who sends a signature is not asked: the port is on loopback.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure_emulator.cloudformation import ACCOUNT
from perdure_emulator.queue_errors import QueueError, invalid_value, missing, no_such_queue
from perdure_emulator.queues import BODY_BYTES_MAX, Message, Queues, Received, Sent
from perdure_emulator.template_resources import queue_arn

TARGET: Final = "AmazonSQS."
"""How the header `x-amz-target` of a request to a queue begins."""

CONTENT_TYPE: Final = "application/x-amz-json-1.0"

BATCH_MAX: Final = 10
"""Source: Amazon SQS quotas, messages in a batch."""

WAIT_SECONDS_MAX: Final = 20
"""Source: Amazon SQS API reference, ReceiveMessage."""

LOOK_SECONDS: Final = 0.02
"""How often a receiver that waits looks again: a hidden message comes back without a sign."""

Asked = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back over HTTP."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def event(self) -> dict[str, Any]:
        """Spell the reply as a function would."""
        return {
            "statusCode": self.status,
            "headers": {"content-type": CONTENT_TYPE, **self.headers},
            "body": self.body.decode(),
        }


class Sqs:
    """Answers for the queues, at one address."""

    def __init__(
        self,
        queues: Queues,
        address: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queues = queues
        self._address = address
        self._monotonic = monotonic
        self._pause = pause
        self._actions: Mapping[str, Callable[[Asked], Awaitable[dict[str, Any]]]] = {
            "SendMessage": self._send,
            "SendMessageBatch": self._send_batch,
            "ReceiveMessage": self._receive,
            "DeleteMessage": self._delete,
            "DeleteMessageBatch": self._delete_batch,
            "ChangeMessageVisibility": self._change,
            "ChangeMessageVisibilityBatch": self._change_batch,
            "GetQueueUrl": self._url,
            "GetQueueAttributes": self._attributes,
            "ListQueues": self._list,
            "PurgeQueue": self._purge,
        }

    async def answer(self, target: str, body: bytes) -> Reply:
        """Answer one request; ``target`` is its header `x-amz-target`."""
        try:
            return _told(200, await self._done(target, body))
        except QueueError as error:
            told = {"__type": f"com.amazonaws.sqs#{error.kind}", "message": error.message}
            return _told(400, told, {"x-amzn-query-error": f"{error.query_code};Sender"})

    async def _done(self, target: str, body: bytes) -> dict[str, Any]:
        name = target.removeprefix(TARGET)
        if name not in self._actions:
            # Made by the template; an action that is not here is none of a function's.
            raise QueueError("UnsupportedOperation", f"{name} is not run by perdure dev.")
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            raise QueueError("SerializationException", "The request is no JSON.") from None
        if not isinstance(asked, dict):
            raise QueueError("SerializationException", "The request is no JSON object.")
        try:
            return await self._actions[name](asked)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise QueueError(
                "SerializationException", f"{type(error).__name__}: {error}"
            ) from error

    async def receive(
        self, name: str, *, most: int, visibility_seconds: int | None = None, wait_seconds: float
    ) -> list[Received]:
        """Return messages, waiting for the first. Raises QueueError."""
        until = self._monotonic() + wait_seconds
        while True:
            found = self._queues.receive(name, most=most, visibility_seconds=visibility_seconds)
            if found or self._monotonic() >= until:
                return found
            await self._pause(LOOK_SECONDS)

    async def _send(self, asked: Asked) -> dict[str, Any]:
        return _receipt(self._queues.send(self._named(asked), _sent(asked)))

    async def _send_batch(self, asked: Asked) -> dict[str, Any]:
        size = sum(len(str(each.get("MessageBody", ""))) for each in _entries(asked))
        if size > BODY_BYTES_MAX:
            raise QueueError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {BODY_BYTES_MAX} bytes. "
                f"You have sent {size} bytes.",
            )
        name = self._named(asked)
        return _each(asked, lambda entry: _receipt(self._queues.send(name, _sent(entry))))

    async def _receive(self, asked: Asked) -> dict[str, Any]:
        name = self._named(asked)
        most = int(asked.get("MaxNumberOfMessages", 1))
        if not 1 <= most <= BATCH_MAX:
            raise invalid_value(
                f"Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be "
                f"between 1 and {BATCH_MAX}, if provided."
            )
        wait = int(asked.get("WaitTimeSeconds", self._queues.kept(name).queue.wait_seconds))
        if not 0 <= wait <= WAIT_SECONDS_MAX:
            raise invalid_value(
                f"Value {wait} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and "
                f"<= {WAIT_SECONDS_MAX}, if provided."
            )
        found = await self.receive(
            name,
            most=most,
            visibility_seconds=asked.get("VisibilityTimeout"),
            wait_seconds=wait,
        )
        wanted = [
            *asked.get("AttributeNames", []),
            *asked.get("MessageSystemAttributeNames", []),
        ]
        beside = asked.get("MessageAttributeNames", [])
        return {"Messages": [delivered(each, wanted, beside) for each in found]} if found else {}

    async def _delete(self, asked: Asked) -> dict[str, Any]:
        self._queues.delete(self._named(asked), _handle(asked))
        return {}

    async def _delete_batch(self, asked: Asked) -> dict[str, Any]:
        name = self._named(asked)
        return _each(asked, lambda entry: self._queues.delete(name, _handle(entry)))

    async def _change(self, asked: Asked) -> dict[str, Any]:
        self._change_one(self._named(asked), asked)
        return {}

    async def _change_batch(self, asked: Asked) -> dict[str, Any]:
        name = self._named(asked)
        return _each(asked, lambda entry: self._change_one(name, entry))

    def _change_one(self, name: str, asked: Asked) -> None:
        if "VisibilityTimeout" not in asked:
            raise missing("VisibilityTimeout")
        self._queues.change_visibility(name, _handle(asked), int(asked["VisibilityTimeout"]))

    async def _url(self, asked: Asked) -> dict[str, Any]:
        if "QueueName" not in asked:
            raise missing("QueueName")
        return {"QueueUrl": self._address_of(self._queues.kept(asked["QueueName"]).queue.name)}

    async def _attributes(self, asked: Asked) -> dict[str, Any]:
        name = self._named(asked)
        visible, hidden, delayed = self._queues.counts(name)
        queue = self._queues.kept(name).queue
        found = {
            "QueueArn": queue_arn(name),
            "ApproximateNumberOfMessages": visible,
            "ApproximateNumberOfMessagesNotVisible": hidden,
            "ApproximateNumberOfMessagesDelayed": delayed,
            "VisibilityTimeout": queue.visibility_seconds,
            "DelaySeconds": queue.delay_seconds,
            "MessageRetentionPeriod": queue.retention_seconds,
            "ReceiveMessageWaitTimeSeconds": queue.wait_seconds,
            "MaximumMessageSize": BODY_BYTES_MAX,
        }
        if queue.is_fifo:
            by_content = str(queue.by_content).lower()
            found |= {"FifoQueue": "true", "ContentBasedDeduplication": by_content}
        if queue.dead_letters is not None:
            dead = self._queues.dead_letters(name)
            policy = {"deadLetterTargetArn": queue_arn(dead), "maxReceiveCount": queue.received_max}
            found["RedrivePolicy"] = json.dumps(policy)
        wanted = asked.get("AttributeNames", [])
        kept = {key: str(each) for key, each in found.items() if {"All", key} & {*wanted}}
        return {"Attributes": {**kept}} if kept else {}

    async def _list(self, asked: Asked) -> dict[str, Any]:
        prefix = asked.get("QueueNamePrefix", "")
        names = [name for name in self._queues.names() if name.startswith(prefix)]
        return {"QueueUrls": [self._address_of(name) for name in names]} if names else {}

    async def _purge(self, asked: Asked) -> dict[str, Any]:
        self._queues.purge(self._named(asked))
        return {}

    def _address_of(self, name: str) -> str:
        return f"{self._address}/{ACCOUNT}/{name}"

    def _named(self, asked: Asked) -> str:
        """Return the queue of a request. Raises QueueError."""
        url = asked.get("QueueUrl")
        if not url:
            raise missing("QueueUrl")
        account, _, name = str(url).rpartition("/")
        if not account.endswith(f"/{ACCOUNT}"):
            raise no_such_queue()
        return self._queues.kept(name).queue.name


def delivered(
    received: Received, wanted: Sequence[str] = ("All",), beside: Sequence[str] = ("All",)
) -> dict[str, Any]:
    """Spell a message as ReceiveMessage does."""
    message = received.message
    described = {
        name: each for name, each in message.described().items() if {"All", name} & {*wanted}
    }
    attributes = {
        name: each for name, each in message.attributes.items() if {"All", ".*", name} & {*beside}
    }
    found: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": received.handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    if described:
        found["Attributes"] = described
    if attributes:
        found["MessageAttributes"] = attributes
    return found


def _sent(asked: Asked) -> Sent:
    if "MessageBody" not in asked:
        raise missing("MessageBody")
    trace = asked.get("MessageSystemAttributes", {}).get("AWSTraceHeader", {})
    return Sent(
        body=str(asked["MessageBody"]),
        group=asked.get("MessageGroupId"),
        deduplication_id=asked.get("MessageDeduplicationId"),
        delay_seconds=asked.get("DelaySeconds"),
        attributes=dict(asked.get("MessageAttributes", {})),
        trace=trace.get("StringValue"),
    )


def _receipt(message: Message) -> dict[str, Any]:
    found = {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}
    return {**found, "SequenceNumber": message.sequence} if message.sequence else found


def _handle(asked: Asked) -> str:
    if "ReceiptHandle" not in asked:
        raise missing("ReceiptHandle")
    return str(asked["ReceiptHandle"])


def _entries(asked: Asked) -> list[Asked]:
    """Return the entries of a batch. Raises QueueError."""
    entries: list[Asked] = asked.get("Entries") or []
    if not entries:
        raise QueueError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > BATCH_MAX:
        raise QueueError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_MAX}. You have sent {len(entries)}.",
        )
    ids = [each["Id"] for each in entries]
    if len({*ids}) < len(ids):
        raise QueueError("BatchEntryIdsNotDistinct", "Two or more batch entries have the same Id.")
    return entries


def _each(asked: Asked, action: Callable[[Asked], dict[str, Any] | None]) -> dict[str, Any]:
    """Do the entries of a batch, each for itself. Raises QueueError for the batch as a whole."""
    successful: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry in _entries(asked):
        try:
            done = action(entry) or {}
        except QueueError as error:
            refused = {"Code": error.query_code, "Message": error.message, "SenderFault": True}
            failed.append({"Id": entry["Id"], **refused})
        else:
            successful.append({"Id": entry["Id"], **done})
    return {"Successful": successful, "Failed": failed}


def _told(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, json.dumps(content).encode(), headers or {})


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
