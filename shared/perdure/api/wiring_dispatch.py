"""Wiring of dispatch: an open authority, and the queue that is told of what is due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.api import wiring_queue
from perdure.api.queue import Queue
from perdure.api.settings import Settings, settings
from perdure.api.wiring import opened_worlds
from perdure.authority import system
from perdure.authority.costs import Costs
from perdure.authority.engine import Authority
from perdure.kernel.ids import StorageId
from perdure.runtime.dispatch import Due, Found, look
from perdure.runtime.documents.jobs import dispatch as jobs
from perdure.runtime.documents.reading import AtOnce
from perdure.runtime.session import dispatch as sessions


@asynccontextmanager
async def dispatching(chosen: Settings | None = None) -> AsyncIterator[Dispatching]:
    """Open what finding the worlds that are due needs; where, the environment says unless told."""
    found = chosen or settings()
    queue = wiring_queue.opened(found)
    async with opened_worlds(found) as (authority, _):
        yield Dispatching(
            authority,
            found.storage,
            queue,
            wiring_queue.opened_for_sessions(found),
            wiring_queue.opened_for_jobs(found),
        )


@dataclass(frozen=True, slots=True)
class Dispatching:
    """An open authority and a queue, as dispatching needs them."""

    authority: Authority
    storage: StorageId
    queue: Queue
    sessions_queue: Queue | None = None
    jobs_queue: Queue | None = None

    def costs(self) -> Costs:
        """Return what the store has been asked for so far."""
        return self.authority.costs()

    async def look(self, *, ms: int, tell: Callable[[Sequence[Due]], Awaitable[None]]) -> Found:
        """Find the worlds that are due, for at most ``ms``, and tell of them as they are found."""
        until = system.now() + ms
        return await look(
            self.authority,
            self.storage,
            now=system.now,
            go_on=lambda: system.now() < until,
            tell=tell,
        )

    async def look_at_sessions(self, *, ms: int, tell: sessions.Tell) -> sessions.FoundSessions:
        """Find the sessions that are due, for at most ``ms``, and tell of them as they are found."""
        until = system.now() + ms
        return await sessions.look(
            self.authority,
            self.storage,
            now=system.now,
            go_on=lambda: system.now() < until,
            tell=tell,
        )

    async def look_at_jobs(self, *, ms: int, tell: jobs.Tell) -> jobs.FoundJobs:
        """Find the jobs that are due, for at most ``ms``, and tell of them as they are found."""
        until = system.now() + ms
        return await jobs.look(
            AtOnce(self.authority, asyncio.sleep),
            self.storage,
            now=system.now,
            go_on=lambda: system.now() < until,
            tell=tell,
        )
