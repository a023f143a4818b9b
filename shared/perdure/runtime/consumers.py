"""Consumers by name: who reads a world's log, how far, and whether the world waits."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.consumers import (
    Acknowledge,
    ConsumerInfo,
    ListConsumers,
    RemoveConsumer,
    SetConsumer,
)
from perdure.kernel.errors import OutOfRange
from perdure.kernel.ids import Holder, Seq, StorageId, WorldId, checked_id
from perdure.kernel.places import WorldRef
from perdure.kernel.shown import shown
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of one storage's worlds."""

    authority: Executes
    storage: StorageId

    async def list(self, world: str) -> list[ConsumerInfo]:
        """Tell of every reader of a world's log, by name. Raises NotFound."""
        return list(await self.authority.execute(ListConsumers(self._ref(world))))

    async def set(
        self,
        world: str,
        name: str,
        *,
        required: bool = False,
        holder: Holder | None = None,
        by: Caller = LOCAL,
    ) -> ConsumerInfo:
        """Register a reader; a required one holds the next tick until it has read the last.

        ``holder`` is who holds the fence of a private world: nobody else may.
        Raises: NotFound, InvalidId, TooLarge, NotPermitted, WorldClosing, WorldDestroyed.
        """
        request = SetConsumer(self._ref(world), name, required, by, holder)
        return await self.authority.execute(request.checked())

    async def remove(
        self, world: str, name: str, *, holder: Holder | None = None, by: Caller = LOCAL
    ) -> None:
        """Forget a reader. Raises: NotFound, NotPermitted, Invalid for the storage's own."""
        request = RemoveConsumer(self._ref(world), name, by, holder)
        await self.authority.execute(request.checked())

    async def acknowledge(
        self, world: str, name: str, seq: int, *, by: Caller = LOCAL
    ) -> ConsumerInfo:
        """Say that a reader has read up to ``seq``.

        Raises: NotFound, Conflict for going back, OutOfRange for going beyond the log.
        """
        if not 0 <= seq <= limits.INTEGER_MAX:
            raise OutOfRange(expected="a seq of the log, or 0", found=shown(seq))
        request = Acknowledge(self._ref(world), name, Seq(seq), by)
        return await self.authority.execute(request.checked())

    def _ref(self, world: str) -> WorldRef:
        return WorldRef(self.storage, WorldId(checked_id(world, what="a world id")))
