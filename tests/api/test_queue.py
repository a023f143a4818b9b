"""Messages of the queue: each served, put back, or refused, and its group with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.api.rig import Context
from tests.support.queue import PaperQueue, record

from perdure.api import ticking
from perdure.api.batch import HOLD_MS
from perdure.api.queue import Queued, due_of, message_of
from perdure.api.sandbox import Sandbox
from perdure.api.watch import InvocationFailed
from perdure.kernel.errors import (
    ConsumerBehind,
    FenceHeld,
    PerdureError,
    Stalled,
    StoreUnavailable,
)
from perdure.kernel.ids import Epoch, Instant, StorageId, WorldId
from perdure.kernel.places import WorldRef, wake_sort
from perdure.runtime.dispatch import Due, Found

pytestmark = pytest.mark.cloud

STORAGE = StorageId("storage")
CLOSED = [FenceHeld, ConsumerBehind, Stalled]


@dataclass
class Ports:
    """A writer that does as it is told for each world."""

    queue: PaperQueue = field(default_factory=PaperQueue)
    told: dict[str, Any] = field(default_factory=dict)
    served: list[tuple[str, int | None]] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)

    def due_of(self, body):
        return due_of(STORAGE, body)

    async def serve(self, due, *, ms):
        self.served.append((due.ref.world, due.serves))
        self.shares.append(ms)
        outcome = self.told.get(due.ref.world, ticking.Served(ticks=1))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@dataclass
class Opened:
    """Opens ``ports``, whatever the environment says."""

    ports: Any

    async def __aenter__(self):
        return self.ports

    async def __aexit__(self, *_):
        return None


@pytest.fixture
def ports():
    return Ports()


@pytest.fixture
def handed(ports):
    """Hand a batch to the handler, and return which messages it reports."""
    sandbox = Sandbox(
        lambda: Opened(ports), (), queued=Queued(ticking.serve_message, lambda: ports.queue)
    )

    def hand(*records, remaining_ms=60_000):
        reply = sandbox.handler({"Records": list(records)}, Context(remaining_ms=remaining_ms))
        return [each["itemIdentifier"] for each in reply["batchItemFailures"]]

    yield hand
    sandbox.close()


def message(world, serves=1_000, **options):
    body = json.dumps({"world": world, "serves": serves})
    return record(body, group=world, id=f"{world}-{serves}", **options)


def refusal(kind: type[PerdureError]) -> PerdureError:
    return kind(expected="one thing", found="another")


def test_what_is_sent_is_what_is_read(ports):
    ref = WorldRef(STORAGE, WorldId("w"))
    due = Due(ref, Instant(1_000), Epoch(3), wake_sort(Instant(1_000), ref))

    message = message_of(due)

    read = ports.due_of(message.body)
    assert (read.ref, read.serves, read.hint) == (due.ref, due.serves, due.hint)
    assert message.group == due.ref.partition
    assert message.once == due.attempt


def test_a_batch_of_several_worlds_is_served_message_by_message(handed, ports):
    failures = handed(message("a"), message("b"), message("a", 2_000))

    assert failures == []
    assert ports.served == [("a", 1_000), ("b", 1_000), ("a", 2_000)]


def test_a_message_that_fails_takes_the_rest_of_its_world_with_it_and_no_other(handed, ports):
    ports.told["a"] = refusal(StoreUnavailable)

    failures = handed(message("a"), message("b"), message("a", 2_000), message("b", 2_000))

    assert failures == ["a-1000", "a-2000"]
    assert ports.served == [("a", 1_000), ("b", 1_000), ("b", 2_000)]


def test_a_batch_of_which_nothing_is_done_is_no_failed_invocation(handed, ports):
    ports.told |= {"a": refusal(StoreUnavailable), "b": RuntimeError("unforeseen")}

    assert handed(message("a"), message("b")) == ["a-1000", "b-1000"]


def test_while_a_batch_is_worked_on_it_is_held_no_longer_than_this_function_lives(handed, ports):
    handed(message("a"), message("b"), remaining_ms=60_000)

    assert ports.queue.deferred == [(("receipt-a-1000", "receipt-b-1000"), 60_000 + HOLD_MS)]


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (9, 300), (500, 300)]
)
def test_a_message_that_fails_is_handed_out_again_later_each_time(handed, ports, tries, seconds):
    ports.told["a"] = refusal(StoreUnavailable)

    handed(message("a", tries=tries))

    assert ports.queue.put_back()["receipt-a-1000"] in {seconds * 1_000, 60_000 + HOLD_MS}
    assert ports.queue.deferred[-1] == (("receipt-a-1000",), seconds * 1_000)


def test_a_message_that_comes_early_is_put_back_until_its_time(handed, ports):
    ports.told["a"] = ticking.Served(early_ms=17_250)

    failures = handed(message("a"))

    assert failures == ["a-1000"]
    assert ports.queue.deferred[-1] == (("receipt-a-1000",), 17_250)


@pytest.mark.parametrize("kind", CLOSED)
def test_what_keeps_a_world_for_a_while_is_tried_again_and_never_a_dead_letter(handed, ports, kind):
    ports.told["a"] = refusal(kind)

    first = handed(message("a", tries=1))
    later = handed(message("a", tries=ticking.NOT_NOW_TRIES))
    last = handed(message("a", tries=ticking.NOT_NOW_TRIES + 1))

    assert (first, later, last) == (["a-1000"], ["a-1000"], [])
    assert ports.queue.deferred[1] == (("receipt-a-1000",), ticking.NOT_NOW_MS)


def test_what_comes_next_is_sent_by_who_served(handed, ports):
    following = Due(WorldRef(STORAGE, WorldId("a")), Instant(6_000), Epoch(2))
    ports.told["a"] = ticking.Served(ticks=1, again=following)

    failures = handed(message("a"))

    assert failures == []
    assert ports.queue.sent == [message_of(following)]


def test_a_queue_that_takes_nothing_undoes_no_tick(handed, ports):
    following = Due(WorldRef(STORAGE, WorldId("a")), Instant(6_000), Epoch(2))
    ports.told["a"] = ticking.Served(ticks=1, again=following)
    ports.queue.failure = refusal(StoreUnavailable)

    assert handed(message("a")) == []


def test_time_is_shared_out_among_the_messages_that_are_left(handed, ports):
    handed(*(message(world) for world in "abcd"), remaining_ms=40_000)

    assert ports.shares == [10_000, 13_333, 20_000, 40_000]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[]",
        '{"serves": 1}',
        '{"world": ""}',
        '{"world": "a/b", "serves": 1}',
        '{"world": "w", "serves": "1"}',
        '{"world": "w", "tenant": "other"}',
        '{"world": "w", "hint": "0000000000000000000/of/another"}',
        '{"world": "w", "world": "v"}',
        "\ud800",
    ],
)
def test_a_message_that_makes_no_sense_is_reported_until_the_queue_gives_it_up(handed, ports, body):
    failures = handed(record(body, id="poison"), message("a"))

    assert failures == ["poison"]
    assert ports.served == [("a", 1_000)]


def test_messages_of_another_queue_are_refused_and_none_is_served(handed, ports):
    foreign = message("b", arn="arn:aws:sqs:eu-central-1:123456789012:Other.fifo")

    with pytest.raises(InvocationFailed, match="not_permitted"):
        handed(message("a"), foreign)

    assert (ports.served, ports.queue.deferred) == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.pop("receiptHandle"),
        lambda each: each.pop("body"),
        lambda each: each.pop("attributes"),
        lambda each: each.update(eventSource="aws:kinesis"),
        lambda each: each.update(body=7),
        lambda each: each["attributes"].update(ApproximateReceiveCount="many"),
    ],
)
def test_records_of_another_shape_fail_the_invocation_untouched(handed, ports, change):
    odd = message("b")
    change(odd)

    with pytest.raises(InvocationFailed, match="malformed_event"):
        handed(message("a"), odd)

    assert (ports.served, ports.queue.deferred) == ([], [])


@pytest.mark.parametrize("records", [[], None, "text", {}])
def test_a_batch_that_is_none_is_refused(ports, records):
    sandbox = Sandbox(
        lambda: Opened(ports), (), queued=Queued(ticking.serve_message, lambda: ports.queue)
    )

    with pytest.raises(InvocationFailed, match="malformed_event"):
        sandbox.handler({"Records": records}, Context())
    sandbox.close()


def test_a_function_without_a_queue_takes_no_messages(ports):
    sandbox = Sandbox(lambda: Opened(ports), ())

    with pytest.raises(InvocationFailed, match="malformed_event"):
        sandbox.handler({"Records": [message("a")]}, Context())
    sandbox.close()


@dataclass
class Finds:
    """A dispatch that has found something."""

    found: Found
    queue: PaperQueue = field(default_factory=PaperQueue)
    sessions_queue: None = None
    jobs_queue: None = None

    async def look(self, *, ms, tell):
        for due in self.found.due:
            await tell((due,))
        return self.found


SCHEDULE = {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"}


def test_dispatch_sends_a_message_for_each_world_that_is_due_and_a_duplicate_sends_none():
    ref = WorldRef(STORAGE, WorldId("w"))
    due = (Due(ref, Instant(1_000), Epoch(1), "h"), Due(WorldRef(STORAGE, WorldId("v")), None))
    ports = Finds(Found(due, stalled=1, oldest_due_ms=70, failed=((ref, refusal(Stalled)),)))
    sandbox = Sandbox(lambda: Opened(ports), (), ticking.dispatch_due)

    told = sandbox.handler(SCHEDULE, Context())
    sandbox.handler(SCHEDULE, Context())

    assert ports.queue.sent == [message_of(each) for each in due]
    assert told == {
        "due": 2,
        "failed": ["w: stalled"],
        "oldest_due_ms": 70,
        "stalled": 1,
        "done": True,
        "sessions": 0,
        "jobs": 0,
    }
    sandbox.close()


def test_a_dispatch_whose_queue_takes_nothing_fails_so_that_an_alarm_hears_of_it():
    ports = Finds(Found((Due(WorldRef(STORAGE, WorldId("w")), Instant(1)),), 0, 0))
    ports.queue.failure = refusal(StoreUnavailable)
    sandbox = Sandbox(lambda: Opened(ports), (), ticking.dispatch_due)

    with pytest.raises(InvocationFailed, match="store_unavailable"):
        sandbox.handler(SCHEDULE, Context())
    sandbox.close()


def test_a_message_that_is_not_taken_keeps_no_later_one_from_the_queue_and_fails_the_dispatch():
    class Choosy(PaperQueue):
        async def send(self, messages):
            if "poison" in messages[0].body:
                raise refusal(StoreUnavailable)
            await super().send(messages)

    due = tuple(Due(WorldRef(STORAGE, WorldId(name)), Instant(1)) for name in ("poison", "w"))
    ports = Finds(Found(due, 0, 0), Choosy())
    sandbox = Sandbox(lambda: Opened(ports), (), ticking.dispatch_due)

    with pytest.raises(InvocationFailed, match="store_unavailable"):
        sandbox.handler(SCHEDULE, Context())

    assert ports.queue.sent == [message_of(due[1])]
    sandbox.close()


@pytest.mark.parametrize("event", [{}, {"source": "aws.s3"}, {"detail": {}}, {"requestContext": 1}])
def test_an_event_of_nobody_fails_the_invocation(event):
    ports = Finds(Found((), 0, 0))
    sandbox = Sandbox(lambda: Opened(ports), (), ticking.dispatch_due)

    if "requestContext" not in event:
        with pytest.raises(InvocationFailed, match="malformed_event"):
            sandbox.handler(event, Context())
    assert ports.queue.sent == []
    sandbox.close()
