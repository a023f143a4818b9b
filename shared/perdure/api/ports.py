"""Ports: what the routes ask of the runtime, and nothing more of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from perdure.authority.costs import Costs
from perdure.kernel.caller import Caller
from perdure.kernel.ids import EntityId, Tick, WorldId
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.worlds import Worlds

if TYPE_CHECKING:
    from perdure.kernel.create import WorldInfo
    from perdure.runtime.configure import Configuring


@dataclass(frozen=True, slots=True)
class Api:
    """What the routes without Arrow need."""

    worlds: Worlds
    stores: DocumentStores
    pause: Callable[[float], Awaitable[None]]
    """Wait so many seconds."""

    costs: Callable[[], Costs] = Costs
    """What the store has been asked for so far."""


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """Which rows of a world: the state at ``tick``, or what ``ticks`` wrote."""

    components: tuple[str, ...]
    tick: Tick
    ticks: range | None
    entity_ids: tuple[EntityId, ...] | None
    where: str | None
    limit: int


class Rows(Protocol):
    """Reads rows and spells them. A table is whatever :meth:`read` returns."""

    async def read(self, world: WorldId, asked: RowsAsked) -> Any:
        """Return a table, sorted by (tick, entity)."""
        ...

    def count(self, table: Any) -> int:
        """Return how many rows a table has."""
        ...

    def page(self, table: Any, first: int, limit: int) -> Any:
        """Return so many rows of a table, from the ``first`` on."""
        ...

    def as_json(self, table: Any) -> bytes:
        """Spell a table as a JSON list with an object a row."""
        ...

    def as_stream(self, table: Any) -> bytes:
        """Spell a table as an Arrow IPC stream."""
        ...


class QueryPorts(Protocol):
    """What reading needs."""

    @property
    def worlds(self) -> Worlds: ...
    @property
    def rows(self) -> Rows: ...


class HookFailed(Protocol):
    """A hook that failed in a tick. Nothing else follows from it."""

    @property
    def hook(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Ran(Protocol):
    """Where a run of ticks stands."""

    @property
    def published_tick(self) -> Tick | None: ...
    @property
    def ticks(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def applied(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    @property
    def hook_failures(self) -> Sequence[HookFailed]: ...


class TickPorts(Protocol):
    """What ticking needs."""

    async def run_ticks(
        self,
        world: str,
        *,
        ticks: int | None,
        to_tick: int | None,
        ms: int,
        key: str | None,
        by: Caller,
    ) -> Ran:
        """Run ticks for at most ``ms``."""
        ...

    async def destroy(self, world: str, *, by: Caller) -> WorldInfo:
        """Destroy a world, or go on with its destruction."""
        ...

    async def resume(self, world: str, *, by: Caller) -> WorldInfo:
        """Make sure that this process can go on with a world."""
        ...


class CapabilityPorts(Protocol):
    """What listing and changing a world's capabilities needs: the application, loaded."""

    @property
    def worlds(self) -> Worlds: ...
    @property
    def configuring(self) -> Configuring: ...


@dataclass(frozen=True, slots=True)
class EventsAsked:
    """Which events of a world: filters by name, log entries, and behind which (seq, index)."""

    filters: Mapping[str, Any]
    from_seq: int
    to_seq: int | None
    after: tuple[int, int]
    limit: int


class EventsPage(Protocol):
    """Events in the order of the log, and how far it is projected."""

    @property
    def events(self) -> tuple[dict[str, Any], ...]: ...
    @property
    def through_seq(self) -> int: ...
    @property
    def head_seq(self) -> int: ...
    @property
    def next(self) -> tuple[int, int] | None: ...


class HistoryPorts(Protocol):
    """What history needs."""

    async def history(self, world: str, asked: EventsAsked) -> EventsPage:
        """Return a page of a world's events."""
        ...


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did: rows and their files; events, and the log entries that tell of them."""

    rows: int = 0
    files: int = 0
    events: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class LandedDue(Landed):
    """What a landing by schedule did, and for whom it could not."""

    failed: tuple[str, ...] = ()
    """Worlds that could not be looked at, each with the code of why."""


class LandPorts(Protocol):
    """What landing needs."""

    async def land_all(self, *, ms: int, by: Caller) -> Landed:
        """Land what any world has published, and project its log, for at most ``ms``."""
        ...

    async def land_due(self, *, ms: int) -> LandedDue:
        """Land and project what waits in worlds that hints name, for at most ``ms``."""
        ...
