"""Where what is kept of a job lies: its documents, and the hint by which it is found."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.documents.jobs.value import (
    TEXT_CHARACTERS_MAX,
    JobEnd,
    JobRecord,
    end_of,
    minute_of,
    record_of,
)
from perdure.kernel.documents.places import ENDS, JOBS, STATES, Address, DocumentStoreRef
from perdure.kernel.documents.read import find_document
from perdure.kernel.documents.records import Document, document_key, revision_key
from perdure.kernel.documents.tables import checked_name
from perdure.kernel.errors import Corrupt, InvalidId, TooLarge
from perdure.kernel.ids import (
    DocumentStoreId,
    Instant,
    JobId,
    Partition,
    StorageId,
    checked_id,
    short_hash,
)
from perdure.kernel.places import number
from perdure.kernel.record import Record
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Key, View


@dataclass(frozen=True, slots=True)
class JobAddress:
    """Which job of a store: whose it is, its name, and its id among those of that name."""

    owner: str
    name: str
    job: JobId

    def checked(self) -> JobAddress:
        """Return self if a job may be called so. Raises InvalidId."""
        checked_name(self.owner, what="an owner")
        checked_name(self.name, what="a job's name")
        checked_id(self.job, what="a job's id")
        return self

    @property
    def record(self) -> Address:
        return Address(self.owner, JOBS, self.name, self.job)

    @property
    def state(self) -> Address:
        return Address(self.owner, STATES, self.name, self.job)

    @property
    def end(self) -> Address:
        return Address(self.owner, ENDS, self.name, self.job)

    def __str__(self) -> str:
        return f"{self.name}/{self.job}"


def job_at(document: Document) -> JobAddress | None:
    """Return the job that a document is, if it lies where one does that has not ended."""
    if document.namespace != JOBS or document.member is None or document.retired_at is not None:
        return None
    try:
        return JobAddress(document.owner, document.kind, JobId(document.member)).checked()
    except InvalidId:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWake(Record):
    """Hint that a job has something to do; the truth is its document."""

    sort: str
    storage: StorageId
    store: DocumentStoreId
    owner: str
    name: str
    job: JobId
    at: Instant

    @property
    def key(self) -> Key[JobWake]:
        return job_wake_key(self.partition, self.sort)

    @property
    def ref(self) -> DocumentStoreRef:
        return DocumentStoreRef(self.storage, self.store)

    @property
    def address(self) -> JobAddress:
        return JobAddress(self.owner, self.name, self.job)


def job_wake_key(wake: Partition, sort: str) -> Key[JobWake]:
    return Key(wake, sort, JobWake)


def hint_of(ref: DocumentStoreRef, job: JobAddress, at: Instant) -> JobWake:
    """Return the hint of a job for the minute of ``at``."""
    return JobWake(
        partition=ref.wake,
        sort=hint_sort(ref, job, minute_of(at)),
        storage=ref.storage,
        store=ref.store,
        owner=job.owner,
        name=job.name,
        job=job.job,
        at=at,
    )


def hint_sort(ref: DocumentStoreRef, job: JobAddress, minute: int) -> str:
    """Spell where the hint of a job lies for a minute."""
    store = f"{short_hash(ref.storage)}/{short_hash(ref.store)}"
    return f"{number(minute)}/{store}/{short_hash(job.owner, job.name, job.job)}"


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job that has not ended, and the document that says so."""

    document: Document
    record: JobRecord


def find_job(view: View, store: Partition, job: JobAddress) -> FoundJob | None:
    """Return a job that has not ended. Raises Missing, Corrupt."""
    document = find_document(view, store, job.record)
    if document is None:
        return None
    return FoundJob(document, record_in(view, store, document))


def record_in(view: View, store: Partition, document: Document) -> JobRecord:
    """Return what the document of a job says. Raises Missing, Corrupt."""
    return record_of(_value(view, store, document), f"job {document.member!r}")


def find_end(view: View, store: Partition, job: JobAddress) -> JobEnd | None:
    """Return what a job has come to, if it has. Raises Missing, Corrupt."""
    document = find_document(view, store, job.end)
    if document is None:
        return None
    return end_in(view, store, document)


def end_in(view: View, store: Partition, document: Document) -> JobEnd:
    """Return what the document of a job's end says. Raises Missing, Corrupt."""
    return end_of(_value(view, store, document), f"the end of job {document.member!r}")


def _value(view: View, store: Partition, document: Document) -> object:
    # Each content of these is a base: it can be asked for by name, many at once.
    key = revision_key(store, document.id, document.base)
    revision = view.peek(key)
    if revision is None:
        lost = Corrupt(expected=f"a base of document {document.id}", found="none")
        raise SeenInPart((document_key(store, document.id), key), lost)
    return revision.told().get("value")


def check_text(text: str | None, what: str) -> None:
    """Refuse a text that is too long to be kept with a job. Raises TooLarge."""
    if text is not None and len(text) > TEXT_CHARACTERS_MAX:
        raise TooLarge(
            expected=f"{what} of at most {TEXT_CHARACTERS_MAX} characters", found=str(len(text))
        )
