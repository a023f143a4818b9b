"""An agent that an application has no more: what was sent is told, nothing new is let in."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import MemoryObjects, app_with, head_in, sessions_on, within

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import UnknownAgent

pytestmark = pytest.mark.sessions


def test_what_was_sent_while_the_agent_was_there_is_answered_all_the_same():
    async def answered():
        store, objects = MemoryStore(), MemoryObjects()
        before = sessions_on(store, objects=objects)
        await before.create("pilot", session_id="s")
        await before.send("s", "Fly.", send_id="first")
        await before.drive("s", deadline=within(before))
        after = sessions_on(store, objects=objects, app=app_with(agent="captain"), prefix="b")
        again = await after.send("s", "Fly.", send_id="first")
        seq = head_in(store, after.ref("s").partition).seq
        with pytest.raises(UnknownAgent):
            await after.send("s", "Land.", send_id="second")
        return again, seq, head_in(store, after.ref("s").partition).seq

    again, before, after = asyncio.run(answered())

    assert (again.state, again.replayed) == ("finished", True)
    assert before == after
