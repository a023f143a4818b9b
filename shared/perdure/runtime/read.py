"""Reading: the state of a world at a tick, or the rows of many, from tables and segments alike."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from perdure.kernel import limits
from perdure.kernel.component import Registry
from perdure.kernel.errors import Corrupt, InvalidFilter, InvalidValue, NotFound, UnknownComponent
from perdure.kernel.ids import NO_TICK, EntityId, StorageId, TableId, Tick, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindManifests, FindTables, FindWorld, WorldState
from perdure.kernel.records import Manifest, TableRows
from perdure.lake.iceberg import Lake
from perdure.lake.latest import latest, latest_by_tick
from perdure.lake.objects import ObjectStore
from perdure.lake.scan import landed_rows
from perdure.lake.schema import schema_from_signature
from perdure.lake.segment import Origin, rows_of, with_origin
from perdure.lake.where import filter_of
from perdure.runtime.manifests import manifests_of
from perdure.runtime.plan import (
    Asked,
    Covering,
    Part,
    check_begins,
    coverings,
    lineage_parts,
    wanted_ticks,
)
from perdure.runtime.ports import Executes

PLANS_MAX: Final = 4
"""Times a query is planned again because what it was about to read has moved."""

SEGMENTS_READ_MAX: Final = 32
SEGMENT_BYTES_MAX: Final = 8_000_000
"""Landed ticks, and bytes of their segments, up to which a state is read from these and not from
tables: about what opening a table costs."""

CHECKPOINT_PAGE: Final = 100
CHECKPOINT_WALK_MAX: Final = 1_000
"""Manifests looked through for a checkpoint; without one, rows are read from the start."""


class _Moved(Exception):
    """A segment or a snapshot is gone: its rows are somewhere else by now."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Answers queries of any process that knows the storage, with no class and no world open."""

    authority: Executes
    objects: ObjectStore
    lake: Lake
    storage: StorageId
    registry: Registry = field(default_factory=Registry)
    """What the application knows; a process that knows nothing can read all that has rows."""

    segment_bytes_max: int = SEGMENT_BYTES_MAX
    """Bytes of landed segments that a state may be read from."""

    async def query(
        self,
        world: WorldId,
        components: Sequence[Asked],
        *,
        ticks: Tick | range | None = None,
        entity_ids: Sequence[EntityId] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return rows of every archetype that has all ``components``.

        A tick (None: the published one) gives the state at it: one row per living entity,
        by entity, and base columns that name that tick. A range gives the rows its ticks
        wrote, by (tick, entity): what changed, and an inactive row where an entity left.
        Columns: base columns, then the components' in the order asked for.
        Raises: NotFound, NotPublished, UnknownComponent, InvalidFilter, InvalidValue,
        SchemaMismatch, Corrupt.
        """
        _check(entity_ids, limit)
        # The world first: a tick's tables are known before it is published, so what is listed
        # afterwards has every table of the ticks that are read.
        state = await self._found(world)
        wanted = wanted_ticks(state, ticks)
        covers = await coverings(self.authority, self.storage, components, self.registry)
        filters = _filters(where, covers)
        answers = [
            await self._answer(state, cover, wanted, entity_ids, chosen)
            for cover, chosen in zip(covers, filters, strict=True)
            if where is None or chosen is not None
        ]
        found = [rows for rows in answers if rows.num_rows]
        if len(found) > 1:
            raise UnknownComponent(
                expected="components of one schema in these ticks; say Name@fingerprint",
                found=f"rows of {len(found)} schemas",
            )
        rows = found[0] if found else answers[0]
        return rows if limit is None else rows.slice(0, limit)

    async def _found(self, world: WorldId) -> WorldState:
        return await self.authority.execute(FindWorld(WorldRef(self.storage, world)))

    async def _answer(
        self,
        state: WorldState,
        cover: Covering,
        wanted: Tick | range,
        entity_ids: Sequence[EntityId] | None,
        chosen: pc.Expression | None,
    ) -> pa.Table:
        moved: _Moved | None = None
        for _ in range(PLANS_MAX):
            if moved is not None:
                state = await self._found(state.world.world)
            parts = await lineage_parts(self.authority, state)
            check_begins(parts, wanted)
            attempt = _Attempt(self, cover, _narrow(cover.schema, wanted), entity_ids, {})
            try:
                if isinstance(wanted, range):
                    rows = await attempt.trajectories(parts, wanted)
                else:
                    rows = await attempt.state_at(parts, wanted)
            except _Moved as error:
                moved = error
                continue
            return rows if chosen is None else rows.filter(chosen)
        raise Corrupt(
            expected=f"the rows that manifests of world {state.world.world!r} name",
            found=str(moved),
        ) from moved


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One reading under one plan: watermarks first, then the tables, then the rest."""

    reader: Reader
    cover: Covering
    schema: pa.Schema
    """Columns that are read; a state's implied ones are those of its tick, not of its rows."""

    entity_ids: Sequence[EntityId] | None
    opened: dict[TableId, Table | None]

    async def trajectories(self, parts: list[Part], ticks: range) -> pa.Table:
        found = [self._empty()]
        for part in parts:
            piece = part.cut(ticks.start, ticks.stop - 1)
            if not piece.is_empty:
                found += await self._rows(piece)
        return await asyncio.to_thread(latest_by_tick, pa.concat_tables(found))

    async def state_at(self, parts: list[Part], tick: Tick) -> pa.Table:
        pieces = [part for part in (each.cut(0, tick) for each in parts) if not part.is_empty]
        manifests = await self._manifests(pieces[-1].cut(tick, tick))
        world = pieces[-1].world
        origin = Origin(world.world, world.run, tick, manifests[0].token)
        found = [self._empty()]
        for piece in reversed(pieces):
            base = await self._checkpoint(piece)
            if base is not None:
                found += base.rows
                found += await self._since(piece.cut(base.tick + 1, tick))
                break
            found += await self._since(piece)
        return await asyncio.to_thread(self._state, pa.concat_tables(found), origin)

    def _state(self, rows: pa.Table, origin: Origin) -> pa.Table:
        living = latest(rows)
        living = living.filter(living.column("is_active"))
        return with_origin(living, origin, self.cover.schema)

    async def _since(self, part: Part) -> list[pa.Table]:
        """Return all rows of a part: from its own segments while they are there and few.

        What a state needs beside its checkpoint was written lately, and is read in the time
        that a table takes to be opened; a table has more to read, the older it is.
        """
        if part.last - part.first < SEGMENTS_READ_MAX and part.landed >= part.first:
            held = [(m, rows) for m in await self._manifests(part) for rows in m.tables]
            if sum(rows.bytes for _, rows in held) <= self.reader.segment_bytes_max:
                # Trimmed or damaged: the tables have all that has landed.
                with suppress(_Moved, Corrupt):
                    return await self._held(part, held)
        return await self._rows(part)

    async def _rows(self, part: Part) -> list[pa.Table]:
        """Return all rows of a part: landed ones from the tables, later ones from segments."""
        if part.is_empty:
            return []
        landed, later = part.cut(0, part.landed), part.cut(part.landed + 1, part.last)
        found = [] if landed.is_empty else await self._landed(landed)
        if not later.is_empty:
            held = [(m, rows) for m in await self._manifests(later) for rows in m.tables]
            found += await self._held(later, held)
        return found

    async def _landed(self, part: Part) -> list[pa.Table]:
        await self._open()

        def scanned(table: Table) -> pa.Table:
            try:
                return landed_rows(
                    table,
                    world=part.world.world,
                    run=part.world.run,
                    first=part.first,
                    last=part.last,
                    schema=self.schema,
                    entity_ids=self.entity_ids,
                )
            except FileNotFoundError as error:
                raise _Moved(f"a file of table {table.name()} that is gone") from error

        tables = [table for table in self.opened.values() if table is not None]
        found = [await asyncio.to_thread(scanned, table) for table in tables]
        return [self._chosen(rows) for rows in found]

    async def _open(self) -> None:
        """Open the tables, after the watermark was read: they hold at least what it says."""
        if self.opened:
            return
        find = FindTables(self.reader.storage, tuple(self.cover.tables))
        marks = await self.reader.authority.execute(find)
        for table, (signature, landed) in marks.items():
            opened = await asyncio.to_thread(self.reader.lake.opened, signature)
            if opened is None and landed is not None:
                raise Corrupt(
                    expected=f"Iceberg table {table} with {landed.rows} landed rows",
                    found="no such table",
                )
            self.opened[table] = opened

    async def _held(self, part: Part, held: Sequence[tuple[Manifest, TableRows]]) -> list[pa.Table]:
        """Return the rows that manifests hold for the covering tables."""
        world = part.world

        async def fetched(manifest: Manifest, rows: TableRows) -> pa.Table:
            origin = Origin(world.world, world.run, manifest.tick, manifest.token)
            schema = schema_from_signature(self.cover.tables[rows.table])
            try:
                found = await rows_of(rows, origin, schema, self.reader.objects)
            except NotFound as error:
                raise _Moved(f"segment {rows.segment} that is gone") from error
            return self._chosen(found.select(self.schema.names))

        wanted = [each for each in held if each[1].table in self.cover.tables and each[1].rows]
        return await asyncio.gather(*starmap(fetched, wanted))

    async def _manifests(self, part: Part) -> list[Manifest]:
        partition = part.world.ref.partition
        return await manifests_of(self.reader.authority, partition, part.first, part.last)

    async def _checkpoint(self, part: Part) -> _Base | None:
        """Return the last checkpoint of a part that can still be read."""
        at, walked = part.last, 0
        if part.checkpoint == NO_TICK:
            return None
        at = min(part.checkpoint, at)
        while at >= part.first and walked < CHECKPOINT_WALK_MAX:
            limit = 1 if at == part.checkpoint else CHECKPOINT_PAGE
            find = FindManifests(
                part.world.ref.partition, part.first, at, descending=True, limit=limit
            )
            page = await self.reader.authority.execute(find)
            for manifest in page:
                if manifest.checkpoint is None:
                    continue
                held = [(manifest, rows) for rows in manifest.checkpoint]
                try:
                    return _Base(manifest.tick, await self._held(part, held))
                except _Moved:
                    continue  # thinned out: an older one, and more rows, say the same
            at = Tick(page[-1].tick - 1)
            walked += len(page)
        return None

    def _chosen(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the entities asked for."""
        if self.entity_ids is None:
            return rows
        wanted = pa.array(self.entity_ids, pa.int64())
        return rows.filter(pc.is_in(rows.column("entity_id"), value_set=wanted))

    def _empty(self) -> pa.Table:
        return self.schema.empty_table()


def _check(entity_ids: Sequence[EntityId] | None, limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidValue(expected="a limit from 0 upwards", found=str(limit))
    for each in entity_ids or ():
        if not 0 <= each <= limits.INTEGER_MAX:
            raise InvalidValue(expected="entity ids of 64 bits from 0 upwards", found=str(each))


def _filters(where: str | None, covers: Sequence[Covering]) -> list[pc.Expression | None]:
    """Return the filter for each covering; None where the columns do not have what it names."""
    if where is None:
        return [None] * len(covers)
    filters: list[pc.Expression | None] = []
    refused: InvalidFilter | None = None
    for cover in covers:
        try:
            filters.append(filter_of(where, cover.schema))
        except InvalidFilter as error:
            filters.append(None)
            refused = error
    if refused is not None and not any(each is not None for each in filters):
        raise refused
    return filters


def _narrow(schema: pa.Schema, wanted: Tick | range) -> pa.Schema:
    implied = () if isinstance(wanted, range) else ("world_id", "run_id", "commit")
    return pa.schema([field for field in schema if field.name not in implied])


@dataclass(frozen=True, slots=True)
class _Base:
    """A checkpoint: the tick it is of, and its rows."""

    tick: Tick
    rows: list[pa.Table]
