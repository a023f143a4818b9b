"""Rebuilding: the state of a world from its last checkpoint and the rows written since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import IN_TICK_ENTITY_FIRST, NO_TICK, EntityId, Epoch, Seq, TableId, Tick
from perdure.kernel.landing import landing_start
from perdure.kernel.places import WorldRef, manifests_partition
from perdure.kernel.reading import FindTables
from perdure.kernel.reading import WorldState as WorldAt
from perdure.kernel.records import Head, Manifest, TableRows, World
from perdure.lake.archetype import Shape
from perdure.lake.objects import ObjectStore
from perdure.lake.schema import archetype_schema
from perdure.lake.segment import Origin, rows_of
from perdure.lake.state import EMPTY, Rows, WorldState, rebuilt, shape_from_signature
from perdure.runtime.manifests import manifests_of
from perdure.runtime.plan import Part, lineage_parts
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class Warm:
    """A world's state after a published tick, and what the next tick must know beside it."""

    world: World
    epoch: Epoch
    """The last one that this process knows the fence to have had."""

    tick: Tick
    digest: str
    drained_seq: Seq
    state: WorldState
    next_entity_id: EntityId
    rows_since_checkpoint: int

    def fits(self, epoch: Epoch, head: Head) -> bool:
        """Say whether this is still the state that a writer of ``epoch`` goes on from.

        Tick and digest of the head must be these, and nobody else may have had the fence since:
        a fence that was let go and taken again is one epoch on.
        """
        is_ours = self.epoch <= epoch <= self.epoch + 1
        return is_ours and (self.tick, self.digest) == (head.published, head.manifest_digest)


async def rebuild(
    authority: Executes, objects: ObjectStore, ref: WorldRef, world: World, head: Head
) -> Warm:
    """Read the state at the head. Raises Corrupt if the chain of manifests does not lead there."""
    if head.published == NO_TICK:
        return Warm(world, head.fence.epoch, NO_TICK, "", Seq(0), EMPTY, IN_TICK_ENTITY_FIRST, 0)
    parts = await lineage_parts(authority, WorldAt(world, head, landing_start(world)))
    first = Tick(max(head.checkpoint, parts[0].first))
    owned = await _manifests(authority, [part.cut(first, head.published) for part in parts])
    manifests = [manifest for _, manifest in owned]
    last = manifests[-1]
    if last.digest != head.manifest_digest:
        raise Corrupt(
            expected=f"the manifest of tick {last.tick} with digest {head.manifest_digest[:12]}…",
            found=f"{last.digest[:12]}…",
        )
    named = {table.table for manifest in manifests for table in _named(manifest, head)}
    shapes = await _shapes(authority, ref, named)
    ticks = [
        [await _rows(objects, shapes, owner, manifest, table) for table in _named(manifest, head)]
        for owner, manifest in owned
    ]
    later = (table.rows for each in manifests[1:] for table in each.tables)
    if head.checkpoint == NO_TICK:
        later = (table.rows for each in manifests for table in each.tables)
    return Warm(
        world,
        head.fence.epoch,
        last.tick,
        last.digest,
        # An ancestor's log is not the world's own: of that, no drain has seen anything.
        last.drained_seq if last.partition == manifests_partition(ref.partition) else Seq(0),
        rebuilt(ticks),
        last.next_in_tick_entity_id,
        sum(later),
    )


async def _manifests(authority: Executes, parts: list[Part]) -> list[tuple[World, Manifest]]:
    """Return the manifests of parts with the worlds that published them, in one chain."""
    manifests: list[tuple[World, Manifest]] = []
    for part in parts:
        partition = part.world.ref.partition
        for manifest in await manifests_of(authority, partition, part.first, part.last):
            if manifests and manifest.previous != manifests[-1][1].digest:
                raise Corrupt(
                    expected=f"a manifest of tick {manifest.tick} chained to the one before",
                    found="another chain",
                )
            manifests.append((part.world, manifest))
    return manifests


def _named(manifest: Manifest, head: Head) -> tuple[TableRows, ...]:
    """Return the tables to read of a manifest: its checkpoint if the world starts there."""
    if manifest.tick == head.checkpoint and manifest.checkpoint is not None:
        return manifest.checkpoint
    return manifest.tables


async def _shapes(
    authority: Executes, ref: WorldRef, tables: Iterable[TableId]
) -> dict[TableId, Shape]:
    found = await authority.execute(FindTables(ref.storage, tuple(sorted(tables))))
    return {table: shape_from_signature(signature) for table, (signature, _) in found.items()}


async def _rows(
    objects: ObjectStore,
    shapes: dict[TableId, Shape],
    world: World,
    manifest: Manifest,
    held: TableRows,
) -> Rows:
    shape = shapes[held.table]
    origin = Origin(world.world, world.run, manifest.tick, manifest.token)
    return Rows(shape, await rows_of(held, origin, archetype_schema(shape.types), objects))
