"""World tools whose process dies: the world has what was asked for once, and the run goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.support.sessions import Clock, MemoryObjects, app_with, sessions_on, within
from tests.support.steps import Died, SteppedStore, Steps
from tests.support.world_sessions import (
    LEASE_MS,
    SESSION,
    SPAWN,
    WORLD,
    Ship,
    driven,
    opened,
    sessions_of,
    spawning,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.ids import Instant, RunId
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.tool_world import Reach, world_tools
from perdure.runtime.worlds import Worlds

pytestmark = pytest.mark.sessions


def memory_sessions(store, objects, clock, script, *, steps=None):
    """Return sessions and worlds of one store in memory."""
    chosen = store if steps is None else SteppedStore(store, steps)
    app = app_with(tools=world_tools(WORLD, only=["submit"]))
    app.component(Ship)
    sessions = sessions_on(chosen, script=script, objects=objects, clock=clock, app=app)
    worlds = Worlds(
        sessions.means.authority,
        sessions.storage,
        app.registry,
        new_token=sessions.means.new_token,
        new_run=lambda: RunId(sessions.means.new_token()),
    )
    return replace(sessions, reach=Reach(worlds)), worlds


def once(_request, said):
    return calling(("submit", {"commands": [SPAWN]})) if said == 0 else "Done."


async def interrupted(number, when):
    """Drive a session that dies, or hears nothing, at a commit; then let another go on.

    Return whether the first lived on, what was said of the run, and the world's commands.
    """
    store, objects, clock = MemoryStore(), MemoryObjects(), Clock()
    sessions, worlds = memory_sessions(store, objects, clock, once)
    await worlds.create(WORLD, world_id=WORLD)
    await sessions.create("pilot", session_id=SESSION)
    await sessions.send(SESSION, "Build a ship.")
    steps = Steps(number, when=when)
    first, _ = memory_sessions(store, objects, clock, once, steps=steps)
    try:
        await first.drive(SESSION, deadline=within(first))
        lived = True
    except Died:
        lived = False
    clock.at += 60_000
    await sessions.drive(SESSION, deadline=within(sessions))
    page = await sessions.transcript(SESSION)
    ends = [frame.payload["reason"] for frame in page.frames if frame.type == "run_finished"]
    results = [frame.payload for frame in page.frames if frame.type == "tool_result"]
    commands, _ = await worlds.commands(WORLD)
    return lived, ends, results, commands, steps.taken


@pytest.mark.parametrize("when", ["before", "after", "lost"])
def test_wherever_a_process_dies_the_world_has_the_entity_once_and_the_run_is_completed(when):
    taken = asyncio.run(interrupted(None, when))[-1]

    assert taken >= 6
    for number in range(1, taken + 1):
        _, ends, results, commands, _ = asyncio.run(interrupted(number, when))
        assert ends == ["completed"]
        assert [result["outcome"] for result in results] == ["completed"]
        assert len(commands) == 1


def commit_of_admission(root):
    """Return the number of the commit by which the driven session's batch is admitted."""
    sorts = []

    class Noting(Steps):
        async def reach(self, step, kind):
            sorts.append(kind)
            return await super().reach(step, kind)

    async def whole():
        steps = Noting()
        async with opened(root, steps=steps) as storage:
            worlds, submit = storage.worlds, storage.worlds.submit
            found = []

            async def noted(*arguments, **options):
                found.append(len(sorts) + 1)
                return await submit(*arguments, **options)

            worlds.submit = noted
            await prepared(storage)
            sorts.clear()
            sessions = sessions_of(storage, spawning)
            await sessions.drive(SESSION, deadline=Instant(storage.now() + 600_000))
            return found[0]

    return asyncio.run(whole())


async def prepared(storage):
    await storage.create_world(WORLD, world_id=WORLD)
    sessions = sessions_of(storage, spawning)
    await sessions.create("pilot", session_id=SESSION)
    await sessions.send(SESSION, "Build a ship.")


def test_a_process_killed_between_admission_and_result_loses_nothing_and_repeats_nothing(tmp_path):
    death = commit_of_admission(tmp_path / "rehearsal")

    async def begun():
        async with opened(tmp_path / "real") as storage:
            await prepared(storage)

    async def gone_on():
        await asyncio.sleep(LEASE_MS / 1_000)
        await driven(tmp_path / "real", "")
        async with opened(tmp_path / "real") as storage:
            sessions = sessions_of(storage, spawning)
            page = await sessions.transcript(SESSION)
            world = await storage.world(WORLD)
            rows = await world.query(Ship)
            commands, _ = await storage.worlds.commands(WORLD)
            return page.frames, rows.num_rows, len(commands)

    asyncio.run(begun())
    died = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.world_sessions"),
            *(tmp_path / "real", f"{death}:after"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    frames, rows, commands = asyncio.run(gone_on())

    assert died.returncode == -9
    assert (rows, commands) == (1, 1)
    replayed = [
        frame.payload["output"]["replayed"]
        for frame in frames
        if frame.type == "tool_result" and "replayed" in frame.payload["output"]
    ]
    assert replayed == [True]
    assert [frame.payload["reason"] for frame in frames if frame.type == "run_finished"] == [
        "completed"
    ]
