"""One step of a job: what a request writes of it, as one commit of its store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from perdure.kernel.documents.commit import DocumentsRequest, check_open, existing_head, logged
from perdure.kernel.documents.content import Content
from perdure.kernel.documents.errors import RevisionDiffers, UnknownJob
from perdure.kernel.documents.jobs.records import (
    FoundJob,
    JobAddress,
    find_end,
    find_job,
    hint_of,
    hint_sort,
    job_wake_key,
)
from perdure.kernel.documents.jobs.value import (
    FINISH_FAILURES_MAX,
    JobClaim,
    JobEnd,
    JobRecord,
    Outcome,
    minute_of,
)
from perdure.kernel.documents.lives import begin_lives
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import document_key, store_head_key
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CreateDocument,
    RetireDocument,
    lives_before,
)
from perdure.kernel.errors import Corrupt, StaleWriter
from perdure.kernel.ids import DocumentId, Epoch, Holder, Instant, Token
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Reads, Removed, View, Write

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobGrip:
    """A job in the hand of one process: the epoch that its writes bear."""

    epoch: Epoch
    holder: Holder


@dataclass(frozen=True, slots=True)
class JobRequest(DocumentsRequest):
    """Base of the requests about one job. None needs a grip on the owner of its documents."""

    job: JobAddress
    attempt: Token
    """Names the commit in the log. Who asks again with another is known by what it asks."""

    def reads(self) -> Reads:
        life = lives_before(self.stream, self.job.record)
        return Reads(keys=(store_head_key(self.stream),), ranges=(life,))


class JobStep:
    """A commit about one job while it is decided."""

    def __init__(self, request: JobRequest, view: View, now: Instant) -> None:
        self.head = existing_head(view, request.ref)
        self.step = Step(view, self.head, self.head.next_id, proves_tables=True, keeps_jobs=True)
        self.now = now
        self._view = view
        self._request = request
        self._hints: list[Write] = []

    def found(self) -> FoundJob | None:
        """Return the job if it has not ended."""
        return find_job(self._view, self.step.store, self._request.job)

    def ended(self) -> JobEnd | None:
        """Return what the job has come to, if it has."""
        return find_end(self._view, self.step.store, self._request.job)

    def held(self, grip: JobGrip) -> FoundJob:
        """Return the job, which is in the hand of ``grip``. Raises StaleWriter, UnknownJob."""
        found = self.found()
        if found is None:
            raise self.unknown_or_stale(grip)
        check_claim(found.record.claim, grip, self._request.job)
        return found

    def unknown_or_stale(self, grip: JobGrip) -> UnknownJob | StaleWriter:
        """Return the refusal of work on a job that is not there any more."""
        if self.ended() is None:
            return unknown_job(self._request.ref, self._request.job)
        return StaleWriter(
            expected=f"epoch {grip.epoch} on job {self._request.job}", found="a job that has ended"
        )

    def create(self, record: JobRecord, state: Content | None) -> JobRecord:
        """Let a job begin, with its state."""
        if state is not None:
            CreateDocument(self._request.job.state, "none", state).apply(self.step)
            record = replace(record, state=DocumentId(self.step.created[-1]))
        record = self._hinted(record)
        CreateDocument(self._request.job.record, "none", record.content).apply(self.step)
        return record

    def write(self, found: FoundJob, record: JobRecord) -> JobRecord:
        """Write a job's record, and move its hint to where it must lie by that."""
        record = self._hinted(record)
        ChangeDocument(found.document.id, record.content).apply(self.step)
        return record

    def write_state(self, record: JobRecord, content: Content, revision: int) -> bool:
        """Write a job's state on the revision that its writer knows; False if it did before.

        Nobody else writes it under one epoch: the next revision is that writer's own.
        Raises: RevisionDiffers, and what the content raises.
        """
        if record.state is None:
            raise Corrupt(expected=f"a state of job {self._request.job}", found="none")
        key = document_key(self.step.store, record.state)
        document = self.step.read(key)
        if document is None:
            lost = Corrupt(expected=f"the state of job {self._request.job}", found="none")
            raise SeenInPart((key,), lost)
        if document.revision == revision + 1:
            return False
        if document.revision != revision:
            raise RevisionDiffers(
                expected=f"revision {revision} of the state of job {self._request.job}",
                found=f"revision {document.revision}",
            )
        ChangeDocument(record.state, content).apply(self.step)
        return True

    def fail_finish(self, found: FoundJob, failed: JobRecord) -> JobRecord | JobEnd:
        """Write a job whose finish has failed once more, and is known by its claim of whom.

        The last that is allowed blocks it; one that somebody aborted has its end by that.
        """
        if failed.finish_failures < FINISH_FAILURES_MAX:
            return self.write(found, failed)
        if failed.abort is not None and failed.outcome is not None:
            return self.end(found, failed.outcome, failed.claim.epoch)
        blocked = replace(failed, phase="blocked", blocked="finish_failed")
        return self.write(found, replace(blocked, claim=released(failed.claim)))

    def end(self, found: FoundJob, outcome: Outcome, epoch: Epoch) -> JobEnd:
        """Take the job and its state away, and keep what it came to."""
        record = found.record
        end = JobEnd(
            digest=record.digest,
            outcome=outcome,
            restarts=record.restarts,
            epoch=epoch,
            ended_at=self.now,
        )
        self._move_hint(record.hint, None)
        if record.state is not None:
            RetireDocument(record.state).apply(self.step)
        RetireDocument(found.document.id).apply(self.step)
        CreateDocument(self._request.job.end, "none", end.content).apply(self.step)
        return end

    def decision(self, reply: T) -> Decision[T]:
        """Return what the step comes to. Raises StoreMoving, StoreMoved."""
        check_open(self.head, self._request.ref)
        begin_lives(self.step)
        after, entry = logged(self.head, self.step, self._request.attempt, self.now)
        return Decision(reply, (*self.step.writes(), *self._hints, entry, after))

    def _hinted(self, record: JobRecord) -> JobRecord:
        at = record.wakes_at(self.now)
        self._move_hint(record.hint, at)
        return replace(record, hint=None if at is None else minute_of(at))

    def _move_hint(self, lies: int | None, at: Instant | None) -> None:
        """Let the hint lie in the minute of a moment, or nowhere."""
        if at is not None and minute_of(at) == lies:
            return
        ref, job = self._request.ref, self._request.job
        if lies is not None:
            gone = job_wake_key(ref.wake, hint_sort(ref, job, lies))
            if self._view.get(gone) is not None:
                self._hints.append(Removed(gone))
        if at is not None:
            hint = hint_of(ref, job, at)
            if self._view.get(hint.key) is None:
                self._hints.append(hint)


def check_claim(claim: JobClaim, grip: JobGrip, job: JobAddress) -> None:
    """Refuse a process whose job another has in hand, or nobody. Raises StaleWriter."""
    if (claim.epoch, claim.holder) != (grip.epoch, grip.holder):
        found = "released" if claim.epoch == grip.epoch else f"epoch {claim.epoch}"
        raise StaleWriter(expected=f"epoch {grip.epoch} on job {job}", found=found)


def released(claim: JobClaim) -> JobClaim:
    """Return a claim that was given back."""
    return replace(claim, holder=None, until=Instant(0))


def was_released(claim: JobClaim, grip: JobGrip) -> bool:
    """Say whether a claim was last in the hand of ``grip`` and given back."""
    return claim.epoch == grip.epoch and claim.holder is None


def unknown_job(ref: DocumentStoreRef, job: JobAddress) -> UnknownJob:
    """Return the refusal of a job that was never started."""
    return UnknownJob(
        expected=f"a job of document store {ref.store!r}", found=f"no job {job} of {job.owner!r}"
    )
