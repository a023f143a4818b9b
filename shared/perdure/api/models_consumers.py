"""The words of consumers and of history in the HTTP interface."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perdure.api.models import PAGE_DEFAULT, PAGE_MAX, Body, Consumer, Query, Reply, TickNumber
from perdure.kernel import limits

Number = Annotated[int, Field(ge=0, le=limits.INTEGER_MAX)]


class SetConsumer(Body):
    required: bool = False
    """Whether the world waits with its next tick until the consumer has read the last."""


class Acknowledge(Body):
    seq: Number
    """The last entry of the log that was read."""


class Consumers(Reply):
    consumers: list[Consumer]


class Removed(Reply):
    removed: str


class History(Query):
    """Which events; what is not given is not asked about. Bounds are included."""

    kind: str | None = None
    """Kinds separated by commas."""
    command_id: str | None = None
    actor: str | None = None
    entity_id: Annotated[int, Field(ge=0, le=limits.INTEGER_MAX)] | None = None
    from_tick: TickNumber | None = None
    to_tick: TickNumber | None = None
    from_seq: Number = 1
    to_seq: Number | None = None
    from_at: Number | None = None
    """Milliseconds since 1970."""
    to_at: Number | None = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    next: str | None = None


class Event(Reply):
    event_id: str
    world_id: str
    run_id: str
    seq: int
    index: int
    at: int
    kind: str
    command_id: str | None
    sequence: int | None
    entity_id: int | None
    operation: str | None
    tick: int | None
    token: str | None
    code: str | None
    detail: str | None
    actor: str | None
    origin: str | None
    attempts: int | None


class HistoryPage(Reply):
    events: list[Event]
    through_seq: int
    """The last entry of the log whose events can be found here."""
    head_seq: int
    """The last entry of the log."""
    next: str | None = None
