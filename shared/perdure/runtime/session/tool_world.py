"""Worlds as tools: an agent changes, reads and ticks the worlds of its session's own storage.

What changes a world carries an id made of the call key, so that a world takes it at most once,
whoever sends it, however often. So there is nothing to ask about a call without an answer: that
its id is not found now proves nothing of an admission that is still under way, and sending it
again either meets what landed or lands itself.

Who acts is the owner of the session, and may no more than every owner of a session may: see
:data:`OWNERS_OPERATIONS`. Whoever has the storage in hand may everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import (
    DrainStale,
    FenceHeld,
    Invalid,
    NotFound,
    NotPermitted,
    NotPublished,
    PerdureError,
    QuotaExceeded,
    Refused,
    StaleWriter,
    Stalled,
    TickFailed,
    Unavailable,
)
from perdure.kernel.ids import BatchId, CallKey, EntityId, Tick, WorldId, indexed_command_id
from perdure.kernel.later import Later
from perdure.kernel.operations import parsed_commands
from perdure.kernel.shown import shown
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    NotSent,
    OutcomeNotKnown,
    Tool,
    Tools,
    ToolSpec,
)
from perdure.runtime.session.tool_answers import answered, threw
from perdure.runtime.session.world_specs import (
    NAMES,
    ROWS_BYTES_MAX,
    ROWS_DEFAULT,
    spec_of,
)
from perdure.runtime.worlds import Worlds

if TYPE_CHECKING:
    import pyarrow as pa

    from perdure.kernel.ids import SessionId
    from perdure.runtime import run
    from perdure.runtime.read import Reader
    from perdure.runtime.tick import Ticker
else:  # a function that only admits has no rows, and no Arrow
    run = Later("perdure.runtime.run")

OWNERS_OPERATIONS: Final = frozenset({"spawn", "despawn", "update"})
"""What an agent may do to a world for an actor: what the least role may that can own a session,
player. Of the role that its owner had, or has by now, the session knows nothing."""

UNSAID: Final = frozenset({"world_id", "run_id", "commit", "tick", "is_active"})
"""Columns that are the same in every row of one state."""

TOOL_GONE: Final = "tool_gone"


@dataclass(frozen=True, slots=True)
class Lakeside:
    """What reads worlds and ticks them."""

    reader: Reader
    ticker: Ticker


@dataclass(frozen=True, slots=True)
class Reach:
    """What world tools act on: the storage in which their session lies."""

    worlds: Worlds
    lakeside: Callable[[], Awaitable[Lakeside]] | None = None
    """Open what needs Arrow, when it is first needed; without it no world is read or ticked."""

    allowance: Allowance | None = None
    """What an actor's agents may spend, as the actor itself; none for whoever is trusted."""


@dataclass(frozen=True, slots=True)
class Acting:
    """One call at work on one world."""

    reach: Reach
    world: str
    request: CallRequest

    @property
    def args(self) -> Mapping[str, Any]:
        return self.request.args

    @property
    def by(self) -> Caller:
        """Return who acts, as the log of the world keeps it."""
        actor = self.request.actor
        return Caller(actor, "session", None if actor is None else self.reach.allowance)

    async def lakeside(self) -> Lakeside:
        """Return what reads and ticks. Raises _Lacking where there is no such thing."""
        if self.reach.lakeside is None:
            raise _Lacking("This process reads and ticks no worlds.")
        return await self.reach.lakeside()

    def check_permitted(self, operation: str) -> None:
        """Hold an agent to what its owner may. Raises NotPermitted."""
        if self.request.actor is not None and operation not in OWNERS_OPERATIONS:
            raise NotPermitted(
                expected=f"one of {', '.join(sorted(OWNERS_OPERATIONS))} for the owner of a session",
                found=operation,
            )


