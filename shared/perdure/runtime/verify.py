"""Verification: a world's whole record read again, and its ticks done again and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure.kernel.errors import Corrupt, Invalid, NotPublished
from perdure.kernel.ids import StorageId, Tick, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld, WorldState
from perdure.kernel.writers import check_app
from perdure.lake.iceberg import Lake
from perdure.lake.objects import ObjectStore
from perdure.runtime.app import App
from perdure.runtime.findings import Finding
from perdure.runtime.plan import Part, lineage_parts
from perdure.runtime.ports import Executes
from perdure.runtime.stored import StoredRows
from perdure.runtime.verify_walk import Walk


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at and what was found.

    ``next_tick`` is where to go on when time ran out, None at the end.
    """

    checked_ticks: int
    next_tick: Tick | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies worlds of one application. Changes nothing, and needs no fence."""

    authority: Executes
    objects: ObjectStore
    lake: Lake
    storage: StorageId
    app: App
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def verify(
        self,
        world: WorldId,
        *,
        from_tick: int | None = None,
        to_tick: int | None = None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Verified:
        """Check the log, manifests, rows and checkpoints of a world, and do its ticks again.

        Of a fork, only its own ticks: those before are its ancestors', and verified there.
        ``go_on`` is asked after each tick. The log is walked from its first entry on every
        call, but what lies before ``from_tick`` is not reported again.
        Raises: NotFound, NotPublished, Invalid, WrongApp, Unavailable kinds.
        """
        try:
            state = await self.authority.execute(FindWorld(WorldRef(self.storage, world)))
            parts = await lineage_parts(self.authority, state)
        except Corrupt as error:
            finding = Finding("head", f"world {world}", error.expected, error.found)
            return Verified(0, None, (finding,))
        check_app(state.world, self.app.name)
        first, last = _wanted(state, parts[-1], from_tick, to_tick)
        stored = StoredRows(self.authority, self.objects, self.lake, self.storage)
        walk = Walk(self.authority, self.app, state, parts, stored, self.pause)
        checked, next_tick = await walk.along(first, last, go_on)
        return Verified(checked, next_tick, (*walk.findings, *stored.findings))


def _wanted(
    state: WorldState, part: Part, from_tick: int | None, to_tick: int | None
) -> tuple[Tick, Tick]:
    published = state.published
    if to_tick is not None and to_tick > published:
        raise NotPublished(
            expected=f"a published tick; the last one is {published}", found=f"tick {to_tick}"
        )
    last = published if to_tick is None else Tick(to_tick)
    if from_tick is not None and not 0 <= from_tick <= last:
        raise Invalid(expected=f"a first tick of 0 to {last}", found=str(from_tick))
    return Tick(max(part.first, from_tick or 0)), last
