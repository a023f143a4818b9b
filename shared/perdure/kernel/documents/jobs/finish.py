"""Finishing a job: its end, with what its finish writes, or one failure more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel.documents.commit import check_owners
from perdure.kernel.documents.jobs.step import (
    JobStep,
    released,
    was_released,
)
from perdure.kernel.documents.jobs.value import (
    FINISH_FAILURES_MAX,
    JobEnd,
    JobRecord,
    WireError,
    backoff_ms,
)
from perdure.kernel.documents.jobs.work import JobWork
from perdure.kernel.documents.order import in_order
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, Reads, View


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob(JobWork):
    """Take a finished job and its state away, in one commit with what its finish has staged.

    What it came to is kept. Asked twice it happens once.
    Raises: as JobWork; Conflict without an outcome; OwnerHeld, and what the staged writes raise.
    """

    staged: tuple[StagedWrite, ...] = ()

    def reads(self) -> Reads:
        mine = Reads(ranges=(lives_before(self.stream, self.job.end),))
        theirs = (each.reads(self.stream) for each in self.staged)
        return Reads.union(JobWork.reads(self), mine, *theirs)

    def decide(self, view: View, now: Instant) -> Decision[JobEnd]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None:
            return Decision(_ended_by(step, self))
        found = step.held(self.grip)
        outcome = found.record.outcome
        if outcome is None:
            raise Conflict(expected=f"an outcome of job {self.job}", found="none")
        for each in self.staged:
            step.step.raise_to(each.names_id)
        step.step.keeps_jobs = False
        for each in in_order(self.staged):
            each.apply(step.step)
        step.step.keeps_jobs = True
        step.head = check_owners(step.head, step.step.owners, (), now)
        end = step.end(found, outcome, self.grip.epoch)
        return step.decision(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailFinish(JobWork):
    """Count a failure of a job's finish, and give the job back until its pause is over.

    ``failures`` are those its process knew of: asked twice it is counted once. The last that is
    allowed blocks the job, or ends one that was aborted. One that ``counts`` not waits the longest
    pause, as often as it takes.
    """

    failures: int
    error: WireError | None = None
    counts: bool = True

    def reads(self) -> Reads:
        end = lives_before(self.stream, self.job.end)
        return Reads.union(JobWork.reads(self), Reads(ranges=(end,)))

    def decide(self, view: View, now: Instant) -> Decision[JobRecord | JobEnd]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None:
            return Decision(_ended_by(step, self))
        record = found.record
        if (
            was_released(record.claim, self.grip)
            and record.finish_failures == self.failures + self.counts
        ):
            return Decision(record)
        found = step.held(self.grip)
        if record.phase != "finishing":
            raise Conflict(expected=f"an outcome of job {self.job}", found="none")
        failures = record.finish_failures + self.counts
        pause = backoff_ms(failures if self.counts else FINISH_FAILURES_MAX)
        failed = replace(
            record,
            finish_failures=failures,
            finish_error=self.error,
            due_at=Instant(now + pause),
            claim=released(record.claim),
        )
        left = step.fail_finish(found, failed) if self.counts else step.write(found, failed)
        return step.decision(left)


def _ended_by(step: JobStep, asked: JobWork) -> JobEnd:
    """Return the end of a job that is one by who asks. Raises StaleWriter, UnknownJob."""
    end = step.ended()
    if end is None or end.epoch != asked.grip.epoch:
        raise step.unknown_or_stale(asked.grip)
    return end
