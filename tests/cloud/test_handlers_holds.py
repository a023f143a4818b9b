"""A message of a long work is hidden anew while its process lives, and not for all the time it may take."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from tests.api.rig import Context
from tests.support.queue import PaperQueue, record

from perdure.api.driving import HOLD_MS
from perdure.api.queue import Queued
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_sessions import LEASE_MS_CLOUD
from perdure.kernel.errors import StoreUnavailable

pytestmark = [pytest.mark.cloud, pytest.mark.sessions]

HOLD = 90
REMAINING_MS = 900_000


class Reluctant(PaperQueue):
    """A queue that takes no word until it was asked twice."""

    tries = 0

    async def defer(self, receipts, ms):
        self.tries += 1
        if 1 < self.tries < 4:
            raise StoreUnavailable(expected="an answer", found="none")
        await super().defer(receipts, ms)


def worked(until, *, hold_ms, queue):
    """Let a function work at one message until something holds; return what it replies."""

    async def serve(ports, handed, ms):
        async with asyncio.timeout(60):
            while not until():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return {"state": "idle"}

    @asynccontextmanager
    async def opening():
        yield object()

    sandbox = Sandbox(opening, (), queued=Queued(serve, lambda: queue, hold_ms))
    reply = sandbox.handler(
        {"Records": [record("{}", group="a")]}, Context(remaining_ms=REMAINING_MS)
    )
    sandbox.close()
    return reply


def test_message_is_hidden_anew_while_its_work_goes_on():
    queue = PaperQueue()

    reply = worked(lambda: len(queue.deferred) > 3, hold_ms=HOLD, queue=queue)

    assert reply == {"batchItemFailures": []}
    assert {ms for _, ms in queue.deferred} == {HOLD}


def test_a_hold_that_could_not_be_told_is_told_again():
    queue = Reluctant()

    reply = worked(lambda: len(queue.deferred) >= 2, hold_ms=HOLD, queue=queue)

    assert reply == {"batchItemFailures": []}
    assert queue.tries >= 4


def test_whoever_says_nothing_of_it_hides_a_message_once_for_all_the_time_there_is():
    queue = PaperQueue()

    begun = time.monotonic()

    worked(lambda: time.monotonic() > begun + 0.1, hold_ms=None, queue=queue)

    ((_, ms),) = queue.deferred
    assert ms > REMAINING_MS


def test_a_session_waits_no_longer_for_its_message_than_for_its_fence_when_a_process_was_killed():
    assert HOLD_MS <= LEASE_MS_CLOUD
