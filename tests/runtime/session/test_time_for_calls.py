"""Calls that are made one after another need time one after another."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import sessions_on

from perdure.kernel.ids import Instant
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.tool_function import tool
from perdure.runtime.session.work import RESERVE_MS

pytestmark = pytest.mark.sessions

TIMEOUT_MS = 2_000


def test_effectful_calls_that_do_not_all_fit_are_left_to_the_next_process():
    rung = []

    @tool(effect="effectful", timeout_ms=TIMEOUT_MS)
    async def ring(bell: int) -> None:
        """Ring a bell."""
        rung.append(bell)

    async def told():
        asked = calling(*(("ring", {"bell": bell}) for bell in range(3)))
        sessions = sessions_on(script=[asked, "Done."], tools=[ring])
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Ring.", send_id="first")
        states = []
        for ms in (2 * TIMEOUT_MS, 10 * TIMEOUT_MS):
            deadline = Instant(sessions.means.now() + RESERVE_MS + ms)
            states.append((await sessions.drive("s", deadline=deadline)).state)
            states.append(len(rung))
        return states

    assert asyncio.run(told()) == ["out_of_time", 0, "idle", 3]
