"""Jobs as they are asked for from outside: started, looked at, and ended by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.errors import InvalidCursor, UnknownJob
from perdure.kernel.documents.jobs.abort import AbortJob, Marked
from perdure.kernel.documents.jobs.describe import DescribeJob, JobInfo, ListJobs
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.start import Started, StartJob
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.kernel.documents.read import find_document, load_document
from perdure.kernel.errors import Unavailable
from perdure.kernel.ids import DocumentStoreId, Instant, JobId, StorageId, checked_id
from perdure.kernel.shown import shown
from perdure.kernel.view import Request, View
from perdure.runtime.documents.jobs.declaration import Job
from perdure.runtime.documents.jobs.dispatch import DueJob
from perdure.runtime.documents.reading import read_at_once
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import ASKED_TRIES
from perdure.runtime.session.sessions import lineage_of
from perdure.runtime.steady import steadily

T = TypeVar("T")

SYSTEM: Final = DocumentStoreId(f"{SYSTEM_PREFIX}system")
"""The document store of Perdure's own jobs, made when the first of them is started."""


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
        owner, _, behind = text.partition("\n")
        if behind and not behind.isdecimal():
            raise InvalidCursor(expected="where a page of jobs ended", found=shown(text))
        return cls(owner, int(behind) if behind else None)


@dataclass(frozen=True, slots=True)
class JobBoard:
    """The jobs of one storage: those of its application, and Perdure's own."""

    means: StoreMeans
    storage: StorageId
    declared: Mapping[str, Job]
    app: str = ""

    def ref(self, store: str) -> DocumentStoreRef:
        """Name a document store of this storage. Raises InvalidId."""
        checked_id(store, what="a document store's id")
        return DocumentStoreRef(self.storage, DocumentStoreId(store))

    def job_named(self, name: str) -> Job:
        """Return what is declared under a name. Raises UnknownJob."""
        found = self.declared.get(name)
        if found is None:
            raise UnknownJob(
                expected=f"one of the jobs {', '.join(sorted(self.declared)) or '(none)'}",
                found=shown(name),
            )
        return found

    def address(self, name: str, job: str) -> JobAddress:
        """Name one job. Raises UnknownJob, InvalidId."""
        return JobAddress(self.job_named(name).owner, name, JobId(job)).checked()

    def due(self, store: str, job: JobAddress) -> DueJob:
        """Say that a job may have something to do, for a queue that is to take it at once."""
        return DueJob(self.ref(store), job, self.means.new_token())

    def drawn_job_id(self) -> str:
        """Draw an id for a job that came without one."""
        return self.means.new_token()

    async def start(
        self,
        store: str,
        name: str,
        args: Mapping[str, Any],
        *,
        job_id: str | None = None,
        key: str | None = None,
        due_at: int | None = None,
    ) -> Started:
        """Start a job, or return where the one stands that was started so before.

        An id that is not given is drawn; it comes with an unknown outcome, to ask again with.
        Raises: Invalid kinds, also for arguments that the job does not take; UnknownJob, also for
        one that belongs in the other kind of store; NotFound, Conflict; Unavailable kinds with
        ``job_id`` set.
        """
        chosen = self.drawn_job_id() if job_id is None else job_id
        ref, job = self.ref(store), self.job_named(name)
        if (ref.store == SYSTEM) != name.startswith(SYSTEM_PREFIX):
            raise UnknownJob(
                expected=f"{SYSTEM_PREFIX}… in store {SYSTEM!r}, and others elsewhere",
                found=f"{shown(name)} in {shown(store)}",
            )
        first = job.first_state()
        request = StartJob(
            ref,
            self.address(name, chosen),
            self.means.new_token(),
            version=job.version,
            fingerprint=job.fingerprint,
            args=job.checked_args(dict(args)),
            key=key,
            due_at=None if due_at is None else Instant(due_at),
            state=None if first is None else base(job.version, first),
        ).checked()
        try:
            if ref.store == SYSTEM:
                await self._made(ref)
            return await self._steady(request)
        except Unavailable as error:
            error.job_id = chosen
            raise

    async def describe(self, store: str, name: str, job: str) -> tuple[JobInfo, Any]:
        """Tell where a job stands, and what its state says. Raises NotFound, UnknownJob."""
        ref, address = self.ref(store), self.address(name, job)
        info = await self._steady(DescribeJob(ref, address))

        def state(view: View) -> Any:
            found = find_document(view, ref.partition, address.state)
            loaded = None if found is None else load_document(view, ref.partition, found.id)
            return None if loaded is None else loaded.value

        _, told = await read_at_once(self.means.authority, ref, state, self.means.pause)
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
        if owner is not None:
            owners = [owner]
        elif name is not None:
            owners = [self.job_named(name).owner]
        else:
            owners = sorted({each.owner for each in self.declared.values()})
        place = behind or JobsFrom(owners[0])
        if place.owner not in owners:
            raise InvalidCursor(
                expected="a cursor of this list", found=f"one in the jobs of {shown(place.owner)}"
            )
        request = ListJobs(self.ref(store), place.owner, name, phase, place.behind, limit).checked()
        page = await self._steady(request)
        if page.behind is not None:
            return page.jobs, JobsFrom(place.owner, page.behind)
        following = owners[owners.index(place.owner) + 1 :]
        return page.jobs, JobsFrom(following[0]) if following else None

    async def abort(self, store: str, name: str, job: str, *, reason: str) -> Marked:
        """Mark a job as one that shall end. Raises NotFound, UnknownJob, TooLarge."""
        request = AbortJob(
            self.ref(store), self.address(name, job), self.means.new_token(), reason=reason
        )
        return await self._steady(request.checked())

    async def _made(self, ref: DocumentStoreRef) -> None:
        lineage = lineage_of(self.means.new_token())
        await self._steady(CreateDocumentStore(ref, lineage, self.app).checked())

    async def _steady(self, request: Request[T]) -> T:
        """Execute a request that may meet a half-visible commit: ask again, a few times."""
        return await steadily(
            self.means.authority, request, tries=ASKED_TRIES, pause=self.means.pause
        )
