"""Finishing a job in this process: its finish is called until it has succeeded once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.documents.errors import OwnerHeld
from perdure.kernel.documents.jobs.finish import EndJob, FailFinish
from perdure.kernel.documents.jobs.take import JobState
from perdure.kernel.documents.jobs.value import Done, JobEnd, JobRecord, Outcome, WireError
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.errors import StaleWriter, Unavailable
from perdure.kernel.ids import Instant, JobId
from perdure.runtime.documents.jobs.declaration import Job
from perdure.runtime.documents.jobs.hand import Hand
from perdure.runtime.documents.jobs.outcomes import CANCELLED, wire_of

Settled = tuple[JobRecord, JobState | None]
"""A job that has come to an outcome, and what its state says last."""

OUT_OF_TIME: Final = WireError(
    "out_of_time", "The finish had all the time of a process, and did not return."
)
"""Error of a finish that one process cannot do."""


@dataclass(frozen=True, slots=True)
class JobFinish:
    """A job that has come to an outcome, as its finish sees it."""

    job: JobId
    args: Any
    outcome: Outcome
    result: Any
    """What it came to, None if it failed."""

    state: Any
    """Its last state, None for a job without one."""

    key: str | None
    failures: int
    """Times that its finish has failed before, those included whose process died in it."""


def finish_of(declaration: Job, job: JobId, record: JobRecord, state: JobState | None) -> JobFinish:
    """Return what a finish is called with. Raises InvalidValue kinds."""
    outcome = record.outcome
    assert outcome is not None, "what is finished has an outcome"
    shape = declaration.state
    return JobFinish(
        job=job,
        args=declaration.args.read(record.args),
        outcome=outcome,
        result=declaration.result.read(outcome.result) if isinstance(outcome, Done) else None,
        state=None if shape is None or state is None else shape.read(state.value),
        key=record.key,
        failures=record.finish_failures,
    )


async def finished(
    hand: Hand, declaration: Job, left: Settled, until: Instant, *, has_it_all: bool
) -> JobRecord | Outcome | None:
    """Finish a job and end it: return its outcome, or the job that waits or is blocked.

    None if it was given back, since the process ends or time was over: nothing is counted. A finish
    that had all the time of its process, as ``has_it_all`` says, and did not return has failed.
    Raises: StaleWriter, Unavailable kinds.
    """
    try:
        staged = await _staged(hand, declaration, left, until, has_it_all=has_it_all)
        if staged is None:
            await hand.stopped()
            return None
        end = await hand.sent(
            lambda token: EndJob(hand.ref, hand.job, token, grip=hand.grip, staged=staged)
        )
    except (StaleWriter, Unavailable, asyncio.CancelledError):
        raise
    except Exception as error:  # noqa: BLE001  # it raised, or what it has staged cannot be written
        counts = not isinstance(error, OwnerHeld)  # its holder lets go some time
        wire = error.wire if isinstance(error, _FinishFailed) else wire_of(error)
        failed = await hand.sent(
            lambda token: FailFinish(
                hand.ref,
                hand.job,
                token,
                grip=hand.grip,
                failures=left[0].finish_failures,
                error=wire,
                counts=counts,
            )
        )
        return failed.outcome if isinstance(failed, JobEnd) else failed
    return end.outcome


class _FinishFailed(Exception):
    """The finish itself has raised."""

    def __init__(self, wire: WireError) -> None:
        super().__init__(wire.message)
        self.wire = wire


async def _staged(
    hand: Hand, declaration: Job, left: Settled, until: Instant, *, has_it_all: bool
) -> tuple[StagedWrite, ...] | None:
    function = declaration.finished
    if function is None:
        return ()

    async def call() -> Sequence[StagedWrite]:
        try:
            given = finish_of(declaration, hand.job.job, *left)
            return tuple(await function(given) or ())
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise _FinishFailed(wire_of(error)) from error

    task = hand.crew.begun(hand.ref, hand.job, call())
    try:
        if not await hand.watched(task, until, lambda _: None):
            if has_it_all and not hand.crew.closing.is_set():
                raise _FinishFailed(OUT_OF_TIME)
            return None
        if task.cancelled():  # from inside: whoever cancels this process cancels the watching
            raise _FinishFailed(CANCELLED)
        return tuple(task.result())
    finally:
        task.cancel()
