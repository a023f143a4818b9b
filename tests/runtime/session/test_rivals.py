"""Faults that rivals, lost answers and the fullness of journals have brought about, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.sessions import MemoryObjects, sessions_on, within

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import Contended
from perdure.kernel.ids import Holder, Seq, StepId, Token
from perdure.kernel.session.facts import Fact, RunFinished, StepStarted
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.owner import Append
from perdure.kernel.view import Key, Reads, View
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
        assert any(
            f.type == "queued" and f.payload["request"]["input"] == LARGE for f in page.frames
        )

    asyncio.run(case())


async def _end_the_run_only(sessions) -> None:
    """End the present run as an owner does who dies before the next one begins."""
    journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("owner"), LEASE_MS)
    run = journal.fold.run
    await journal.append([RunFinished(run_id=run.run_id, reason="cancelled", usage=run.usage)])
    await journal.let_go()


def test_an_append_that_landed_before_a_take_over_gives_its_writer_no_lease() -> None:
    async def case() -> None:
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        old = await Journal.open(sessions.means, sessions.ref("s"), Holder("old"), 1)
        execute, said = sessions.means.authority.execute, []

        async def answers_late(request):
            reply = await execute(request)
            if isinstance(request, Append) and not said:
                said.append(await Journal.open(sessions.means, old.ref, Holder("new"), LEASE_MS))
                return await execute(request)  # asked again, as whoever heard nothing does
            return reply

        sessions.means.authority.execute = answers_late
        landed = await old.append([StepStarted(step_id=StepId("s1-1"), episode=1)])

        assert landed
        assert old.until == 0

    asyncio.run(case())


class HalfVisible(MemoryStore):
    """A store whose readers miss some records for a while, as DynamoDB's may."""

    hidden: Callable[[Key[Any]], bool] = staticmethod(lambda key: False)

    async def load(self, reads: Reads) -> View:
        view = await super().load(reads)
        if not reads.snapshot:
            for key in view.stored:
                if self.hidden(key):
                    view.stored[key] = None
        return view


def test_an_append_whose_entry_does_not_show_yet_is_not_taken_for_somebody_elses() -> None:
    async def case() -> None:
        store = HalfVisible()
        sessions = sessions_on(store)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        request = _append(journal, StepStarted(step_id=StepId("s1-1"), episode=1))
        await sessions.means.authority.execute(request)
        store.hidden = lambda key: key.sort.startswith("log/")

        with pytest.raises(Contended):
            await sessions_on(store).means.authority.execute(request)

    asyncio.run(case())


def test_an_append_to_a_head_that_does_not_show_yet_is_asked_for_again_and_no_damage() -> None:
    async def case() -> None:
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        fact = StepStarted(step_id=StepId("s1-1"), episode=1)

        with pytest.raises(Contended):
            ahead = replace(_append(journal, fact), seen=Seq(journal.seq + 1))
            await sessions.means.authority.execute(ahead)

    asyncio.run(case())


def _append(journal: Journal, *facts: Fact) -> Append:
    spelled = tuple(prepared(each) for each in facts)
    grip = journal.grip
    token = Token("one-append")
    return Append(journal.ref, grip.epoch, grip.holder, journal.seq, spelled, token, LEASE_MS)
