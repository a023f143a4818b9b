"""What can be told of jobs: one by its id, or pages of an owner's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.documents.commit import DocumentsRequest
from perdure.kernel.documents.errors import InvalidCursor
from perdure.kernel.documents.jobs.records import (
    JobAddress,
    end_in,
    find_end,
    find_job,
    record_in,
)
from perdure.kernel.documents.jobs.step import unknown_job
from perdure.kernel.documents.jobs.value import (
    PHASES,
    Blocked,
    JobEnd,
    JobRecord,
    Outcome,
    WireError,
)
from perdure.kernel.documents.log import read_head
from perdure.kernel.documents.places import ENDS, JOBS, SAFE_INTEGER_MAX
from perdure.kernel.documents.read import DocumentScan
from perdure.kernel.documents.records import Document, revision_key, store_head_key
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import Epoch, Instant, JobId
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Reads, View

JOBS_PAGE_MAX = 100
"""Jobs of one page: each is a document and its content. Source: LOAD_KEYS_MAX."""

ENDED = "ended"
"""What a job is told to be in that is in no phase any more."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """What is told of a job."""

    job: JobAddress
    phase: str
    """One of PHASES, or ENDED."""

    outcome: Outcome | None
    restarts: int
    finish_failures: int = 0
    finish_error: WireError | None = None
    abort: str | None = None
    blocked: Blocked | None = None
    due_at: Instant | None = None
    created_at: Instant | None = None
    ended_at: Instant | None = None
    key: str | None = None
    version: int | None = None
    args: Any = None
    epoch: Epoch = Epoch(0)
    """Of the last claim on it."""

    held_until: Instant | None = None
    """Until when somebody works on it, unless they say otherwise."""


def info(job: JobAddress, record: JobRecord) -> JobInfo:
    """Tell of a job that has not ended."""
    return JobInfo(
        job=job,
        phase=record.phase,
        outcome=record.outcome,
        restarts=record.restarts,
        finish_failures=record.finish_failures,
        finish_error=record.finish_error,
        abort=record.abort,
        blocked=record.blocked,
        due_at=record.due_at,
        created_at=record.created_at,
        key=record.key,
        version=record.version,
        args=record.args,
        epoch=record.claim.epoch,
        held_until=None if record.claim.holder is None else record.claim.until,
    )


def ended_info(job: JobAddress, end: JobEnd) -> JobInfo:
    """Tell of a job that has ended."""
    return JobInfo(
        job=job,
        phase=ENDED,
        outcome=end.outcome,
        restarts=end.restarts,
        ended_at=end.ended_at,
        epoch=end.epoch,
    )


@dataclass(frozen=True, slots=True)
class DescribeJob(DocumentsRequest):
    """Tell where a job stands, or what it came to.

    Raises: NotFound, UnknownJob, StoreImporting, StoreMoving.
    """

    job: JobAddress

    def reads(self) -> Reads:
        lives = tuple(lives_before(self.stream, each) for each in (self.job.record, self.job.end))
        return Reads(keys=(store_head_key(self.stream),), ranges=lives)

    def decide(self, view: View, now: Instant) -> Decision[JobInfo]:
        read_head(view, self.ref)
        end = find_end(view, self.stream, self.job)
        if end is not None:
            return Decision(ended_info(self.job, end))
        found = find_job(view, self.stream, self.job)
        if found is None:
            raise unknown_job(self.ref, self.job)
        return Decision(info(self.job, found.record))


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs in the order of their start or of their end, and where to go on."""

    jobs: tuple[JobInfo, ...]
    behind: int | None
    """For the next page; None if this was the last."""


@dataclass(frozen=True, slots=True)
class ListJobs(DocumentsRequest):
    """List jobs of an owner, a page at a time: those that have not ended, or those that have.

    ``phase`` is one of PHASES or ENDED; None is every phase, and not those that have ended. A page
    may hold fewer than ``limit`` and still have another behind it.
    Raises: NotFound, InvalidValue, InvalidCursor, StoreImporting, StoreMoving.
    """

    owner: str
    name: str | None = None
    phase: str | None = None
    behind: int | None = None
    limit: int = JOBS_PAGE_MAX

    def checked(self) -> ListJobs:
        """Return self if it asks for what there can be. Raises InvalidValue, InvalidCursor."""
        if self.phase not in (None, ENDED, *PHASES):
            raise InvalidValue(
                expected=f"a phase of {', '.join((*PHASES, ENDED))}", found=shown(self.phase)
            )
        if type(self.limit) is not int or not 1 <= self.limit <= JOBS_PAGE_MAX:
            raise InvalidValue(expected=f"a limit of 1 to {JOBS_PAGE_MAX}", found=shown(self.limit))
        if self.behind is not None and not (
            type(self.behind) is int and 0 <= self.behind <= SAFE_INTEGER_MAX
        ):
            raise InvalidCursor(expected="where a page of jobs ended", found=shown(self.behind))
        return self

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[JobsPage]:
        read_head(view, self.ref)
        namespace = ENDS if self.phase == ENDED else JOBS
        scan = DocumentScan(self.owner, namespace, kind=self.name)
        documents, behind = scan.page(view, self.stream, self.behind, self.limit)
        view.require(peeks=[revision_key(self.stream, each.id, each.base) for each in documents])
        told = [self._told(view, each) for each in documents]
        wanted = tuple(each for each in told if self.phase in (None, each.phase))
        return Decision(JobsPage(wanted, behind))

    def _told(self, view: View, document: Document) -> JobInfo:
        job = JobAddress(document.owner, document.kind, JobId(document.member or ""))
        if document.namespace == ENDS:
            return ended_info(job, end_in(view, self.stream, document))
        return info(job, record_in(view, self.stream, document))
