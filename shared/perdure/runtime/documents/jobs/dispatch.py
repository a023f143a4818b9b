"""Dispatch of jobs: which have something to do now, found in their hints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from perdure.kernel.canonical import digest
from perdure.kernel.documents.jobs.hints import JobWakes, RestJob
from perdure.kernel.documents.jobs.records import JobAddress, JobWake
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant, StorageId
from perdure.runtime.hints import LOOKS_AT_ONCE, pages_of
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job that somebody must go on with."""

    ref: DocumentStoreRef
    job: JobAddress
    once: str
    """What a queue is to drop a second message by."""

    hint: str


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """What one look came to."""

    due: tuple[DueJob, ...]
    failed: tuple[tuple[DocumentStoreRef, JobAddress, PerdureError], ...] = ()
    """Jobs that could not be looked at."""

    done: bool = True
    """All hints were looked at; else time ran out, and the next look finds the rest."""


Tell = Callable[[Sequence[DueJob]], Awaitable[None]]


async def nobody(_: Sequence[DueJob]) -> None:
    """Tell nobody of what was found."""


async def look(
    authority: Executes,
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
    due: dict[tuple[DocumentStoreRef, JobAddress], DueJob] = {}
    failed: list[tuple[DocumentStoreRef, JobAddress, PerdureError]] = []
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def looked_at(hint: JobWake) -> DueJob | None:
        async with gate:
            try:
                rest = await authority.execute(RestJob(hint.ref, hint.address, hint.sort))
            except PerdureError as error:
                failed.append((hint.ref, hint.address, error))
                return None
        # One that is held is left to its holder: its hint lies where the claim ends.
        return DueJob(hint.ref, hint.address, once_of(hint), hint.sort) if rest == "due" else None

    def ask(shard: int, beyond: str) -> JobWakes:
        return JobWakes(shard, now(), beyond=beyond)

    async for hints in pages_of(authority, now, ask):
        if not go_on():
            return FoundJobs(tuple(due.values()), tuple(failed), done=False)
        # A table may hold the hints of other storages, too; these are left alone.
        ours = [hint for hint in hints if hint.storage == storage]
        found = await asyncio.gather(*map(looked_at, ours))
        fresh = [each for each in found if each is not None and (each.ref, each.job) not in due]
        due |= {(each.ref, each.job): each for each in fresh}
        if fresh:
            await tell(fresh)
    return FoundJobs(tuple(due.values()), tuple(failed))


def once_of(hint: JobWake) -> str:
    """Name what is to be done, until its hint lies elsewhere."""
    job = hint.address
    parts = (hint.ref.partition, job.owner, job.name, job.job, hint.sort)
    return digest("perdure.job.due.v1", *(part.encode() for part in parts))
