"""One process that works on the session: ``python -m dispatcher.work ROOT [HALT]``.

With ``HALT`` it stops in the middle of a tool call, says so, and waits to be killed:
``submit:3`` after the world has admitted the third command, ``notify:1`` after the first airline
has heard it. What the call has done is done; that it was done is written nowhere yet.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import perdure
from dispatcher import agent
from dispatcher.airlines import AIRLINES
from dispatcher.app import app
from perdure.kernel.errors import FenceHeld
from perdure.kernel.ids import Instant
from perdure.runtime.session.runner import Driven
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.toolbox import Toolbox
from perdure.runtime.storage import Storage

SESSION: Final = "noon"
LEASE_MS: Final = 2_000
"""How long a dead process stands in the way: a cloud has 60 seconds, which nobody would watch."""

HALTED: Final = "halted"
RUN_MS: Final = 600_000


class Halting:
    """Worlds, or airlines, that take so many calls, one by one, and then nothing is heard of them."""

    def __init__(self, inner: Any, after: int) -> None:
        self._inner, self._left = inner, after
        self._turn = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def submit(self, *arguments: Any, **options: Any) -> Any:
        return await self._halted(lambda: self._inner.submit(*arguments, **options))

    async def call(self, request: Any) -> Any:
        return await self._halted(lambda: self._inner.call(request))

    async def _halted(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async with self._turn:
            done = await work()
            self._left -= 1
            if self._left <= 0:
                print(HALTED, flush=True)  # noqa: T201  # the parent waits for it
                await asyncio.sleep(RUN_MS)
            return done


def sessions_of(storage: Storage) -> Sessions:
    """Return the sessions of a storage, under a lease short enough to be watched."""
    return replace(storage.sessions, lease_ms=LEASE_MS)


def halting(sessions: Sessions, halt: str) -> Sessions:
    """Return sessions whose tools halt as told."""
    what, _, count = halt.partition(":")
    reach = sessions.reach
    assert reach is not None, "an open storage reaches its worlds"
    if what == "submit":
        worlds: Any = Halting(reach.worlds, int(count))
        return replace(sessions, reach=replace(reach, worlds=worlds))
    known = sessions.app.agent_named(agent.AGENT)
    specs = known.tools.specs()
    tools = [known.tools.named(spec.name) for spec in specs if spec.name != "notify_airline"]
    notify: Any = Halting(known.tools.named("notify_airline"), int(count))
    changed = replace(known, tools=Toolbox(*filter(None, tools), notify))
    copy = perdure.App(app.name)
    copy.agent(changed)
    return replace(sessions, app=copy)


async def worked(storage: Storage) -> Driven:
    """Go on with the session, as soon as whoever is dead no longer holds it."""
    sessions = sessions_of(storage)
    while True:
        try:
            deadline = Instant(storage.now() + RUN_MS)
            return await sessions.drive(SESSION, deadline=deadline)
        except FenceHeld:
            await asyncio.sleep(0.1)


async def _main(root: Path, halt: str) -> None:
    AIRLINES.lie_in(root)
    async with perdure.open(root.as_uri(), app=app) as storage:
        sessions = halting(sessions_of(storage), halt)
        await sessions.drive(SESSION, deadline=Instant(storage.now() + RUN_MS))


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
