"""Dispatch of jobs: which have something to do now, found in their hints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perdure.kernel.canonical import digest
from perdure.kernel.documents.jobs.describe import DescribeJob, JobInfo
from perdure.kernel.documents.jobs.hints import JobWakes, RestJob
from perdure.kernel.documents.jobs.records import JobAddress, JobWake, hint_of
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import Instant, StorageId, short_hash
from perdure.runtime.documents.reading import AtOnce
from perdure.runtime.hints import Looked, Looking


@dataclass(frozen=True, slots=True)
class JobName:
    """One job, by the store that it is kept in."""

    ref: DocumentStoreRef
    job: JobAddress

    def __str__(self) -> str:
        return f"{self.job} of store {self.ref.store}"


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job that somebody must go on with."""

    ref: DocumentStoreRef
    job: JobAddress
    once: str
    """What a queue is to drop a second message by."""

    hint: str | None = None
    """The hint that it was found by, if it was."""

    @property
    def group(self) -> str:
        """Name whose messages are handed out one after another: those of this job alone."""
        return f"{self.ref.partition}/{short_hash(self.job.owner, self.job.name, self.job.job)}"


FoundJobs = Looked[JobName, DueJob]
"""What one look came to."""

Tell = Callable[[Sequence[DueJob]], Awaitable[None]]


async def nobody(_: Sequence[DueJob]) -> None:
    """Tell nobody of what was found."""


async def look(
    authority: AtOnce,
    storage: StorageId,
    *,
    now: Callable[[], Instant],
    go_on: Callable[[], bool],
    tell: Tell = nobody,
) -> FoundJobs:
    """Find every job of a storage that is due, and lay to rest the hints that no job names.

    A hint is never believed: the job's own record says whether it is due. ``tell`` is given what
    each page of hints has come to, before the next is looked at.
    """
    looking: Looking[JobWake, JobName, DueJob] = Looking(
        ask=lambda shard, beyond: JobWakes(shard, now(), beyond=beyond),
        is_ours=lambda hint: hint.storage == storage,
        name=lambda hint: JobName(hint.ref, hint.address),
        look=partial(_due, authority),
    )
    return await looking.through(authority.authority, now, go_on, tell)


async def _due(authority: AtOnce, hint: JobWake) -> DueJob | None:
    # One that is held is left to its holder: its hint lies where the claim ends.
    if await authority.execute(RestJob(hint.ref, hint.address, hint.sort)) != "due":
        return None
    info = await authority.execute(DescribeJob(hint.ref, hint.address))
    return DueJob(hint.ref, hint.address, attempt(hint, info), hint.sort)


def attempt(hint: JobWake, info: JobInfo) -> str:
    """Name what is to be done, until somebody has tried: a queue drops what it knows."""
    job = hint.address
    tried = (info.phase, info.epoch, info.finish_failures, info.due_at)
    parts = (hint.ref.partition, job.owner, job.name, job.job, hint.sort, *map(str, tried))
    return digest("perdure.job.due.v1", *(part.encode() for part in parts))


def is_job_hint(hint: str, ref: DocumentStoreRef, job: JobAddress) -> bool:
    """Say whether a hint is one of a job."""
    minute, mark, _ = hint.partition("/")
    rest = hint_of(ref, job, Instant(0)).sort.partition("/")[2]
    return bool(mark) and minute.isdecimal() and hint == f"{minute}/{rest}"
