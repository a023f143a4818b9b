"""Compute: processors over everything alive, in an order and with chances that never differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isawaitable
from typing import Any

import numpy as np

from perdure.kernel import limits
from perdure.kernel.canonical import digest
from perdure.kernel.component import Component, Registry, checked_value
from perdure.kernel.errors import TickFailed, code_of
from perdure.kernel.ids import (
    IN_TICK_ENTITY_FIRST,
    EntityId,
    Instant,
    RunId,
    TableId,
    Tick,
    WorldId,
)
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.kernel.shown import text_of
from perdure.kernel.stored import StoredCommand
from perdure.lake.archetype import Archetype
from perdure.lake.staging import Staging
from perdure.lake.state import WorldState
from perdure.runtime.app import Hook, Processor
from perdure.runtime.resources import NO_RESOURCES, Resources
from perdure.runtime.results import accepted


@dataclass(frozen=True, slots=True)
class TickFacts:
    """Which tick is made, of which world; ``time`` is recorded, so it is the same on replay."""

    world_id: WorldId
    run_id: RunId
    number: Tick
    time: Instant


@dataclass(frozen=True, slots=True)
class Computed:
    """The state after all processors, and what the manifest says of them.

    ``processors`` are those that had an archetype to work on, in order.
    """

    state: WorldState
    processors: tuple[str, ...]
    next_in_tick_entity_id: EntityId


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A hook that failed. Nothing else follows from it."""

    hook: str
    code: str
    detail: str


@dataclass
class _Emitted:
    """Entities that processors made and ended in this tick, and who did it."""

    registry: Registry
    next_entity_id: EntityId
    spawned: list[StoredCommand] = field(default_factory=list)
    ended: dict[EntityId, str] = field(default_factory=dict)
    makers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TickContext:
    """What a processor is told beside its rows: which tick it is, and its own chance."""

    facts: TickFacts
    processor: str
    table: TableId
    _emitted: _Emitted
    resources: Resources = NO_RESOURCES

    @property
    def world_id(self) -> WorldId:
        return self.facts.world_id

    @property
    def number(self) -> Tick:
        return self.facts.number

    @property
    def time(self) -> Instant:
        """Milliseconds since 1970, as recorded for this tick."""
        return self.facts.time

    @cached_property
    def rng(self) -> np.random.Generator:
        """A generator of its own for each world, run, tick, processor and archetype.

        So a tick computed again draws the same, whatever other processors or archetypes draw.
        """
        facts = self.facts
        parts = (facts.world_id, facts.run_id, str(facts.number), self.processor, self.table)
        seed = digest("perdure.rng.v1", *(part.encode() for part in parts))
        return np.random.default_rng(int(seed, 16))

    def spawn(self, *components: Component) -> EntityId:
        """Make an entity, alive from the end of this tick, and return its id.

        Raises: UnknownComponent, InvalidValue.
        """
        emitted = self._emitted
        values, types = {}, {}
        for each in components:
            described = type(each).component
            emitted.registry.exact(described.name, described.fingerprint)
            values[described.name] = checked_value(type(each), each)
            types[described.name] = described.fingerprint
        entity_id = emitted.next_entity_id
        emitted.next_entity_id = EntityId(entity_id + 1)
        emitted.makers.append(self.processor)
        emitted.spawned.append(
            StoredCommand(
                sequence=CommandSequence(len(emitted.spawned)),
                entity_id=entity_id,
                operation={"operation": "spawn", "components": values},
                types=types,
            )
        )
        return entity_id

    def despawn(self, *entity_ids: int) -> None:
        """End entities at the end of this tick. Several processors may end the same one."""
        for each in entity_ids:
            self._emitted.ended.setdefault(EntityId(int(each)), self.processor)


async def compute(
    state: WorldState,
    processors: Sequence[Processor],
    registry: Registry,
    facts: TickFacts,
    *,
    next_in_tick_entity_id: EntityId = IN_TICK_ENTITY_FIRST,
    resources: Resources = NO_RESOURCES,
) -> Computed:
    """Run processors, in the order given, over every archetype that has their components.

    What they spawn and despawn is applied after the last of them. Raises TickFailed, which
    names the processor; the state given is as it was.
    """
    emitted = _Emitted(registry, next_in_tick_entity_id)
    archetypes = dict(state.archetypes)
    used = []
    for processor in processors:
        covered = [each for each in archetypes.values() if each.shape.covers(processor.components)]
        for archetype in covered:
            table = archetype.shape.table
            context = TickContext(facts, processor.name, table, emitted, resources)
            archetypes[table] = await _processed(processor, archetype, context)
        if covered:
            used.append(processor.name)
    after = _with_emitted(WorldState.of(archetypes.values()), emitted)
    return Computed(after, tuple(used), emitted.next_entity_id)


async def tell(hooks: Iterable[Hook], fact: Any) -> tuple[HookFailure, ...]:
    """Call hooks one after another, and return what failed of them.

    A hook that cancels itself has failed; a cancellation from outside goes on its way.
    """
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    failures = []
    for hook in hooks:
        try:
            told = hook.tell(fact)
            if isawaitable(told):
                await told
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling() > asked:
                raise
            failures.append(_failure(hook, error))
        # To end the process is not for a hook to decide either.
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a hook advises: reported
            failures.append(_failure(hook, error))
    return tuple(failures)


def _failure(hook: Hook, error: BaseException) -> HookFailure:
    detail = text_of(error)[: limits.ERROR_DETAIL_CHARACTERS_MAX]
    return HookFailure(hook.name, code_of(type(error)), detail)


async def _processed(processor: Processor, archetype: Archetype, context: TickContext) -> Archetype:
    try:
        result = processor.process(archetype.rows, context)
        rows = await result if isawaitable(result) else result
    except Exception as error:
        detail = text_of(error)[: limits.ERROR_DETAIL_CHARACTERS_MAX]
        raise TickFailed(
            expected=f"processor {processor.name!r} to compute table {context.table}",
            found=f"{type(error).__name__}: {detail}",
        ) from error
    return accepted(processor.name, archetype, rows)


def _with_emitted(state: WorldState, emitted: _Emitted) -> WorldState:
    if not emitted.spawned and not emitted.ended:
        return state
    ended = [
        StoredCommand(
            sequence=CommandSequence(len(emitted.spawned) + index),
            entity_id=None,
            operation={"operation": "despawn", "entity_id": entity_id},
            types={},
        )
        for index, entity_id in enumerate(emitted.ended)
    ]
    makers = [*emitted.makers, *emitted.ended.values()]
    staging = Staging(state, emitted.registry)
    result = staging.apply([*emitted.spawned, *ended])
    failed = [*result.rejected, *result.retryable]
    if failed:
        raise TickFailed(
            expected=f"processor {makers[failed[0].sequence]!r} to emit what can be applied",
            found=f"{failed[0].code}: {failed[0].detail}",
        )
    return staging.state()
