"""One process at a session on SQLite, which SIGKILL ends at one of its steps.

    python -m tests.runtime.session.living DIRECTORY DIE_AT before|after

Effects of tools go into a file that outlives everybody. Prints the reasons of the ends of all runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.runtime.session.test_deaths import EFFECTS, SCRIPT
from tests.support.sessions import app_with
from tests.support.steps import SteppedObjects, SteppedStore, Steps, kill_9

from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import FenceHeld
from perdure.kernel.ids import Instant, StorageId
from perdure.kernel.session.messages import AssistantMessage
from perdure.lake.objects import LocalObjects
from perdure.runtime.session.journal import Means
from perdure.runtime.session.model_scripted import ScriptedModel
from perdure.runtime.session.ports import Completed, ToolSpec
from perdure.runtime.session.sessions import Sessions

LEASE_MS = 1_500


@dataclass
class Written:
    """A tool whose effect is a line in a file, synced."""

    path: Path
    steps: Steps
    spec: ToolSpec

    async def call(self, request):
        async def effect():
            line = json.dumps([self.spec.name, request.call_key]) + "\n"
            with self.path.open("a") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            return Completed({"done": self.spec.name})

        return await self.steps.reach(effect, "call")


def script(request, said):
    spoken = [each for each in request.messages if isinstance(each, AssistantMessage)]
    return SCRIPT[len(spoken)] if len(spoken) < len(SCRIPT) else "And again."


async def live(directory, steps):
    store = SteppedStore(await SqliteStore.open(directory / "catalog.db"), steps)
    tools = [
        Written(
            directory / "effects",
            steps,
            ToolSpec(
                name=name,
                description="",
                schema={"type": "object"},
                effect=effect,
                module="function",
                needs_approval=name == "ask",
            ),
        )
        for name, effect in EFFECTS.items()
    ]
    authority = Authority(store, system.now, system.new_token)
    objects = SteppedObjects(LocalObjects(directory / "objects"), steps)
    means = Means(authority, objects, system.now, system.new_token, asyncio.sleep)
    model = ScriptedModel(script, system.now)
    sessions = Sessions(
        means, StorageId("local"), app_with(tools=tools), lambda _: model, lease_ms=LEASE_MS
    )
    try:
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="first")
        await sessions.send("s", "Then land.", send_id="second")
        while await driven(sessions) != "idle":
            for call in (await sessions.describe("s")).waiting_calls:
                await sessions.resolve("s", call.call_key, "approved")
        page = await sessions.transcript("s", limit=500)
    finally:
        await authority.close()
    sys.stdout.write(json.dumps([[frame.type, frame.payload] for frame in page.frames]))


async def driven(sessions):
    """Drive, and wait for the lease of one who was killed."""
    while True:
        try:
            return (await sessions.drive("s", deadline=Instant(system.now() + 60_000))).state
        except FenceHeld:
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    place, when = int(sys.argv[2]), sys.argv[3]
    chosen = Steps(place or None, when=when, end=kill_9)
    asyncio.run(live(Path(sys.argv[1]), chosen))
