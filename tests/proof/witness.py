"""A witness: works on a storage, and writes down every request and every answer.

Whoever tests with real processes gives each a witness of its own, ends them as it likes, and
hands what they wrote to :func:`tests.proof.checker.check`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.emulator.harbour import Position, app
from tests.proof.history import Recorder
from tests.proof.records import Records, bytes_of, records_of
from tests.support.stores import TABLE, dynamodb_client

import perdure
from perdure.api.wiring import run_id
from perdure.authority import system
from perdure.authority.dynamodb import DynamoStore
from perdure.authority.engine import Authority
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.component import Component
from perdure.kernel.create import WorldInfo
from perdure.kernel.fence import Grip
from perdure.kernel.ids import Holder, StorageId, Tick, WorldId
from perdure.kernel.operations import Command
from perdure.kernel.status import CommandStatus
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.close import destroy
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader
from perdure.runtime.report import TickReport
from perdure.runtime.run import released
from perdure.runtime.storage import Storage
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

LEASE_MS = 500
"""How long a writer that died, or sleeps, stands in the way of the next."""

LOG_PAGE = 200


@asynccontextmanager
async def opened(root: Path, table: str | None = None) -> AsyncIterator[Storage]:
    """Open the storage of a directory; ``table`` is ``<address> <account>`` of its authority.

    Without it the authority is the SQLite file of the directory.
    """
    if table is None:
        async with perdure.open(root.as_uri(), app=app) as storage:
            ticker = Ticker(storage.ticker.means, storage.ticker._holder, lease_ms=LEASE_MS)
            yield replace(storage, ticker=ticker)
        return
    async with _on_a_table(root, *table.split()) as storage:
        yield storage


@asynccontextmanager
async def _on_a_table(root: Path, address: str, account: str) -> AsyncIterator[Storage]:
    client, name = dynamodb_client(address, account, threads=4), StorageId("storage")
    authority = Authority(DynamoStore(client, TABLE, threads=4), system.now, system.new_token)
    app.load()
    catalog = await asyncio.to_thread(open_local, root)
    try:
        objects, lake = LocalObjects(root / "objects"), Lake(catalog, "default")
        means = Means(authority, objects, app, system.now, system.new_token)
        yield Storage(
            worlds=Worlds(
                authority,
                name,
                app.registry,
                new_token=system.new_token,
                new_run=lambda: run_id(system.now(), system.new_token()),
            ),
            ticker=Ticker(means, Holder(system.new_token()), lease_ms=LEASE_MS),
            reader=Reader(authority, objects, lake, name, app.registry),
            landing=Landing(authority, objects, lake, name),
            now=system.now,
            new_token=system.new_token,
            document_stores=DocumentStores(
                StoreMeans(authority, system.now, system.new_token, asyncio.sleep), name, app.name
            ),
        )
    finally:
        catalog.close()
        await authority.close()
        client.close()


async def records_at_the_end(storage: Storage) -> Records:
    """Read everything that a storage holds of its worlds."""
    name = storage.landing.storage
    authority: Any = storage.ticker.means.authority
    return records_of(await bytes_of(authority.view, name), name)


class Witness:
    """One process's way to a storage. Each method asks once, and returns None if it was refused."""

    def __init__(self, storage: Storage, recorder: Recorder) -> None:
        self._storage = storage
        self._recorder = recorder

    async def create(self, world: str, name: str) -> Any:
        asked = {"world": world, "name": name}
        work = self._storage.worlds.create(name, world_id=world)
        return await self._recorder.call("create", asked, work, lambda info: info.run_id)

    async def fork(self, source: str, world: str, name: str, pending: Any = "copy") -> Any:
        asked = {"world": world, "name": name, "source": source, "pending": pending}
        work = self._storage.worlds.fork(source, name, world_id=world, pending=pending)
        return await self._recorder.call("fork", asked, work, lambda info: info.run_id)

    async def admit(self, world: str, batch: str, commands: Sequence[Command]) -> Any:
        said = [spelled(each) for each in commands]
        content = digest("history", canonical(said))
        asked = {"world": world, "batch": batch, "content": content, "commands": said}
        work = self._storage.worlds.submit(world, commands, batch_id=batch)
        return await self._recorder.call(
            "admit",
            asked,
            work,
            lambda done: {"replayed": done.replayed, "receipts": [[*r] for r in done.receipts]},
        )

    async def cancel(self, world: str, command: str) -> Any:
        asked = {"world": world, "command": command}
        work = self._storage.worlds.cancel(world, command)
        return await self._recorder.call("cancel", asked, work, _status)

    async def cancel_all(self, world: str, request: str) -> Any:
        asked = {"world": world, "request": request}
        work = self._storage.worlds.cancel_all(world, request)
        return await self._recorder.call(
            "cancel_all", asked, work, lambda done: {"cancelled_below": done.cancelled_below}
        )

    async def take(self, world: str) -> Grip | None:
        """Take the fence of a world."""
        work = self._storage.ticker.take(self._storage.worlds.ref(world))
        return await self._recorder.call("take", {"world": world}, work, _grip)

    async def tick(self, world: str, grip: Grip) -> Any:
        """Publish one tick under a fence that was taken, and let the fence go."""
        asked = {"world": world, "epoch": grip.epoch}
        return await self._recorder.call("tick", asked, self._ticked(world, grip), _tick)

    async def destroy(self, world: str) -> Any:
        ticker, ref = self._storage.ticker, self._storage.worlds.ref(world)
        work = destroy(ticker.means, ref, lease_ms=LEASE_MS)
        return await self._recorder.call(
            "destroy", {"world": world}, work, lambda done: {"status": done.info.status}
        )

    async def status(self, world: str, command: str) -> Any:
        asked = {"world": world, "command": command}
        work = self._storage.worlds.command(world, command)
        return await self._recorder.call("status", asked, work, _status)

    async def info(self, world: str) -> WorldInfo | None:
        work = self._storage.worlds.describe(world)
        return await self._recorder.call("info", {"world": world}, work, _info)

    async def log(self, world: str, after: int = 0) -> Any:
        asked = {"world": world, "after": after, "limit": LOG_PAGE}
        work = self._storage.worlds.log(world, after, LOG_PAGE)
        return await self._recorder.call(
            "log", asked, work, lambda found: {"digests": [entry.digest for entry in found]}
        )

    async def rows(self, world: str, tick: int) -> Any:
        """Read the ships that live at a tick."""
        asked = {"world": world, "tick": tick}
        work = self._storage.reader.query(WorldId(world), [Position], ticks=Tick(tick))
        return await self._recorder.call("rows", asked, work, _rows)

    async def _ticked(self, world: str, grip: Grip) -> TickReport:
        ticker, ref = self._storage.ticker, self._storage.worlds.ref(world)
        try:
            report, grip = await ticker.tick(ref, grip)
        finally:
            await released(ticker, ref, grip)
        return report


def spelled(command: Command) -> dict[str, Any]:
    """Say as JSON what a command asks for, by what its caller gave and no code of the product."""
    said = {name: value for name, value in command.__dict__.items() if value is not None}
    components = said.get("components")
    if isinstance(components, dict):
        said["components"] = {
            name: value.model_dump() if isinstance(value, Component) else value
            for name, value in components.items()
        }
    return said


def _status(told: CommandStatus) -> dict[str, Any]:
    return {
        "sequence": told.sequence,
        "status": told.status,
        "attempts": told.attempts,
        "code": told.code,
    }


def _grip(told: Grip) -> dict[str, Any]:
    return {"epoch": told.epoch, "seq": told.head.seq}


def _tick(told: TickReport) -> dict[str, Any]:
    return {"tick": told.tick, "token": told.token}


def _info(told: WorldInfo) -> dict[str, Any]:
    published = -1 if told.published_tick is None else told.published_tick
    return {"status": told.status, "published": published, "pending": told.pending_commands}


def _rows(told: pa.Table) -> dict[str, Any]:
    columns = (told.column(name).to_pylist() for name in ("entity_id", "position__y", "commit"))
    return {"rows": [list(row) for row in zip(*columns, strict=True)]}
