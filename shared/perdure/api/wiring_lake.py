"""Wiring of what needs Arrow: reading, ticking and landing, on an open storage."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial

from perdure.api import faces, wiring_queue
from perdure.api.measures import tell, tell_lag
from perdure.api.ports import EventsAsked, Landed, LandedDue
from perdure.api.ports_keeping import Pruned
from perdure.api.queue import Queue, due_of
from perdure.api.sandbox import Sandbox
from perdure.api.settings import Settings, settings
from perdure.api.ticking import Served
from perdure.api.wiring import opened_worlds
from perdure.api.wiring_lake_rows import ArrowRows
from perdure.api.wiring_lake_storage import claim_of, opened_catalog, owned_objects
from perdure.api.wiring_lake_ticker import MeasuredTicker
from perdure.authority import system
from perdure.authority.costs import Costs
from perdure.authority.engine import Authority
from perdure.kernel.caller import Caller
from perdure.kernel.create import WorldInfo
from perdure.kernel.errors import FenceHeld, PerdureError
from perdure.kernel.ids import Holder, Instant, WorldId
from perdure.kernel.quota import payment
from perdure.lake.audit import EventFilter
from perdure.lake.iceberg import Lake
from perdure.lake.objects import ObjectStore
from perdure.runtime.app import App, load_app
from perdure.runtime.close import destroy
from perdure.runtime.configure import Configuring
from perdure.runtime.dispatch import Due
from perdure.runtime.history import History, HistoryAsked, HistoryPage
from perdure.runtime.lag import lags
from perdure.runtime.land import LEASE_MS, Landing
from perdure.runtime.land import Landed as LandedRows
from perdure.runtime.project import Projected, Projection
from perdure.runtime.read import Reader
from perdure.runtime.resume import resume
from perdure.runtime.run import Ran, run_ticks
from perdure.runtime.serve import serve
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.trim import Trimmed, Trimming
from perdure.runtime.verify import Verified, Verifier
from perdure.runtime.waiting import waiting
from perdure.runtime.worlds import Worlds

LAND_RESERVE_MS = 3_000
"""No intent of landing is begun with less time than this left."""

LEASE_MS_CLOUD = 60_000
LEASE_MS_LOCAL = 20_000
"""What the next writer waits when one was killed: on one machine somebody sits and waits."""


@asynccontextmanager
async def lake(chosen: Settings | None = None) -> AsyncIterator[LakePorts]:
    """Open what the routes with Arrow need; where, the environment says unless told."""
    found = chosen or settings()
    catalog = await asyncio.to_thread(opened_catalog, found)
    try:
        async with opened_worlds(found) as (authority, worlds):
            objects = owned_objects(found, authority)
            tables = Lake(catalog, found.namespace)
            yield LakePorts(found, authority, worlds, objects, tables)
    finally:
        catalog.close()


def everything(chosen: Settings) -> Sandbox[LakePorts]:
    """Return a sandbox with every route that needs Arrow, for a caller in this process."""
    opening = partial(lake, chosen)
    return Sandbox(opening, faces.LAKE, reply_bytes_max=sys.maxsize, trusted=True)


@dataclass(frozen=True)
class LakePorts:
    """An open storage, as reading, ticking and landing need it."""

    settings: Settings
    authority: Authority
    worlds: Worlds
    objects: ObjectStore
    lake: Lake
    rows: ArrowRows = field(init=False)

    def __post_init__(self) -> None:
        registry = load_app(self.settings.app).registry
        reader = Reader(self.authority, self.objects, self.lake, self.settings.storage, registry)
        object.__setattr__(self, "rows", ArrowRows(reader))

    @cached_property
    def _app(self) -> App:
        """The application. Its processors are imported here."""
        app = load_app(self.settings.app)
        app.load()
        return app

    @cached_property
    def configuring(self) -> Configuring:
        """What lists and changes the capabilities of worlds."""
        return Configuring(self.authority, self._app)

    @cached_property
    def _ticker(self) -> Ticker:
        """The one writer of this process."""
        means = Means(self.authority, self.objects, self._app, system.now, system.new_token)
        suits = LEASE_MS_LOCAL if self.settings.backend == "sqlite" else LEASE_MS_CLOUD
        lease_ms = self.settings.lease_ms or suits
        return MeasuredTicker(means, Holder(system.new_token()), lease_ms=lease_ms)

    def costs(self) -> Costs:
        """Return what the store has been asked for so far."""
        return self.authority.costs()

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
        """Run ticks for at most ``ms``, paid for by whoever asks."""
        await self._paid(by)
        return await run_ticks(
            self._ticker,
            self.worlds.ref(world),
            ticks=ticks,
            to_tick=to_tick,
            deadline=_deadline(ms),
            request=key,
        )

    @cached_property
    def queue(self) -> Queue:
        """The queue of worlds that are due. Raises InvalidValue without one."""
        return wiring_queue.opened(self.settings)

    def due_of(self, body: str) -> Due:
        """Read a message's body. Raises Invalid kinds."""
        return due_of(self.settings.storage, body)

    async def serve(self, due: Due, *, ms: int) -> Served:
        """Tick one world that is due, as often as it is, for at most ``ms``."""
        done = await serve(self._ticker, due, deadline=_deadline(ms))
        return Served(len(done.ticks), done.early_ms, done.again, done.retired)

    async def destroy(self, world: str, *, by: Caller) -> WorldInfo:
        """Destroy a world, or go on with its destruction."""
        ticker, ref = self._ticker, self.worlds.ref(world)
        return (await destroy(ticker.means, ref, lease_ms=ticker.lease_ms, by=by)).info

    async def resume(self, world: str, *, by: Caller) -> WorldInfo:
        """Make sure that this process can go on with a world."""
        await self._paid(by)
        return await resume(self._ticker, self.worlds.ref(world))

    async def history(self, world: str, asked: EventsAsked) -> HistoryPage:
        """Return a page of a world's events."""
        history = History(self.authority, self.lake, self.settings.storage)
        wanted = HistoryAsked(
            wanted=EventFilter(**asked.filters),
            from_seq=asked.from_seq,
            to_seq=asked.to_seq,
            after=asked.after,
            limit=asked.limit,
        )
        return await history.read(world, wanted)

    async def verify(
        self, world: str, *, from_tick: int | None, to_tick: int | None, ms: int
    ) -> Verified:
        """Verify as many ticks of a world as there is time for in ``ms``, at least one."""
        app = self._ticker.means.app
        until = _deadline(ms)
        return await Verifier(
            self.authority, self.objects, self.lake, self.settings.storage, app
        ).verify(
            self.worlds.ref(world).world,
            from_tick=from_tick,
            to_tick=to_tick,
            go_on=lambda: system.now() < until,
        )

    async def _paid(self, by: Caller) -> None:
        """Pay for work that is no single commit. Raises QuotaExceeded, TooLarge."""
        bill = payment(self.settings.storage, by)
        if bill is not None:
            await self.authority.execute(bill)

    async def land_all(self, *, ms: int, by: Caller) -> Landed:
        """Land what any world has published, and project its log, for at most ``ms``.

        Raises Corrupt, at the end, if a world could not be read; the others have landed.
        """
        await self._paid(by)
        until = _deadline(ms)
        found = await self._all_worlds()
        landed, failed = await self._landed(found, found, until)
        if failed:
            raise failed[0][1]
        return landed

    async def trim_all(
        self, *, grace_ms: int, dry_run: bool, after: str | None, ms: int, by: Caller
    ) -> Pruned:
        """Trim the worlds behind ``after``, for about ``ms``, at least one."""
        await self._paid(by)
        until = _deadline(ms)
        found = await self._all_worlds(after)
        trimmed, rest = await self._trim(found, grace_ms, until, dry_run=dry_run)
        count = len(found) if rest is None else found.index(rest) + 1
        return Pruned(trimmed, count, rest)

    async def _trim(
        self, worlds: list[WorldId], grace_ms: int, until: Instant, *, dry_run: bool = False
    ) -> tuple[Trimmed, WorldId | None]:
        trimming = Trimming(self.authority, self.objects, self.settings.storage, system.now)
        return await trimming.trim(
            worlds, grace_ms=grace_ms, dry_run=dry_run, go_on=lambda: system.now() < until
        )

    async def _all_worlds(self, after: str | None = None) -> list[WorldId]:
        return [info.world_id for info in await self.worlds.every(show="all", after=after)]

    async def land_due(self, *, ms: int) -> LandedDue:
        """Land and project what waits in worlds that hints name, for at most ``ms``."""
        until, look_until = _deadline(ms), _deadline(ms // 2)
        found = await waiting(
            self.authority,
            self.settings.storage,
            now=system.now,
            go_on=lambda: system.now() < look_until,
        )
        unlanded, unread = ([ref.world for ref in refs] for refs in (found.unlanded, found.unread))
        failed = {ref.world: error.code for ref, error in found.failed}
        try:
            landed, broken = await self._landed(unlanded, unread, until)
            failed |= {world: error.code for world, error in broken}
        finally:
            # Also of a landing that fails: then it is that everybody falls behind.
            told, unasked = await lags(
                self.authority, found.awake, go_on=lambda: system.now() < until
            )
            failed |= {ref.world: error.code for ref, error in unasked}
            tell_lag(told)
            tell("worlds_failed", len(failed))
        if self.settings.trim_ms is not None:
            whole = [ref.world for ref in found.behind if ref.world not in failed]
            await self._trim(whole, self.settings.trim_ms, until)
        return LandedDue(
            **asdict(landed), failed=tuple(f"{world}: {code}" for world, code in failed.items())
        )

    async def _landed(
        self, unlanded: list[WorldId], unread: list[WorldId], until: Instant
    ) -> tuple[Landed, Sequence[tuple[WorldId, PerdureError]]]:
        """Land some worlds, then project the logs of some; and name those that could not be.

        Raises: FenceHeld if another is at one of the two, after the other was done.
        """
        rows, events = LandedRows(), Projected()
        held: FenceHeld | None = None
        storage, claim = self.settings.storage, partial(claim_of, self.objects)
        lease_ms = self.settings.lease_ms or LEASE_MS
        if unlanded:
            landing = Landing(self.authority, self.objects, self.lake, storage, claim=claim)
            try:
                rows = await landing.land(
                    unlanded,
                    holder=Holder(system.new_token()),
                    new_token=system.new_token,
                    lease_ms=lease_ms,
                    go_on=lambda: system.now() + LAND_RESERVE_MS < until,
                )
            except FenceHeld as error:
                held = error
        if unread:
            projection = Projection(self.authority, self.lake, storage, claim)
            events = await projection.project(
                unread,
                holder=Holder(system.new_token()),
                new_token=system.new_token,
                lease_ms=lease_ms,
                go_on=lambda: system.now() + LAND_RESERVE_MS < until,
            )
        tell("rows_landed", rows.rows)
        tell("events_landed", events.events)
        if held is not None:
            raise held
        done = Landed(rows.rows, rows.files, events.events, events.entries)
        return done, [*rows.failed, *events.failed]


def _deadline(ms: int) -> Instant:
    return Instant(system.now() + ms)
