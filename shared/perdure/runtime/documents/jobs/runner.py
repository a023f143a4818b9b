"""The runner: takes a job in hand and brings it to its end, or stops it in order.

A run is told twice of what is wanted: that somebody aborts it, and that its process stops. After
the second it may return within the time for closing. What it returns counts; what it raises is
its way to stop. Then one commit writes it stopped, with the state that was held, and whatever it
does after that is refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from perdure.kernel.documents.jobs.describe import JobInfo
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.take import JobState, NotTaken, TakeJob, Taken
from perdure.kernel.documents.jobs.value import (
    Aborted,
    Done,
    Failed,
    JobRecord,
    Outcome,
    Threw,
)
from perdure.kernel.documents.jobs.work import ChangeJobState, SettleJob, StateChange
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import Holder, Instant, Token, short_hash
from perdure.runtime.documents.jobs.declaration import Job
from perdure.runtime.documents.jobs.finish import Settled, finished
from perdure.runtime.documents.jobs.hand import RESERVE_MS, Hand, Interrupted, JobCrew
from perdure.runtime.documents.jobs.outcomes import CANCELLED, threw
from perdure.runtime.documents.jobs.run import JobRun
from perdure.runtime.documents.jobs.state import KeptState

Left = Literal["ended", "stopped", "waits", "blocked", "busy", "out_of_time"]


@dataclass(frozen=True, slots=True)
class JobDriven:
    """Where a job was left."""

    state: Left
    """``busy``: an invocation of this very process has not returned yet."""

    outcome: Outcome | None = None
    due_at: Instant | None = None
    """When somebody must go on with one that waits."""


async def run_job(
    crew: JobCrew, ref: DocumentStoreRef, job: JobAddress, declaration: Job, *, deadline: Instant
) -> JobDriven:
    """Bring a job to its end, or as far as the time goes.

    Raises: NotFound, UnknownJob; FenceHeld while another works on it; StaleWriter, Unavailable
    kinds: whoever takes it next goes on from what is durable, and counts that as a restart.
    """
    if not await crew.vacant(ref, job):
        return JobDriven("busy")
    until = Instant(deadline - RESERVE_MS)
    if crew.means.now() >= until - crew.close_timeout_ms or crew.closing.is_set():
        return JobDriven("out_of_time")
    taken = await crew.at_once.execute(_take(crew, ref, job, declaration))
    if isinstance(taken, NotTaken):
        return _untaken(taken)
    if taken.interrupted:
        crew.report(Interrupted(ref, job, taken.record.restarts))
    hand = Hand(crew, ref, job, taken)
    settled: Settled | None = (taken.record, taken.state)
    if taken.task == "run":
        settled = await _Running(hand, declaration, taken, until).run()
    left = None
    if settled is not None:
        has_it_all = taken.task == "finish"
        left = await finished(hand, declaration, settled, until, has_it_all=has_it_all)
    if left is None:
        return JobDriven("stopped")
    if not isinstance(left, JobRecord):
        return JobDriven("ended", left)
    return _untaken(NotTaken("blocked" if left.phase == "blocked" else "waits", left))


def _untaken(found: NotTaken) -> JobDriven:
    if found.why == "waits" and found.record is not None:
        return JobDriven("waits", due_at=found.record.due_at)
    return JobDriven(found.why, found.outcome)


def _take(crew: JobCrew, ref: DocumentStoreRef, job: JobAddress, declaration: Job) -> TakeJob:
    token = crew.means.new_token()
    return TakeJob(
        ref,
        job,
        token,
        version=declaration.version,
        fingerprint=declaration.fingerprint,
        resume=declaration.resume,
        holder=Holder(short_hash(token)),  # of this taking alone: its own answer is known again
        lease_ms=crew.lease_ms,
    ).checked()


class _Running:
    """One run of a job, from its first step to what it comes to."""

    def __init__(self, hand: Hand, declaration: Job, taken: Taken, until: Instant) -> None:
        self._hand = hand
        self._declaration = declaration
        self._until = until
        self._stored_state = taken.state
        self._kept = None
        if declaration.state is not None and taken.state is not None:
            self._kept = KeptState(declaration.state, taken.state, declaration.checkpoint_when)
        self._args = taken.record.args
        self._run = JobRun(hand.job.job, taken, self._kept, self._store, hand.crew.means)

    async def run(self) -> Settled | None:
        """Return the job with its outcome and its last state, or None if it was stopped."""
        task = self._begun()
        over = asyncio.ensure_future(self._run.over.wait())
        try:
            crew = self._hand.crew
            stop_at = Instant(self._until - crew.close_timeout_ms)
            in_time = await self._hand.watched(task, stop_at, self._told, over)
            if not in_time and not self._run.over.is_set():
                self._run.stopping.set()
                in_time = await crew.until(task, crew.close_timeout_ms, over)
            return await self._closed(task, in_time=in_time)
        except asyncio.CancelledError:
            await asyncio.shield(self._run.close(self._hand.stopped))
            raise
        finally:
            over.cancel()
            self._run.end()
            task.cancel()

    def _begun(self) -> asyncio.Task[Any]:
        """Begin the invocation; its place is taken until it has returned, whatever becomes of it."""
        run, function = self._run, self._declaration.function

        async def call() -> Outcome:
            try:
                run.args = self._declaration.args.read(self._args)
                result = self._declaration.result.spelled(await function(run))
                return Done(result)
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except BaseException as error:  # noqa: BLE001  # it is its outcome
                return threw(error)

        return self._hand.crew.begun(self._hand.ref, self._hand.job, call(), run.abort)

    def _told(self, info: JobInfo) -> None:
        if info.abort is not None:
            self._run.abort(info.abort)

    async def _store(self, change: StateChange) -> JobRecord:
        hand = self._hand
        return await hand.sent(
            lambda token: ChangeJobState(hand.ref, hand.job, token, grip=hand.grip, change=change)
        )

    async def _closed(self, task: asyncio.Task[Any], *, in_time: bool) -> Settled | None:
        """Write what the run came to, or that it was stopped."""
        if self._run.failure is not None:
            raise self._run.failure
        outcome: Outcome | None = None
        if in_time:
            outcome = Failed(Threw(CANCELLED)) if task.cancelled() else task.result()
        if isinstance(outcome, Failed) and self._run.abort_reason is not None:
            outcome = Failed(Aborted(self._run.abort_reason))
        elif isinstance(outcome, Failed) and self._run.stopping.is_set():
            outcome = None
        if outcome is None:
            await self._run.close(self._hand.stopped)
            return None
        settled: list[JobRecord] = []

        async def settle(change: StateChange | None) -> None:
            settled.append(await self._settled(outcome, change))

        await self._run.close(settle)
        return settled[0], self._last_state()

    async def _settled(self, outcome: Outcome, change: StateChange | None) -> JobRecord:
        hand = self._hand

        def ask(outcome: Outcome, token: Token) -> SettleJob:
            asked = SettleJob(
                hand.ref, hand.job, token, grip=hand.grip, outcome=outcome, change=change
            )
            return asked.checked()

        try:
            ask(outcome, hand.crew.means.new_token())
        except (InvalidValue, TooLarge) as error:  # its result, which no store can keep
            outcome = threw(error)
        return await hand.sent(lambda token: ask(outcome, token))

    def _last_state(self) -> JobState | None:
        if self._kept is None or self._stored_state is None:
            return self._stored_state
        stored = self._stored_state
        return JobState(self._kept.value, stored.version, stored.revision, stored.deltas)
