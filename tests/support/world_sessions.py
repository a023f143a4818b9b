"""Sessions whose agent acts on a world of the same storage, in a process that can be killed.

As a program: ``python -m tests.support.world_sessions ROOT DEATH`` drives the session "talk" and is
killed at its commit ``DEATH``, written as ``<number>:<before|after>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tests.support.steps import Steps, kill_9, step_by_step

import perdure
from perdure import App, Component
from perdure.kernel.ids import Instant
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.model_scripted import ScriptedModel, calling
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.tool_world import world_tools
from perdure.runtime.session.toolbox import Toolbox
from perdure.runtime.storage import Storage

LEASE_MS = 1_500
"""How long a dead process stands in the way of the next: a holder sends nothing in its last second."""

WORLD = "harbour"
SESSION = "talk"

SPAWN = {"operation": "spawn", "components": {"Ship": {"tons": 7}}}


class Ship(Component):
    tons: int


def app_of(*tools: Any) -> App:
    """Return an app whose agent "pilot" has these tools, or every world tool."""
    app = App("harbour")
    app.component(Ship)
    chosen = tools or world_tools(WORLD)
    app.agent(Agent(name="pilot", model="scripted", tools=Toolbox(*chosen)))
    return app


@contextlib.asynccontextmanager
async def opened(
    root: Path, *, app: App | None = None, steps: Steps | None = None, lease_ms: int = LEASE_MS
) -> AsyncIterator[Storage]:
    """Open a storage whose commits may be steps."""
    chosen = app_of() if app is None else app
    async with perdure.open(root.as_uri(), app=chosen) as storage:
        if steps is not None:
            step_by_step(storage.ticker.means.authority, steps)
        storage.ticker._lease_ms = lease_ms
        yield storage


def sessions_of(storage: Storage, script: Any, *, lease_ms: int = LEASE_MS) -> Sessions:
    """Return the sessions of a storage, with a scripted model."""
    model = ScriptedModel(script, storage.now)
    return replace(storage.sessions, model=lambda _: model, lease_ms=lease_ms)


def spawning(_request: Any, said: int) -> Any:
    """A script that spawns a ship, has the world tick, and is done."""
    steps = [
        calling(("submit", {"commands": [SPAWN]})),
        calling(("run_ticks", {"ticks": 1})),
        "Done.",
    ]
    return steps[said]


async def driven(root: Path, death: str, end: Callable[[], NoReturn] = kill_9) -> Any:
    """Drive the session as far as this process lives."""
    at, _, when = death.partition(":")
    steps = Steps(int(at), when=when, end=end) if death else None  # type: ignore[arg-type]
    async with opened(root, steps=steps) as storage:
        sessions = sessions_of(storage, spawning)
        return await sessions.drive(SESSION, deadline=Instant(storage.now() + 600_000))


if __name__ == "__main__":
    asyncio.run(driven(Path(sys.argv[1]), sys.argv[2]))
