"""The Python face: a storage in the hand, its worlds as objects, and their rows as tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from perdure.kernel.cancel import CancelledAll
from perdure.kernel.component import Component
from perdure.kernel.consumers import ConsumerInfo
from perdure.kernel.create import WorldInfo
from perdure.kernel.fork_source import Pending
from perdure.kernel.ids import EntityId, Holder, Instant, Tick, Token, WorldId
from perdure.kernel.listing import Show
from perdure.kernel.log import LogEntry
from perdure.kernel.operations import Command
from perdure.kernel.pace import MissedTicks
from perdure.kernel.places import WorldRef
from perdure.kernel.status import CommandStatus
from perdure.runtime.close import Destroyed, destroy
from perdure.runtime.configure import Configuring, InUse
from perdure.runtime.fork_elsewhere import fork_elsewhere
from perdure.runtime.history import History, HistoryAsked, HistoryPage
from perdure.runtime.land import Landed, Landing
from perdure.runtime.private import private_world
from perdure.runtime.project import Projection
from perdure.runtime.read import Reader
from perdure.runtime.readonly import ReadonlyStorage, ReadonlyWorld
from perdure.runtime.resume import resume
from perdure.runtime.run import Ran, run_ticks
from perdure.runtime.tick import Ticker
from perdure.runtime.trim import GRACE_MS, Trimmed, Trimming
from perdure.runtime.verify import Verified, Verifier
from perdure.runtime.worlds import Submitted, Worlds

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
        landing = self.landing
        return Projection(landing.authority, landing.lake, landing.storage, landing.claim)

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
        missed: MissedTicks = "coalesce",
    ) -> World:
        """Create a world, or return it if the same was created before under this id.

        ``every_ms`` lets it tick by itself where a schedule runs; ``missed`` says what becomes
        of ticks that nobody was there for.

        Raises: Invalid kinds, NameTaken, Conflict, WorldDestroyed.
        """
        info = await self.worlds.create(
            name, world_id=world_id, kind=kind, every_ms=every_ms, missed=missed
        )
        return World(self, info.world_id)

    async def world(self, world_id: str) -> World:
        """Return a world that exists. Raises NotFound."""
        info = await self.worlds.describe(world_id)
        return World(self, info.world_id)

    @asynccontextmanager
    async def private_world(
        self, name: str, *, world_id: str | None = None, kind: str = ""
    ) -> AsyncIterator[World]:
        """Work in a world that nobody else can: ``async with storage.private_world("evidence")``.

        It is destroyed when the block ends, however it ends; its rows stay readable. Raises
        as :func:`perdure.runtime.private.private_world` does.
        """
        means, lease_ms = self.ticker.means, self.ticker.lease_ms
        made = private_world(
            means, self.worlds, name, world_id=world_id, kind=kind, lease_ms=lease_ms
        )
        async with made as grip:
            yield World(replace(self, ticker=grip.ticker), grip.world_id, grip.holder)

    async def resume(self, world_id: str) -> World:
        """Return a world that this process can go on with; its writers before are stale.

        Raises: NotFound, FenceHeld, and a refusal of its own for each thing that is wrong.
        """
        info = await resume(self.ticker, self.worlds.ref(world_id))
        return World(self, info.world_id)

    async def open_readonly(self, world_id: str) -> ReadonlyWorld:
        """Return a world that exists, to be looked at and nothing else. Raises NotFound."""
        return await ReadonlyStorage(self.worlds, self.reader).open_readonly(world_id)

    async def discover(self, *, show: Show = "public") -> list[WorldInfo]:
        """List the worlds of the storage, by id."""
        return await self.worlds.every(show=show)

    async def land(self, *world_ids: str) -> Landed:
        """Copy what these worlds (or all) have published into the Iceberg tables.

        What their logs say goes into the audit table. Raises: FenceHeld while another lands;
        Corrupt for a world that cannot be read, after the others have landed.
        """
        named = [WorldId(each) for each in world_ids]
        wanted = named or [info.world_id for info in await self.discover(show="all")]
        holder, new_token, lease_ms = Holder(self.new_token()), self.new_token, self.ticker.lease_ms
        landed = await self.landing.land(
            wanted, holder=holder, new_token=new_token, lease_ms=lease_ms
        )
        told = await self.projection.project(
            wanted, holder=holder, new_token=new_token, lease_ms=lease_ms
        )
        for _, error in (*landed.failed, *told.failed):
            raise error
        return landed

    async def trim(self, *, grace_ms: int = GRACE_MS, dry_run: bool = False) -> Trimmed:
        """Let go of what landed, was read by all and is old; every tick stays readable.

        Raises: Invalid for a grace of less than 15 minutes.
        """
        worlds = [info.world_id for info in await self.discover(show="all")]
        landing = self.landing
        trimming = Trimming(landing.authority, landing.objects, landing.storage, self.now)
        trimmed, _ = await trimming.trim(worlds, grace_ms=grace_ms, dry_run=dry_run)
        return trimmed


@dataclass(frozen=True, slots=True)
class World:
    """One world of an open storage."""

    storage: Storage
    world_id: WorldId
    holder: Holder | None = None
    """Who holds its fence, if it is a private world of this process."""

    async def info(self) -> WorldInfo:
        """Tell what is known of the world."""
        return await self.storage.worlds.describe(self.world_id)

    async def fork(
        self,
        name: str,
        *,
        world_id: str | None = None,
        pending: Pending = "copy",
        at_tick: int | None = None,
        to: Storage | None = None,
    ) -> World:
        """Fork the world at its published tick, or return the fork made before under this id.

        The fork takes over what is open unless ``pending`` is "drop". In another storage ``to``
        it begins with a copy of the rows at that tick; what is open can not go there.
        Raises: NameTaken, Conflict, NotPublished, TooManyPending, NotResumable, CorruptLineage,
        WorldClosing, WorldDestroyed, WorldMoving, Contended; NotQuiescent to another storage.
        """
        if to is not None:
            source = self.storage.worlds.ref(self.world_id)
            wish = to.worlds.wish(source, name, world_id, pending=pending, at_tick=at_tick)
            info = await fork_elsewhere(self.storage.ticker.means, to.ticker.means, wish)
            return World(to, info.world_id)
        info = await self.storage.worlds.fork(
            self.world_id, name, world_id=world_id, pending=pending, at_tick=at_tick
        )
        return World(self.storage, info.world_id)

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
        return await self.storage.worlds.submit(
            self.world_id, dated, batch_id=batch_id, holder=self.holder
        )

    async def submit_many(
        self, commands: Sequence[Command], *, batch_prefix: str | None = None
    ) -> list[Submitted]:
        """Admit a list of any length, as atomic batches within the limits, in order."""
        return await self.storage.worlds.submit_many(
            self.world_id, commands, batch_prefix=batch_prefix, holder=self.holder
        )

    async def command(self, command_id: str) -> CommandStatus:
        """Tell what became of a command. Raises NotFound."""
        return await self.storage.worlds.command(self.world_id, command_id)

    async def cancel(self, command_id: str) -> CommandStatus:
        """Cancel one open command. Raises NotFound, NotCancellable."""
        return await self.storage.worlds.cancel(self.world_id, command_id, holder=self.holder)

    async def cancel_all(self, request_id: str) -> CancelledAll:
        """Cancel everything open now; the same request id again changes nothing."""
        return await self.storage.worlds.cancel_all(self.world_id, request_id, holder=self.holder)

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

    async def processors(self) -> tuple[InUse, ...]:
        """List the processors that the world runs, in their order. Raises WrongApp."""
        return await self._configuring.listed("processor", self._ref)

    async def add_processor(self, name: str, priority: int | None = None) -> tuple[InUse, ...]:
        """Run a processor of the application from the next tick on; return all that run then.

        Without a priority it has that of the application. Raises: UnknownProcessor, WrongApp,
        Invalid kinds, and what closes a world.
        """
        return await self._configuring.add("processor", self._ref, name, priority=priority)

    async def remove_processor(self, name: str) -> tuple[InUse, ...]:
        """Run a processor no longer; what it has written stays. Raises UnknownProcessor."""
        return await self._configuring.remove("processor", self._ref, name)

    async def hooks(self) -> tuple[InUse, ...]:
        """List the hooks that are told of the world's ticks. Raises WrongApp."""
        return await self._configuring.listed("hook", self._ref)

    async def add_hook(self, name: str) -> tuple[InUse, ...]:
        """Tell a hook of the application from the next tick on. Raises UnknownHook."""
        return await self._configuring.add("hook", self._ref, name)

    async def remove_hook(self, name: str) -> tuple[InUse, ...]:
        """Tell a hook no longer. Raises UnknownHook."""
        return await self._configuring.remove("hook", self._ref, name)

    async def resources(self) -> tuple[InUse, ...]:
        """List the resources that the world's processors are given. Raises WrongApp."""
        return await self._configuring.listed("resource", self._ref)

    async def add_resource(self, name: str) -> tuple[InUse, ...]:
        """Give processors a resource from the next tick on. Raises UnknownResource."""
        return await self._configuring.add("resource", self._ref, name)

    async def remove_resource(self, name: str) -> tuple[InUse, ...]:
        """Give processors a resource no longer. Raises UnknownResource."""
        return await self._configuring.remove("resource", self._ref, name)

    @property
    def _configuring(self) -> Configuring:
        means = self.storage.ticker.means
        return Configuring(means.authority, means.app, holder=self.holder)

    @property
    def _ref(self) -> WorldRef:
        return self.storage.worlds.ref(self.world_id)

    async def log(self, *, after: int = 0, limit: int = 100) -> list[LogEntry]:
        """Return log entries behind ``after``."""
        return await self.storage.worlds.log(self.world_id, after, limit)

    async def destroy(self) -> Destroyed:
        """End the world: its history stays, nothing is added to it. Again changes nothing.

        Raises: FenceHeld while another destroys it, ConsumerBehind, Unavailable kinds; then it
        is closing, and the same call goes on.
        """
        ticker = self.storage.ticker
        ref = self.storage.worlds.ref(self.world_id)
        return await destroy(ticker.means, ref, lease_ms=ticker.lease_ms)

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
        return await self.storage.worlds.consumers.set(
            self.world_id, name, required=required, holder=self.holder
        )

    async def remove_consumer(self, name: str) -> None:
        """Forget a reader of the log. Raises Invalid for the storage's own."""
        consumers = self.storage.worlds.consumers
        await consumers.remove(self.world_id, name, holder=self.holder)

    async def acknowledge(self, name: str, seq: int) -> ConsumerInfo:
        """Say that a reader has read the log up to ``seq``.

        Raises: NotFound, Conflict for going back, OutOfRange.
        """
        return await self.storage.worlds.consumers.acknowledge(self.world_id, name, seq)

    async def verify(self, *, from_tick: int | None = None, to_tick: int | None = None) -> Verified:
        """Read the whole record of the world again, and do its ticks again.

        Raises: NotPublished, Invalid, WrongApp, Unavailable kinds.
        """
        landing = self.storage.landing
        return await Verifier(
            landing.authority,
            landing.objects,
            landing.lake,
            landing.storage,
            self.storage.ticker.means.app,
        ).verify(self.world_id, from_tick=from_tick, to_tick=to_tick)


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
