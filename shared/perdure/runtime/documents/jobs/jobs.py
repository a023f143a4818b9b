"""Jobs of one storage: started, aborted, told of and run, from wherever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.documents.jobs.abort import AbortJob, Marked, RetryJob
from perdure.kernel.documents.jobs.describe import (
    ENDED,
    JOBS_PAGE_MAX,
    DescribeJob,
    JobInfo,
    JobsPage,
    ListJobs,
)
from perdure.kernel.documents.jobs.hints import HintJob
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.start import Started, StartJob
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import DocumentStoreId, Instant, JobId, StorageId, checked_id
from perdure.kernel.view import Request
from perdure.runtime.app import App
from perdure.runtime.documents.jobs import dispatch
from perdure.runtime.documents.jobs.dispatch import FoundJobs, Tell
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.outcomes import result_of
from perdure.runtime.documents.jobs.runner import JobDriven, run_job
from perdure.runtime.steady import steadily

T = TypeVar("T")

READ_TRIES = 8
"""Times that something is asked for which meets a running commit."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that was due, and what came of it: where it was left, or why nothing was done."""

    ref: DocumentStoreRef
    job: JobAddress
    driven: JobDriven | None
    error: PerdureError | None = None


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of the document stores of one storage."""

    crew: JobCrew
    storage: StorageId
    app: App
    """Its jobs are known once it was loaded."""

    def ref(self, store: str) -> DocumentStoreRef:
        """Name a document store of this storage. Raises InvalidId."""
        checked = checked_id(store, what="a document store's id")
        return DocumentStoreRef(self.storage, DocumentStoreId(checked))

    def address(self, name: str, job: str) -> JobAddress:
        """Name a job that the application declares. Raises UnknownJob, InvalidId."""
        return JobAddress(self.app.job_named(name).owner, name, JobId(job)).checked()

    def named(self, name: str, job: str, owner: str | None) -> tuple[JobAddress, bool]:
        """Name a job, also one that no code declares any more, and say whether that is so.

        Of one of these its ``owner`` must be said. Raises UnknownJob, InvalidId.
        """
        if owner is None or self.declares(name, owner):
            return self.address(name, job), False
        return JobAddress(owner, name, JobId(job)).checked(), True

    def declares(self, name: str, owner: str | None) -> bool:
        """Say whether the application has jobs of a name, and of an owner if one is said."""
        try:
            return owner in (None, self.app.job_named(name).owner)
        except UnknownJob:
            return False

    async def start(
        self,
        store: str,
        name: str,
        args: Any,
        *,
        job_id: str | None = None,
        key: str | None = None,
        due_at: Instant | None = None,
        trace: str | None = None,
    ) -> Started:
        """Start a job, or return it if the same was started before under this id.

        Raises: NotFound, UnknownJob, Conflict, Invalid kinds.
        """
        asked = self.asked(store, name, args, job_id=job_id, key=key, due_at=due_at, trace=trace)
        return await self.begin(asked)

    async def begin(self, asked: StartJob) -> Started:
        """Start a job that was asked for. Raises NotFound, Conflict."""
        return await self._steady(asked)

    def asked(
        self,
        store: str,
        name: str,
        args: Any,
        *,
        job_id: str | None = None,
        key: str | None = None,
        due_at: Instant | None = None,
        trace: str | None = None,
    ) -> StartJob:
        """Return what starts a job, checked without any store. Raises UnknownJob, Invalid kinds."""
        declaration = self.app.job_named(name)
        token = self.crew.means.new_token()
        first = declaration.first_state()
        return StartJob(
            self.ref(store),
            JobAddress(declaration.owner, name, JobId(token if job_id is None else job_id)),
            token,
            version=declaration.version,
            fingerprint=declaration.fingerprint,
            args=declaration.checked_args(args),
            key=key,
            trace=trace,
            due_at=due_at,
            state=None if declaration.state is None else base(declaration.version, first),
        ).checked()

    async def abort(
        self,
        store: str,
        name: str,
        job: str,
        *,
        reason: str = "aborted",
        joins: bool = False,
        owner: str | None = None,
        by: Caller = LOCAL,
    ) -> Marked:
        """Ask for the end of a job: "marked", or "terminal" if it has ended already.

        With its ``owner``, also of one that the application declares no more.
        With ``joins``, return when its invocation in this process, if there is one, has returned.
        Raises: NotFound, UnknownJob, TooLarge.
        """
        ref, (address, is_orphan) = self.ref(store), self.named(name, job, owner)
        token = self.crew.means.new_token()
        request = AbortJob(ref, address, token, reason=reason, is_orphan=is_orphan, by=by)
        marked = await self._steady(request.checked())
        await self.crew.abort(ref, address, reason, joins=joins)
        return marked

    async def retry(self, store: str, name: str, job: str, *, by: Caller = LOCAL) -> JobInfo:
        """Let a blocked job go on. Raises NotFound, UnknownJob; Conflict if it is not blocked."""
        token = self.crew.means.new_token()
        return await self._steady(RetryJob(self.ref(store), self.address(name, job), token, by=by))

    async def hint(self, store: str) -> int:
        """Let every job of the application's owners be found again, and say how many were not.

        Imports and promotions do so by themselves; this is for hints that were lost otherwise.
        """
        ref, hinted = self.ref(store), 0
        for owner in self.app.job_owners():
            behind: int | None = None
            while True:
                page = await self._steady(ListJobs(ref, owner, behind=behind))
                for each in page.jobs:
                    hinted += await self._steady(HintJob(ref, each.job))
                behind = page.behind
                if behind is None:
                    break
        return hinted

    async def describe(
        self, store: str, name: str, job: str, *, owner: str | None = None
    ) -> JobInfo:
        """Tell where a job stands, or what it came to. Raises NotFound, UnknownJob."""
        address, _ = self.named(name, job, owner)
        return await self._steady(DescribeJob(self.ref(store), address))

    async def discover(
        self,
        store: str,
        owner: str,
        *,
        name: str | None = None,
        phase: str | None = None,
        behind: int | None = None,
        limit: int = JOBS_PAGE_MAX,
    ) -> JobsPage:
        """List jobs of an owner, a page at a time. Raises NotFound, InvalidValue, InvalidCursor."""
        request = ListJobs(self.ref(store), owner, name, phase, behind, limit)
        return await self._steady(request.checked())

    async def outcome(self, store: str, name: str, job: str) -> Any:
        """Return the result of a job that has ended, in its declared shape, or raise its error.

        None if it has not ended. Raises: NotFound, UnknownJob; as :func:`result_of`.
        """
        info = await self.describe(store, name, job)
        if info.phase != ENDED or info.outcome is None:
            return None
        return self.app.job_named(name).result.read(result_of(info.outcome))

    async def run(self, store: str, name: str, job: str, *, deadline: Instant) -> JobDriven:
        """Bring a job to its end, or as far as the time goes. Raises as :func:`run_job`."""
        declaration = self.app.job_named(name)
        address = self.address(name, job)
        return await run_job(self.crew, self.ref(store), address, declaration, deadline=deadline)

    async def look(self, *, go_on: Callable[[], bool], tell: Tell = dispatch.nobody) -> FoundJobs:
        """Find the jobs that are due, as :func:`dispatch.look` does."""
        means = self.crew.means
        return await dispatch.look(
            self.crew.at_once, self.storage, now=means.now, go_on=go_on, tell=tell
        )

    async def run_due(self, *, deadline: Instant) -> tuple[Ran, ...]:
        """Run what is due now, one after another, while there is time, and tell what came of each.

        An error of one keeps none of the others. Jobs that others have in hand, and those of
        names that the application does not declare, are left as they are, and told of.
        """
        now = self.crew.means.now
        found = await self.look(go_on=lambda: now() < deadline)
        ran: list[Ran] = []
        for due in found.due:
            if now() >= deadline:
                break
            try:
                declaration = self.app.job_named(due.job.name)
                driven = await run_job(self.crew, due.ref, due.job, declaration, deadline=deadline)
            except PerdureError as error:
                ran.append(Ran(due.ref, due.job, None, error))
            else:
                ran.append(Ran(due.ref, due.job, driven))
        return tuple(ran)

    async def _steady(self, request: Request[T]) -> T:
        means = self.crew.means
        return await steadily(self.crew.at_once, request, tries=READ_TRIES, pause=means.pause)
