"""What people ask of a job: its end, or another try once it was blocked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.jobs.describe import ENDED, JobInfo, info
from perdure.kernel.documents.jobs.records import check_text
from perdure.kernel.documents.jobs.step import JobRequest, JobStep, unknown_job
from perdure.kernel.documents.jobs.value import Aborted, Failed, JobRecord, Phase
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, Reads, View

Marked = Literal["marked", "terminal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortJob(JobRequest):
    """Mark a job as one that shall end: "marked", or "terminal" if it has ended already.

    A job that is blocked, or that no code knows, is dropped at once: nobody else would. The first
    reason stands.
    Raises: NotFound, UnknownJob, TooLarge.
    """

    reason: str = "aborted"
    is_orphan: bool = False
    """No code declares it any more: it is ended here, unless somebody has it in hand still."""

    by: Caller = LOCAL
    """Whose quota it is paid from."""

    def checked(self) -> AbortJob:
        """Return self if the reason can be kept. Raises TooLarge."""
        check_text(self.reason, "a reason")
        return self

    def reads(self) -> Reads:
        end = lives_before(self.stream, self.job.end)
        return Reads.union(JobRequest.reads(self), Reads(ranges=(end,)))

    def decide(self, view: View, now: Instant) -> Decision[Marked]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None:
            if step.ended() is None:
                raise unknown_job(self.ref, self.job)
            return Decision("terminal")
        record = found.record
        is_left = self.is_orphan and not record.claim.is_held(now)
        if record.phase == "blocked" or is_left:
            outcome = record.outcome or Failed(Aborted(self.reason))
            step.end(found, outcome, record.claim.epoch)
            return step.decision("marked")
        if record.abort is not None:
            return Decision("marked")
        # What waits for its time is ended now; a finish that waits for its pause waits on.
        soon = record.due_at if record.phase == "finishing" else min(record.due_at, now)
        step.write(found, replace(record, abort=self.reason, due_at=soon))
        return step.decision("marked")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryJob(JobRequest):
    """Let a blocked job go on: where it was, with no failure of its finish counted.

    Code that does not fit it will block it again. Raises: NotFound, UnknownJob; Conflict for a job
    that is not blocked, or has ended.
    """

    by: Caller = LOCAL
    """Whose quota it is paid from."""

    def reads(self) -> Reads:
        end = lives_before(self.stream, self.job.end)
        return Reads.union(JobRequest.reads(self), Reads(ranges=(end,)))

    def decide(self, view: View, now: Instant) -> Decision[JobInfo]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None and step.ended() is None:
            raise unknown_job(self.ref, self.job)
        if found is None or found.record.phase != "blocked":
            is_so = ENDED if found is None else found.record.phase
            raise Conflict(expected=f"job {self.job} to be blocked", found=f"one that is {is_so}")
        record = replace(found.record, phase=_before(found.record), blocked=None, finish_failures=0)
        soon = max(record.due_at, now) if record.phase == "pending" else now
        retried = replace(record, due_at=soon)
        return step.decision(info(self.job, step.write(found, retried)))


def _before(blocked: JobRecord) -> Phase:
    """Return the phase that a blocked job goes on in: one that nobody had in hand is to begin."""
    if blocked.outcome is not None:
        return "finishing"
    return "stopped" if blocked.claim.epoch else "pending"
