"""The queues of worlds, sessions and jobs: what their messages say, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from perdure.api.decoding import strict_json, typed
from perdure.kernel.canonical import canonical
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import InvalidValue, PerdureError
from perdure.kernel.ids import (
    DocumentStoreId,
    Instant,
    JobId,
    SessionId,
    StorageId,
    WorldId,
    checked_id,
)
from perdure.kernel.places import WorldRef, is_hint_of
from perdure.kernel.session.records import SessionRef
from perdure.kernel.shown import shown
from perdure.runtime.dispatch import Due
from perdure.runtime.documents.jobs.dispatch import DueJob, is_job_hint
from perdure.runtime.session.dispatch import DueSession

SEND_MAX: Final = 10
"""Messages of one call. Source: Amazon SQS quotas, SendMessageBatch."""

DEFER_MS_MAX: Final = 12 * 3_600_000
"""Longest a message is put back for. Source: Amazon SQS quotas, visibility time-out."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a first-in-first-out queue takes it."""

    group: str
    """Messages of one group are handed out one after another: a stream's partition."""

    once: str
    """What the queue knows by this name, it takes no second time for five minutes."""

    body: str


@dataclass(frozen=True, slots=True)
class Handed:
    """A message that was handed out."""

    body: str
    receipt: str
    tries: int
    """How often it was, this time included."""


class Queue(Protocol):
    """A queue of messages, each handed out until it is done with."""

    @property
    def name(self) -> str: ...

    async def send(self, messages: Sequence[Message]) -> None:
        """Send messages. Raises StoreUnavailable unless all were taken."""
        ...

    async def defer(self, receipts: Sequence[str], ms: int) -> None:
        """Let messages that were handed out be handed out again in ``ms``.

        Raises StoreUnavailable.
        """
        ...


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Queued(Generic[P]):
    """What a function does with the messages of its queue."""

    serve: Callable[[P, Handed, int], Coroutine[Any, Any, dict[str, Any]]]
    """Does the work of one message in so many milliseconds."""

    queue: Callable[[], Queue]
    """Opens the queue, which is there even if nothing else can be opened."""

    hold_ms: int | None = None
    """So long a message is hidden at a time, and again while its work goes on; None for all the time
    that the function has, which is as long as a message waits whose process was killed."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    world: str
    serves: int | None = None
    hint: str | None = None


def message_of(due: Due) -> Message:
    """Spell that a world is due."""
    body = {"world": due.ref.world, "serves": due.serves, "hint": due.hint}
    said = {name: value for name, value in body.items() if value is not None}
    return Message(due.ref.partition, due.attempt, canonical(said).decode())


def due_of(storage: StorageId, body: Any) -> Due:
    """Read a message's body. Raises InvalidJson, InvalidValue, InvalidId."""
    said = typed(_Body, strict_json(str(body).encode(errors="surrogatepass")), where="message")
    world = WorldId(checked_id(said.world, what="a world id"))
    ref = WorldRef(storage, world)
    if said.hint is not None and not is_hint_of(said.hint, ref):
        raise InvalidValue(expected=f"a hint of world {world!r}", found=shown(said.hint))
    serves = None if said.serves is None else Instant(said.serves)
    return Due(ref, serves, hint=said.hint)


class _SessionBody(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    session: str
    hint: str | None = None


def message_of_session(due: DueSession) -> Message:
    """Spell that a session may have something to do."""
    body = {"session": due.ref.session, "hint": due.hint}
    said = {name: value for name, value in body.items() if value is not None}
    return Message(due.ref.partition, due.once, canonical(said).decode())


def due_session_of(storage: StorageId, body: Any) -> DueSession:
    """Read a message's body. Raises InvalidJson, InvalidValue, InvalidId."""
    raw = strict_json(str(body).encode(errors="surrogatepass"))
    said = typed(_SessionBody, raw, where="message")
    session = SessionId(checked_id(said.session, what="a session id"))
    ref = SessionRef(storage, session)
    if said.hint is not None and not ref.is_hint(said.hint):
        raise InvalidValue(expected=f"a hint of session {session!r}", found=shown(said.hint))
    return DueSession(ref, "", said.hint)


class _JobBody(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    store: str
    owner: str
    name: str
    job: str
    hint: str | None = None


def message_of_job(due: DueJob) -> Message:
    """Spell that a job may have something to do."""
    job = due.job
    body = {"store": due.ref.store, "owner": job.owner, "name": job.name, "job": job.job}
    said = body if due.hint is None else {**body, "hint": due.hint}
    return Message(due.group, due.once, canonical(said).decode())


def due_job_of(storage: StorageId, body: Any) -> DueJob:
    """Read a message's body. Raises InvalidJson, InvalidValue, InvalidId."""
    raw = strict_json(str(body).encode(errors="surrogatepass"))
    said = typed(_JobBody, raw, where="message")
    store = DocumentStoreId(checked_id(said.store, what="a document store's id"))
    job = JobAddress(said.owner, said.name, JobId(said.job)).checked()
    ref = DocumentStoreRef(storage, store)
    if said.hint is not None and not is_job_hint(said.hint, ref, job):
        raise InvalidValue(expected=f"a hint of job {job}", found=shown(said.hint))
    return DueJob(ref, job, "", said.hint)


class Later(Exception):  # no error: it tells when to ask again
    """A message is not done with; it is to be handed out again in ``ms``."""

    def __init__(self, ms: int, why: PerdureError | None = None) -> None:
        super().__init__(f"in {ms} ms")
        self.ms = ms
        self.why = why
