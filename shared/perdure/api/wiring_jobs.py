"""Wiring of jobs: an open storage, its application with jobs, Perdure's own, and who does them."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from perdure.api import faces, wiring_queue
from perdure.api.deadlines import MARGIN_MS
from perdure.api.opened import once
from perdure.api.queue import Queue, due_job_of, message_of_job
from perdure.api.sandbox import Sandbox
from perdure.api.settings import JOBS, Settings, settings
from perdure.api.system_exports import ExportsHere
from perdure.api.system_jobs import KeepingPorts, register
from perdure.api.wiring import opened_worlds
from perdure.authority import system
from perdure.authority.costs import Costs
from perdure.authority.engine import Authority
from perdure.kernel.caller import Caller
from perdure.kernel.errors import InvalidValue, StoreUnavailable
from perdure.kernel.ids import Instant
from perdure.kernel.quota import payment
from perdure.runtime.app import App, load_app
from perdure.runtime.documents.jobs.board import JobBoard
from perdure.runtime.documents.jobs.dispatch import DueJob, FoundJobs
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.jobs.serve import ServedJob, serve
from perdure.runtime.documents.store import StoreMeans

LAKE: Final = "perdure.api.wiring_lake"
"""Imported by name, when the first of Perdure's own jobs is run: Arrow takes its time."""

LEASE_MS_CLOUD: Final = 60_000
LEASE_MS_LOCAL: Final = 20_000
"""What the next process waits when one was killed that worked on a job."""


@asynccontextmanager
async def jobs(chosen: Settings | None = None) -> AsyncIterator[OpenJobs]:
    """Open what jobs need; where, the environment says unless told."""
    found = chosen or settings()
    app = load_app(found.app)
    app.load()
    async with opened_worlds(found, app) as (authority, _), AsyncExitStack() as stack:
        means = StoreMeans(authority, system.now, system.new_token, asyncio.sleep)
        suits = LEASE_MS_LOCAL if found.backend == "sqlite" else LEASE_MS_CLOUD
        crew = JobCrew(means=means, lease_ms=found.lease_ms or suits)
        own = App(app.name)
        exports = ExportsHere(found, authority, means)
        register(own, found, once(partial(_lake, stack, found)), exports)
        board = JobBoard(means, Jobs(crew, found.storage, app), Jobs(crew, found.storage, own))
        yield OpenJobs(found, authority, board, crew)


async def _lake(stack: AsyncExitStack, chosen: Settings) -> KeepingPorts:
    opened: KeepingPorts = await stack.enter_async_context(
        importlib.import_module(LAKE).lake(chosen)
    )
    return opened


def everything(chosen: Settings) -> Sandbox[OpenJobs]:
    """Return a sandbox with every route of jobs, for a caller in this process."""
    opening = partial(jobs, chosen)
    return Sandbox(opening, faces.JOBS, reply_bytes_max=sys.maxsize, trusted=True)


@dataclass(frozen=True)
class OpenJobs:
    """The jobs of an open storage, as their routes and their function need them."""

    settings: Settings
    authority: Authority
    jobs: JobBoard
    crew: JobCrew

    def now(self) -> Instant:
        """Return what the clock says."""
        return system.now()

    def stop(self) -> None:
        """Begin no job any more, and give those in hand back in order."""
        self.crew.closing.set()

    def costs(self) -> Costs:
        """Return what the store has been asked for so far."""
        return self.authority.costs()

    async def paid(self, by: Caller) -> None:
        """Pay for what is asked. Raises QuotaExceeded."""
        bill = payment(self.settings.storage, by)
        if bill is not None:
            await self.authority.execute(bill)

    @cached_property
    def _told(self) -> Queue | None:
        return wiring_queue.opened_for_jobs(self.settings)

    @property
    def queue(self) -> Queue:
        """The queue of jobs. Raises InvalidValue without one."""
        if self._told is None:
            raise InvalidValue(expected=f"{JOBS} to be the URL of a queue", found="none")
        return self._told

    async def nudge(self, due: DueJob) -> None:
        """Send a message for a job, where there is a queue; its hint is there in any case."""
        if self._told is None:
            return
        try:
            await self._told.send([message_of_job(due)])
        except StoreUnavailable:
            return  # the next dispatch finds it

    def due_of(self, body: str) -> DueJob:
        """Read a message's body. Raises Invalid kinds."""
        return due_job_of(self.settings.storage, body)

    async def serve(self, due: DueJob, *, ms: int) -> ServedJob:
        """Go on with a job that is due, for at most ``ms``."""
        deadline = Instant(system.now() + ms - MARGIN_MS)
        return await serve(self.crew, self.jobs, due, deadline=deadline)

    async def due(self, go_on: Callable[[], bool]) -> FoundJobs:
        """Find the jobs that are due, without telling anybody."""
        return await self.jobs.application.look(go_on=go_on)
