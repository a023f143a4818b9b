"""The Python face of sessions: begun, sent to, gone on with here, and read, on a real storage."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.talking import app

import perdure
from perdure.kernel.errors import NotFound, UnknownAgent

pytestmark = pytest.mark.sessions


def test_session_is_begun_sent_to_gone_on_with_and_read(tmp_path):
    async def told():
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            session = await storage.create_session("pilot", session_id="t")
            await session.send("look", send_id="a")
            heard = [event async for event in session.events()]
            again = await session.send("look", send_id="a")
            page = await (await storage.session("t")).transcript()
            return heard, again, page, await session.info()

    heard, again, page, info = asyncio.run(told())

    text = "".join(each.text for each in heard if isinstance(each, perdure.Said))
    facts = [fact for each in heard if isinstance(each, perdure.Happened) for fact in each.facts]
    assert text == "One moment. You said look."
    assert [fact.type for fact in facts] == [frame.type for frame in page.frames[2:]]
    assert (again.state, again.reason) == ("finished", "completed")
    assert (info.run_state, info.seq) == ("idle", page.seq)


def test_call_is_denied_and_a_run_cancelled(tmp_path):
    async def told():
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            session = await storage.create_session("pilot")
            await session.send("launch", send_id="a")
            first = await session.run()
            (call,) = (await session.info()).waiting_calls
            await session.deny(call.call_key, "Storm.")
            second = await session.run()
            await session.send("launch", send_id="b")
            await session.run()
            await session.cancel("b", at="now")
            await session.run()
            ended = await session.send("launch", send_id="b")
            return first.state, second, ended.reason

    first, second, reason = asyncio.run(told())

    assert (first, second.state, second.ended) == ("paused", "idle", ("a",))
    assert reason == "cancelled"


def test_who_stops_listening_stops_the_work_and_loses_nothing(tmp_path):
    async def told():
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            session = await storage.create_session("pilot", session_id="t")
            await session.send("look", send_id="a")
            events = session.events()
            async for _ in events:
                break
            await events.aclose()
            await session.run()
            return (await session.send("look", send_id="a")).reason

    assert asyncio.run(told()) == "completed"


def test_what_is_not_there_is_refused(tmp_path):
    async def told():
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            with pytest.raises(NotFound):
                await storage.session("nowhere")
            with pytest.raises(UnknownAgent):
                await storage.create_session("nobody")

    asyncio.run(told())


def test_trimming_leaves_the_payloads_of_sessions_alone(tmp_path):
    async def told():
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            session = await storage.create_session("pilot", session_id="t")
            await session.send("x" * 100_000)
            await storage.create_world("harbour")
            await storage.trim(grace_ms=900_000)
            return (await session.transcript()).frames[1].payload["input"]

    assert asyncio.run(told()) == "x" * 100_000
