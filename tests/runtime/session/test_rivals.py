"""Faults that rivals, lost answers and the fullness of journals have brought about, each once."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import MemoryObjects, sessions_on, within

from perdure.kernel.ids import Holder
from perdure.kernel.session.facts import RunFinished
from perdure.runtime.session.journal import Journal

pytestmark = pytest.mark.sessions

LARGE = "x" * 70_000
LEASE_MS = 20_000


def test_a_large_steer_that_must_wait_lies_in_an_object_before_its_frame() -> None:
    async def case() -> None:
        objects = MemoryObjects()
        sessions = sessions_on(objects=objects)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        await sessions.send("s", "two", send_id="b")
        info = await sessions.describe("s")
        await sessions.cancel("s", str(info.run_id))
        await _end_the_run_only(sessions)

        reply = await sessions.send("s", LARGE, delivery="steer", send_id="c")

        assert reply.state == "pending"
        await sessions.drive("s", deadline=within(sessions))
        page = await sessions.transcript("s", limit=500)
        assert any(f.type == "queued" and f.payload["request"]["input"] == LARGE for f in page.frames)

    asyncio.run(case())


async def _end_the_run_only(sessions) -> None:
    """End the present run as an owner does who dies before the next one begins."""
    journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("owner"), LEASE_MS)
    run = journal.fold.run
    await journal.append([RunFinished(run_id=run.run_id, reason="cancelled", usage=run.usage)])
    await journal.let_go()
