"""Moves for tests of storages that hold nothing but document stores, on any stores, in one process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, NoReturn

from tests.support.documents import LINEAGE, NOW, REF
from tests.support.histories import Past
from tests.support.sessions import MemoryObjects

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.kernel.component import Registry
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId, Instant, RunId, StorageId, Token
from perdure.runtime.cold import Cold
from perdure.runtime.documents.store import OpenStore, StoreMeans
from perdure.runtime.inventory import Progress, Side, silent
from perdure.runtime.migrate import Mover
from perdure.runtime.read import Reader
from perdure.runtime.worlds import Worlds

HERE = REF.storage
THERE = StorageId("there")
ARRIVED = DocumentStoreRef(THERE, REF.store)
MOVE = "move"


class NoTables:
    """The tables of a storage without worlds."""

    def names(self) -> list[str]:
        return []


class NamedObjects(MemoryObjects):
    """Objects in a dictionary, which can be listed."""

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.held if name.startswith(prefix))


class End:
    """One end of a move: a storage in the hand of a process of its own."""

    def __init__(
        self,
        storage: StorageId,
        records: Store | None = None,
        *,
        now: Callable[[], Instant] = lambda: NOW,
        objects: NamedObjects | None = None,
    ) -> None:
        numbers = itertools.count(1)
        self.storage = storage
        self.records = MemoryStore() if records is None else records

        def new_token() -> Token:
            return Token(f"{storage}-{id(self)}-{next(numbers)}")

        self.authority = Authority(self.records, now=now, new_token=new_token)
        self.means = StoreMeans(self.authority, now, new_token, asyncio.sleep)
        self.objects = NamedObjects() if objects is None else objects

    @property
    def side(self) -> Side:
        lake: Any = NoTables()
        objects: Any = self.objects
        described = {"uri": str(self.storage), "namespace": "main", "authority": "test"}
        return Side(self.authority, self.storage, objects, lake, described)

    @property
    def cold(self) -> Cold:
        worlds = Worlds(
            self.authority,
            self.storage,
            Registry(),
            new_token=self.means.new_token,
            app="",
            new_run=lambda: RunId(""),
        )
        reader = Reader(self.authority, self.side.objects, self.side.lake, self.storage)
        return Cold(worlds, reader, self.means)

    def ref(self, name: str) -> DocumentStoreRef:
        return DocumentStoreRef(self.storage, DocumentStoreId(name))

    async def made(self, name: str = "notes") -> OpenStore:
        """Open a store that is made if it is not there."""
        ref = self.ref(name)
        await self.authority.execute(CreateDocumentStore(ref, LINEAGE).checked())
        return await OpenStore.open(self.means, ref)


def mover(here: End, there: End, migration: str = MOVE, *, progress: Progress = silent) -> Mover:
    """Return what moves one storage to another."""
    return Mover(
        here.side,
        there.side,
        migration,
        here.means.now,
        look=here.cold.seen,
        look_cold=there.cold.seen,
        pause=asyncio.sleep,
        progress=progress,
    )


async def lived(end: End, *, seed: int = 5, commits: int = 40, name: str = "notes") -> None:
    """Give a store a past: every kind of write, a table on a later version, names in many hands."""
    store = await end.made(name)
    past = Past(store, seed)
    await past.begin()
    await past.go_on(commits)
    await past.migrate()
    await past.go_on(commits // 4)
    await past.end()
    await store.close()


def stopping(stage: str, nth: int, stop: Callable[[], NoReturn]) -> Progress:
    """Return a progress that ends the process at one step of a stage."""
    numbers = itertools.count(1)

    def tell(at: str, done: int, total: int | None) -> None:
        if at == stage and next(numbers) == nth:
            stop()

    return tell


def raw(records: MemoryStore, kind: str = "d") -> dict[tuple[str, str], bytes]:
    """Return the body of each record of a kind of partition, without which storage that is of."""
    return {
        (key.partition.split("/")[-1], key.sort): stored.body
        for key, stored in records._records.items()
        if key.partition.startswith(f"{kind}/")
    }
