"""The Python face: a storage in the hand, its worlds as objects, and their rows as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from perdure.kernel.cancel import CancelledAll
from perdure.kernel.component import Component
from perdure.kernel.consumers import ConsumerInfo
from perdure.kernel.create import WorldInfo
from perdure.kernel.ids import EntityId, Holder, Instant, Tick, Token, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.operations import Command
from perdure.kernel.status import CommandStatus
from perdure.runtime.history import History, HistoryAsked, HistoryPage
from perdure.runtime.land import Landed, Landing
from perdure.runtime.project import Projection
from perdure.runtime.read import Reader
from perdure.runtime.run import Ran, run_ticks
from perdure.runtime.tick import Ticker
from perdure.runtime.worlds import LIST_MAX, Submitted, Worlds

RUN_MS: int = 24 * 60 * 60 * 1_000
"""A run in one's own process has a day; a function has less."""

EVERYTHING = HistoryAsked()


@dataclass(frozen=True, slots=True)
class Storage:
    """An open storage. Close it by leaving the ``async with`` that opened it."""

    worlds: Worlds
    ticker: Ticker
    reader: Reader
    landing: Landing
    now: Callable[[], Instant]
    new_token: Callable[[], Token]

    @property
    def projection(self) -> Projection:
        """What copies the logs of these worlds into the audit table."""
        return Projection(self.landing.authority, self.landing.lake, self.landing.storage)

    @property
    def history(self) -> History:
        """What reads the audit table."""
        return History(self.landing.authority, self.landing.lake, self.landing.storage)

    async def create_world(
        self,
        name: str,
        *,
        world_id: str | None = None,
        kind: str = "",
        every_ms: int | None = None,
    ) -> World:
        """Create a world, or return it if the same was created before under this id.

        Raises: Invalid kinds, NameTaken, Conflict, WorldDestroyed.
        """
        info = await self.worlds.create(name, world_id=world_id, kind=kind, every_ms=every_ms)
        return World(self, info.world_id)

    async def world(self, world_id: str) -> World:
        """Return a world that exists. Raises NotFound."""
        info = await self.worlds.describe(world_id)
        return World(self, info.world_id)

    async def discover(self) -> list[WorldInfo]:
        """List every world of the storage, by id."""
        found: list[WorldInfo] = []
        after: str | None = None
        while True:
            page, after = await self.worlds.discover(after, LIST_MAX)
            found += page
            if after is None:
                return found

    async def land(self, *world_ids: str) -> Landed:
        """Copy what these worlds (or all) have published into the Iceberg tables.

        What their logs say goes into the audit table. Raises: FenceHeld while another lands.
        """
        named = [WorldId(each) for each in world_ids]
        wanted = named or [info.world_id for info in await self.discover()]
        holder = Holder(self.new_token())
        landed = await self.landing.land(wanted, holder=holder, new_token=self.new_token)
        await self.projection.project(wanted, holder=holder, new_token=self.new_token)
        return landed


@dataclass(frozen=True, slots=True)
class World:
    """One world of an open storage."""

    storage: Storage
    world_id: WorldId

    async def info(self) -> WorldInfo:
        """Tell what is known of the world."""
        return await self.storage.worlds.describe(self.world_id)

    async def submit(
        self,
        commands: Sequence[Command],
        *,
        tick: int | None = None,
        priority: int | None = None,
        batch_id: str | None = None,
    ) -> Submitted:
        """Admit commands, all or none; ``tick`` and ``priority`` are for those without one.

        Raises: Invalid kinds, Conflict, WorldClosing, WorldDestroyed, Unavailable kinds.
        """
        dated = [_dated(command, tick, priority) for command in commands]
        return await self.storage.worlds.submit(self.world_id, dated, batch_id=batch_id)

    async def submit_many(
        self, commands: Sequence[Command], *, batch_prefix: str | None = None
    ) -> list[Submitted]:
        """Admit a list of any length, as atomic batches within the limits, in order."""
        return await self.storage.worlds.submit_many(
            self.world_id, commands, batch_prefix=batch_prefix
        )

    async def command(self, command_id: str) -> CommandStatus:
        """Tell what became of a command. Raises NotFound."""
        return await self.storage.worlds.command(self.world_id, command_id)

    async def cancel(self, command_id: str) -> CommandStatus:
        """Cancel one open command. Raises NotFound, NotCancellable."""
        return await self.storage.worlds.cancel(self.world_id, command_id)

    async def cancel_all(self, request_id: str) -> CancelledAll:
        """Cancel everything open now; the same request id again changes nothing."""
        return await self.storage.worlds.cancel_all(self.world_id, request_id)

    async def run(self, *, to_tick: int | None = None, ticks: int | None = None) -> Ran:
        """Publish ticks until ``to_tick``, or so many of them.

        Raises: FenceHeld, Stalled, StaleWriter, TickFailed, Unavailable kinds.
        """
        storage = self.storage
        return await run_ticks(
            storage.ticker,
            storage.worlds.ref(self.world_id),
            ticks=ticks,
            to_tick=to_tick,
            deadline=Instant(storage.now() + RUN_MS),
        )

    async def query(
        self,
        *components: type[Component] | str,
        ticks: int | range | None = None,
        entity_ids: Sequence[int] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return rows of every archetype that has all ``components``.

        A tick (None: the published one) gives the state at it, a range the rows its ticks
        wrote. Raises: NotPublished, UnknownComponent, InvalidFilter, SchemaMismatch.
        """
        return await self.storage.reader.query(
            self.world_id,
            components,
            ticks=Tick(ticks) if isinstance(ticks, int) else ticks,
            entity_ids=None if entity_ids is None else [EntityId(each) for each in entity_ids],
            where=where,
            limit=limit,
        )

    async def log(self, *, after: int = 0, limit: int = 100) -> list[LogEntry]:
        """Return log entries behind ``after``."""
        return await self.storage.worlds.log(self.world_id, after, limit)

    async def land(self) -> Landed:
        """Copy what this world has published, and what its log says, into the tables."""
        return await self.storage.land(self.world_id)

    async def history(self, asked: HistoryAsked = EVERYTHING) -> HistoryPage:
        """Return a page of what happened here, as far as that is landed.

        Raises: Invalid, StoreUnavailable.
        """
        return await self.storage.history.read(self.world_id, asked)

    async def consumers(self) -> list[ConsumerInfo]:
        """Tell who reads the log of this world, and how far they are behind."""
        return await self.storage.worlds.consumers.list(self.world_id)

    async def set_consumer(self, name: str, *, required: bool = False) -> ConsumerInfo:
        """Register a reader of the log; for a required one the next tick waits.

        Raises: InvalidId, TooLarge.
        """
        return await self.storage.worlds.consumers.set(self.world_id, name, required=required)

    async def remove_consumer(self, name: str) -> None:
        """Forget a reader of the log. Raises Invalid for the storage's own."""
        await self.storage.worlds.consumers.remove(self.world_id, name)

    async def acknowledge(self, name: str, seq: int) -> ConsumerInfo:
        """Say that a reader has read the log up to ``seq``.

        Raises: NotFound, Conflict for going back, OutOfRange.
        """
        return await self.storage.worlds.consumers.acknowledge(self.world_id, name, seq)


def _dated(command: Command, tick: int | None, priority: int | None) -> Command:
    chosen = {"tick": tick, "priority": priority}
    lacking = {
        name: value
        for name, value in chosen.items()
        if value is not None and getattr(command, name) is None
    }
    if not lacking:
        return command
    return type(command).model_validate({**command.__dict__, **lacking})
