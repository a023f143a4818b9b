"""Errors a caller can act on. Each has a stable ``code``: its class name in snake_case.

PerdureError
├── Refused              the state machine says no; asking again changes nothing
│   ├── Invalid              the request is malformed
│   │   ├── InvalidId            an id is empty, too long, or holds '/' or control characters
│   │   ├── MalformedEvent       an event lacks what its source always sends
│   │   ├── InvalidJson          a request's body is not JSON, or JSON that two readers read apart
│   │   ├── InvalidValue         a value is not what its place can take
│   │   │   ├── WrongType            it is of another type
│   │   │   ├── UnknownField         nothing here has a field of that name
│   │   │   ├── MissingField         a field that must be there is not
│   │   │   ├── NotFinite            it is NaN or an infinity
│   │   │   └── OutOfRange           it is a number beyond the bounds, 64 bits if none are named
│   │   ├── InvalidBatch         a batch is empty or repeats a command id
│   │   ├── UnknownOperation     no operation has that name
│   │   ├── UnknownComponent     no component has that name and fingerprint
│   │   ├── UnknownProcessor     the application has no processor of that name
│   │   ├── UnknownHook          the application has no hook of that name
│   │   ├── UnknownResource      the application has no resource of that name
│   │   ├── DirectOnly           the operation cannot be deferred to a tick
│   │   ├── InvalidFilter        a query's `where` does not say what it must
│   │   ├── UnknownDelivery      a send can not be delivered in that way
│   │   ├── UnknownAgent         the application has no agent of that name
│   │   └── TooLarge             the request exceeds a published limit
│   ├── NotFound             nothing has that id
│   ├── EntityNotFound       no living entity has that id
│   ├── EntityExists         a living entity has that id already
│   ├── ComponentAbsent      the entity has no such component
│   ├── ComponentPresent     the entity has that component already
│   ├── NotPublished         the tick is not published
│   ├── Conflict             the same id with other content
│   ├── NameTaken            another world of the storage has that name
│   ├── WrongApp             the world was made for another application
│   ├── NotCancellable       the command is settled, or was cancelled before
│   ├── WorldClosing         the world is being destroyed
│   ├── WorldDestroyed       the world is destroyed
│   ├── WorldMoving          the world is being moved to another storage
│   ├── WorldMoved           the world lives in another storage by now
│   ├── NotResumable         a private world: nobody but its first holder may write it
│   ├── UnknownWriterMode    the world's writer mode is none that this version knows
│   ├── DriftedComponent     living entities have a component whose schema has changed since
│   ├── TooManyPending       more open commands than a fork can copy at once
│   ├── NotQuiescent         something is still open that must be settled first
│   ├── NotEmpty             the destination holds something already
│   ├── StaleWriter          a newer writer holds the fence
│   ├── DrainStale           what a tick drained has changed: drain again
│   ├── NotOwner             the session is another's
│   ├── SendIdReuse          the same send id with another content or delivery
│   ├── RunPaused            the session's run waits for approvals: nothing else is let in
│   ├── NotRetractable       the send that waited has begun its run
│   ├── AlreadyDecided       the call that waited was approved, denied or given up before
│   ├── SessionTooLarge      the session's journal is full but for the end of its run
│   │   └── RetainedSessionTooLarge  and it is kept for good
│   ├── LineageChanged       the session's journal is another than the reader has read
│   ├── NotPermitted         the role may not do this
│   ├── Unauthenticated      no valid token came with the request
│   ├── SchemaMismatch       a table is not what its catalog record says
│   ├── NewerSchema          the store was written by a newer version
│   ├── NewerWriter          the session's journal was written by a newer version
│   └── Corrupt              stored bytes do not match their digest
│       ├── CorruptLineage       the ancestors of a fork do not fit together
│       ├── PayloadMissing       the object of a journal's payload is gone
│       └── MissingRun           the world has no run id, or none that is a UUIDv7
└── Unavailable          it was not decided, or not done; asking again may help
    ├── Contended            lost too many races in a row
    ├── FenceHeld            another writer holds the fence and its lease runs
    ├── Stalled              every writer of the next tick died; it is tried again later
    ├── ConsumerBehind       a required consumer has not read what must not be overtaken
    ├── QueueFull            as many sends wait as a session holds
    ├── QuotaExceeded        the actor has spent what it may in this window of time
    ├── OutcomeUnknown       a commit may or may not have happened
    ├── StoreUnavailable     the store does not answer
    │   └── StoreRefused         it refuses what the deployment asks: no caller can mend that
    └── TickFailed           a processor failed; nothing was published
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class PerdureError(Exception):
    """Base of every error this package raises on purpose.

    ``expected`` and ``found`` are phrases that complete "Expected …; found …."
    """

    code: ClassVar[str] = "error"

    def __init_subclass__(cls) -> None:
        cls.code = code_of(cls)

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(said(expected, found))
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (type(self), self.expected, self.found))


def kinds_of(family: type[PerdureError]) -> Iterator[type[PerdureError]]:
    """Yield all kinds of error below ``family``, those of applications too."""
    for kind in family.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def said(expected: str, found: str) -> str:
    """Spell both halves of an error as its sentence."""
    return f"Expected {expected}; found {found}."


def _rebuilt(of: type[PerdureError], expected: str, found: str) -> PerdureError:
    return of(expected=expected, found=found)


_NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})


def fault_shown(kind: str, message: str) -> str:
    """Spell what pydantic expected, without the names of its classes or ours."""
    return "a JSON object" if kind in _NO_OBJECT else message


def fault(kind: str, where: str, message: str, found: str) -> InvalidValue:
    """Return the error for a fault that pydantic found, with the code of its kind."""
    of = InvalidValue
    if kind in _FAULTS:
        of = _FAULTS[kind]
    elif kind.endswith(("_type", "_parsing", "_from_float")):
        of = WrongType
    return of(expected=f"{where}: {fault_shown(kind, message)}", found=found)


def code_of(error: type[BaseException]) -> str:
    """Return the code of an error's class: its name in snake_case."""
    return _WORD_START.sub("_", error.__name__).lower()


