"""A second send of a run that is known, and a model whose address leads nowhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.sessions import (
    MemoryObjects,
    asking_first,
    counting,
    sessions_on,
    within,
)

from perdure.api.wiring_models import opened_model
from perdure.kernel import limits
from perdure.kernel.errors import PerdureError, SendIdReuse

pytestmark = pytest.mark.sessions


@pytest.mark.parametrize("how", ["started", "queued"])
def test_a_second_send_id_of_a_run_is_remembered_as_the_first_is(how):
    async def sent():
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        if how == "queued":
            await sessions.send("s", "Wait.", send_id="before")
        first = await sessions.send("s", "Fly.", send_id="one", run_id="flight")
        second = await sessions.send("s", "Fly.", send_id="two", run_id="flight")
        again = await sessions.send("s", "Fly.", send_id="two", run_id="flight")
        with pytest.raises(SendIdReuse):
            await sessions.send("s", "Land.", send_id="two", run_id="landing")
        await sessions.drive("s", deadline=within(sessions))
        ended = await sessions.send("s", "Fly.", send_id="two", run_id="flight")
        return first, second, again, ended

    first, second, again, ended = asyncio.run(sent())

    assert second == again == replace(first, replayed=True)
    assert (ended.state, ended.reason) == ("finished", "completed")


def test_a_run_whose_model_is_nowhere_ends_with_the_code_of_that():
    async def ended():
        sessions = replace(sessions_on(), model=opened_model)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="one")
        await sessions.drive("s", deadline=within(sessions))
        return await sessions.send("s", "Fly.", send_id="one")

    end = asyncio.run(ended())

    assert (end.state, end.reason) == ("finished", "error")
    assert end.code is not None
    assert end.code != "restart_limit"


LARGE = "x" * 100_000


@pytest.mark.parametrize("refused", ["send_id_reuse", "conflict", "run_paused", "queue_full"])
def test_a_large_send_that_is_refused_leaves_no_object_behind(refused):
    async def objects_of_a_refusal():
        objects = MemoryObjects()
        launch = counting("launch", needs_approval=True)
        sessions = sessions_on(script=asking_first, tools=[launch], objects=objects)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="one", run_id="flight")
        wanted = {"send_id": "two"}
        if refused == "send_id_reuse":
            wanted = {"send_id": "one", "run_id": "flight"}
        elif refused == "conflict":
            wanted |= {"run_id": "flight"}
        elif refused == "run_paused":
            await sessions.drive("s", deadline=within(sessions))
        else:
            for number in range(limits.QUEUED_SENDS_MAX):
                await sessions.send("s", "Wait.", send_id=f"wait-{number}")
        before = dict(objects.held)
        with pytest.raises(PerdureError) as raised:
            await sessions.send("s", LARGE, **wanted)
        return raised.value.code, before, objects.held

    code, before, after = asyncio.run(objects_of_a_refusal())

    assert code == refused
    assert before == after


def test_a_large_send_is_delivered_whole_and_once():
    async def delivered():
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        first = await sessions.send("s", LARGE, send_id="one")
        again = await sessions.send("s", LARGE, send_id="one")
        await sessions.drive("s", deadline=within(sessions))
        return first, again, (await sessions.transcript("s")).frames

    first, again, frames = asyncio.run(delivered())

    assert again == replace(first, replayed=True)
    assert [frame.payload["input"] for frame in frames if frame.type == "run_started"] == [LARGE]
