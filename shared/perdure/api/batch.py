"""A batch of queue messages: each is done with, or reported, and with it the rest of its group.

Powertools keeps the groups. Imported by name, by whoever has a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    SqsFifoPartialProcessor,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from perdure.api.deadlines import TimeUp, last_ms, within
from perdure.api.gateway import LambdaContext
from perdure.api.invocation import INVOCATION, correlation_of_message, current
from perdure.api.logs import told as told_of
from perdure.api.measures import tell
from perdure.api.problems import INTERNAL
from perdure.api.queue import Handed, Later, Queue
from perdure.api.ticking import again_ms
from perdure.kernel.errors import (
    MalformedEvent,
    NotPermitted,
    OutcomeUnknown,
    PerdureError,
    StoreUnavailable,
)

SOURCE: Final = "aws:sqs"

HOLD_MS: Final = 5_000
"""So long after this function's time its messages are handed out to the next, if it dies."""


class HasQueue(Protocol):
    """What a function with a queue has open."""

    @property
    def queue(self) -> Queue: ...


P = TypeVar("P", bound=HasQueue)


class Batch:
    """One event of a queue."""

    def __init__(
        self,
        event: Mapping[str, Any],
        context: LambdaContext,
        logger: Logger,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._event = event
        self._context = context
        self._logger = logger
        self._run = run
        self._left = 0

    def answered(
        self, ports: P, serve: Callable[[P, Handed, int], Coroutine[Any, Any, dict[str, Any]]]
    ) -> dict[str, Any]:
        """Handle every message in order, and return which are to be handed out again.

        Time is shared out: what one message leaves of its share goes to those behind it.
        Raises: MalformedEvent, NotPermitted for what is no batch of this function's queue; then
        nothing was done.
        """
        records = _checked(self._event, ports.queue.name)
        self._left = len(records)
        # Should this process die, its messages are handed out again soon after, and not only
        # when the queue's own time is over: their worlds would stand still until then.
        self._put_back(
            ports.queue,
            [each["receiptHandle"] for each in records],
            self._context.get_remaining_time_in_millis() + HOLD_MS,
        )

        def record_handler(record: SQSRecord) -> None:
            share_ms = self._context.get_remaining_time_in_millis() // self._left
            self._left -= 1
            self._run(self._handled(ports, serve, record, share_ms))

        # A batch of which nothing is done is no failed invocation: each message tells for itself.
        processor = SqsFifoPartialProcessor(skip_group_on_error=True)
        processor.raise_on_entire_batch_failure = False
        reply = process_partial_response(
            event=dict(self._event),
            record_handler=record_handler,
            processor=processor,
            context=self._context,  # type: ignore[arg-type]  # handed on to nobody
        )
        return dict(reply)

    async def _handled(
        self,
        ports: P,
        serve: Callable[[P, Handed, int], Coroutine[Any, Any, dict[str, Any]]],
        record: SQSRecord,
        ms: int,
    ) -> None:
        # This coroutine's alone: what is logged of a message goes by what sent it.
        asked_by = correlation_of_message(record.raw_event, current().correlation)
        INVOCATION.set(replace(current(), correlation=asked_by))
        tries = int(record.attributes.approximate_receive_count)
        handed = Handed(record.body, record.receipt_handle, tries)
        told: dict[str, Any] = {"message_id": record.message_id, "tries": tries}
        try:
            last = last_ms(self._context.get_remaining_time_in_millis())
            done = await within(last / 1_000, serve(ports, handed, ms))
        except Later as later:
            why = {} if later.why is None else {"code": later.why.code}
            self._logger.info("put back", extra={**told, "ms": later.ms, **why})
            await _deferred(ports.queue, handed, later.ms)
            raise
        except PerdureError as error:
            # What was found may quote the message; the code says enough.
            self._logger.warning("failed", extra={**told, "code": error.code})
            tell("refused", code=error.code)
            await _deferred(ports.queue, handed, again_ms(tries))
            raise
        except TimeUp:
            self._logger.warning("failed", extra={**told, "code": OutcomeUnknown.code})
            tell("refused", code=OutcomeUnknown.code)
            await _deferred(ports.queue, handed, again_ms(tries))
            raise
        except Exception as error:
            self._logger.error("unforeseen", extra={**told, **told_of(error)})  # noqa: TRY400  # its text may quote the message
            tell("refused", code=INTERNAL)
            await _deferred(ports.queue, handed, again_ms(tries))
            raise
        self._logger.info("served", extra={**told, **done})

    def _put_back(self, queue: Queue, receipts: list[str], ms: int) -> None:
        try:
            self._run(_defer(queue, receipts, ms))
        except StoreUnavailable as error:
            self._logger.warning("not held", extra={"code": error.code})


async def _defer(queue: Queue, receipts: list[str], ms: int) -> None:
    await queue.defer(receipts, ms)


async def _deferred(queue: Queue, handed: Handed, ms: int) -> None:
    """Put a message back; where that fails, it comes back when the queue's own time is over."""
    try:
        await queue.defer([handed.receipt], ms)
    except StoreUnavailable:
        return


def _checked(event: Mapping[str, Any], queue: str) -> list[Mapping[str, Any]]:
    """Return the records of a batch, all of them of ``queue``. Raises MalformedEvent, NotPermitted."""
    records = event["Records"]
    if not isinstance(records, list) or not records:
        raise MalformedEvent(expected="an event with Records", found="none")
    for each in records:
        if not isinstance(each, Mapping) or each.get("eventSource") != SOURCE:
            raise MalformedEvent(expected=f"records of {SOURCE}", found="others")
        arn = str(each.get("eventSourceARN"))
        if arn.rpartition(":")[2] != queue:
            raise NotPermitted(expected=f"messages of queue {queue}", found=f"those of {arn[:200]}")
        texts = [each.get(name) for name in ("messageId", "receiptHandle", "body")]
        count = each.get("attributes", {}).get("ApproximateReceiveCount", "")
        if not (all(isinstance(text, str) for text in texts) and str(count).isdecimal()):
            raise MalformedEvent(expected="records as SQS spells them", found="others")
    return records
