"""Ports: what the routes ask of the runtime, and nothing more of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.kernel.create import WorldInfo
from perdure.kernel.ids import EntityId, Tick, WorldId
from perdure.runtime.configure import Configuring
from perdure.runtime.worlds import Worlds


@dataclass(frozen=True, slots=True)
class Api:
    """What the routes without Arrow need."""

    worlds: Worlds
    pause: Callable[[float], Awaitable[None]]
    """Wait so many seconds."""


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


@dataclass(frozen=True, slots=True)
class DueRan:
    """What a schedule's call came to."""

    ticks: int
    failed: tuple[str, ...]
    """A line for each world that failed; it stays due."""

    retired: int = 0
    """Private worlds that had outlived their holder."""


class TickPorts(Protocol):
    """What ticking needs."""

    async def run_ticks(
        self, world: str, *, ticks: int | None, to_tick: int | None, ms: int, key: str | None
    ) -> Ran:
        """Run ticks for at most ``ms``."""
        ...

    async def run_due(self, *, ms: int) -> DueRan:
        """Tick every world whose time has come, for at most ``ms``."""
        ...

    async def destroy(self, world: str) -> WorldInfo:
        """Destroy a world, or go on with its destruction."""
        ...

    async def resume(self, world: str) -> WorldInfo:
        """Make sure that this process can go on with a world."""
        ...


class CapabilityPorts(Protocol):
    """What listing and changing a world's capabilities needs: the application, loaded."""

    @property
    def worlds(self) -> Worlds: ...
    @property
    def configuring(self) -> Configuring: ...


class Landed(Protocol):
    """What a landing did."""

    @property
    def rows(self) -> int: ...
    @property
    def files(self) -> int: ...


class LandPorts(Protocol):
    """What landing needs."""

    async def land_all(self, *, ms: int) -> Landed:
        """Land what any world of the storage has published, for at most ``ms``."""
        ...

    async def land_due(self, *, ms: int) -> Landed:
        """Land what worlds have published that hints name, for at most ``ms``."""
        ...
