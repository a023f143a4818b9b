"""Jobs as they are asked for from outside: those of an application, and Perdure's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.errors import InvalidCursor, UnknownJob
from perdure.kernel.documents.jobs.abort import Marked
from perdure.kernel.documents.jobs.describe import JobInfo
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.start import Started
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.kernel.documents.read import find_document, load_document
from perdure.kernel.errors import Unavailable
from perdure.kernel.ids import DocumentStoreId, Instant, Token
from perdure.kernel.shown import shown
from perdure.kernel.view import View
from perdure.runtime.documents.jobs.declaration import Job
from perdure.runtime.documents.jobs.dispatch import DueJob
from perdure.runtime.documents.jobs.jobs import READ_TRIES, Jobs
from perdure.runtime.documents.reading import read_at_once
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.session.sessions import lineage_of
from perdure.runtime.steady import steadily

SYSTEM: Final = DocumentStoreId(f"{SYSTEM_PREFIX}system")
"""The document store of Perdure's own jobs, made when the first of them is started."""

_PLACE: Final = re.compile(r"([^\n]*)\n(\d{0,16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobsFrom:
    """Where a listing goes on: with which owner, and behind which of its jobs."""

    owner: str
    behind: int | None = None

    @property
    def spelled(self) -> str:
        return f"{self.owner}\n{'' if self.behind is None else self.behind}"

    @classmethod
    def read(cls, text: str) -> JobsFrom:
        """Read what :attr:`spelled` spells. Raises InvalidCursor."""
        place = _PLACE.fullmatch(text)
        if place is None:
            raise InvalidCursor(expected="where a page of jobs ended", found=shown(text))
        return cls(place[1], int(place[2]) if place[2] else None)


@dataclass(frozen=True, slots=True)
class JobBoard:
    """The jobs of one storage. Perdure's own are in a store of their own, and nowhere else."""

    means: StoreMeans
    application: Jobs
    own: Jobs

    def jobs_in(self, store: str) -> Jobs:
        """Return which jobs a store may have."""
        return self.own if store.startswith(SYSTEM_PREFIX) else self.application

    def ref(self, store: str) -> DocumentStoreRef:
        """Name a document store of this storage. Raises InvalidId."""
        return self.application.ref(store)

    def declaration(self, store: str, job: JobAddress) -> Job:
        """Return how a job is declared. Raises UnknownJob."""
        found = self.jobs_in(store).app.job_named(job.name)
        if found.owner != job.owner:
            raise UnknownJob(
                expected=f"job {job.name} of {found.owner!r}", found=f"one of {shown(job.owner)}"
            )
        return found

    def due(self, store: str, name: str, job: str) -> DueJob:
        """Say that a job may have something to do, for a queue that is to take it at once."""
        address = self.jobs_in(store).address(name, job)
        return DueJob(self.ref(store), address, self.means.new_token())

    def drawn_job_id(self) -> Token:
        """Draw an id for a job that came without one."""
        return self.means.new_token()

    async def start(
        self,
        store: str,
        name: str,
        args: Mapping[str, Any],
        *,
        job_id: str,
        key: str | None = None,
        due_at: int | None = None,
    ) -> Started:
        """Start a job, or return where the one stands that was started so before.

        Raises: NotFound, UnknownJob, Conflict, Invalid kinds; Unavailable kinds with ``job_id``
        set.
        """
        jobs = self.jobs_in(store)
        at = None if due_at is None else Instant(due_at)
        asked = jobs.asked(store, name, args, job_id=job_id, key=key, due_at=at)
        try:
            if store == SYSTEM:  # only now: what is wrong with a wish makes no store
                await self._made()
            return await jobs.begin(asked)
        except Unavailable as error:
            error.job_id = job_id
            raise

    async def describe(
        self, store: str, name: str, job: str, *, owner: str | None = None
    ) -> tuple[JobInfo, Any]:
        """Tell where a job stands, and what its state says. Raises NotFound, UnknownJob."""
        jobs, ref = self.jobs_in(store), self.ref(store)
        info = await jobs.describe(store, name, job, owner=owner)

        def state(view: View) -> Any:
            found = find_document(view, ref.partition, info.job.state)
            loaded = None if found is None else load_document(view, ref.partition, found.id)
            return None if loaded is None else loaded.value

        _, told = await read_at_once(
            self.means.authority, ref, state, self.means.pause, self.means.whole
        )
        return info, told

    async def discover(
        self,
        store: str,
        *,
        owner: str | None = None,
        name: str | None = None,
        phase: str | None = None,
        limit: int,
        behind: JobsFrom | None = None,
    ) -> tuple[tuple[JobInfo, ...], JobsFrom | None]:
        """List jobs owner by owner, and tell where to go on if there may be more.

        Raises: NotFound, UnknownJob for a name that nobody declares, Invalid kinds.
        """
        jobs = self.jobs_in(store)
        owners = list(jobs.app.job_owners())
        if owner is not None:
            owners = [owner]
        elif name is not None:
            owners = [jobs.app.job_named(name).owner]
        place = behind or JobsFrom(owners[0] if owners else "")
        if behind is not None and place.owner not in owners:
            raise InvalidCursor(
                expected="a cursor of this list", found=f"one in the jobs of {shown(place.owner)}"
            )
        page = await jobs.discover(
            store, place.owner, name=name, phase=phase, behind=place.behind, limit=limit
        )
        if page.behind is not None:
            return page.jobs, JobsFrom(place.owner, page.behind)
        following = [each for each in owners if each > place.owner]
        return page.jobs, JobsFrom(following[0]) if following else None

    async def abort(
        self,
        store: str,
        name: str,
        job: str,
        *,
        reason: str,
        owner: str | None = None,
        by: Caller = LOCAL,
    ) -> Marked:
        """Mark a job as one that shall end. Raises NotFound, UnknownJob, TooLarge."""
        jobs = self.jobs_in(store)
        return await jobs.abort(store, name, job, reason=reason, owner=owner, by=by)

    async def retry(self, store: str, name: str, job: str, *, by: Caller = LOCAL) -> JobInfo:
        """Let a blocked job go on. Raises NotFound, UnknownJob; Conflict if it is not blocked."""
        return await self.jobs_in(store).retry(store, name, job, by=by)

    async def _made(self) -> None:
        lineage = lineage_of(self.means.new_token())
        request = CreateDocumentStore(self.ref(SYSTEM), lineage, self.own.app.name).checked()
        await steadily(self.means.authority, request, tries=READ_TRIES, pause=self.means.pause)
