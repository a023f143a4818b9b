"""The Python face: a storage in the hand, with its worlds and sessions as objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from perdure.kernel import limits
from perdure.kernel.create import WorldInfo
from perdure.kernel.ids import Holder, Instant, Token, WorldId
from perdure.kernel.listing import Show
from perdure.kernel.pace import MissedTicks
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.history import History
from perdure.runtime.land import Landed, Landing
from perdure.runtime.private import private_world
from perdure.runtime.project import Projection
from perdure.runtime.read import Reader
from perdure.runtime.readonly import ReadonlyStorage, ReadonlyWorld
from perdure.runtime.resume import resume
from perdure.runtime.session.journal import Means as SessionMeans
from perdure.runtime.session.ports import Model
from perdure.runtime.session.session import Session
from perdure.runtime.session.sessions import Sessions, no_model
from perdure.runtime.session.tool_world import Lakeside, Reach
from perdure.runtime.tick import Ticker
from perdure.runtime.trim import GRACE_MS, Trimmed, Trimming
from perdure.runtime.world import World
from perdure.runtime.worlds import Worlds

__all__ = ["Storage", "World"]


@dataclass(frozen=True, slots=True)
class Storage:
    """An open storage. Close it by leaving the ``async with`` that opened it."""

    worlds: Worlds
    ticker: Ticker
    reader: Reader
    landing: Landing
    now: Callable[[], Instant]
    new_token: Callable[[], Token]
    document_stores: DocumentStores
    """The document stores of the storage, to be opened and kept in hand."""

    model: Callable[[str], Model] = no_model
    """Open a model by its address, for the agents of sessions."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of the storage, as the floors above ask for them."""
        of = self.ticker.means
        means = SessionMeans(of.authority, of.objects, self.now, self.new_token, asyncio.sleep)
        return Sessions(
            means,
            self.landing.storage,
            of.app,
            self.model,
            lease_ms=self.ticker.lease_ms,
            reach=Reach(self.worlds, self._lakeside),
        )

    async def _lakeside(self) -> Lakeside:
        return Lakeside(self.reader, self.ticker)

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

    async def create_session(
        self,
        agent: str,
        *,
        session_id: str | None = None,
        ceiling_bytes: int = limits.JOURNAL_BYTES_MAX,
        retained: bool = False,
        evidence: bool = False,
    ) -> Session:
        """Begin a session with an agent, or return it if the same was begun under this id.

        Its journal holds ``ceiling_bytes``; ``retained`` says that it is kept for good. With
        ``evidence`` the facts of each run can be queried as rows of a private world.
        Raises: Invalid kinds, UnknownAgent, Conflict.
        """
        info = await self.sessions.create(
            agent,
            session_id=session_id,
            ceiling_bytes=ceiling_bytes,
            retained=retained,
            evidence=evidence,
        )
        return Session(self.sessions, info.session_id)

    async def session(self, session_id: str) -> Session:
        """Return a session that exists. Raises NotFound."""
        info = await self.sessions.describe(session_id)
        return Session(self.sessions, info.session_id)

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
