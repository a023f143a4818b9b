"""Going on with jobs: a queue hands out those that are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from perdure.api.measures import tell
from perdure.api.ports_jobs import WorkPorts
from perdure.api.queue import Handed, Later, message_of_job
from perdure.api.ticking import NOT_NOW_MS, NOT_NOW_TRIES, done_or_left, sent_on
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant
from perdure.runtime.documents.jobs.dispatch import FoundJobs

HOLD_MS: Final = 60_000
"""So long a job's message is hidden while its process lives. Source: the lease of a job's claim
in a deployment, which the next process waits for anyway when one was killed."""


async def serve_message(ports: WorkPorts, handed: Handed, ms: int) -> dict[str, Any]:
    """Go on with the job that a message names.

    Raises: Later if it is not to be done now; Invalid kinds for a message that makes no sense;
    what keeps this process from the job.
    """
    due = ports.due_of(handed.body)
    told: dict[str, Any] = {"store": due.ref.store, "job": str(due.job)}
    served = await done_or_left(handed, ports.serve(due, ms=ms))
    if isinstance(served, PerdureError):
        return {**told, "left": served.code}
    tell("jobs_ended", int(served.state == "ended"))
    if 0 < served.early_ms <= NOT_NOW_MS and handed.tries <= NOT_NOW_TRIES:
        raise Later(served.early_ms)  # a longer wait is ended by its hint
    if served.again is not None:
        told |= await sent_on(ports.queue, message_of_job(served.again))
    return {**told, "state": served.state}


class WorkOffPorts(WorkPorts, Protocol):
    """What going on with all jobs needs where no queue hands them out."""

    def now(self) -> Instant:
        """Return what the clock says."""
        ...

    async def due(self, go_on: Callable[[], bool]) -> FoundJobs:
        """Find the jobs that are due, without telling anybody."""
        ...


async def worked_off(ports: WorkOffPorts, *, ms: int) -> list[dict[str, Any]]:
    """Go on with every job that is due, one after another, and return how each was left.

    A job that is refused, or another's, is left alone and named with the code.
    """
    until = ports.now() + ms
    left: dict[str, dict[str, Any]] = {}
    refused: set[str] = set()
    while True:
        found = await ports.due(lambda: ports.now() < until)
        mine = [due for due in found.due if due.group not in refused]
        if not mine:
            return list(left.values())
        for due in mine:
            told = {"store": due.ref.store, "job": str(due.job)}
            try:
                served = await ports.serve(due, ms=max(0, until - ports.now()))
            except PerdureError as error:
                refused.add(due.group)
                left[due.group] = {**told, "state": error.code}
                continue
            left[due.group] = {**told, "state": served.state}
            if served.state == "out_of_time":
                return list(left.values())
