"""Published worlds made by hand: manifests as ticks leave them, with no tick run."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.support.authority import FakeAuthority

from perdure.kernel.component import Component
from perdure.kernel.ids import (
    Epoch,
    Instant,
    RunId,
    Seq,
    StorageId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.places import WorldRef, manifests_partition
from perdure.kernel.records import Ancestor, Head, Manifest, TableRows, World
from perdure.kernel.upkeep import Consumer
from perdure.lake.objects import ObjectStore
from perdure.lake.schema import archetype_schema, signature_record
from perdure.lake.segment import Origin, segment_bytes, segment_name, stored_rows

STORAGE = StorageId("storage")
RUN = RunId("run-1")


class Position(Component):
    latitude: float
    longitude: float


class Flight(Component):
    carrier: str
    number: int = 0


Row = Mapping[str, Any]
"""``entity_id``, perhaps ``is_active``, and values by ``component__field``."""

Changes = Mapping[tuple[type[Component], ...], Sequence[Row]]
"""Rows by archetype."""


@dataclass
class Published:
    """One world whose ticks are published by hand, as segments or inline."""

    authority: FakeAuthority
    objects: ObjectStore
    world: WorldId
    run: RunId = RUN
    lineage: tuple[Ancestor, ...] = ()
    inline: bool = True
    tick: Tick = Tick(-1)
    checkpoint: Tick = Tick(-1)
    manifests: list[Manifest] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.lineage:
            self.tick = self.lineage[-1].up_to
        self.authority.put(
            World(
                partition=self.ref.catalog,
                storage=STORAGE,
                world=self.world,
                name=self.world,
                kind="",
                run=self.run,
                parent=self.lineage[-1].world if self.lineage else None,
                lineage=self.lineage,
                created_at=Instant(0),
            ),
            self.head,
        )

    @property
    def ref(self) -> WorldRef:
        return WorldRef(STORAGE, self.world)

    @property
    def head(self) -> Head:
        return Head(partition=self.ref.partition, published=self.tick, checkpoint=self.checkpoint)

    def publish(self, changes: Changes | None = None, state: Changes | None = None) -> Manifest:
        """Publish the next tick with these rows, and with a checkpoint if ``state`` is given."""
        self.tick = Tick(self.tick + 1)
        origin = Origin(self.world, self.run, self.tick, Token(f"{self.world}-{self.tick}"))
        tables = self._stored(changes or {}, origin)
        checkpoint = None if state is None else self._stored(state, origin, is_checkpoint=True)
        if checkpoint is not None:
            self.checkpoint = self.tick
        manifest = Manifest(
            partition=manifests_partition(self.ref.partition),
            tick=self.tick,
            token=origin.token,
            epoch=Epoch(1),
            seq=Seq(self.tick + 10),
            drained_seq=Seq(self.tick + 9),
            at=Instant(self.tick * 60_000),
            previous="",
            tables=tables,
            checkpoint=checkpoint,
        )
        self.authority.put(manifest, self.head)
        self.manifests.append(manifest)
        return manifest

    def landed_tick(self) -> int:
        mark = self.authority.held(
            Consumer(partition=self.ref.partition, name="landing", seq=Seq(0)).key
        )
        return -1 if mark is None else mark.tick

    def _stored(
        self, changes: Changes, origin: Origin, *, is_checkpoint: bool = False
    ) -> tuple[TableRows, ...]:
        held = []
        for models, rows in changes.items():
            signature = signature_record(self.ref.catalog, [m.component for m in models])
            self.authority.put(signature)
            table = table_of(models, rows, origin)
            if self.inline:
                held.append(
                    asyncio.run(
                        stored_rows(
                            signature.table,
                            table,
                            world=self.ref.partition,
                            origin=origin,
                            objects=self.objects,
                            is_checkpoint=is_checkpoint,
                        )
                    )
                )
            else:
                held.append(
                    self._segment(signature.table, table, origin, is_checkpoint=is_checkpoint)
                )
        return tuple(held)

    def _segment(self, id, table: pa.Table, origin: Origin, *, is_checkpoint: bool) -> TableRows:
        name = segment_name(
            self.ref.partition, origin.tick, origin.token, id, is_checkpoint=is_checkpoint
        )
        data = segment_bytes(table)
        asyncio.run(self.objects.put(name, data))
        return TableRows(
            table=id,
            rows=table.num_rows,
            segment=name,
            bytes=data.nbytes,
            sha256=hashlib.sha256(data).hexdigest(),
        )


def table_of(models: Sequence[type[Component]], rows: Sequence[Row], origin: Origin) -> pa.Table:
    """Spell rows as a tick would hand them to its segment."""
    schema = archetype_schema([model.component for model in models])
    base = {
        "world_id": origin.world,
        "run_id": origin.run,
        "tick": origin.tick,
        "commit": origin.token,
        "is_active": True,
    }
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=schema)


def position(entity: int, latitude: float, longitude: float = 0.0, **more: Any) -> Row:
    return {
        "entity_id": entity,
        "position__latitude": latitude,
        "position__longitude": longitude,
        **more,
    }


def gone(entity: int) -> Row:
    return {"entity_id": entity, "is_active": False}


def signature_of(*models: type[Component]):
    """Return the catalog record of an archetype."""
    ref = WorldRef(STORAGE, WorldId("any"))
    return signature_record(ref.catalog, [model.component for model in models])
