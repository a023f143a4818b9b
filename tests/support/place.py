"""A place with everything a world needs to be published, landed and read."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from tests.support.authority import FakeAuthority
from tests.support.worlds import STORAGE, Published, signature_of

from perdure.kernel.ids import Holder, Token, WorldId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.land import Landed, Landing
from perdure.runtime.read import Reader

_PARTS = ("authority", "objects", "lake")


class Place:
    """A root directory with an authority, objects and a catalog; its parts may be replaced."""

    def __init__(self, root: Path, catalog: Catalog | None = None) -> None:
        self.root = root
        self.authority = FakeAuthority()
        self.objects = LocalObjects(root / "objects")
        self.catalog: Any = catalog or open_local(root)
        self.lake = Lake(self.catalog, "main")
        self._tokens = count(1)

    def world(self, name: str = "w", **options: Any) -> Published:
        return Published(self.authority, self.objects, WorldId(name), **options)

    def land(self, *worlds: str, holder: str | None = None, **options: Any) -> Landed:
        """Land the worlds, in another's name and through other parts if they are given."""
        landing = Landing(
            options.pop("authority", self.authority),
            options.pop("objects", self.objects),
            options.pop("lake", Lake(self.catalog, "main")),
            STORAGE,
        )
        return asyncio.run(
            landing.land(
                [WorldId(each) for each in worlds or ("w",)],
                holder=Holder(holder or f"holder-{next(self._tokens)}"),
                new_token=lambda: Token(f"batch-{next(self._tokens)}"),
                **options,
            )
        )

    def rows(self, *models: type) -> pa.Table:
        """Return what lies in the table of an archetype."""
        table = Lake(self.catalog, "main").opened(signature_of(*models))
        assert table is not None
        return table.scan().to_arrow()

    def keys(self, *models: type) -> Counter[tuple[str, int, int]]:
        """Count the rows of a table by world, tick and entity."""
        columns = self.rows(*models).select(["world_id", "tick", "entity_id"]).to_pydict()
        return Counter(zip(*columns.values(), strict=True))

    def reader(self, **parts: Any) -> Reader:
        """Return a reader, of other parts if they are given."""
        held = {name: parts.get(name, getattr(self, name)) for name in _PARTS}
        return Reader(**held, storage=STORAGE)

    def query(self, *components: Any, world: str = "w", **options: Any) -> pa.Table:
        """Return what a reader finds; a state is the same to one that reads no landed segment."""
        parts = {name: options.pop(name) for name in _PARTS if name in options}
        reader = self.reader(**parts)
        rows = asyncio.run(reader.query(WorldId(world), components, **options))
        if not isinstance(options.get("ticks"), range):
            tables = replace(reader, segment_bytes_max=-1)
            assert rows.equals(asyncio.run(tables.query(WorldId(world), components, **options)))
        return rows

    def latitudes(self, **options: Any) -> list[tuple[int, int, float]]:
        """Return tick, entity and latitude of the rows a query of positions gives."""
        rows = self.query("Position", **options)
        columns = ("tick", "entity_id", "position__latitude")
        return [tuple(row[each] for each in columns) for row in rows.to_pylist()]
