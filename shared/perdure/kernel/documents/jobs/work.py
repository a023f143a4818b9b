"""What a job's process asks while the job is in its hand: changes, its outcome, an orderly stop."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel.documents.content import Content
from perdure.kernel.documents.jobs.step import (
    JobGrip,
    JobRequest,
    JobStep,
    released,
    was_released,
)
from perdure.kernel.documents.jobs.take import finishing
from perdure.kernel.documents.jobs.value import Done, JobRecord, Outcome, check_value
from perdure.kernel.errors import Conflict, StaleWriter
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, View
from perdure.kernel.writers import check_grip


@dataclass(frozen=True, slots=True)
class StateChange:
    """The next content of a job's state, on the revision that its writer knows."""

    content: Content
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork(JobRequest):
    """Base of the requests of whoever has a job in hand. Raises StaleWriter, UnknownJob."""

    grip: JobGrip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeJobState(JobWork):
    """Write a job's state, and forget the restarts before it.

    Asked twice it is written once. Raises: as JobWork; RevisionDiffers, Conflict for a job that
    does not run, and what the content raises.
    """

    change: StateChange

    def decide(self, view: View, now: Instant) -> Decision[JobRecord]:
        step = JobStep(self, view, now)
        found = step.held(self.grip)
        record = found.record
        check_running(self.job.name, record)
        wrote = step.write_state(record, self.change.content, self.change.revision)
        if record.restarts:
            record = step.write(found, replace(record, restarts=0))
        elif not wrote:
            return Decision(record)
        return step.decision(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewJob(JobWork):
    """Keep a job in hand for longer, and hear whether somebody wants its end."""

    lease_ms: int

    def checked(self) -> RenewJob:
        """Return self if the lease is within the limits. Raises Invalid kinds."""
        check_grip(self.grip.holder, self.lease_ms)
        return self

    def decide(self, view: View, now: Instant) -> Decision[JobRecord]:
        step = JobStep(self, view, now)
        found = step.held(self.grip)
        claim = replace(found.record.claim, until=Instant(now + self.lease_ms))
        return step.decision(step.write(found, replace(found.record, claim=claim)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleJob(JobWork):
    """Write what a run came to, with the state that was held back. It is finished next.

    Raises: as JobWork; Conflict for another outcome than it has; InvalidValue, TooLarge.
    """

    outcome: Outcome
    change: StateChange | None = None

    def checked(self) -> SettleJob:
        """Return self if a store can keep the outcome. Raises InvalidValue, TooLarge."""
        if isinstance(self.outcome, Done):
            check_value(self.outcome.result, "a job's result")
        return self

    def decide(self, view: View, now: Instant) -> Decision[JobRecord]:
        step = JobStep(self, view, now)
        found = step.held(self.grip)
        record = found.record
        if record.phase == "finishing" and record.outcome == self.outcome:
            return Decision(record)
        check_running(self.job.name, record)
        if self.change is not None:
            step.write_state(record, self.change.content, self.change.revision)
        return step.decision(step.write(found, finishing(record, self.outcome, now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob(JobWork):
    """Give a job back in order, with the state that was held back: that is no restart.

    One that is to be finished stays so. Raises: as JobWork.
    """

    change: StateChange | None = None

    def decide(self, view: View, now: Instant) -> Decision[JobRecord]:
        step = JobStep(self, view, now)
        found = step.found()
        if found is None:
            raise step.unknown_or_stale(self.grip)
        record = found.record
        if was_released(record.claim, self.grip):
            return Decision(record)
        found = step.held(self.grip)
        if record.phase == "running":
            if self.change is not None:
                step.write_state(record, self.change.content, self.change.revision)
            record = replace(record, phase="stopped", due_at=now)
        stopped = replace(record, claim=released(record.claim))
        return step.decision(step.write(found, stopped))


def check_running(name: str, record: JobRecord) -> None:
    """Refuse to go on with a run that is over. Raises Conflict, StaleWriter."""
    if record.phase == "finishing":
        raise Conflict(expected=f"job {name} without an outcome", found="one that has an outcome")
    if record.phase != "running":
        raise StaleWriter(expected=f"job {name} to run", found=f"one that is {record.phase}")
