"""Event streams of the front: a function is asked for what follows, until somebody has had enough."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.emulator.test_front import ISSUER, TEMPLATE, token

from perdure.kernel.errors import Contended
from perdure_emulator import streams
from perdure_emulator.gateway import Gateway

pytestmark = [pytest.mark.cloud, pytest.mark.sessions]

SECONDS = 60
PATH = "/v1/sessions/talk/events"


def reply(body, status=200):
    headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
    return {"statusCode": status, "headers": headers, "body": body}


def event(seq):
    return f"id: line:{seq}\nevent: queued\ndata: {{}}\n\n"


NOTHING = reply("retry: 1000\n\n: nothing yet\n\n")
GATED = reply('retry: 1000\n\nevent: newer_writer\ndata: {"seq":3}\n\n')


class Sessions:
    """A function that says what it is told to say, then that there is nothing, then nothing at all."""

    def __init__(self, *replies):
        self.function = TEMPLATE.functions["SessionsFunction"]
        self.replies = list(replies)
        self.asked = []
        self.waits = 0

    async def invoke(self, event, *, seconds_max):
        self.asked.append(event)
        if self.replies:
            found = self.replies.pop(0)
            if isinstance(found, Exception):
                raise found
            return found
        self.waits += 1
        try:
            await asyncio.sleep(3600)
        finally:
            self.waits -= 1


class Client:
    """One connection to the front, and what came over it."""

    def __init__(self, function, *, query="", accept="text/event-stream", **headers):
        self.gateway = Gateway(TEMPLATE, {"SessionsFunction": function}, ISSUER)
        self.sent = []
        self.leaves = asyncio.Event()
        self.came = asyncio.Event()
        self.requests = 0
        named = {"host": "localhost", "accept": accept, "authorization": f"Bearer {token()}"}
        self.scope = {
            "type": "http",
            "method": "GET",
            "raw_path": PATH.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.encode(), value.encode()) for name, value in (named | headers).items()
            ],
        }

    async def receive(self):
        self.requests += 1
        if self.requests == 1:
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(dict(message))
        self.came.set()

    @property
    def text(self):
        return b"".join(each.get("body", b"") for each in self.sent).decode()

    async def asks(self, *, until=None, then=None):
        """Ask, and once the text holds ``until`` do ``then``; return when the answer has ended."""
        asking = asyncio.create_task(self.gateway(self.scope, self.receive, self.send))
        async with asyncio.timeout(SECONDS):
            while until is not None and until not in self.text:
                self.came.clear()
                await self.came.wait()
            if then is not None:
                await asyncio.sleep(0)
                then()
            await asking


def asked(function):
    return [
        (each.get("queryStringParameters", {}), each["headers"].get("last-event-id"))
        for each in function.asked
    ]


def test_what_follows_is_asked_for_behind_the_last_event_until_the_client_goes():
    async def run():
        function = Sessions(reply(event(1) + event(2)), NOTHING, reply(event(3)))
        client = Client(function, query="after=0&wait=20")
        await client.asks(until="line:3", then=client.leaves.set)
        return function, client

    function, client = asyncio.run(run())

    wait = {"after": "0", "wait": str(streams.WAIT_SECONDS)}
    places = [({"after": "0"}, None), (wait, "line:2"), (wait, "line:2"), (wait, "line:3")]
    assert asked(function)[:4] == places
    assert client.text == event(1) + event(2) + ": nothing yet\n\n" + event(3)
    assert function.waits == 0
    assert client.sent[-1] == {"type": "http.response.body", "body": b""}


def test_the_place_that_a_client_names_holds_until_there_is_an_event():
    async def run():
        function = Sessions(NOTHING, NOTHING, reply(event(8)))
        client = Client(function, **{"last-event-id": "line:7"})
        await client.asks(until="line:8", then=client.leaves.set)
        return function

    function = asyncio.run(run())

    assert [place for _, place in asked(function)][:4] == ["line:7"] * 3 + ["line:8"]


def test_a_server_that_stops_ends_a_stream_and_gives_up_what_it_asked():
    async def run():
        function = Sessions(reply(event(1)))
        client = Client(function)
        await client.asks(until="line:1", then=client.gateway.stop)
        return function, client

    function, client = asyncio.run(run())

    assert function.waits == 0
    assert client.sent[-1] == {"type": "http.response.body", "body": b""}


@pytest.mark.parametrize("last", [GATED, reply("{}", 404), {"statusCode": 409, "body": "{}"}])
def test_a_stream_ends_when_there_is_no_more_to_say(last):
    async def run():
        function = Sessions(reply(event(1)), last)
        client = Client(function)
        await client.asks()
        return client

    client = asyncio.run(run())

    # It asks again by itself, and is told again.
    assert client.sent[0]["status"] == 200
    assert ("newer_writer" in client.text) is (last is GATED)


def test_a_function_that_cannot_answer_is_asked_again_with_pauses(monkeypatch):
    monkeypatch.setattr(streams, "PAUSE_SECONDS", 0.01)
    busy = Contended(expected="a process free", found="none")

    async def run():
        function = Sessions(reply(event(1)), busy, busy, reply(event(2)))
        client = Client(function)
        await client.asks(until="line:2", then=client.leaves.set)
        return client

    client = asyncio.run(run())

    assert client.text == event(1) + ": nothing yet\n\n" * 2 + event(2)


@pytest.mark.parametrize("accept", ["*/*", "application/json, text/event-stream"])
def test_who_does_not_ask_as_an_event_source_gets_one_answer(accept):
    async def run():
        function = Sessions(reply(event(1)))
        client = Client(function, query="wait=3", accept=accept)
        await client.asks()
        return function, client

    function, client = asyncio.run(run())

    assert asked(function) == [({"wait": "3"}, None)]
    assert client.text == event(1)
    assert (b"content-length", b"%d" % len(client.text)) in client.sent[0]["headers"]


def test_a_refusal_is_an_answer_and_no_stream():
    async def run():
        function = Sessions({"statusCode": 404, "headers": {}, "body": '{"code":"not_found"}'})
        client = Client(function)
        await client.asks()
        return client

    client = asyncio.run(run())

    assert client.sent[0]["status"] == 404
    assert json.loads(client.text) == {"code": "not_found"}