class Refused(PerdureError):
    """The state machine refused the request; asking again changes nothing."""


class Unavailable(PerdureError):
    """It was not decided, or not done; asking again may help.

    ``batch_id``, ``send_id``, ``commit_id`` or ``job_id`` is what to ask again with, when the
    server had chosen it.
    """

    batch_id: str | None = None
    send_id: str | None = None
    commit_id: str | None = None
    job_id: str | None = None


class Invalid(Refused): ...


class InvalidId(Invalid): ...


class MalformedEvent(Invalid): ...


class InvalidJson(Invalid): ...


class InvalidValue(Invalid): ...


class WrongType(InvalidValue): ...


class UnknownField(InvalidValue): ...


class MissingField(InvalidValue): ...


class NotFinite(InvalidValue): ...


class OutOfRange(InvalidValue): ...


_FAULTS: dict[str, type[InvalidValue]] = {
    "extra_forbidden": UnknownField,
    "missing": MissingField,
    "finite_number": NotFinite,
    "int_parsing_size": OutOfRange,
    "greater_than": OutOfRange,
    "greater_than_equal": OutOfRange,
    "less_than": OutOfRange,
    "less_than_equal": OutOfRange,
}


class InvalidBatch(Invalid): ...


class UnknownOperation(Invalid): ...


class UnknownComponent(Invalid): ...


class UnknownDelivery(Invalid): ...


class UnknownAgent(Invalid): ...


class UnknownProcessor(Invalid): ...


class UnknownHook(Invalid): ...


class UnknownResource(Invalid): ...


class DirectOnly(Invalid): ...


class InvalidFilter(Invalid): ...


class TooLarge(Invalid): ...


class NotFound(Refused): ...


class EntityNotFound(Refused): ...


class EntityExists(Refused): ...


class ComponentAbsent(Refused): ...


class ComponentPresent(Refused): ...


class NotPublished(Refused): ...


class Conflict(Refused): ...


class NameTaken(Refused): ...


class WrongApp(Refused): ...


class NotCancellable(Refused): ...


class WorldClosing(Refused): ...


class WorldDestroyed(Refused): ...


class WorldMoving(Refused): ...


class WorldMoved(Refused): ...


class NotResumable(Refused): ...


class UnknownWriterMode(Refused): ...


class DriftedComponent(Refused): ...


class TooManyPending(Refused): ...


class NotQuiescent(Refused): ...


class NotEmpty(Refused): ...


class NotOwner(Refused): ...


class SendIdReuse(Refused): ...


class RunPaused(Refused): ...


class NotRetractable(Refused): ...


class AlreadyDecided(Refused): ...


class SessionTooLarge(Refused): ...


class RetainedSessionTooLarge(SessionTooLarge): ...


class LineageChanged(Refused): ...


class StaleWriter(Refused): ...


class DrainStale(Refused): ...


class NotPermitted(Refused): ...


class Unauthenticated(Refused): ...


class SchemaMismatch(Refused): ...


class NewerSchema(Refused): ...


class NewerWriter(Refused): ...


class Corrupt(Refused): ...


class CorruptLineage(Corrupt): ...


class PayloadMissing(Corrupt): ...


class MissingRun(Corrupt): ...


class Contended(Unavailable): ...


class FenceHeld(Unavailable): ...


class Stalled(Unavailable): ...


class ConsumerBehind(Unavailable): ...


class QueueFull(Unavailable): ...


class QuotaExceeded(Unavailable):
    """The actor has spent what it may; ``retry_after_ms`` says when it may again."""

    retry_after_ms: int = 0


class OutcomeUnknown(Unavailable): ...


class StoreUnavailable(Unavailable): ...


class StoreRefused(StoreUnavailable):
    """No permission, no table, credentials that expired: asking again helps once that is mended."""


class TickFailed(Unavailable): ...
