"""Queues as SQS keeps them, in memory: order, time-outs, redelivery, dead letters.

Time is an argument: whoever makes the queues brings the clock, in milliseconds since 1970.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from perdure_emulator.declared import Queue
from perdure_emulator.queue_errors import (
    QueueError,
    expired_handle,
    invalid_handle,
    invalid_value,
    missing,
    no_such_queue,
    not_in_flight,
)
from perdure_emulator.template_resources import queue_arn

DEDUPLICATION_MS: Final = 5 * 60_000
"""Source: Amazon SQS developer guide, "Using the message deduplication ID"."""

VISIBILITY_SECONDS_MAX: Final = 43_200
"""Source: Amazon SQS API reference, ChangeMessageVisibility."""

DELAY_SECONDS_MAX: Final = 900
"""Source: Amazon SQS API reference, SendMessage."""

BODY_BYTES_MAX: Final = 1_048_576
"""Bytes of a message, and of all messages of a batch. Source: Amazon SQS quotas, message size."""

_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ID: Final = re.compile(r"""[A-Za-z0-9!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}""")
_HANDLE: Final = re.compile(r"([^/]+)/([0-9a-f-]{36})/(\d+)")


@dataclass(slots=True, kw_only=True)
class Message:
    """A message, and what has become of it so far."""

    id: str
    body: str
    sent_ms: int
    visible_at_ms: int
    group: str | None
    deduplication_id: str | None
    sequence: str
    attributes: dict[str, Any] = field(default_factory=dict)
    """What the sender put beside the body."""
    trace: str | None = None
    received: int = 0
    first_received_ms: int | None = None
    in_flight: bool = False
    dead_of: str | None = None
    """The queue whose dead letter it is."""

    def described(self) -> dict[str, str]:
        """Spell the attributes that SQS keeps of a message."""
        found = {
            "ApproximateReceiveCount": str(self.received),
            "SentTimestamp": str(self.sent_ms),
            "SenderId": "AIDALOCAL",
            "ApproximateFirstReceiveTimestamp": str(self.first_received_ms),
            "MessageGroupId": self.group,
            "MessageDeduplicationId": self.deduplication_id,
            "SequenceNumber": self.sequence or None,
            "AWSTraceHeader": self.trace,
            "DeadLetterQueueSourceArn": self.dead_of,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a sender wants."""

    body: str
    group: str | None = None
    deduplication_id: str | None = None
    delay_seconds: int | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A message as one receiver has it."""

    message: Message
    handle: str


Died = Callable[[Queue, Message], None]


class Queues:
    """The queues of a deployment. For one thread."""

    def __init__(
        self, declared: Iterable[Queue], *, now_ms: Callable[[], int], died: Died | None = None
    ) -> None:
        """Hold ``declared``; ``died`` is told of every message that becomes a dead letter."""
        self._now_ms = now_ms
        self._died = died
        self._kept = {each.name: Kept(each) for each in declared}
        self._by_logical = {each.queue.logical: each for each in self._kept.values()}
        self._sequence = 10**19
        self._seen: dict[tuple[str, str, str], tuple[int, Message]] = {}

    def names(self) -> list[str]:
        return sorted(self._kept)

    def kept(self, name: str) -> Kept:
        """Return a queue by its name. Raises QueueError."""
        if name not in self._kept:
            raise no_such_queue()
        return self._kept[name]

    def dead_letters(self, name: str) -> str:
        """Return the name of the queue that takes the dead letters of another."""
        logical = self.kept(name).queue.dead_letters
        assert logical is not None, "asked of a queue that has one"
        return self._by_logical[logical].queue.name

    def send(self, name: str, sent: Sent) -> Message:
        """Keep a message, or return the one it repeats. Raises QueueError."""
        kept, now = self.kept(name), self._now_ms()
        _check(kept.queue, sent)
        deduplication_id = sent.deduplication_id
        if kept.queue.is_fifo and deduplication_id is None:
            deduplication_id = hashlib.sha256(sent.body.encode()).hexdigest()
        known = self._repeated(kept.queue, sent.group or "", deduplication_id, now)
        if known is not None:
            return known
        delay = kept.queue.delay_seconds if sent.delay_seconds is None else sent.delay_seconds
        self._sequence += 1
        message = Message(
            id=str(uuid.uuid4()),
            body=sent.body,
            sent_ms=now,
            visible_at_ms=now + delay * 1_000,
            group=sent.group,
            deduplication_id=deduplication_id,
            sequence=str(self._sequence) if kept.queue.is_fifo else "",
            attributes=sent.attributes,
            trace=sent.trace,
        )
        kept.messages[message.id] = message
        if kept.queue.is_fifo and deduplication_id is not None:
            self._seen[_scope(kept.queue, sent.group or "", deduplication_id)] = (now, message)
        return message

    def receive(
        self, name: str, *, most: int = 1, visibility_seconds: int | None = None
    ) -> list[Received]:
        """Return messages that nobody else has, and hide them. Raises QueueError."""
        kept, now = self.kept(name), self._now_ms()
        seconds = (
            kept.queue.visibility_seconds if visibility_seconds is None else visibility_seconds
        )
        _check_visibility(seconds)
        found = []
        for message in self._visible(kept, now):
            message.received += 1
            message.first_received_ms = message.first_received_ms or now
            message.visible_at_ms = now + seconds * 1_000
            message.in_flight = True
            found.append(Received(message, f"{name}/{message.id}/{message.received}"))
            if len(found) == most:
                break
        return found

    def delete(self, name: str, handle: str) -> None:
        """Let go of a message that was received. Raises QueueError."""
        kept = self.kept(name)
        message, is_current = self._held(kept, handle)
        if message is None:
            return
        if kept.queue.is_fifo and not is_current:
            raise expired_handle(handle)
        del kept.messages[message.id]

    def change_visibility(self, name: str, handle: str, seconds: int) -> None:
        """Hide a message that was received for as long from now on. Raises QueueError."""
        _check_visibility(seconds)
        message, is_current = self._held(self.kept(name), handle)
        if message is None or not is_current:
            raise not_in_flight(handle)
        message.visible_at_ms = self._now_ms() + seconds * 1_000
        message.in_flight = seconds > 0

    def purge(self, name: str) -> None:
        """Let go of every message. Raises QueueError."""
        self.kept(name).messages.clear()

    def counts(self, name: str) -> tuple[int, int, int]:
        """Return how many messages are visible, hidden by a receiver, and delayed."""
        now = self._now_ms()
        visible = hidden = delayed = 0
        for message in self.kept(name).alive(now):
            if message.visible_at_ms <= now:
                visible += 1
            elif message.in_flight:
                hidden += 1
            else:
                delayed += 1
        return visible, hidden, delayed

    def _visible(self, kept: Kept, now: int) -> Iterator[Message]:
        """Return what may be received, in order; what was received too often is moved away."""
        alive = kept.alive(now)
        # Of a group in which a message is in flight, no other is given out.
        waiting = {each.group for each in alive if each.in_flight and each.visible_at_ms > now}
        for message in alive:
            if kept.queue.is_fifo and message.group in waiting:
                continue
            if message.visible_at_ms > now:
                waiting.add(message.group)
            elif self._is_spent(kept.queue, message):
                self._move(kept, message, now)
            else:
                yield message

    def _is_spent(self, queue: Queue, message: Message) -> bool:
        return queue.received_max is not None and message.received >= queue.received_max

    def _move(self, kept: Kept, message: Message, now: int) -> None:
        assert kept.queue.dead_letters is not None, "who counts has a place for what is spent"
        del kept.messages[message.id]
        message.visible_at_ms = now
        message.in_flight = False
        message.dead_of = queue_arn(kept.queue.name)
        if kept.queue.is_fifo:  # the time that counts for retention begins anew
            message.sent_ms = now
        self._by_logical[kept.queue.dead_letters].messages[message.id] = message
        if self._died is not None:
            self._died(kept.queue, message)

    def _repeated(
        self, queue: Queue, group: str, deduplication_id: str | None, now: int
    ) -> Message | None:
        if not queue.is_fifo or deduplication_id is None:
            return None
        self._seen = {
            scope: seen for scope, seen in self._seen.items() if seen[0] + DEDUPLICATION_MS > now
        }
        found = self._seen.get(_scope(queue, group, deduplication_id))
        return None if found is None else found[1]

    def _held(self, kept: Kept, handle: str) -> tuple[Message | None, bool]:
        """Return the message of a handle, and whether the handle still holds it."""
        found = _HANDLE.fullmatch(handle)
        if found is None or found[1] != kept.queue.name:
            raise invalid_handle(handle)
        message = kept.messages.get(found[2])
        if message is None:
            return None, False
        is_current = message.received == int(found[3]) and message.in_flight
        return message, is_current and message.visible_at_ms > self._now_ms()


@dataclass(slots=True)
class Kept:
    """A queue and its messages, oldest first."""

    queue: Queue
    messages: dict[str, Message] = field(default_factory=dict)

    def alive(self, now: int) -> list[Message]:
        """Return the messages, without those that have been kept for too long."""
        kept_ms = self.queue.retention_seconds * 1_000
        for message in [each for each in self.messages.values() if each.sent_ms + kept_ms <= now]:
            del self.messages[message.id]
        return list(self.messages.values())


def _scope(queue: Queue, group: str, deduplication_id: str) -> tuple[str, str, str]:
    return (queue.name, group if queue.deduplicates_in_group else "", deduplication_id)


def _check(queue: Queue, sent: Sent) -> None:
    """Refuse what SQS refuses. Raises QueueError."""
    if not sent.body:
        raise missing("MessageBody")
    check_size(len(sent.body.encode(errors="surrogatepass")))
    if _FORBIDDEN.search(sent.body):
        raise QueueError("InvalidMessageContents", "Invalid characters found in the message.")
    for name, given in (
        ("MessageGroupId", sent.group),
        ("MessageDeduplicationId", sent.deduplication_id),
    ):
        if given is not None and not _ID.fullmatch(given):
            raise invalid_value(
                f"Value {given} for parameter {name} is invalid. Reason: {name} can only include "
                "alphanumeric and punctuation characters. 1 to 128 in length."
            )
    if queue.is_fifo:
        if sent.group is None:
            raise missing("MessageGroupId")
        if sent.deduplication_id is None and not queue.by_content:
            raise invalid_value(
                "The queue should either have ContentBasedDeduplication enabled or "
                "MessageDeduplicationId provided explicitly"
            )
    wrong_delay = sent.delay_seconds is not None and (
        queue.is_fifo or not 0 <= sent.delay_seconds <= DELAY_SECONDS_MAX
    )
    if wrong_delay or (sent.deduplication_id is not None and not queue.is_fifo):
        name = "DelaySeconds" if wrong_delay else "MessageDeduplicationId"
        value = sent.delay_seconds if wrong_delay else sent.deduplication_id
        raise invalid_value(
            f"Value {value} for parameter {name} is invalid. Reason: The request include "
            "parameter that is not valid for this queue type."
        )


def check_size(size: int) -> None:
    """Refuse a message that is too large. Raises QueueError."""
    if size > BODY_BYTES_MAX:
        raise invalid_value(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{BODY_BYTES_MAX} bytes."
        )


def _check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= VISIBILITY_SECONDS_MAX:
        raise invalid_value(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and "
            f"<= {VISIBILITY_SECONDS_MAX}, if provided."
        )
