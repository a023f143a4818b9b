"""What outlives a process: records, objects and tables; and the lives that are led on them."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tests.runtime.harness import Clock, no_pause, runs, tokens
from tests.support.steps import SteppedObjects, SteppedStore, Steps, dying_catalog

from perdure import App
from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Holder, StorageId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects, not_found
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader
from perdure.runtime.storage import Storage
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

STORAGE = StorageId("storage")

_lives = itertools.count(1)


class Ground(Protocol):
    """One storage, as it lies there while nobody works on it."""

    clock: Clock
    storage: StorageId
    is_bare: ClassVar[bool]
    """Whether a copy has nothing on it."""

    @property
    def root(self) -> Path:
        """The directory of its tables."""
        ...

    @property
    def objects(self) -> Any: ...

    async def opened(self) -> Store:
        """Open the records."""
        ...


class PaperObjects:
    """Objects in a dict."""

    def __init__(self, held: dict[str, bytes] | None = None) -> None:
        self.held = dict(held or {})

    async def put(self, name: str, data: bytes | memoryview) -> None:
        if self.held.setdefault(name, bytes(data)) != bytes(data):
            raise Conflict(expected=f"the same bytes as before under {name}", found="other bytes")

    async def get(self, name: str) -> bytes:
        if name not in self.held:
            raise not_found(name)
        return self.held[name]

    async def delete(self, name: str) -> None:
        self.held.pop(name, None)

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.held if name.startswith(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        return {name: len(self.held[name]) for name in await self.names(prefix)}


@dataclass
class PaperGround:
    """Records and objects in memory, tables in files; a copy costs little."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    store: MemoryStore = field(default_factory=MemoryStore)
    objects: PaperObjects = field(default_factory=PaperObjects)
    storage: StorageId = STORAGE
    beyond: PaperGround | None = None
    """Where the storage moves to."""

    is_bare: ClassVar[bool] = False

    async def opened(self) -> Store:
        return self.store.reopened()

    def elsewhere(self) -> PaperGround:
        """Return where the storage moves to; nothing is there before it does."""
        if self.beyond is None:
            root = self.root / "beyond"
            root.mkdir()
            self.beyond = PaperGround(root, self.clock, storage=StorageId("elsewhere"))
        return self.beyond

    def copy(self, root: Path) -> PaperGround:
        """Return the same once more, in another directory. A storage that moved is not copied."""
        assert self.beyond is None, "the move is the last act"
        shutil.copytree(self.root, root)
        held = MemoryStore()
        held._records.update(self.store._records)
        held._sorts.update({each: list(sorts) for each, sorts in self.store._sorts.items()})
        return PaperGround(root, _set(self.clock), held, PaperObjects(self.objects.held))


@dataclass
class FileGround:
    """Records in SQLite, objects and tables in files: what a process can be killed on."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    storage: StorageId = STORAGE
    beyond: FileGround | None = None
    is_bare: ClassVar[bool] = False

    @property
    def objects(self) -> LocalObjects:
        return LocalObjects(self.root / "objects")

    async def opened(self) -> Store:
        return await SqliteStore.open(self.root / "store.db")

    def copy(self, root: Path) -> FileGround:
        """Return the same once more, in another directory."""
        shutil.copytree(self.root, root)
        return FileGround(root, _set(self.clock))

    def elsewhere(self) -> FileGround:
        """Return where the storage moves to; nothing is there before it does."""
        if self.beyond is None:
            root = self.root.with_name(f"{self.root.name} beyond")
            root.mkdir(exist_ok=True)
            self.beyond = FileGround(root, self.clock, StorageId("elsewhere"))
        return self.beyond


def _set(clock: Clock) -> Clock:
    found = Clock()
    found.time = clock.time
    return found


@contextlib.asynccontextmanager
async def alive(
    ground: Ground, app: App, steps: Steps | None = None, *, lease_ms: int = 60_000
) -> AsyncIterator[Storage]:
    """Live on a ground: a process of its own, which knows nothing but what lies there."""
    steps = Steps() if steps is None else steps
    life = f"life{next(_lives)}-"
    raw = await ground.opened()
    objects = SteppedObjects(ground.objects, steps)
    catalog = open_local(ground.root, dying_catalog(steps))
    new_token, now = tokens(life), ground.clock
    store = ArchivedStore(SteppedStore(raw, steps), lambda: objects)
    authority = Authority(store, now, new_token, chance=lambda: 0.5, pause=no_pause)
    lake = Lake(catalog, "main")
    means = Means(authority, objects, app, now, new_token, no_pause)
    try:
        yield Storage(
            worlds=Worlds(
                authority,
                ground.storage,
                app.registry,
                new_token=new_token,
                new_run=runs(),
                pause=no_pause,
            ),
            ticker=Ticker(means, Holder(f"{life}writer"), lease_ms=lease_ms, on_failure="continue"),
            reader=Reader(authority, objects, lake, ground.storage, app.registry),
            landing=Landing(authority, objects, lake, ground.storage),
            now=now,
            new_token=new_token,
            document_stores=DocumentStores(
                StoreMeans(authority, now, new_token, no_pause), ground.storage, app.name
            ),
        )
    finally:
        # Whoever is dead waits for nothing: what runs ends with its loop.
        await raw.close()
        catalog.close()
