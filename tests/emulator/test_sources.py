"""Event sources do what Lambda's pollers do: batches, partial failure, redelivery, dead letters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.emulator.serving import DEAD, MAIL, TICKS, Time, new_queues

from perdure_emulator.calls import settled
from perdure_emulator.declared import Function, Source
from perdure_emulator.queue_local import LocalQueue, told
from perdure_emulator.queues import Message, Sent
from perdure_emulator.sandboxes import TimedOut
from perdure_emulator.sources import failures, poll, poll_once
from perdure_emulator.sqs import Sqs

pytestmark = pytest.mark.cloud

REPORTS = Source("Ticks", "Ticks", 10, reports_failures=True)
SILENT = Source("Ticks", "Ticks", 10)


class Fake:
    """A function that does what it is told with an event."""

    function = Function("TickFunction", Path("functions/tick/app.py"), "handler", 60)

    def __init__(self, answer):
        self.answer = answer
        self.events = []

    async def invoke(self, event, *, seconds_max):
        self.events.append(event)
        return self.answer(event)

    def bodies(self):
        return [[each["body"] for each in event["Records"]] for event in self.events]


class Rig:
    """Queues, a function and what lies between."""

    def __init__(self, answer=lambda event: None, source=REPORTS, queue=TICKS):
        self.time = Time()
        self.queues, self.dead = new_queues(self.time)
        self.function = Fake(answer)
        self.source = source
        self.queue = queue
        self.polled = LocalQueue(self.queues, Sqs(self.queues, "http://127.0.0.1"), queue)

    def send(self, *bodies, group="a"):
        for body in bodies:
            id = body if self.queue.is_fifo else None
            sent = Sent(body=body, group=group, deduplication_id=id)
            self.queues.send(self.queue.name, sent)

    def poll(self):
        asyncio.run(poll_once(self.function, self.source, self.polled))

    def left(self):
        return sum(self.queues.counts(self.queue.name))


def item(event, *bodies):
    return {
        "batchItemFailures": [
            {"itemIdentifier": each["messageId"]}
            for each in event["Records"]
            if each["body"] in bodies
        ]
    }


def raised(error):
    def answer(event):
        raise error

    return answer


def test_event_is_shaped_as_lambda_shapes_it():
    rig = Rig()
    rig.send("1")

    rig.poll()

    (record,) = rig.function.events[0]["Records"]
    assert record.keys() == {
        "messageId",
        "receiptHandle",
        "body",
        "attributes",
        "messageAttributes",
        "md5OfBody",
        "eventSource",
        "eventSourceARN",
        "awsRegion",
    }
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:000000000000:ticks.fifo"
    assert record["attributes"].keys() == {
        "ApproximateReceiveCount",
        "SentTimestamp",
        "SequenceNumber",
        "MessageGroupId",
        "SenderId",
        "MessageDeduplicationId",
        "ApproximateFirstReceiveTimestamp",
    }


def test_attributes_that_a_sender_put_beside_the_body_come_in_lambdas_spelling():
    rig = Rig(queue=MAIL)
    given = {"shape": {"DataType": "String", "StringValue": "round"}}
    rig.queues.send(MAIL.name, Sent(body="1", attributes=given))

    rig.poll()

    assert rig.function.events[0]["Records"][0]["messageAttributes"] == {
        "shape": {
            "dataType": "String",
            "stringValue": "round",
            "stringListValues": [],
            "binaryListValues": [],
        }
    }


def test_batch_is_as_large_as_the_source_says_and_done_when_it_is_answered():
    rig = Rig(source=Source("Ticks", "Ticks", 2, reports_failures=True))
    rig.send("1", "2", "3")

    rig.poll()
    rig.poll()

    assert rig.function.bodies() == [["1", "2"], ["3"]]
    assert rig.left() == 0


def test_function_is_not_called_for_nothing():
    rig = Rig()

    rig.poll()

    assert rig.function.events == []


def test_what_failed_stays_and_comes_again_and_what_did_not_is_done():
    rig = Rig(lambda event: item(event, "2"))
    rig.send("1", "2")

    rig.poll()
    rig.poll()
    assert rig.left() == 1
    rig.time.pass_seconds(60)
    rig.poll()

    assert rig.function.bodies() == [["1", "2"], ["2"]]


def test_group_waits_for_what_failed_in_it_and_others_do_not():
    rig = Rig(lambda event: item(event, "a1"))
    rig.send("a1")
    rig.poll()
    rig.send("a2")
    rig.send("b1", group="b")

    rig.poll()

    assert rig.function.bodies() == [["a1"], ["b1"]]


@pytest.mark.parametrize("error", [TimedOut("TickFunction"), RuntimeError("broken")])
@pytest.mark.parametrize("source", [REPORTS, SILENT])
def test_batch_of_a_function_that_fails_or_is_late_comes_again_whole(capsys, error, source):
    rig = Rig(raised(error), source)
    rig.send("1", "2")

    rig.poll()
    rig.time.pass_seconds(60)
    rig.poll()

    assert rig.function.bodies() == [["1", "2"], ["1", "2"]]
    assert capsys.readouterr().err.count("TickFunction") == 2


def test_function_that_reports_nothing_has_done_all_whatever_it_says():
    rig = Rig(lambda event: item(event, "1"), SILENT)
    rig.send("1")

    rig.poll()

    assert rig.left() == 0


@pytest.mark.parametrize(
    ("reply", "failed"),
    [
        (None, ""),
        ({}, ""),
        ({"batchItemFailures": None}, ""),
        ({"batchItemFailures": []}, ""),
        ({"statusCode": 200}, ""),
        ({"batchItemFailures": [{"itemIdentifier": "1"}]}, "1"),
        ({"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "1"}]}, "1"),
        ("", "12"),
        ([], "12"),
        (7, "12"),
        ({"batchItemFailures": "1"}, "12"),
        ({"batchItemFailures": ["1"]}, "12"),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, "12"),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, "12"),
        ({"batchItemFailures": [{"itemIdentifier": ["1"]}]}, "12"),
        ({"batchItemFailures": [{"messageId": "1"}]}, "12"),
        ({"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "3"}]}, "12"),
    ],
)
def test_reply_says_which_messages_failed_and_all_of_them_if_it_cannot_be_read(reply, failed):
    assert failures(reply, frozenset("12")) == frozenset(failed)


def test_poison_message_becomes_a_dead_letter_and_those_behind_it_are_done():
    rig = Rig(lambda event: item(event, "poison"))
    rig.send("poison")
    rig.poll()
    rig.send("good")
    for _ in range(3):
        rig.time.pass_seconds(60)
        rig.poll()

    assert rig.dead == ["poison"]
    assert rig.function.bodies() == [["poison"], ["poison", "good"], ["poison"]]
    assert rig.left() == 0
    assert rig.queues.counts(DEAD.name) == (1, 0, 0)


def test_dead_letter_is_told_in_one_line(capsys):
    message = Message(
        id="m1",
        body="secret",
        sent_ms=0,
        visible_at_ms=0,
        group="a",
        deduplication_id=None,
        sequence="1",
        received=3,
    )

    told(TICKS, message)

    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "m1 of Ticks was received 3 times in vain; it is in TicksDead" in line
    assert "secret" not in line


async def test_function_that_takes_longer_than_its_messages_are_hidden_gets_them_again():
    rig = Rig()
    rig.function.answer = lambda event: rig.time.pass_seconds(61)
    rig.send("1")

    await poll_once(rig.function, rig.source, rig.polled)
    await poll_once(rig.function, rig.source, rig.polled)

    assert rig.function.bodies() == [["1"], ["1"]]


async def test_poller_goes_on_after_a_queue_that_could_not_be_read(monkeypatch, capsys):
    monkeypatch.setattr("perdure_emulator.sources.FAILED_SECONDS", 0)
    done = asyncio.Event()
    rig = Rig(lambda event: done.set())
    rig.send("1")
    receive, broken = rig.polled.receive, [OSError("no route")]

    async def receive_or_fail(most, *, wait_seconds):
        if broken:
            raise broken.pop()
        await asyncio.sleep(0)
        return await receive(most, wait_seconds=0)

    rig.polled.receive = receive_or_fail

    polling = asyncio.create_task(poll(rig.function, rig.source, rig.polled))
    await asyncio.wait_for(done.wait(), 60)
    polling.cancel()

    assert "ticks.fifo could not be read: no route" in capsys.readouterr().err


async def test_poller_that_is_cancelled_does_not_leave_the_batch_that_its_function_has():
    rig, begun, goes_on = Rig(), asyncio.Event(), asyncio.Event()

    async def invoke(event, *, seconds_max):
        begun.set()
        await goes_on.wait()
        rig.send("last", group="b")

    rig.function.invoke = invoke
    rig.send("1")
    polling = asyncio.create_task(poll(rig.function, rig.source, rig.polled))
    await asyncio.wait_for(begun.wait(), 60)

    polling.cancel()
    await asyncio.sleep(0)
    assert not polling.done()
    goes_on.set()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(polling, 60)
    (left,) = rig.queues.receive(rig.queue.name, most=10)
    assert left.message.body == "last"


async def test_call_that_does_not_come_to_an_end_is_not_waited_for_without_end():
    never = asyncio.Event()
    calling = asyncio.create_task(settled(never.wait(), seconds=0.01))
    await asyncio.sleep(0)

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(calling, 60)
