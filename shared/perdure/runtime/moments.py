"""Moments: what a published tick did to entities, as hooks are told of it, in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from perdure.kernel.ids import EntityId, Instant, RunId, TableId, Tick, WorldId
from perdure.lake.archetype import NO_IDS, Ids, Shape
from perdure.lake.state import WorldState
from perdure.runtime.app import Moment
from perdure.runtime.choice import Choice
from perdure.runtime.compute import HookFailure, TickFacts, tell


@dataclass(frozen=True, slots=True)
class Group:
    """Entities to which the same happened.

    ``components`` are those of the entities after the tick, or before it if they are gone;
    ``changed`` are the ones they have got or lost in it. Ids ascend.
    """

    components: tuple[str, ...]
    changed: tuple[str, ...]
    entity_ids: tuple[EntityId, ...]


@dataclass(frozen=True, slots=True)
class Happened:
    """What happened at a moment of one published tick."""

    world_id: WorldId
    run_id: RunId
    number: Tick
    time: Instant
    moment: Moment
    groups: tuple[Group, ...]


CHANGES: Final[tuple[Moment, ...]] = (
    "OnSpawn",
    "OnDespawn",
    "OnComponentAdded",
    "OnComponentRemoved",
)
"""The moments of what is different after a tick, in the order in which they are told."""


async def tell_changes(
    choice: Choice, facts: TickFacts, before: WorldState, after: WorldState
) -> tuple[HookFailure, ...]:
    """Tell hooks of the entities that came, went and changed, one call a moment.

    An entity that came and went in the same tick has left no row, and nobody is told of it.
    """
    if not any(choice.told(moment) for moment in CHANGES):
        return ()
    failures: list[HookFailure] = []
    for moment, groups in changes_of(before, after).items():
        if groups:
            happened = Happened(
                facts.world_id, facts.run_id, facts.number, facts.time, moment, groups
            )
            failures += await tell(choice.told(moment), happened)
    return tuple(failures)


def changes_of(before: WorldState, after: WorldState) -> dict[Moment, tuple[Group, ...]]:
    """Return what is different in the second state, by moment."""
    came, went = _differences(before, after), _differences(after, before)
    everyone_came, everyone_went = _all(came.values()), _all(went.values())
    found: dict[Moment, list[Group]] = {moment: [] for moment in CHANGES}
    for table, ids in came.items():
        spawned = np.setdiff1d(ids, everyone_went, assume_unique=True)
        found["OnSpawn"] += _whole(after.archetypes[table].shape, spawned)
    for table, ids in went.items():
        old = before.archetypes[table].shape
        despawned = np.setdiff1d(ids, everyone_came, assume_unique=True)
        found["OnDespawn"] += _whole(old, despawned)
        for new_table, arrived in came.items():
            moved = np.intersect1d(ids, arrived, assume_unique=True)
            new = after.archetypes[new_table].shape
            found["OnComponentAdded"] += _moved(new, _only(new, old), moved)
            found["OnComponentRemoved"] += _moved(new, _only(old, new), moved)
    return {moment: tuple(groups) for moment, groups in found.items()}


def _differences(before: WorldState, after: WorldState) -> Mapping[TableId, Ids]:
    """Return the ids that each archetype has only in the second state."""
    found: dict[TableId, Ids] = {}
    for table, archetype in after.archetypes.items():
        old = before.archetypes.get(table)
        if old is None:
            found[table] = archetype.ids
        elif old.ids is not archetype.ids:
            ids = np.setdiff1d(archetype.ids, old.ids, assume_unique=True)
            if len(ids):
                found[table] = ids
    return found


def _all(parts: Iterable[Ids]) -> Ids:
    held = tuple(parts)
    return np.concatenate(held) if held else NO_IDS


def _whole(shape: Shape, ids: Ids) -> Iterator[Group]:
    names = _names(shape)
    return _moved(shape, names, ids)


def _moved(shape: Shape, changed: tuple[str, ...], ids: Ids) -> Iterator[Group]:
    if changed and len(ids):
        yield Group(_names(shape), changed, tuple(np.sort(ids).tolist()))


def _names(shape: Shape) -> tuple[str, ...]:
    return tuple(each.name for each in shape.types)


def _only(shape: Shape, other: Shape) -> tuple[str, ...]:
    """Name the components of the first that the second has not, or has in another schema."""
    return tuple(
        name
        for name, fingerprint in shape.fingerprints.items()
        if other.fingerprints.get(name) != fingerprint
    )
