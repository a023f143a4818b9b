"""Ports: what the routes ask of the runtime, and nothing more of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.kernel.ids import EntityId, Tick, WorldId
from perdure.runtime.worlds import Worlds


@dataclass(frozen=True, slots=True)
class Api:
    """What the routes without Arrow need."""

    worlds: Worlds
    pause: Callable[[float], Awaitable[None]]
    """Wait so many seconds."""


class Ticked(Protocol):
    """What a run of ticks did."""

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


class Ticker(Protocol):
    """Runs ticks."""

    async def run_ticks(
        self,
        world_id: WorldId,
        *,
        ticks: int | None = None,
        to_tick: Tick | None = None,
        deadline_ms: int,
        request_key: str | None = None,
    ) -> Ticked: ...
    async def run_due(self, *, deadline_ms: int) -> int:
        """Tick every world whose time has come. Returns how many ticks were published."""
        ...


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """Which rows of a world: the state at ``tick``, or those of ``ticks``."""

    components: tuple[str, ...]
    tick: Tick
    ticks: range | None
    entity_ids: tuple[EntityId, ...] | None
    where: str | None
    limit: int


class Rows(Protocol):
    """Reads rows and spells them."""

    async def read(self, world_id: WorldId, asked: RowsAsked) -> Any:
        """Return a table, sorted by (tick, entity)."""
        ...

    def count(self, table: Any) -> int: ...
    def page(self, table: Any, first: int, limit: int) -> Any: ...
    def as_json(self, table: Any) -> bytes:
        """Spell a table as a JSON list with an object per row."""
        ...

    def as_stream(self, table: Any) -> bytes:
        """Spell a table as an Arrow IPC stream."""
        ...


@dataclass(frozen=True, slots=True)
class QueryPorts:
    """What reading needs."""

    worlds: Worlds
    rows: Rows


class Landed(Protocol):
    """What a landing did."""

    @property
    def rows(self) -> int: ...
    @property
    def files(self) -> int: ...


class Landing(Protocol):
    """Copies what was published into the tables."""

    async def land(self, *, deadline_ms: int) -> Landed: ...
