"""Worlds of the Python face: everything that can be asked of one, rows included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from perdure.kernel.cancel import CancelledAll
from perdure.kernel.component import Component
from perdure.kernel.consumers import ConsumerInfo
from perdure.kernel.create import WorldInfo
from perdure.kernel.fork_source import Pending
from perdure.kernel.ids import EntityId, Holder, Instant, Tick, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.operations import Command
from perdure.kernel.places import WorldRef
from perdure.kernel.status import CommandStatus
from perdure.runtime.close import Destroyed, destroy
from perdure.runtime.configure import Configuring, InUse
from perdure.runtime.fork_elsewhere import fork_elsewhere
from perdure.runtime.history import HistoryAsked, HistoryPage
from perdure.runtime.land import Landed
from perdure.runtime.run import Ran, run_ticks
from perdure.runtime.verify import Verified, Verifier
from perdure.runtime.worlds import Submitted

if TYPE_CHECKING:
    from perdure.runtime.storage import Storage

RUN_MS: int = 24 * 60 * 60 * 1_000
"""A run in one's own process has a day; a function has less."""

EVERYTHING = HistoryAsked()


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
