"""Messages: what was done for one goes by what sent it, through the queue and in the log."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from botocore.exceptions import ClientError
from tests.api.rig import Context
from tests.support.queue import PaperQueue, record

from perdure.api import batch
from perdure.api.invocation import INVOCATION, Invocation
from perdure.api.measures import tell
from perdure.api.queue import Message, Queued
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_queue_aws import SqsQueue
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.cloud

SECRET = "hunter2"  # what must never be seen


@dataclass
class Ports:
    queue: PaperQueue = field(default_factory=PaperQueue)


def sent(body, *, group, by):
    carried = {"correlation": {"stringValue": by, "dataType": "String"}} if by else {}
    return {**record(body, group=group, id=f"m-{group}"), "messageAttributes": carried}


@pytest.fixture
def handed(looked_on):
    """Hands messages to a function that fails for some of them; returns reply and looked."""
    looked = looked_on()

    async def serve(ports, handed, ms):
        if handed.body == "hang":
            await asyncio.sleep(3600)
        if handed.body != "good":
            raise ValueError(handed.body)
        tell("ticks")
        return {"ticks": 1}

    @asynccontextmanager
    async def opening():
        yield Ports()

    looked.sandbox.close()
    looked.sandbox = Sandbox(opening, (), queued=Queued(serve, PaperQueue))
    return looked


def lines(looked):
    return {
        each["message_id"]: (each["message"], each["correlation"])
        for each in looked.told()[0]
        if "message_id" in each
    }


def test_each_message_of_a_batch_is_told_under_the_id_of_what_sent_it(handed):
    records = [sent("good", group="a", by="day-1"), sent("good", group="b", by="")]

    handed.gets({"Records": records})

    assert lines(handed) == {"m-a": ("served", "day-1"), "m-b": ("served", "m-b")}


def test_numbers_of_all_messages_are_told_once_at_the_end(handed):
    handed.gets({"Records": [sent("good", group=name, by="") for name in "abc"]})

    (line,) = handed.told()[1]
    assert line["ticks"] == [3.0]


def test_message_that_fails_is_told_without_what_it_holds(handed):
    reply = handed.gets({"Records": [sent(SECRET, group="a", by="day-1")]})

    told, _, printed = handed.told()
    assert reply["batchItemFailures"] == [{"itemIdentifier": "m-a"}]
    assert [each["kind"] for each in told if "kind" in each] == ["builtins.ValueError"]
    assert SECRET not in printed


def test_message_that_hangs_is_given_up_before_time_is_and_comes_again(handed, monkeypatch):
    monkeypatch.setattr(batch, "LEAST_MS", 0)
    handed.context = Context(remaining_ms=700)

    reply = handed.gets({"Records": [sent("hang", group="a", by="day-1")]})

    assert reply["batchItemFailures"] == [{"itemIdentifier": "m-a"}]
    assert lines(handed) == {"m-a": ("failed", "day-1")}


@dataclass
class Client:
    """Takes what is sent to SQS, a call at a time, but not what it is told to fail."""

    fails: tuple[str, ...] = ()
    """Messages and receipts that are not taken."""

    refused_calls: tuple[int, ...] = ()
    calls: list = field(default_factory=list)

    @property
    def entries(self):
        return [each for call in self.calls for each in call]

    def send_message_batch(self, *, QueueUrl, Entries):  # noqa: N803  # as boto3 spells them
        return self._answer(Entries, "MessageBody")

    def change_message_visibility_batch(self, *, QueueUrl, Entries):  # noqa: N803  # as above
        return self._answer(Entries, "ReceiptHandle")

    def _answer(self, entries, named):
        self.calls.append(entries)
        if len(self.calls) in self.refused_calls:
            raise ClientError({"Error": {"Code": "BatchRequestTooLong"}}, "SendMessageBatch")
        failed = [each for each in entries if each[named] in self.fails]
        return {
            "Successful": [{"Id": each["Id"]} for each in entries if each not in failed],
            "Failed": [{"Id": each["Id"], "Code": "InternalError"} for each in failed],
        }


def queue_of(client):
    return SqsQueue(client, "https://sqs/Ticks.fifo")


def messages(count):
    return [Message("g", f"once-{number}", f"m{number}") for number in range(count)]


def test_messages_go_ten_a_call_each_under_a_number_of_its_own_in_the_call():
    client = Client()

    asyncio.run(queue_of(client).send(messages(23)))

    assert [len(call) for call in client.calls] == [10, 10, 3]
    assert [each["MessageBody"] for each in client.entries] == [f"m{n}" for n in range(23)]
    assert all(len({each["Id"] for each in call}) == len(call) for call in client.calls)


@pytest.mark.parametrize("client", [Client(fails=("m3",)), Client(refused_calls=(1,))])
def test_messages_that_are_not_taken_keep_no_other_from_being_sent_and_are_told(client):
    with pytest.raises(StoreUnavailable):
        asyncio.run(queue_of(client).send(messages(23)))

    assert [len(call) for call in client.calls] == [10, 10, 3]


def test_receipts_that_are_not_put_back_keep_no_other_from_it_and_are_told():
    client = Client(fails=("r0", "r15"))

    with pytest.raises(StoreUnavailable, match="2 not: InternalError"):
        asyncio.run(queue_of(client).defer([f"r{number}" for number in range(23)], 1_000))

    assert [len(call) for call in client.calls] == [10, 10, 3]


@pytest.mark.parametrize(
    ("ms", "seconds"),
    [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (43_200_000, 43_200), (43_200_001, 43_200)],
)
def test_message_is_put_back_for_whole_seconds_never_too_few_and_never_over_twelve_hours(
    ms, seconds
):
    client = Client()

    asyncio.run(queue_of(client).defer(["r"], ms))

    assert [each["VisibilityTimeout"] for each in client.entries] == [seconds]


@pytest.mark.parametrize("correlation", ["day-1", ""])
def test_message_carries_the_id_of_what_sent_it(correlation):
    client = Client()
    counted = INVOCATION.set(Invocation(correlation=correlation) if correlation else None)

    asyncio.run(queue_of(client).send([Message("g", "once", "{}")]))

    INVOCATION.reset(counted)
    carried = {"correlation": {"DataType": "String", "StringValue": correlation}}
    assert client.entries[0].get("MessageAttributes") == (carried if correlation else None)
