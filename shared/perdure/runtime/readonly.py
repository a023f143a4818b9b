"""Read-only storages: worlds that can be described and queried, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from perdure.kernel.component import Component
from perdure.kernel.create import WorldInfo
from perdure.kernel.ids import EntityId, Tick, WorldId
from perdure.kernel.listing import Show
from perdure.kernel.log import LogEntry
from perdure.kernel.status import CommandStatus
from perdure.runtime.read import Reader
from perdure.runtime.worlds import Worlds


@dataclass(frozen=True, slots=True)
class ReadonlyStorage:
    """A storage that is only looked at. Names of components suffice; no class is needed."""

    worlds: Worlds
    reader: Reader

    async def discover(self, *, show: Show = "public") -> list[WorldInfo]:
        """List the worlds of the storage, destroyed ones too, by id."""
        return await self.worlds.every(show=show)

    async def open_readonly(self, world_id: str) -> ReadonlyWorld:
        """Return a world that exists. Raises NotFound."""
        info = await self.worlds.describe(world_id)
        return ReadonlyWorld(self, info.world_id)


@dataclass(frozen=True, slots=True)
class ReadonlyWorld:
    """One world, to be looked at: it cannot be submitted to, nor ticked."""

    storage: ReadonlyStorage
    world_id: WorldId

    async def info(self) -> WorldInfo:
        """Tell what is known of the world."""
        return await self.storage.worlds.describe(self.world_id)

    async def command(self, command_id: str) -> CommandStatus:
        """Tell what became of a command. Raises NotFound."""
        return await self.storage.worlds.command(self.world_id, command_id)

    async def log(self, *, after: int = 0, limit: int = 100) -> list[LogEntry]:
        """Return log entries behind ``after``."""
        return await self.storage.worlds.log(self.world_id, after, limit)

    async def query(
        self,
        *components: type[Component] | str,
        ticks: int | range | None = None,
        entity_ids: Sequence[int] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return rows, as a world opened to write does.

        Raises: NotPublished, UnknownComponent, InvalidFilter, SchemaMismatch.
        """
        return await self.storage.reader.query(
            self.world_id,
            components,
            ticks=Tick(ticks) if isinstance(ticks, int) else ticks,
            entity_ids=None if entity_ids is None else [EntityId(each) for each in entity_ids],
            where=where,
            limit=limit,
        )
