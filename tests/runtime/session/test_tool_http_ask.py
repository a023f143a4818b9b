"""Tools behind HTTP that can be asked what became of a call."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.dying import Dying, answering, dying
from tests.support.tooling import KEY, Clock, request, spec

from perdure.runtime.session.ports import Completed, NotSent
from perdure.runtime.session.resolve import resolve
from perdure.runtime.session.tool_http import AskableHttpTool

pytestmark = pytest.mark.sessions

BODY = b'{"moved":true}'


async def told(answer):
    async with dying(Dying(answer)) as server:
        tool = AskableHttpTool(spec(effect="idempotent"), server.url, f"{server.url}/calls")
        outcome = await tool.ask(request())
    return outcome, bytes(server.seen[0]).split(b" ")[:2]


def keyed(**more):
    return json.dumps({"call_key": KEY, **more}).encode()


async def test_a_tool_says_what_became_of_a_call():
    outcome, asked = await told(answering("200 OK", keyed(output=[1])))
    failed, _ = await told(answering("200 OK", keyed(output="no", is_error=True)))

    assert asked == [b"GET", b"/calls/" + KEY.replace("/", "%2F").encode()]
    assert outcome == Completed([1])
    assert failed == Completed("no", is_error=True)


async def test_a_tool_says_that_a_call_never_arrived():
    outcome, _ = await told(answering("404 Not Found", keyed()))

    assert outcome == NotSent("never_arrived", "The tool says that the call has not arrived.")


@pytest.mark.parametrize(
    "answer",
    [
        answering("404 Not Found", b'{"message":"no route"}'),
        answering("404 Not Found", b'{"call_key":"another"}'),
        answering("404 Not Found"),
        answering("200 OK", keyed()),
        answering("200 OK", b'{"call_key":"another","output":1}'),
        answering("200 OK", keyed(output=1, is_error="no")),
        answering("200 OK", b"[]"),
        answering("200 OK", b"<html>"),
        answering("202 Accepted", keyed(output=1)),
        answering("409 Conflict", keyed(output=1)),
        answering("500 Oh", keyed(output=1)),
        answering("200 OK", keyed(output=1))[:-1],
        b"",
    ],
)
async def test_anything_else_a_tool_says_of_a_call_tells_nothing(answer):
    assert (await told(answer))[0] is None


async def test_a_tool_that_has_only_begun_is_asked_and_not_called_again():
    def answer(seen):
        if seen.startswith(b"POST"):
            return answering("202 Accepted", BODY)
        return answering("200 OK", keyed(output="done"))

    async with dying(Dying(answer)) as server:
        tool = AskableHttpTool(spec(effect="idempotent"), server.url, f"{server.url}/calls")
        clock = Clock()
        outcome = await resolve(tool, request(), now=clock.now, pause=asyncio.sleep)

    assert outcome == Completed("done")
    assert [bytes(each[:4]) for each in server.seen] == [b"POST", b"GET "]
