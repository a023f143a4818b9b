"""Stored rows: what one tick wrote, from its manifest, its segments, or the tables they went to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.errors import Corrupt, NotFound, PerdureError
from perdure.kernel.ids import StorageId, TableId, Tick, WorldId
from perdure.kernel.places import catalog_partition
from perdure.kernel.records import (
    Manifest,
    Signature,
    TableRows,
    World,
    manifest_key,
    signature_key,
)
from perdure.lake.archetype import Shape
from perdure.lake.iceberg import Lake
from perdure.lake.objects import ObjectStore
from perdure.lake.scan import landed_rows
from perdure.lake.schema import schema_from_signature, signature_record
from perdure.lake.segment import Origin, rows_of
from perdure.lake.state import Rows, WorldState, rebuilt, shape_from_signature
from perdure.runtime.findings import Finding, inspected
from perdure.runtime.plan import Part
from perdure.runtime.ports import Executes

WINDOW_TICKS = 64
"""Ticks whose landed rows are scanned together."""

WALK_MANIFESTS = 32


@dataclass(slots=True)
class StoredRows:
    """Reads rows of single ticks, and remembers what a tick's neighbours will ask for too."""

    authority: Executes
    objects: ObjectStore
    lake: Lake
    storage: StorageId
    findings: list[Finding] = field(default_factory=list)
    """What was found wrong with signatures."""

    _tables: dict[TableId, tuple[Signature, Shape] | None] = field(default_factory=dict)
    _windows: dict[tuple[WorldId, TableId, int], pa.Table | None] = field(default_factory=dict)

    async def table(self, table: TableId) -> tuple[Signature, Shape] | None:
        """Return what a table holds, None if its catalog record cannot be trusted."""
        if table not in self._tables:
            key = signature_key(catalog_partition(self.storage), table)
            (held,) = await inspected(self.authority, key.partition, [key])
            self._tables[table] = self._checked(table, held.record, held.flaw)
        return self._tables[table]

    def known_tables(self) -> list[TableId]:
        """Return the tables that were asked for so far and can be trusted."""
        return [table for table, known in self._tables.items() if known is not None]

    def _checked(
        self, table: TableId, signature: Signature | None, flaw: str | None
    ) -> tuple[Signature, Shape] | None:
        if signature is not None:
            try:
                shape = shape_from_signature(signature)
                known = signature_record(signature.partition, shape.types)
            except (PerdureError, LookupError, ValueError) as error:
                flaw = str(error)
            else:
                if (signature.table, *signature.logical) == (table, *known.logical) and (
                    known.table == table
                ):
                    return signature, shape
                flaw = f"columns of table {known.table}"
        self.findings.append(
            Finding("signature", f"signature {table}", f"columns of table {table}", flaw or "none")
        )
        return None

    async def held(self, world: World, manifest: Manifest, held: TableRows) -> pa.Table | None:
        """Return the rows that a manifest holds or names, None if its object is gone.

        Raises: Corrupt.
        """
        known = await self.table(held.table)
        if known is None:
            raise Corrupt(expected=f"a signature of table {held.table}", found="none to trust")
        origin = Origin(world.world, world.run, manifest.tick, manifest.token)
        schema = schema_from_signature(known[0])
        try:
            rows = await rows_of(held, origin, schema, self.objects)
        except NotFound:
            return None
        if rows.num_rows != held.rows:
            raise Corrupt(expected=f"{held.rows} rows", found=str(rows.num_rows))
        return rows

    async def landed(self, world: World, table: TableId, tick: Tick, last: Tick) -> pa.Table | None:
        """Return a tick's rows in an Iceberg table, None if there is no such table.

        ``last`` is the watermark: nothing behind it is looked at.
        """
        known = await self.table(table)
        if known is None:
            return None
        window = tick // WINDOW_TICKS
        key = (world.world, table, window)
        if key not in self._windows:
            for old in [each for each in self._windows if each[2] != window]:
                del self._windows[old]
            self._windows[key] = await asyncio.to_thread(
                self._scanned, world, known[0], window * WINDOW_TICKS, last
            )
        rows = self._windows[key]
        return None if rows is None else rows.filter(pc.equal(rows.column("tick"), tick))

    def _scanned(
        self, world: World, signature: Signature, first: int, last: Tick
    ) -> pa.Table | None:
        opened = self.lake.opened(signature)
        if opened is None:
            return None
        return landed_rows(
            opened,
            world=world.world,
            run=world.run,
            first=Tick(first),
            last=Tick(min(last, first + WINDOW_TICKS - 1)),
            schema=schema_from_signature(signature),
        )

    async def of_tick(self, part: Part, manifest: Manifest) -> list[Rows] | None:
        """Return all rows of a tick, wherever they lie; None if they cannot be had."""
        found: list[Rows] = []
        for held in manifest.tables:
            try:
                rows = await self.held(part.world, manifest, held)
            except Corrupt:
                rows = None
            if rows is None and manifest.tick <= part.landed:
                rows = await self.landed(part.world, held.table, manifest.tick, part.landed)
            known = await self.table(held.table)
            if rows is None or known is None:
                return None
            found.append(Rows(known[1], rows))
        return found

    async def checkpoint(self, part: Part, manifest: Manifest) -> list[Rows] | None:
        """Return the rows of a tick's checkpoint, None if there is none that can be read."""
        found: list[Rows] = []
        for held in manifest.checkpoint or ():
            try:
                rows = await self.held(part.world, manifest, held)
            except Corrupt:
                return None
            known = await self.table(held.table)
            if rows is None or known is None:
                return None
            found.append(Rows(known[1], rows))
        return found if manifest.checkpoint is not None else None

    async def state_at(self, parts: Sequence[Part], tick: Tick) -> WorldState | None:
        """Return the state after a tick, None if it cannot be had: a checkpoint and rows after."""
        later: list[tuple[Part, Manifest]] = []
        for part in reversed([part.cut(0, tick) for part in parts]):
            at = part.last
            while at >= part.first:
                ticks = range(at, max(part.first, at - WALK_MANIFESTS + 1) - 1, -1)
                for manifest in await self._manifests(part, ticks):
                    if manifest is None:
                        return None
                    base = await self.checkpoint(part, manifest)
                    if base is not None:
                        return await self._folded([base], reversed(later))
                    later.append((part, manifest))
                at = Tick(ticks[-1] - 1)
        return await self._folded([], reversed(later))

    async def _manifests(self, part: Part, ticks: Iterable[int]) -> list[Manifest | None]:
        world = part.world.ref.partition
        keys = [manifest_key(world, Tick(tick)) for tick in ticks]
        return [held.record for held in await inspected(self.authority, world, keys)]

    async def _folded(
        self, base: list[list[Rows]], later: Iterable[tuple[Part, Manifest]]
    ) -> WorldState | None:
        ticks = list(base)
        for part, manifest in later:
            rows = await self.of_tick(part, manifest)
            if rows is None:
                return None
            ticks.append(rows)
        return rebuilt(ticks)
