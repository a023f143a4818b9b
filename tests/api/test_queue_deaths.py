"""Messages that hang, kill or cannot be begun: what they may cost the others of their batch."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from tests.api.rig import Context
from tests.api.test_queue import Opened, Ports, message, refusal
from tests.support.queue import PaperQueue, record

from perdure.api import batch, ticking
from perdure.api.batch import APART_MS, HOLD_MS, LEAST_MS, SUSPECT_FROM_TRIES
from perdure.api.queue import Queued
from perdure.api.sandbox import Sandbox
from perdure.api.watch import InvocationFailed
from perdure.kernel.errors import StoreUnavailable
from perdure_emulator.declared import Queue
from perdure_emulator.queues import Queues, Sent

pytestmark = pytest.mark.cloud


class Running(Context):
    """A context whose time really runs."""

    def __init__(self, ms: int) -> None:
        self._end = time.monotonic() + ms / 1_000

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._end - time.monotonic()) * 1_000))


class Hanging(Ports):
    """A writer for whom one world never comes to its end."""

    async def serve(self, due, *, ms):
        if due.ref.world == "hangs":
            try:
                await asyncio.sleep(3_600)
            finally:
                await asyncio.sleep(0.05)  # as a release takes
                self.served.append(("let go", None))
        return await super().serve(due, ms=ms)


class Kept:
    """The emulator's queue, as the handler has it."""

    name = "Ticks.fifo"

    def __init__(self) -> None:
        self.ms = 0
        queue = Queue(logical="T", name=self.name, is_fifo=True, visibility_seconds=720)
        self.queues = Queues([queue], now_ms=lambda: self.ms)

    async def defer(self, receipts, ms):
        for each in receipts:
            self.queues.change_visibility(self.name, each, -(-ms // 1_000))


def hand(ports: Any, *records: Any, context: Any = None) -> list[str]:
    """Hand a batch out, and return which messages are reported."""
    queued = Queued(ticking.serve_message, lambda: ports.queue)
    sandbox = Sandbox(lambda: Opened(ports), (), queued=queued)
    try:
        reply = sandbox.handler({"Records": list(records)}, context or Context(remaining_ms=60_000))
    finally:
        sandbox.close()
    return [each["itemIdentifier"] for each in reply["batchItemFailures"]]


def last_put_back(queue: PaperQueue) -> dict[str, int]:
    """Return for how long each message was put back in the end."""
    last: dict[str, int] = {}
    for receipts, ms in queue.deferred:
        last |= dict.fromkeys(receipts, ms)
    return last


def test_a_world_that_hangs_takes_its_share_lets_go_and_the_next_is_served(monkeypatch):
    ports = Hanging()
    monkeypatch.setattr(batch, "LEAST_MS", 100)

    failures = hand(ports, message("hangs"), message("b"), context=Running(3_000))

    assert failures == ["hangs-1000"]
    assert ports.served == [("let go", None), ("b", 1_000)]


def test_what_has_no_time_left_is_not_begun_and_comes_back_at_once():
    ports = Ports()

    failures = hand(ports, message("a"), context=Context(remaining_ms=LEAST_MS - 1))

    assert (failures, ports.served) == (["a-1000"], [])
    assert last_put_back(ports.queue) == {"receipt-a-1000": 0}


def test_what_a_failed_message_takes_with_it_is_put_back_with_it():
    ports = Ports()
    ports.told["a"] = refusal(StoreUnavailable)

    hand(ports, message("a"), message("b"), message("a", 2_000), message("a", 3_000))

    held = {f"receipt-a-{serves}": 5_000 for serves in (1_000, 2_000, 3_000)}
    assert last_put_back(ports.queue) == held | {"receipt-b-1000": 60_000 + HOLD_MS}


def test_a_world_whose_first_message_failed_comes_again_after_five_seconds():
    kept, ports = Kept(), Ports()
    ports.queue = kept
    ports.told["a"] = refusal(StoreUnavailable)
    for serves in (1, 2):  # the second: a dispatch after a writer has tried
        body = json.dumps({"world": "a", "serves": serves})
        kept.queues.send(kept.name, Sent(body=body, group="a", deduplication_id=str(serves)))
    handed = kept.queues.receive(kept.name, most=10)
    taken = [
        {**record(each.message.body, group="a", id=each.message.id), "receiptHandle": each.handle}
        for each in handed
    ]

    hand(ports, *taken, context=Context(remaining_ms=120_000))

    kept.ms = 4_999
    early = kept.queues.receive(kept.name, most=10)
    kept.ms = 5_000
    late = kept.queues.receive(kept.name, most=10)
    assert (len(handed), early, [each.message.body for each in late]) == (
        2,
        [],
        [each.message.body for each in handed],
    )


def test_what_comes_a_third_time_is_served_behind_the_others_and_one_world_of_it_in_a_batch():
    ports, tries = Ports(), SUSPECT_FROM_TRIES

    failures = hand(
        ports,
        message("x", tries=tries),
        message("a", tries=tries - 1),
        message("x", 2_000),
        message("y", tries=tries + 1),
        message("z", tries=tries),
        message("b"),
    )

    assert ports.served == [("a", 1_000), ("b", 1_000), ("x", 1_000), ("x", 2_000)]
    assert failures == ["y-1000", "z-1000"]
    put_back = last_put_back(ports.queue)
    assert (put_back["receipt-y-1000"], put_back["receipt-z-1000"]) == (APART_MS, 2 * APART_MS)


def test_messages_of_a_function_that_cannot_open_its_storage_come_back_soon():
    queue = PaperQueue()

    class Unopened:
        async def __aenter__(self):
            raise refusal(StoreUnavailable)

        async def __aexit__(self, *_):
            return None

    queued = Queued(ticking.serve_message, lambda: queue)
    sandbox = Sandbox(Unopened, (), queued=queued)

    with pytest.raises(InvocationFailed, match="store_unavailable"):
        sandbox.handler({"Records": [message("a"), message("b", tries=3)]}, Context("r", 60_000))

    sandbox.close()
    assert last_put_back(queue) == {"receipt-a-1000": 20_000, "receipt-b-1000": 20_000}
