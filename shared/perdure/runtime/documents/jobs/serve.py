"""Serving: going on with a job that was said to be due."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.errors import FenceHeld, NotFound
from perdure.kernel.ids import Instant
from perdure.runtime.documents.jobs.board import JobBoard
from perdure.runtime.documents.jobs.dispatch import DueJob
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.runner import run_job


@dataclass(frozen=True, slots=True)
class ServedJob:
    """What going on with one job came to."""

    state: str
    """As it was left: ``ended``, ``stopped``, ``waits``, ``blocked`` or ``out_of_time``; ``gone``
    if there is no such job."""

    early_ms: int = 0
    """How long it waits still."""

    again: DueJob | None = None
    """It is to be gone on with at once, by the next process."""


async def serve(crew: JobCrew, board: JobBoard, due: DueJob, *, deadline: Instant) -> ServedJob:
    """Go on with a job that was said to be due, until ``deadline``; then it is given back in order.

    Raises: UnknownJob for one that the application does not declare; FenceHeld while another
    works on it; as :func:`perdure.runtime.documents.jobs.runner.run_job` does.
    """
    declaration = board.declaration(due.ref.store, due.job)
    try:
        driven = await run_job(crew, due.ref, due.job, declaration, deadline=deadline)
    except (NotFound, UnknownJob):
        return ServedJob("gone")
    if driven.state == "busy":
        raise FenceHeld(
            expected=f"job {due.job} in nobody's hand",
            found="an invocation of this process that does not return",
        )
    if driven.state in {"stopped", "out_of_time"}:
        again = DueJob(due.ref, due.job, board.means.new_token(), due.hint)
        return ServedJob(driven.state, again=again)
    if driven.due_at is None:
        return ServedJob(driven.state)
    return ServedJob(driven.state, early_ms=max(0, driven.due_at - board.means.now()))
