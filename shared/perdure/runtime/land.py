"""Landing: published rows copied into the Iceberg tables, exactly once, whoever dies on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import Final

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from perdure.kernel.errors import Corrupt, NotFound
from perdure.kernel.ids import Epoch, Holder, StorageId, TableId, Tick, Token, WorldId
from perdure.kernel.landing import (
    INTENT_RECORDS_MAX,
    FinishIntent,
    Intent,
    IntentPart,
    IntentTable,
    OpenIntent,
    ReleaseLandingFence,
    TakeLandingFence,
)
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindTables, FindWorld
from perdure.kernel.records import Manifest, Signature, TableRows, World
from perdure.lake.expire import expire
from perdure.lake.iceberg import Lake, head_of
from perdure.lake.objects import ObjectStore
from perdure.lake.scan import holds_rows
from perdure.lake.schema import schema_from_signature
from perdure.lake.segment import Origin, rows_of
from perdure.runtime.append import appended_once
from perdure.runtime.manifests import manifests_of
from perdure.runtime.ports import Executes

LEASE_MS: Final = 60_000
"""Lease of the landing fence; every intent opened or finished renews it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one intent may take; a single tick beyond them still goes, alone."""

    rows_max: int = 500_000
    bytes_max: int = 256_000_000
    ticks_max: int = 2_000
    """Ticks of one world."""

    worlds_max: int = 80


BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did: rows and files added, and how many tables, ticks, worlds they are of."""

    rows: int = 0
    files: int = 0
    tables: frozenset[TableId] = frozenset()
    ticks: int = 0
    worlds: frozenset[WorldId] = frozenset()
    failed: tuple[tuple[WorldId, Corrupt], ...] = ()
    """Worlds of which nothing could be put into an intent: the others went on."""

    def __add__(self, other: Landed) -> Landed:
        return Landed(
            self.rows + other.rows,
            self.files + other.files,
            self.tables | other.tables,
            self.ticks + other.ticks,
            self.worlds | other.worlds,
            self.failed + other.failed,
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive published ticks of one world that an intent lands."""

    world: World
    manifests: tuple[Manifest, ...]

    @property
    def part(self) -> IntentPart:
        last = self.manifests[-1]
        return IntentPart(
            world=self.world.world, first=self.manifests[0].tick, last=last.tick, seq=last.seq
        )

    def rows_of(self, table: TableId) -> list[tuple[TableRows, Origin]]:
        """Return what the manifests hold of a table, tick by tick."""
        return [
            (held, Origin(self.world.world, self.world.run, manifest.tick, manifest.token))
            for manifest in self.manifests
            for held in manifest.tables
            if held.table == table and held.rows
        ]


@dataclass(slots=True)
class _Budget:
    """What is still free in the intent that is being put together."""

    bounds: Bounds
    rows: int = 0
    bytes: int = 0
    tables: set[TableId] = field(default_factory=set)
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        records = len(self.stretches) + len(self.tables)
        return (
            self.rows >= self.bounds.rows_max
            or self.bytes >= self.bounds.bytes_max
            or len(self.stretches) >= self.bounds.worlds_max
            or records >= INTENT_RECORDS_MAX
        )

    def take(self, world: World, manifests: Sequence[Manifest]) -> None:
        """Take as many of the first ticks as fit in."""
        taken = 0
        for manifest in manifests:
            if not self._fits(manifest, is_first=not self.stretches and not taken):
                break
            taken += 1
            self.rows += sum(held.rows for held in manifest.tables)
            self.bytes += sum(held.bytes for held in manifest.tables)
            self.tables |= {held.table for held in manifest.tables if held.rows}
        if taken:
            self.stretches.append(Stretch(world, tuple(manifests[:taken])))

    def _fits(self, manifest: Manifest, *, is_first: bool) -> bool:
        tables = self.tables | {held.table for held in manifest.tables if held.rows}
        return is_first or (
            self.rows + sum(held.rows for held in manifest.tables) <= self.bounds.rows_max
            and self.bytes + sum(held.bytes for held in manifest.tables) <= self.bounds.bytes_max
            and len(self.stretches) + 1 + len(tables) <= INTENT_RECORDS_MAX
        )


@dataclass(frozen=True, slots=True)
class Landing:
    """Lands the worlds of one storage. Several may try; the fence lets one at a time."""

    authority: Executes
    objects: ObjectStore
    lake: Lake
    storage: StorageId
    claim: Callable[[], Awaitable[None]] | None = None
    """Makes sure, before a table is written, that it is this authority's to write."""

    async def land(
        self,
        worlds: Sequence[WorldId],
        *,
        holder: Holder,
        new_token: Callable[[], Token],
        bounds: Bounds = BOUNDS,
        lease_ms: int = LEASE_MS,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Landed:
        """Finish what was begun, then land what ``worlds`` have published since.

        ``go_on`` is asked before each intent is put together. ``holder`` must be this
        call's alone. Raises: FenceHeld; StaleWriter if another took over; Unavailable:
        the next call, by whomever, finishes the intent under the same batch id.
        """
        if self.claim is not None:
            await self.claim()
        grip = await self.authority.execute(TakeLandingFence(self.storage, holder, lease_ms))
        term = _Term(self, grip.epoch, lease_ms)
        landed = Landed()
        try:
            if grip.intent is not None:
                landed += await term.finish(grip.intent, await self._stretches(grip.intent))
            waiting = list(dict.fromkeys(worlds))
            while waiting and go_on():
                stretches, waiting, failed = await self._chosen(waiting, bounds)
                landed += Landed(failed=tuple(failed))
                if stretches:
                    landed += await term.land(new_token(), stretches)
            await term.trim(landed.tables)
        finally:
            await self.authority.execute(ReleaseLandingFence(self.storage, grip.epoch))
        return landed

    async def _chosen(
        self, waiting: list[WorldId], bounds: Bounds
    ) -> tuple[list[Stretch], list[WorldId], list[tuple[WorldId, Corrupt]]]:
        """Return the next intent's ticks, the worlds to ask again after it, and those not to."""
        budget = _Budget(bounds)
        rest = list(waiting)
        again: list[WorldId] = []
        failed: list[tuple[WorldId, Corrupt]] = []
        while rest and not budget.is_spent:
            try:
                state = await self.authority.execute(FindWorld(WorldRef(self.storage, rest[0])))
                first = Tick(state.landed + 1)
                last = Tick(min(state.published, state.landed + bounds.ticks_max))
                manifests = await self._manifests(state.world, first, last)
            except Corrupt as error:
                failed.append((rest.pop(0), error))
                continue
            before = len(budget.stretches)
            budget.take(state.world, manifests)
            taken = budget.stretches[before:]
            if first <= last and not taken:
                break  # no room left for a tick of this world: it begins the next intent
            if taken and taken[0].manifests[-1].tick < state.published:
                again.append(rest[0])
            del rest[0]
        return budget.stretches, rest + again, failed

    async def _stretches(self, intent: Intent) -> list[Stretch]:
        """Return the ticks of an intent that another opened."""
        found = []
        for part in intent.parts:
            state = await self.authority.execute(FindWorld(WorldRef(self.storage, part.world)))
            manifests = await self._manifests(state.world, Tick(part.first), Tick(part.last))
            found.append(Stretch(state.world, tuple(manifests)))
        return found

    async def _manifests(self, world: World, first: Tick, last: Tick) -> list[Manifest]:
        return await manifests_of(self.authority, world.ref.partition, first, last)


@dataclass(frozen=True, slots=True)
class _Term:
    """One holder's time at the landing fence."""

    landing: Landing
    epoch: Epoch
    lease_ms: int

    async def land(self, batch: Token, stretches: list[Stretch]) -> Landed:
        """Open an intent for ``stretches`` and carry it out."""
        rows: dict[TableId, int] = {}
        for stretch in stretches:
            for manifest in stretch.manifests:
                for held in manifest.tables:
                    if held.rows:
                        rows[held.table] = rows.get(held.table, 0) + held.rows
        signatures = await self._signatures(sorted(rows))
        tables = []
        for table, signature in signatures.items():
            opened = await asyncio.to_thread(self.landing.lake.created, signature)
            tables.append(IntentTable(table=table, parent=head_of(opened), rows=rows[table]))
        intent = await self.landing.authority.execute(
            OpenIntent(
                self.landing.storage,
                self.epoch,
                self.lease_ms,
                batch,
                tuple(stretch.part for stretch in stretches),
                tuple(tables),
            )
        )
        return await self.finish(intent, stretches)

    async def finish(self, intent: Intent, stretches: list[Stretch]) -> Landed:
        """Bring an open intent into every table, then move the watermarks."""
        signatures = await self._signatures([each.table for each in intent.tables])
        files = 0
        for each in intent.tables:
            files += await self._appended(intent, each, signatures[each.table], stretches)
        await self.landing.authority.execute(
            FinishIntent(self.landing.storage, self.epoch, self.lease_ms, intent)
        )
        return Landed(
            rows=sum(each.rows for each in intent.tables),
            files=files,
            tables=frozenset(each.table for each in intent.tables),
            ticks=sum(part.last - part.first + 1 for part in intent.parts),
            worlds=frozenset(part.world for part in intent.parts),
        )

    async def trim(self, tables: Iterable[TableId]) -> None:
        """Expire old snapshots of tables, while the fence is held and no intent is open."""
        for signature in (await self._signatures(sorted(tables))).values():
            opened = await asyncio.to_thread(self.landing.lake.created, signature)
            await asyncio.to_thread(expire, opened)

    async def _signatures(self, tables: Sequence[TableId]) -> dict[TableId, Signature]:
        find = FindTables(self.landing.storage, tuple(tables))
        found = await self.landing.authority.execute(find)
        return {table: signature for table, (signature, _) in found.items()}

    async def _appended(
        self, intent: Intent, wanted: IntentTable, signature: Signature, stretches: list[Stretch]
    ) -> int:
        """Append a table's rows unless they are there already; count the files added."""
        sources = [
            source
            for stretch in sorted(stretches, key=lambda each: each.world.world)
            for source in stretch.rows_of(wanted.table)
        ]

        def is_there(table: Table) -> bool:
            _, origin = sources[0]
            return holds_rows(table, origin.world, origin.tick, origin.token)

        return await appended_once(
            partial(self.landing.lake.created, signature),
            intent.batch,
            wanted.parent,
            rows=partial(self._rows, wanted, signature, sources),
            is_there=is_there,
        )

    async def _rows(
        self,
        wanted: IntentTable,
        signature: Signature,
        sources: list[tuple[TableRows, Origin]],
    ) -> pa.Table:
        """Return all rows of a batch for one table, sorted by (world, tick, entity)."""
        schema = schema_from_signature(signature)

        async def fetched(held: TableRows, origin: Origin) -> pa.Table:
            try:
                rows = await rows_of(held, origin, schema, self.landing.objects)
            except NotFound as error:
                raise Corrupt(expected=f"segment {held.segment}", found="none") from error
            return _by_entity(rows)

        rows = pa.concat_tables(await asyncio.gather(*starmap(fetched, sources)))
        if rows.num_rows != wanted.rows:
            raise Corrupt(
                expected=f"{wanted.rows} rows for table {wanted.table}", found=str(rows.num_rows)
            )
        return rows.combine_chunks()


def _by_entity(rows: pa.Table) -> pa.Table:
    entities = rows.column("entity_id").to_numpy()
    if bool(np.all(entities[:-1] <= entities[1:])):
        return rows
    return rows.take(np.argsort(entities, kind="stable"))
