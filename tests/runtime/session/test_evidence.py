"""Evidence: what a run did is rows of a world, written once, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.steps import Died, Steps
from tests.support.world_sessions import (
    LEASE_MS,
    SESSION,
    SPAWN,
    WORLD,
    opened,
    sessions_of,
    spawning,
)

from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Instant, Seq
from perdure.kernel.session.owner import RestSession
from perdure.kernel.session.read import ReadJournal
from perdure.runtime.session.dispatch import DueSession
from perdure.runtime.session.evidence import AgentCall, AgentRun, AgentTurn
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.serve import serve

pytestmark = pytest.mark.sessions


def failing(_request, said):
    """A script with two calls in a turn, of which one is refused."""
    steps = [
        calling(("submit", {"commands": [SPAWN]}), ("submit", {"ships": 1}), text="Look: "),
        "Done.",
    ]
    return steps[said % 2]


async def begun(storage, script=spawning, *, evidence=True):
    sessions = sessions_of(storage, script)
    await storage.create_world(WORLD, world_id=WORLD)
    await sessions.create("pilot", session_id=SESSION, evidence=evidence)
    await sessions.send(SESSION, "Build a ship.", send_id="first")
    return sessions


async def driven(sessions):
    deadline = Instant(sessions.means.now() + 600_000)
    return await sessions.drive(SESSION, deadline=deadline)


async def written(sessions):
    """Return what the journal says of evidence."""
    page = await sessions.transcript(SESSION)
    return [frame.payload for frame in page.frames if frame.type == "evidence_written"]


def told(root, story):
    async def whole():
        async with opened(root) as storage:
            return await story(storage)

    return asyncio.run(whole())


def test_each_turn_is_a_tick_of_a_world_and_each_call_a_row(tmp_path):
    async def story(storage):
        sessions = await begun(storage, failing)
        await driven(sessions)
        (evidence,) = await written(sessions)
        world = await storage.world(evidence["world_id"])
        rows = {
            kind: (await world.query(kind)).to_pylist() for kind in (AgentRun, AgentTurn, AgentCall)
        }
        first = (await world.query(AgentTurn, ticks=0)).num_rows
        return rows, first, await storage.worlds.describe(evidence["world_id"])

    rows, first, info = told(tmp_path, story)

    (run,) = rows[AgentRun]
    assert (run["agentrun__reason"], run["agentrun__turns"]) == ("completed", 2)
    turns = [
        (each["agentturn__turn"], each["agentturn__calls"], each["agentturn__text_characters"])
        for each in rows[AgentTurn]
    ]
    assert turns == [(1, 2, 6), (2, 0, 5)]
    assert sum(each["agentturn__input_tokens"] for each in rows[AgentTurn]) > 0
    calls = [(each["agentcall__outcome"], each["agentcall__reason"]) for each in rows[AgentCall]]
    assert calls == [("completed", None), ("not_dispatched", "schema_invalid")]
    assert first == 1
    assert (info.status, info.kind, info.published_tick) == ("destroyed", "evidence", 1)


def test_every_run_has_evidence_of_its_own_and_none_has_two(tmp_path):
    async def story(storage):
        sessions = await begun(storage, failing)
        await sessions.send(SESSION, "And another.", send_id="second")
        await driven(sessions)
        await driven(sessions)
        return await written(sessions), await storage.discover(show="all")

    evidence, worlds = told(tmp_path, story)

    assert len({each["run_id"] for each in evidence}) == 2
    assert len(evidence) == 2
    assert sum(world.kind == "evidence" for world in worlds) == 2


def test_a_session_that_did_not_ask_for_evidence_has_none(tmp_path):
    async def story(storage):
        sessions = await begun(storage, evidence=False)
        await driven(sessions)
        info = await sessions.describe(SESSION)
        return await written(sessions), info, await storage.discover(show="all")

    evidence, info, worlds = told(tmp_path, story)

    assert evidence == []
    assert not info.lacks_evidence
    assert [world.kind for world in worlds] == [""]


class Broken:
    """Evidence that can not be written for now."""

    async def write(self, *_arguments):
        raise StoreUnavailable(expected="a lake", found="none")


def test_evidence_that_could_not_be_written_is_found_and_made_up_for(tmp_path):
    async def story(storage):
        sessions = await begun(storage)
        lake = replace(sessions.reach, lakeside=Broken().write)
        first = await driven(replace(sessions, reach=lake))
        head = await hinted(sessions)
        rest = await sessions.means.authority.execute(RestSession(sessions.ref(SESSION), head.hint))
        await driven(sessions)
        over = await sessions.means.authority.execute(RestSession(sessions.ref(SESSION), head.hint))
        return first, rest, await written(sessions), over

    first, rest, evidence, over = told(tmp_path, story)

    assert (first.state, rest) == ("idle", "due")
    assert len(evidence) == 1
    assert over == "rests"


def test_evidence_that_can_not_be_written_is_tried_again_at_the_next_look_and_not_at_once(tmp_path):
    async def story(storage):
        sessions = await begun(storage)
        lake = replace(sessions.reach, lakeside=Broken().write)
        broken = replace(sessions, reach=lake)
        deadline = Instant(sessions.means.now() + 600_000)
        served = await serve(broken, await due(sessions), deadline=deadline)
        again = await due(sessions)
        rest = await sessions.means.authority.execute(RestSession(again.ref, again.hint))
        return served, rest, await sessions.describe(SESSION)

    served, rest, info = told(tmp_path, story)

    assert served.ended
    assert info.lacks_evidence
    assert served.again is None
    assert rest == "due"


async def due(sessions):
    """Return the session as a look finds it, by its hint, and a message for it."""
    head = await hinted(sessions)
    return DueSession(sessions.ref(SESSION), "once", head.hint)


@pytest.mark.parametrize("error", [OSError("no disk"), ZeroDivisionError()])
def test_whatever_keeps_evidence_from_being_written_the_next_run_begins(tmp_path, error):
    async def lakeside():
        raise error

    async def story(storage):
        sessions = await begun(storage, lambda *_: "Done.")
        await sessions.send(SESSION, "And another.", send_id="second")
        return await driven(replace(sessions, reach=replace(sessions.reach, lakeside=lakeside)))

    done = told(tmp_path, story)

    assert done.ended == ("first", "second")


async def hinted(sessions):
    """Return the head, which names the hint by which the session is found."""
    return (await sessions.means.authority.execute(ReadJournal(sessions.ref(SESSION), Seq(0)))).head


@pytest.mark.slow
def test_wherever_its_writer_dies_evidence_is_written_whole_and_named_once(tmp_path):
    async def rehearsed():
        steps = Steps()
        async with opened(tmp_path / "rehearsal", steps=steps) as storage:
            sessions = await begun(storage, failing)
            before = steps.taken
            await driven(sessions)
            return steps.taken - before

    async def dying(root, number):
        async with opened(root) as storage:
            await begun(storage, failing)
        async with opened(root, steps=Steps(number, end=die)) as storage:
            with pytest.raises(BaseException) as died:
                await driven(sessions_of(storage, failing))
        await asyncio.sleep(LEASE_MS / 1_000)
        async with opened(root) as storage:
            sessions = sessions_of(storage, failing)
            await driven(sessions)
            (evidence,) = await written(sessions)
            world = await storage.world(evidence["world_id"])
            calls = (await world.query(AgentCall)).num_rows
            return died.value, calls, (await sessions.describe(SESSION)).lacks_evidence

    taken = asyncio.run(rehearsed())
    # Its last commits: some of the world's ticks, its end, the frame, and letting go.
    for number in (taken - 5, taken - 1):
        _, calls, lacks = asyncio.run(dying(tmp_path / str(number), number))
        assert calls == 2
        assert not lacks


def die():
    raise Died
