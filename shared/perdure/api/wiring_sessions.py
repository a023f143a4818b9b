"""Wiring of sessions: an open storage, its application with agents, and who goes on with them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from perdure.api import faces, wiring_models, wiring_objects, wiring_queue
from perdure.api.deadlines import MARGIN_MS
from perdure.api.queue import Queue, due_session_of, message_of_session
from perdure.api.sandbox import Sandbox
from perdure.api.settings import SESSIONS, Settings, settings
from perdure.api.wiring import opened_worlds
from perdure.authority import system
from perdure.authority.costs import Costs
from perdure.authority.engine import Authority
from perdure.kernel.errors import InvalidValue, StoreUnavailable
from perdure.kernel.ids import Instant
from perdure.runtime.app import load_app
from perdure.runtime.session.dispatch import DueSession
from perdure.runtime.session.journal import Means
from perdure.runtime.session.serve import ServedSession, serve
from perdure.runtime.session.sessions import Sessions

LEASE_MS_CLOUD: Final = 60_000
LEASE_MS_LOCAL: Final = 20_000
"""What the next process waits when one was killed that went on with a session."""


@asynccontextmanager
async def sessions(chosen: Settings | None = None) -> AsyncIterator[OpenSessions]:
    """Open what sessions need; where, the environment says unless told."""
    found = chosen or settings()
    app = load_app(found.app)
    app.load()
    async with opened_worlds(found, app) as (authority, _):
        means = Means(
            authority,
            wiring_objects.owned(found, authority),
            system.now,
            system.new_token,
            asyncio.sleep,
        )
        suits = LEASE_MS_LOCAL if found.backend == "sqlite" else LEASE_MS_CLOUD
        lease_ms = found.lease_ms or suits
        held = Sessions(means, found.storage, app, wiring_models.opened_model, lease_ms)
        yield OpenSessions(found, authority, held)


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
