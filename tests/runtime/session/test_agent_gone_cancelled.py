"""A run whose agent is gone waits for it, and ends if somebody asks for that."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import (
    Clock,
    MemoryObjects,
    app_with,
    asking_first,
    counting,
    sessions_on,
    within,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import UnknownAgent

pytestmark = pytest.mark.sessions


@pytest.mark.parametrize("at", ["boundary", "now"])
def test_cancelled_run_ends_though_its_agent_is_gone(at):
    store, objects = MemoryStore(), MemoryObjects()
    tool = counting("launch", needs_approval=True)

    async def told():
        before = sessions_on(store, script=asking_first, tools=[tool], objects=objects)
        await before.create("pilot", session_id="talk")
        await before.send("talk", "go", send_id="go")
        await before.drive("talk", deadline=within(before))
        (waiting,) = (await before.describe("talk")).waiting_calls
        await before.resolve("talk", waiting.call_key, "approved")
        after = sessions_on(
            store,
            objects=objects,
            app=app_with(agent="other"),
            prefix="f",
            clock=Clock(1_800_000_000_000),
        )
        with pytest.raises(UnknownAgent):
            await after.drive("talk", deadline=within(after))
        await after.cancel("talk", "go", at)
        driven = await after.drive("talk", deadline=within(after))
        return driven, await after.cancel("talk", "go", at)

    driven, found = asyncio.run(told())

    assert driven.state == "idle"
    assert (found.state, found.reason) == ("finished", "cancelled")
    assert tool.calls == []
