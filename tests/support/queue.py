"""A queue by hand: it takes messages, hands them out as Lambda's event source does, and forgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from perdure.api.queue import Message

NAME = "Ticks.fifo"
ARN = f"arn:aws:sqs:eu-central-1:123456789012:{NAME}"
_NUMBERS = count(1)


@dataclass
class PaperQueue:
    """Remembers what was sent and what was put back."""

    name: str = NAME
    sent: list[Message] = field(default_factory=list)
    deferred: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    failure: Exception | None = None
    """What sending and putting back raise, if anything."""

    known: set[str] = field(default_factory=set)

    async def send(self, messages: Sequence[Message]) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent += [each for each in messages if each.once not in self.known]
        self.known |= {each.once for each in messages}

    async def defer(self, receipts: Sequence[str], ms: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.deferred.append((tuple(receipts), ms))

    def put_back(self) -> dict[str, int]:
        """Return for how long each single message was put back, by its receipt."""
        return {receipts[0]: ms for receipts, ms in self.deferred if len(receipts) == 1}

    def event(self) -> dict[str, Any]:
        """Hand out everything that was sent, in the shape of Lambda's event."""
        taken, self.sent = self.sent, []
        return {"Records": [record(each.body, group=each.group) for each in taken]}


def record(
    body: str, *, group: str = "w", tries: int = 1, id: str | None = None, arn: str = ARN
) -> dict[str, Any]:
    """Shape a message as Lambda gets it.

    Source: Lambda developer guide, "Using Lambda with Amazon SQS", FIFO queue message event.
    """
    number = str(next(_NUMBERS)) if id is None else id
    return {
        "messageId": number,
        "receiptHandle": f"receipt-{number}",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": str(tries),
            "SentTimestamp": "1573251510774",
            "SequenceNumber": "18849496460467696128",
            "MessageGroupId": group,
            "SenderId": "AIDAIO23YVJENQZJOL4VO",
            "MessageDeduplicationId": number,
            "ApproximateFirstReceiveTimestamp": "1573251510774",
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "eu-central-1",
    }