Act = Callable[[Acting], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class WorldTool:
    """A tool that acts on a world: on one world, or on the one that its argument names."""

    spec: ToolSpec
    act: Act
    world: str | None = None
    reach: Reach | None = None

    async def call(self, request: CallRequest) -> CallOutcome:
        if self.reach is None:
            return NotSent(TOOL_GONE, "This process reaches no world.")
        request = replace(request, args=_with_integers(request.args))
        world = request.args["world_id"] if self.world is None else self.world
        try:
            output = await self.act(Acting(self.reach, world, request))
        except (_Lacking, PerdureError) as error:
            return _failed(error)
        return answered(canonical(output))


def _with_integers(args: Mapping[str, Any]) -> dict[str, Any]:
    """Spell every number of arguments as an integer: to their schema 1.0 is one, too.

    What the commands hold is the world's business, and is left as it is.
    """
    return {
        name: [*map(_integer, value)] if isinstance(value, list) else _integer(value)
        for name, value in args.items()
    }


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


class _Lacking(Exception):
    """This process lacks what the tool needs."""


def _failed(error: _Lacking | PerdureError) -> CallOutcome:
    """Return what is known of a call that came to an error."""
    match error:
        case _Lacking():
            return NotSent(TOOL_GONE, str(error))
        case QuotaExceeded() | FenceHeld():  # decided, and nothing was done
            return NotSent(error.code, str(error))
        case Stalled() | TickFailed():  # the world's answer, as often as it is asked
            return threw(error)
        case StaleWriter() | DrainStale() | Unavailable():
            return OutcomeNotKnown(error.code, str(error))
        case _:
            return threw(error)


def world_tools(
    world: str | None = None,
    *,
    only: Sequence[str] = NAMES,
    needs_approval: Sequence[str] = (),
) -> tuple[WorldTool, ...]:
    """Return tools for one world, or for every world of the storage. Raises Invalid.

    Calls of those in ``needs_approval`` wait for somebody's word.
    """
    for name in (*only, *needs_approval):
        if name not in NAMES:
            raise Invalid(expected=f"world tools of {', '.join(NAMES)}", found=shown(name))
    return tuple(
        WorldTool(
            spec_of(name, world=world, needs_approval=name in needs_approval), _ACTS[name], world
        )
        for name in NAMES
        if name in only
    )


def bound(agent: Agent, reach: Reach | None) -> Agent:
    """Return an agent whose world tools act on a storage."""
    return agent if reach is None else replace(agent, tools=_Bound(agent.tools, reach))


@dataclass(frozen=True, slots=True)
class _Bound:
    """Tools of which those that act on worlds reach a storage."""

    tools: Tools
    reach: Reach

    def specs(self) -> Sequence[ToolSpec]:
        return self.tools.specs()

    def named(self, name: str) -> Tool | None:
        tool = self.tools.named(name)
        return replace(tool, reach=self.reach) if isinstance(tool, WorldTool) else tool

    async def scope_ended(self, session: SessionId) -> str | None:
        return await self.tools.scope_ended(session)


def batch_of(call: CallKey) -> BatchId:
    """Name the batch that a call submits, for ever the same."""
    return BatchId(f"call-{call}")


async def _submit(acting: Acting) -> Any:
    batch = batch_of(acting.request.call_key)
    try:
        for each in acting.args["commands"]:
            acting.check_permitted(each["operation"])
        commands = parsed_commands(acting.args["commands"])
        done = await acting.reach.worlds.submit(
            acting.world, commands, batch_id=batch, by=acting.by
        )
    except Refused:
        # Another version of the application may have sent it, and spelled it otherwise.
        known = await _admitted(acting, batch)
        if known is None:
            raise
        return known
    told = [
        {
            "command_id": receipt.command_id,
            "entity_id": receipt.entity_id,
            "tick": receipt.tick,
            "status": status,
        }
        for receipt, status in zip(done.receipts, done.statuses, strict=True)
    ]
    return {"batch_id": batch, "replayed": done.replayed, "commands": told}


async def _admitted(acting: Acting, batch: BatchId) -> Any:
    """Tell what a world holds under a call's own id, None if nothing."""
    worlds, told = acting.reach.worlds, []
    for index in range(len(acting.args["commands"])):
        try:
            found = await worlds.command(acting.world, indexed_command_id(batch, index))
        except NotFound:
            break
        told.append(_command(asdict(found)))
    return {"batch_id": batch, "replayed": True, "commands": told} if told else None


async def _query(acting: Acting) -> Any:
    reader, args = (await acting.lakeside()).reader, acting.args
    tick = args.get("tick")
    if tick is None:
        tick = (await acting.reach.worlds.describe(acting.world)).published_tick
    if tick is None:
        raise NotPublished(expected="a published tick", found=f"none in world {acting.world!r} yet")
    limit = args.get("limit", ROWS_DEFAULT)
    entity_ids = args.get("entity_ids")
    table = await reader.query(
        WorldId(acting.world),
        tuple(args["components"]),
        ticks=Tick(tick),
        entity_ids=None if entity_ids is None else [EntityId(each) for each in entity_ids],
        where=args.get("where"),
        limit=limit + 1,
    )
    rows = _rows(table, limit)
    return {"tick": tick, "rows": rows, "more": len(rows) < table.num_rows}


def _rows(table: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Return as many rows as an answer may hold; the first one in any case."""
    names = [name for name in table.schema.names if name not in UNSAID]
    rows: list[dict[str, Any]] = []
    size = 0
    for row in table.select(names).slice(0, limit).to_pylist():
        size += len(to_json(row))
        if rows and size > ROWS_BYTES_MAX:
            break
        rows.append(row)
    return rows


async def _world_info(acting: Acting) -> Any:
    info = await acting.reach.worlds.describe(acting.world)
    return {
        "world_id": info.world_id,
        "name": info.name,
        "status": info.status,
        "writer_mode": info.writer_mode,
        "published_tick": info.published_tick,
        "next_tick": info.next_tick,
        "entities": info.entities,
        "pending_commands": info.pending_commands,
        "every_ms": info.every_ms,
    }


async def _command_status(acting: Acting) -> Any:
    found = await acting.reach.worlds.command(acting.world, acting.args["command_id"])
    return _command(asdict(found))


def _command(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None and name != "token"}


async def _run_ticks(acting: Acting) -> Any:
    acting.check_permitted("run_ticks")
    ran = await run.run_ticks(
        (await acting.lakeside()).ticker,
        acting.reach.worlds.ref(acting.world),
        ticks=acting.args["ticks"],
        deadline=acting.request.deadline,
        request=batch_of(acting.request.call_key),
    )
    return {
        "published_tick": ran.published_tick,
        "done": ran.done,
        "entities": ran.entities,
        "applied": ran.applied,
        "rejected": ran.rejected,
        "dead": ran.dead,
    }


_ACTS: Final[Mapping[str, Act]] = {
    "submit": _submit,
    "query": _query,
    "world_info": _world_info,
    "command_status": _command_status,
    "run_ticks": _run_ticks,
}
