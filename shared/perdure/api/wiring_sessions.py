"""Wiring of sessions: an open storage, its application with agents, and who goes on with them."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Final

from perdure.api import faces, wiring_models, wiring_objects, wiring_queue
from perdure.api.deadlines import MARGIN_MS
from perdure.api.opened import once
from perdure.api.queue import Queue, due_session_of, message_of_session
from perdure.api.sandbox import Sandbox
from perdure.api.settings import SESSIONS, Settings, settings
from perdure.api.wiring import opened_worlds
from perdure.authority import system
from perdure.authority.costs import Costs
from perdure.authority.engine import Authority
from perdure.kernel.errors import InvalidValue, StoreUnavailable
from perdure.kernel.ids import Instant
from perdure.runtime.app import App, load_app
from perdure.runtime.session.dispatch import DueSession
from perdure.runtime.session.journal import Means
from perdure.runtime.session.serve import ServedSession, serve
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.tool_world import Lakeside, Reach

LAKE: Final = "perdure.api.wiring_lake_sessions"
"""Imported by name, when an agent first reads or ticks a world, or evidence is written."""

ARROW: Final = "pyarrow"
"""A function without it has agents that submit to worlds, and no more."""

LEASE_MS_CLOUD: Final = 60_000
LEASE_MS_LOCAL: Final = 20_000
"""What the next process waits when one was killed that went on with a session."""


@asynccontextmanager
async def sessions(chosen: Settings | None = None) -> AsyncIterator[OpenSessions]:
    """Open what sessions need; where, the environment says unless told."""
    found = chosen or settings()
    app = load_app(found.app)
    app.load()
    async with opened_worlds(found, app) as (authority, worlds), AsyncExitStack() as stack:
        means = Means(
            authority,
            wiring_objects.owned(found, authority),
            system.now,
            system.new_token,
            asyncio.sleep,
        )
        suits = LEASE_MS_LOCAL if found.backend == "sqlite" else LEASE_MS_CLOUD
        lease_ms = found.lease_ms or suits
        opening = partial(_lakeside, stack, found, authority, app, lease_ms)
        reach = Reach(worlds, once(opening) if find_spec(ARROW) else None)
        held = Sessions(means, found.storage, app, wiring_models.opened_model, lease_ms, reach)
        yield OpenSessions(found, authority, held)


async def _lakeside(
    stack: AsyncExitStack, chosen: Settings, authority: Authority, app: App, lease_ms: int
) -> Lakeside:
    opened: Lakeside = await stack.enter_async_context(
        importlib.import_module(LAKE).lakeside(chosen, authority, app, lease_ms=lease_ms)
    )
    return opened


def everything(chosen: Settings) -> Sandbox[OpenSessions]:
    """Return a sandbox with every route of sessions, for a caller in this process."""
    opening = partial(sessions, chosen)
    return Sandbox(opening, faces.SESSIONS, reply_bytes_max=sys.maxsize, trusted=True)


@dataclass(frozen=True)
class OpenSessions:
    """The sessions of an open storage, as their routes and their function need them."""

    settings: Settings
    authority: Authority
    sessions: Sessions

    def costs(self) -> Costs:
        """Return what the store has been asked for so far."""
        return self.authority.costs()

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds."""
        await asyncio.sleep(seconds)

    @cached_property
    def _told(self) -> Queue | None:
        return wiring_queue.opened_for_sessions(self.settings)

    @property
    def queue(self) -> Queue:
        """The queue of sessions. Raises InvalidValue without one."""
        if self._told is None:
            raise InvalidValue(expected=f"{SESSIONS} to be the URL of a queue", found="none")
        return self._told

    async def nudge(self, session: str) -> None:
        """Send a message for a session, where there is a queue; its hint is there in any case."""
        if self._told is None:
            return
        due = DueSession(self.sessions.ref(session), system.new_token())
        try:
            await self._told.send([message_of_session(due)])
        except StoreUnavailable:
            return  # the next dispatch finds it

    def due_of(self, body: str) -> DueSession:
        """Read a message's body. Raises Invalid kinds."""
        return due_session_of(self.settings.storage, body)

    async def serve(self, due: DueSession, *, ms: int) -> ServedSession:
        """Go on with a session that is due, for at most ``ms``."""
        deadline = Instant(system.now() + ms - MARGIN_MS)
        return await serve(self.sessions, due, deadline=deadline)
