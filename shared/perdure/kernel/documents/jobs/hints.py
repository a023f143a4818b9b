"""Hints of jobs: listed for whoever looks for work, and laid to rest where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from perdure.kernel.documents.commit import DocumentsRequest, check_open, existing_head
from perdure.kernel.documents.jobs.records import (
    JobAddress,
    JobWake,
    find_job,
    hint_of,
    hint_sort,
    job_wake_key,
)
from perdure.kernel.documents.jobs.value import minute_of
from perdure.kernel.documents.places import job_wake_partition
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.underway import StoreStatus
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.hints import HintsDue
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.places import MINUTE_MS
from perdure.kernel.view import Decision, Reads, Removed, View

JobRest = Literal["due", "held", "waits", "rests"]

_UNDER_WAY: Final[tuple[StoreStatus, ...]] = ("staged", "moving")


@dataclass(frozen=True, slots=True)
class JobWakes(HintsDue[JobWake]):
    """List the hints of one shard that are due by ``through``, earliest first."""

    of: ClassVar[type[JobWake]] = JobWake

    @property
    def stream(self) -> Partition:
        return job_wake_partition(self.shard)

    def decide(self, view: View, now: Instant) -> Decision[tuple[JobWake, ...]]:
        return Decision(self.found(view))


@dataclass(frozen=True, slots=True)
class RestJob(DocumentsRequest):
    """Tell whether the job that a hint names is due, and take a hint away that it does not name.

    A job of this minute may wait for its second. A hint of a store that is not there stays, and so
    does one of a store whose import has not ended, or that is being moved; none of a moved one is
    needed here any more.
    """

    job: JobAddress
    hint: str

    def reads(self) -> Reads:
        hint = job_wake_key(self.ref.wake, self.hint)
        life = lives_before(self.stream, self.job.record)
        return Reads(keys=(store_head_key(self.stream), hint), ranges=(life,))

    def decide(self, view: View, now: Instant) -> Decision[JobRest]:
        head = view.get(store_head_key(self.stream))
        hint = view.get(job_wake_key(self.ref.wake, self.hint))
        if head is not None and (head.importing is not None or head.status in _UNDER_WAY):
            return Decision("waits")
        is_here = head is not None and head.status == "open"
        found = find_job(view, self.stream, self.job) if is_here else None
        if found is not None and self._is_its(found.record.hint):
            if found.record.claim.is_held(now):
                return Decision("held")
            wakes_at = found.record.wakes_at(now)
            return Decision("due" if wakes_at is not None and wakes_at <= now else "waits")
        if hint is None or head is None:
            return Decision("rests")
        # The head is written as it is: a hint leaves only if nobody has named it meanwhile.
        return Decision("rests", (Removed(hint.key), head))

    def _is_its(self, minute: int | None) -> bool:
        return minute is not None and hint_sort(self.ref, self.job, minute) == self.hint


@dataclass(frozen=True, slots=True)
class HintJob(DocumentsRequest):
    """Let a job be found whose hint is not there: none comes with an export or a log.

    Say whether it was missing. Raises: NotFound, FollowsSource for a replica; StoreImporting, but
    for whoever ``imports``.
    """

    job: JobAddress
    imports: bool = False

    def reads(self) -> Reads:
        life = lives_before(self.stream, self.job.record)
        return Reads(keys=(store_head_key(self.stream),), ranges=(life,))

    def decide(self, view: View, now: Instant) -> Decision[bool]:
        head = view.get(store_head_key(self.stream))
        if head is None or head.importing is None or not self.imports:
            head = existing_head(view, self.ref)
        found = find_job(view, self.stream, self.job)
        wakes_at = None if found is None else found.record.wakes_at(now)
        if found is None or wakes_at is None or found.record.hint is None:
            return Decision(reply=False)
        if minute_of(wakes_at) != found.record.hint:  # a wrong clock's: it lies where its job says
            wakes_at = Instant(found.record.hint * MINUTE_MS)
        hint = hint_of(self.ref, self.job, wakes_at)
        if view.get(hint.key) is not None:
            return Decision(reply=False)
        check_open(head, self.ref)
        return Decision(reply=True, writes=(hint, head))
