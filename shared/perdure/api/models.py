"""The words of the HTTP interface: what a request may say and what a reply says."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.api.decoding import typed
from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue
from perdure.kernel.listing import Show
from perdure.kernel.operations import AnyCommand, parsed_commands
from perdure.kernel.pace import MissedTicks
from perdure.kernel.shown import shown
from perdure.kernel.status import CommandState

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000

ROWS_DEFAULT: Final = 1_000
ROWS_MAX: Final = 1_000_000
"""Rows of a page; over HTTP the size of a reply ends it sooner."""

WAIT_SECONDS_MAX: Final = 20
"""Longest long poll, below the 30 seconds after which API Gateway gives up."""

TickNumber = Annotated[int, Field(ge=0, le=limits.TICK_MAX)]


class Body(BaseModel):
    """Base of request bodies: strict, and nothing that is not asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def read(cls, raw: Any) -> Body:
        """Return parsed JSON as this body. Raises Invalid kinds."""
        return typed(cls, raw, where="body")


class Query(BaseModel):
    """Base of query strings: text from outside, so numbers are read from it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Reply(BaseModel):
    """Base of replies; they describe what is sent and are checked in tests, not at run time."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class CreateWorld(Body):
    name: str
    world_id: str | None = None
    kind: str = ""
    every: str | None = None
    """How often the world ticks by itself, as 10s, 1m, 2h or 1d; or `every_ms`."""

    every_ms: int | None = None
    missed: MissedTicks | None = None
    """What becomes of ticks that nobody was there for: one tick stands for all of them
    (`coalesce`, if not said), each is made up for (`catch_up`), or none (`skip`)."""


class SubmitCommands(Body):
    """A batch. ``batch_id`` may come as the header ``Idempotency-Key`` instead."""

    batch_id: str | None = None
    commands: list[AnyCommand]

    @classmethod
    def read(cls, raw: Any) -> SubmitCommands:
        """Return parsed JSON as a batch; the kernel reads the commands, for their own codes."""
        fields = typed(_Batch, raw, where="body")
        commands: Any = parsed_commands(fields.commands)
        return cls.model_construct(batch_id=fields.batch_id, commands=commands)


class _Batch(Body):
    batch_id: str | None = None
    commands: Any


class RunTicks(Body):
    """How far to run: so many ticks, or to a tick, that one included."""

    ticks: Annotated[int, Field(ge=1, le=limits.TICK_MAX)] | None = None
    to_tick: TickNumber | None = None

    @classmethod
    def read(cls, raw: Any) -> RunTicks:
        """Return parsed JSON as this body. Raises InvalidValue unless one of the two is given."""
        body = typed(cls, raw, where="body")
        if (body.ticks is None) == (body.to_tick is None):
            raise InvalidValue(expected="body: one of `ticks` and `to_tick`", found=shown(raw))
        return body


class Paging(Query):
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    next: str | None = None


class ListWorlds(Paging):
    show: Show = "public"
    """``live`` leaves out what is destroyed too; ``all`` has private and closing worlds too."""


class Log(Query):
    after: Annotated[int, Field(ge=0, le=limits.INTEGER_MAX)] = 0
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    wait: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX, allow_inf_nan=False)] = 0
    """Seconds to wait for an entry when there is none."""


class Entities(Query):
    """Which rows: the state at ``tick``, or those written from one tick to another."""

    components: str
    """Names, or ``Name@fingerprint``, separated by commas."""
    tick: TickNumber | None = None
    """The published one if absent."""
    from_tick: TickNumber | None = None
    to_tick: TickNumber | None = None
    """The last tick wanted, that one included."""
    entity_id: str | None = None
    """Ids separated by commas."""
    where: str | None = None
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = ROWS_DEFAULT
    next: str | None = None


class Consumer(Reply):
    name: str
    seq: int
    """The last entry of the log that it has read."""
    lag: int
    """Entries that it has not read."""
    required: bool
    """The world waits for it before its next tick."""


class World(Reply):
    world_id: str
    name: str
    kind: str
    run_id: str
    parent_world_id: str | None
    status: Literal["active", "closing", "destroyed", "moving", "moved"]
    writer_mode: str
    """``resumable``, ``cleanup_only`` for a private world, or a word of a newer version."""
    published_tick: int | None
    """None before the first tick."""
    next_tick: int
    epoch: int
    entities: int
    pending_commands: int
    stalled: bool
    every_ms: int | None
    missed: MissedTicks
    created_at: int
    """Milliseconds since 1970."""
    fence_held_until: int | None
    """End of its writer's lease, in the same milliseconds; None if nobody holds the fence."""
    consumers: list[Consumer]
    """Who reads the log; told with one world, empty in a list of worlds."""


class Worlds(Reply):
    worlds: list[World]
    next: str | None = None


class Receipt(Reply):
    command_id: str
    sequence: int
    entity_id: int | None
    tick: int
    priority: int
    status: CommandState
    """Where the command stands when this is sent: in a replay it may have moved on."""


class Submitted(Reply):
    batch_id: str
    replayed: bool
    receipts: list[Receipt]


class Command(Reply):
    command_id: str
    sequence: int
    operation: str
    entity_id: int | None
    tick: int
    priority: int
    status: CommandState
    attempts: int
    applied_tick: int | None
    token: str | None
    code: str | None
    detail: str | None


class Commands(Reply):
    commands: list[Command]
    next: str | None = None


class CancelledAll(Reply):
    cancelled_below: int


class LogEntry(Reply):
    seq: int
    at: int
    kind: str
    facts: dict[str, Any]
    payload: Any
    payload_bytes: int
    """Size of the payload; one that fits in no reply is left out (null)."""
    digest: str
    previous: str


class LogPage(Reply):
    entries: list[LogEntry]
    next: int
    """The ``after`` of the next call."""


class Rows(Reply):
    tick: int
    """The tick whose state this is, or the last one that was read."""
    rows: list[dict[str, Any]]
    next: str | None = None


class HookFailure(Reply):
    hook: str
    code: str
    detail: str


class Ticked(Reply):
    published_tick: int | None
    ticks: int
    """How many ticks this call published."""
    done: bool
    """False when time ran out first: ask again."""
    applied: int
    rejected: int
    hook_failures: list[HookFailure]
    """Hooks that failed, each different failure once. They change nothing."""


class Landed(Reply):
    rows: int
    files: int
    events: int
    """Events that were added to the audit table."""
    entries: int
    """Log entries whose events those are; some have none."""


class Health(Reply):
    status: Literal["ok"]


class OpenApi(BaseModel):
    """A document of the OpenAPI specification."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    openapi: str
