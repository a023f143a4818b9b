"""Ports of jobs: what their routes, and whoever goes on with them, ask of the runtime."""

from __future__ import annotations

from typing import Protocol

from perdure.api.queue import Queue
from perdure.kernel.caller import Caller
from perdure.runtime.documents.jobs.board import JobBoard
from perdure.runtime.documents.jobs.dispatch import DueJob
from perdure.runtime.documents.jobs.serve import ServedJob


class JobPorts(Protocol):
    """What the routes of jobs need."""

    @property
    def jobs(self) -> JobBoard: ...

    async def paid(self, by: Caller) -> None:
        """Pay for what is asked. Raises QuotaExceeded."""
        ...

    async def nudge(self, due: DueJob) -> None:
        """Let somebody go on with a job soon. What is lost here is found by its hint."""
        ...


class WorkPorts(Protocol):
    """What going on with jobs needs."""

    @property
    def queue(self) -> Queue: ...

    def due_of(self, body: str) -> DueJob:
        """Read a message's body. Raises Invalid kinds."""
        ...

    async def serve(self, due: DueJob, *, ms: int) -> ServedJob:
        """Go on with a job that is due, for at most ``ms``."""
        ...
