"""Taking a job in hand: what waits is found, what its process left behind is judged, and it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.kernel.documents.content import current
from perdure.kernel.documents.jobs.records import FoundJob
from perdure.kernel.documents.jobs.step import JobGrip, JobRequest, JobStep, released, unknown_job
from perdure.kernel.documents.jobs.value import (
    FINISH_INTERRUPTED,
    RESTART,
    RESTARTS_MAX,
    Aborted,
    Failed,
    JobClaim,
    JobEnd,
    JobRecord,
    Outcome,
    RestartLimit,
    Resume,
)
from perdure.kernel.documents.records import document_key
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.errors import Corrupt, FenceHeld
from perdure.kernel.ids import Epoch, Holder, Instant, Partition
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.writers import check_grip


@dataclass(frozen=True, slots=True)
class JobState:
    """What the state of a job says, and what a change of it must be written upon."""

    value: Any
    version: int
    revision: int
    deltas: int
    """Deltas since the last base."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A job in hand: to be run, or to be finished."""

    task: Literal["run", "finish"]
    grip: JobGrip
    record: JobRecord
    state: JobState | None
    interrupted: bool = False
    """Its processes died too often; this taking has found that, and it is to be reported."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A job that is not in hand, since nothing is to be done with it now."""

    why: Literal["waits", "blocked", "ended"]
    record: JobRecord | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeJob(JobRequest):
    """Take a job in hand to run or to finish it, as the code that asks declares it.

    What a process left running that is gone counts as a restart; what it left in its finish, as a
    failure of that. A job of another version, or of the same with another fingerprint, is blocked.
    The same holder has the same answer again.
    Raises: NotFound, UnknownJob; FenceHeld while another works on it.
    """

    version: int
    fingerprint: str
    resume: Resume
    holder: Holder
    lease_ms: int

    def checked(self) -> TakeJob:
        """Return self if holder and lease are within the limits. Raises Invalid kinds."""
        check_grip(self.holder, self.lease_ms)
        return self

    def reads(self) -> Reads:
        end = lives_before(self.stream, self.job.end)
        return Reads.union(JobRequest.reads(self), Reads(ranges=(end,)))

    def decide(self, view: View, now: Instant) -> Decision[Taken | NotTaken]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None:
            end = step.ended()
            if end is None:
                raise unknown_job(self.ref, self.job)
            return Decision(NotTaken("ended", outcome=end.outcome))
        if found.record.claim.is_held(now):
            return Decision(self._held(view, found.record, now))
        return self._unheld(step, view, found)

    def _held(self, view: View, record: JobRecord, now: Instant) -> Taken:
        claim = record.claim
        if claim.holder != self.holder:
            raise FenceHeld(
                expected=f"job {self.job} in nobody's hand",
                found=f"epoch {claim.epoch}, for {claim.until - now} ms more",
            )
        return self._taken(view, record)

    def _unheld(self, step: JobStep, view: View, found: FoundJob) -> Decision[Taken | NotTaken]:
        record, claim, now = found.record, found.record.claim, step.now
        if record.phase == "blocked":
            return Decision(NotTaken("blocked", record))
        if (record.version, record.fingerprint) != (self.version, self.fingerprint):
            if record.abort is not None:  # no finish of this code fits it, and it waits for none
                outcome = _aborted(record)
                step.end(found, outcome, claim.epoch)
                return step.decision(NotTaken("ended", outcome=outcome))
            blocked = replace(record, phase="blocked", blocked="version", claim=released(claim))
            return step.decision(NotTaken("blocked", step.write(found, blocked)))
        if claim.holder is None and now < record.due_at:
            return Decision(NotTaken("waits", record))
        after = activated(record, self.resume, self._claim(claim, now), now)
        if after.finish_failures == record.finish_failures:
            return step.decision(self._taken(view, step.write(found, after)))
        return step.decision(self._left(view, step.fail_finish(found, after)))

    def _left(self, view: View, left: JobRecord | JobEnd) -> Taken | NotTaken:
        """Tell of a job whose finish a process has died in."""
        if isinstance(left, JobEnd):
            return NotTaken("ended", outcome=left.outcome)
        return NotTaken("blocked", left) if left.phase == "blocked" else self._taken(view, left)

    def _claim(self, before: JobClaim, now: Instant) -> JobClaim:
        return JobClaim(Epoch(before.epoch + 1), self.holder, Instant(now + self.lease_ms))

    def _taken(self, view: View, record: JobRecord) -> Taken:
        return Taken(
            task="run" if record.phase == "running" else "finish",
            grip=JobGrip(record.claim.epoch, self.holder),
            record=record,
            state=_state(view, self.stream, record),
            interrupted=record.interrupted_at == record.claim.epoch,
        )


def activated(record: JobRecord, resume: Resume, claim: JobClaim, now: Instant) -> JobRecord:
    """Return a job as it is once somebody has taken it in hand who can run it."""
    taken = replace(record, claim=claim)
    if record.phase == "finishing" and record.claim.holder is None:
        return taken
    if record.phase == "finishing":  # whoever gives it back in order leaves no holder
        failures = record.finish_failures + 1
        return replace(taken, finish_failures=failures, finish_error=FINISH_INTERRUPTED)
    restarts = record.restarts + (record.phase == "running")
    taken = replace(taken, restarts=restarts)
    if record.abort is not None:
        return finishing(taken, _aborted(record), now)
    if resume == "abandon" and record.phase != "pending":
        return finishing(taken, Failed(Aborted(RESTART)), now)
    if record.phase == "running" and restarts >= RESTARTS_MAX:
        limited = replace(taken, interrupted_at=claim.epoch)
        return finishing(limited, Failed(RestartLimit(restarts)), now)
    return replace(taken, phase="running")


def finishing(record: JobRecord, outcome: Outcome, now: Instant) -> JobRecord:
    """Return a job that has come to an outcome, which nothing replaces any more."""
    return replace(record, phase="finishing", outcome=outcome, due_at=now)


def _aborted(record: JobRecord) -> Outcome:
    reason = RESTART if record.abort is None else record.abort
    return record.outcome or Failed(Aborted(reason))


def _state(view: View, store: Partition, record: JobRecord) -> JobState | None:
    if record.state is None:
        return None
    key = document_key(store, record.state)
    document = view.peek(key)
    if document is None:
        lost = Corrupt(expected=f"the state of a job, document {record.state}", found="none")
        raise SeenInPart((key,), lost)
    loaded = current(view, store, document)
    return JobState(loaded.value, loaded.version, document.revision, loaded.deltas)
