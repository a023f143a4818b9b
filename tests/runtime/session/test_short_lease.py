"""A lease of less than the margin is short, not over: calls are made under it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.sessions import counting, sessions_on, within

from perdure.runtime.session.model_scripted import calling

pytestmark = pytest.mark.sessions


def test_a_call_is_made_under_a_lease_of_a_third_of_a_second():
    launch = counting("launch")

    async def flown():
        script = [calling(("launch", {})), "Done."]
        sessions = replace(sessions_on(script=script, tools=[launch]), lease_ms=300)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="first")
        async with asyncio.timeout(60):
            return await sessions.drive("s", deadline=within(sessions))

    driven = asyncio.run(flown())

    assert driven.state == "idle"
    assert len(launch.calls) == 1
