"""A batch of queue messages: each is done with, or reported, and with it the rest of its group.

Powertools keeps the groups. Imported by name, by whoever has a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

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


HOLDS: Final = 3
"""So often in the time for which it is hidden a message is hidden anew."""

LEAST_MS: Final = 4_000
"""No message is begun with less: a tick is not begun with less than two seconds, nor is anything
that has to be given up half a second before the end."""

SUSPECT_FROM_TRIES: Final = 3
"""One is for a message that came early, one for an accident. What comes a third time is served
last, and one world of that kind in a batch: should it take the process along, the others are done."""

APART_MS: Final = 1_000
"""So far apart suspects are put back, to come in batches of their own."""

P = TypeVar("P")
Serve = Callable[[P, Handed, int], Coroutine[Any, Any, dict[str, Any]]]


class Batch:
    """One event of a queue."""

    def __init__(
        self,
        event: Mapping[str, Any],
        context: LambdaContext,
        logger: Logger,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
        queue: Queue,
        hold_ms: int | None = None,
    ) -> None:
        self._event = event
        self._context = context
        self._logger = logger
        self._run = run
        self._queue = queue
        self._hold_ms = hold_ms
        self._left = 0
        self._again_ms: dict[str, int] = {}
        self._told: set[str] = set()

    def answered(
        self, opening: Callable[[], Coroutine[Any, Any, P]], serve: Serve[P]
    ) -> dict[str, Any]:
        """Handle every message in order, and return which are to be handed out again.

        Time is shared out: no message takes more than its share, and what it leaves goes to
        those behind it. Raises: MalformedEvent, NotPermitted for what is no batch of this
        function's queue, and nothing was done; what opening raises, and all is put back.
        """
        records = _checked(self._event, self._queue.name)
        self._left = len(records)
        # Should this process die, its messages are handed out again soon after, and not only
        # when the queue's own time is over: their worlds would stand still until then.
        self._put_back(records, self._held_ms())
        try:
            ports = self._run(opening())
        except Exception:
            self._put_back(records, again_ms(max(_tries(each) for each in records)))
            raise
        healthy, suspect, others = _sorted(records)
        for number, group in enumerate(others, start=1):
            self._again_ms[group] = number * APART_MS

        def record_handler(record: SQSRecord) -> None:
            group = str(record.attributes.message_group_id)
            share_ms = self._remaining_ms() // self._left
            self._left -= 1
            self._run(self._handled(ports, serve, record, group, share_ms))

        # A batch of which nothing is done is no failed invocation: each message tells for itself.
        processor = SqsFifoPartialProcessor(skip_group_on_error=True)
        processor.raise_on_entire_batch_failure = False
        reply = process_partial_response(
            event={"Records": [*healthy, *suspect]},
            record_handler=record_handler,
            processor=processor,
            context=self._context,  # type: ignore[arg-type]  # handed on to nobody
        )
        self._put_back_untold(records, reply)
        return dict(reply)

    async def _handled(
        self, ports: P, serve: Serve[P], record: SQSRecord, group: str, ms: int
    ) -> None:
        # This coroutine's alone: what is logged of a message goes by what sent it.
        asked_by = correlation_of_message(record.raw_event, current().correlation)
        INVOCATION.set(replace(current(), correlation=asked_by))
        tries = int(record.attributes.approximate_receive_count)
        told: dict[str, Any] = {"message_id": record.message_id, "tries": tries}
        try:
            if group in self._again_ms or ms < LEAST_MS:
                raise Later(self._again_ms.get(group, 0))  # noqa: TRY301  # put back as others are
            handed = Handed(record.body, record.receipt_handle, tries)
            last = min(ms, last_ms(self._remaining_ms()))
            async with self._holding(record.receipt_handle):
                done = await within(last / 1_000, serve(ports, handed, ms))
        except Later as later:
            why = {} if later.why is None else {"code": later.why.code}
            self._logger.info("put back", extra={**told, "ms": later.ms, **why})
            await self._deferred(record, group, later.ms)
            raise
        except Exception as error:
            self._tell(error, told)
            await self._deferred(record, group, again_ms(tries))
            raise
        self._logger.info("served", extra={**told, **done})

    def _held_ms(self) -> int:
        rest_ms = self._remaining_ms() + HOLD_MS
        return rest_ms if self._hold_ms is None else min(self._hold_ms, rest_ms)

    @asynccontextmanager
    async def _holding(self, receipt: str) -> AsyncIterator[None]:
        """Hide a message again and again while its work goes on, if it was not hidden for all of it."""
        if self._hold_ms is None:
            yield
            return
        holding = asyncio.create_task(self._hold(receipt, self._hold_ms / HOLDS / 1_000))
        try:
            yield
        finally:
            # A try under way may come after a message was put back, which then waits for its hold.
            holding.cancel()
            await asyncio.wait({holding})

    async def _hold(self, receipt: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(StoreUnavailable):  # there are two more tries before it shows
                await self._queue.defer([receipt], self._held_ms())

    def _tell(self, error: Exception, told: dict[str, Any]) -> None:
        """Say that a message has failed, by its code: what was found may quote the message."""
        if isinstance(error, (PerdureError, TimeUp)):
            code = OutcomeUnknown.code if isinstance(error, TimeUp) else error.code
            self._logger.warning("failed", extra={**told, "code": code})
        else:
            code = INTERNAL
            self._logger.error("unforeseen", extra={**told, **told_of(error)})
        tell("refused", code=code)

    async def _deferred(self, record: SQSRecord, group: str, ms: int) -> None:
        """Put a message back; where that fails, it comes back when the hold on it is over."""
        self._again_ms.setdefault(group, ms)
        self._told.add(record.message_id)
        with suppress(StoreUnavailable):
            await self._queue.defer([record.receipt_handle], ms)

    def _put_back_untold(self, records: list[Mapping[str, Any]], reply: Mapping[str, Any]) -> None:
        """Put back, each with its group, what was not even begun.

        A queue hands out nothing of a group while one message of it is held.
        """
        failed = {each["itemIdentifier"] for each in reply["batchItemFailures"]} - self._told
        by_ms: dict[int, list[Mapping[str, Any]]] = {}
        for each in records:
            if each["messageId"] in failed:
                by_ms.setdefault(self._again_ms.get(_group(each), 0), []).append(each)
        for ms, held in by_ms.items():
            self._put_back(held, ms)

    def _put_back(self, records: list[Mapping[str, Any]], ms: int) -> None:
        try:
            self._run(self._queue.defer([each["receiptHandle"] for each in records], ms))
        except StoreUnavailable as error:
            self._logger.warning("not put back", extra={"code": error.code})

    def _remaining_ms(self) -> int:
        return self._context.get_remaining_time_in_millis()


def _sorted(
    records: list[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], list[str]]:
    """Return the messages of worlds that nothing is known against, the others, and whom to put back.

    Each group stays in its order. Of the suspects the first may be served.
    """
    suspects = {_group(each): None for each in records if _tries(each) >= SUSPECT_FROM_TRIES}
    healthy = [each for each in records if _group(each) not in suspects]
    suspect = [each for each in records if _group(each) in suspects]
    return healthy, suspect, list(suspects)[1:]


def _group(record: Mapping[str, Any]) -> str:
    return str(record["attributes"].get("MessageGroupId"))


def _tries(record: Mapping[str, Any]) -> int:
    return int(record["attributes"]["ApproximateReceiveCount"])


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
        attributes = each.get("attributes")
        count = attributes.get("ApproximateReceiveCount") if isinstance(attributes, Mapping) else ""
        if not (all(isinstance(text, str) for text in texts) and str(count).isdecimal()):
            raise MalformedEvent(expected="records as SQS spells them", found="others")
    return records
