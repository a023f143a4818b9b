"""Invocations: what a log line may say of one, and the id that its traces have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.api.measures import Measures
from perdure.kernel.refusals import behind

CORRELATION: Final = "x-correlation-id"
"""Header of requests and replies."""

ATTRIBUTE: Final = "correlation"
"""Attribute of queue messages: the correlation id of what sent them."""

_SHAPE: Final = re.compile(r"[A-Za-z0-9._:=+-]{1,64}", re.ASCII)


@dataclass(slots=True)
class Invocation:
    """One event in hand. Nothing here is payload: all of it may be logged."""

    request_id: str = ""
    correlation: str = ""
    is_cold: bool = False
    service: str = ""
    """Whose event it is: functions of one process share a logger."""
    operation: str | None = None
    world: str | None = None
    session: str | None = None
    store: str | None = None
    actor: str | None = None
    role: str | None = None
    status: int | None = None
    code: str | None = None
    cause: str | None = None
    """What the store called it, as AccessDenied or SQLITE_FULL, if it was the store that refused."""
    may_change: bool = False
    """What it asks for has begun, and is no reading."""
    batch_id: str | None = None
    """Of a batch whose id the caller may not know; told if the answer comes too late."""
    send_id: str | None = None
    """The same of a send to a session."""
    commit_id: str | None = None
    """The same of a commit to a document store."""
    job_id: str | None = None
    """The same of the start of a job."""
    measures: Measures = field(default_factory=Measures)

    def facts(self) -> dict[str, Any]:
        """Return what is known, by the names of log fields."""
        known = {
            "operation": self.operation,
            "world_id": self.world,
            "session_id": self.session,
            "store_id": self.store,
            "actor": self.actor,
            "role": self.role,
            "status": self.status,
            "code": self.code,
            "cause": self.cause,
        }
        return {name: value for name, value in known.items() if value is not None}


INVOCATION: Final[ContextVar[Invocation | None]] = ContextVar("perdure_invocation", default=None)


def current() -> Invocation:
    """Return the invocation that is running, or one that nobody looks at."""
    return INVOCATION.get() or Invocation()


def correlation_of(event: Any, request_id: str) -> str:
    """Return the id that everything done for an event has in common.

    Of an HTTP request the header, or else API Gateway's id of the request; of a schedule's
    event its id; of a queue's batch that of its one message. Else the invocation's own.
    """
    if not isinstance(event, Mapping):
        return request_id
    records, context = event.get("Records"), event.get("requestContext")
    if isinstance(context, Mapping):
        headers = event.get("headers")
        said = headers.get(CORRELATION) if isinstance(headers, Mapping) else None
        return _shaped(said) or _shaped(context.get("requestId")) or request_id
    if isinstance(records, list):
        return correlation_of_message(records[0], request_id) if len(records) == 1 else request_id
    return _shaped(event.get("id")) or request_id


def correlation_of_message(record: Any, request_id: str) -> str:
    """Return the correlation id that a queue's message carries, or else the message's id."""
    if not isinstance(record, Mapping):
        return request_id
    attributes = record.get("messageAttributes")
    carried = attributes.get(ATTRIBUTE) if isinstance(attributes, Mapping) else None
    said = carried.get("stringValue") if isinstance(carried, Mapping) else None
    return _shaped(said) or _shaped(record.get("messageId")) or request_id


def cause_of(error: BaseException) -> str | None:
    """Return the store's own code for what is behind an error, None if no store said anything.

    Of AWS its code, of its driver the name of the error, of SQLite the name of the result.
    Codes say what the text does, without what was sent, and where to.
    """
    for each in behind(error):
        response = getattr(each, "response", None)
        said = response.get("Error") if isinstance(response, Mapping) else None
        if isinstance(said, Mapping):
            return _shaped(said.get("Code"))
        if type(each).__module__.startswith("botocore."):
            return type(each).__name__
        named = _shaped(getattr(each, "sqlite_errorname", None))
        if named is not None:
            return named
    return None


def _shaped(said: object) -> str | None:
    """Return an id that is short and plain; what is not could forge lines or hold anything."""
    return said if isinstance(said, str) and _SHAPE.fullmatch(said) else None
