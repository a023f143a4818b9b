"""Operations on local storage: syncs, files and requests of each, counted, the same on every machine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.bench import STORAGE, Bench, Storage, moving_app, opened, spawn, wired
from tests.bench.figures import Budget, Figure, counted

from perdure.authority import system
from perdure.authority.sqlite import SqliteStore
from perdure.kernel import limits
from perdure.kernel.ids import EntityId, Holder
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader
from perdure.runtime.rebuild import rebuild

HUNDRED = 100
ENTITIES = 400
"""So many that a tick writes a segment: fewer rows ride in the manifest."""

BEHIND = 50
"""Ticks between the last checkpoint and what resumes."""

ONE_SYNC = Budget(1, of="figure")
ONE_FILE = Budget(1, of="figure")


@dataclass
class Requests:
    """A store that counts what is asked of it."""

    store: SqliteStore
    count: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def load(self, reads: Any) -> Any:
        self.count += 1
        return await self.store.load(reads)

    async def commit(self, commit: Any) -> None:
        self.count += 1
        await self.store.commit(commit)


@dataclass
class _Counts:
    """Adds up what operations do, one figure of each kind for each."""

    root: Path
    store: Requests
    syncs: list[int]
    """One entry for each file or directory that was synced; SQLite syncs by itself."""
    figures: list[Figure] = field(default_factory=list)

    def _now(self) -> tuple[int, int, int]:
        return self.store.store.syncs + len(self.syncs), self._files(), self.store.count

    async def of(
        self,
        name: str,
        work: Callable[[], Awaitable[Any]],
        *,
        times: int = 1,
        syncs: Budget | None = None,
        files: Budget | None = None,
    ) -> None:
        """Count ``times`` of the same; figures are for one."""
        before = self._now()
        for _ in range(times):
            await work()
        after = self._now()
        kinds = (("syncs", syncs), ("files", files), ("requests of the store", None))
        for (unit, budget), old, new in zip(kinds, before, after, strict=True):
            if new != old:
                value = counted((new - old) / times)
                self.figures.append(Figure(name, unit, value, budget=budget))

    def _files(self) -> int:
        objects = sum(1 for each in (self.root / "objects").rglob("*") if each.is_file())
        return objects + sum(1 for _ in self.root.rglob("*.parquet"))


async def measure(bench: Bench) -> list[Figure]:
    """Count, on SQLite and local files."""
    bench.say("operations on local storage")
    with bench.directory() as directory, _synced() as syncs:
        store = Requests(await SqliteStore.open(directory / "authority.db"))
        storage = wired(directory, store, moving_app())
        try:
            counts = _Counts(directory, store, syncs)
            await _small(counts, storage)
            await _large(counts, storage)
        finally:
            await storage.authority.close()
    bench.notes.append(
        "Syncs of SQLite are its commits: each syncs the log once. A directory that was synced"
        " counts as much as a file. Requests are loads and commits."
    )
    return counts.figures


async def _small(counts: _Counts, storage: Storage) -> None:
    """A world whose rows ride in its manifests."""
    submit = storage.worlds.submit
    await counts.of("create a world", lambda: storage.worlds.create("w", world_id="w"))
    await submit("w", [spawn(0)])
    ref, ticker = storage.worlds.ref("w"), storage.ticker()
    await ticker.tick(ref, await ticker.take(ref))  # it writes down what the catalog holds, once
    await counts.of("admit 1 command", lambda: submit("w", [spawn(1)]), syncs=ONE_SYNC)
    await counts.of("take the fence", lambda: ticker.take(ref))
    grip = await ticker.take(ref)
    await counts.of("tick that settles 1 command, fence held", lambda: ticker.tick(ref, grip))
    hundred = [spawn(number) for number in range(HUNDRED)]
    await counts.of(f"admit {HUNDRED} commands", lambda: submit("w", hundred), syncs=ONE_SYNC)
    grip = await ticker.take(ref)
    await counts.of(f"tick that settles {HUNDRED} commands", lambda: ticker.tick(ref, grip))


async def _large(counts: _Counts, storage: Storage) -> None:
    """A world that writes a segment a tick, and what comes after."""
    ticker = storage.ticker()
    ref = await storage.populated("large", ENTITIES, ticker)
    grip = await ticker.take(ref)

    async def tick() -> None:
        nonlocal grip
        _, grip = await ticker.tick(ref, grip, keep=True)

    while grip.tick % limits.CHECKPOINT_TICKS != 1:
        await tick()  # up to just behind a checkpoint
    name = f"tick of {ENTITIES} entities that all change, checkpoints included"
    await counts.of(name, tick, times=limits.CHECKPOINT_TICKS, files=ONE_FILE)
    for _ in range(BEHIND):
        await tick()
    await ticker.release(ref, grip)

    async def resume() -> None:
        async with opened(storage.root, storage.app) as cold:
            requests = Requests(cold.store)
            again = wired(storage.root, requests, storage.app)
            found = await again.authority.execute(FindWorld(ref))
            await rebuild(again.authority, again.objects, ref, found.world, found.head)
            counts.store.count += requests.count

    await counts.of(
        f"resume, {grip.tick % limits.CHECKPOINT_TICKS} ticks after a checkpoint", resume
    )
    with closing(open_local(storage.root)) as catalog:
        await _landed(counts, storage, ref, Lake(catalog, "bench"))


async def _landed(counts: _Counts, storage: Storage, ref: WorldRef, lake: Lake) -> None:
    landing = Landing(storage.authority, storage.objects, lake, STORAGE)
    reader = Reader(storage.authority, storage.objects, lake, STORAGE)

    async def land() -> None:
        await landing.land(
            [ref.world], holder=Holder(system.new_token()), new_token=system.new_token
        )

    async def query() -> None:
        await reader.query(ref.world, ["Position"], entity_ids=[EntityId(7)])

    await counts.of("query of one entity", query)
    await counts.of("land all of it", land)
    await counts.of("query of one entity, all landed", query)


@contextmanager
def _synced() -> Iterator[list[int]]:
    """Note every sync that Python asks for."""
    seen: list[int] = []
    plain, plain_data = os.fsync, os.fdatasync

    def noted(call: Callable[[int], None]) -> Callable[[Any], None]:
        def sync(file: Any) -> None:
            call(file)
            seen.append(1)

        return sync

    os.fsync, os.fdatasync = noted(plain), noted(plain_data)
    try:
        yield seen
    finally:
        os.fsync, os.fdatasync = plain, plain_data
