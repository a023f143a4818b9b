"""Hinting: jobs of a store that came from elsewhere are found here, for hints are in no log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final, Protocol

from perdure.kernel.documents.export import documents_range
from perdure.kernel.documents.jobs.hints import HintJob
from perdure.kernel.documents.jobs.records import JobAddress, job_at
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import DocumentId
from perdure.kernel.view import Reads
from perdure.runtime.documents.reading import AtOnce, ReadsAndExecutes
from perdure.runtime.session.ports import Pause
from perdure.runtime.steady import steadily

HINT_TRIES: Final = 8
"""Times that a job is looked at which meets a running commit."""

DOCUMENTS_PAGE: Final = 500
"""Documents that are read at once, without what they say."""


class Means(Protocol):
    """What looking for jobs takes."""

    @property
    def authority(self) -> ReadsAndExecutes: ...
    @property
    def pause(self) -> Pause: ...


async def jobs_in(means: Means, ref: DocumentStoreRef) -> AsyncIterator[JobAddress]:
    """Yield every job of a store that has not ended, whoever's it is. Reads all its documents."""
    behind: DocumentId | None = None
    while True:
        wanted = documents_range(ref.partition, behind, DOCUMENTS_PAGE)
        found = (await means.authority.view(Reads(ranges=(wanted,)))).find(wanted)
        for each in found:
            job = job_at(each)
            if job is not None:
                yield job
        if len(found) < DOCUMENTS_PAGE:
            return
        behind = found[-1].id


async def hint_jobs(
    means: Means, ref: DocumentStoreRef, jobs: Iterable[JobAddress], *, imports: bool = False
) -> int:
    """Let jobs be found that have no hint, and say how many had none.

    ``imports`` does so in a store whose import has not ended.
    Raises: NotFound, FollowsSource, StoreDiverged, StoreImporting.
    """
    hinted, at_once = 0, AtOnce(means.authority, means.pause)
    for job in jobs:
        request = HintJob(ref, job, imports)
        try:
            hinted += await steadily(at_once, request, tries=HINT_TRIES, pause=means.pause)
        except Corrupt:
            continue  # a document of somebody else's, which only lies where jobs do
    return hinted
