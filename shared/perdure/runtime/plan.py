"""Plans: which tables answer a query, which worlds' ticks it needs, and how far they landed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from perdure.kernel.component import Column, Component, Registry, fingerprint
from perdure.kernel.errors import InvalidValue, NotPublished, UnknownComponent
from perdure.kernel.ids import NO_TICK, StorageId, TableId, Tick
from perdure.kernel.lineage import FindAncestors
from perdure.kernel.reading import FindSignatures, WorldState
from perdure.kernel.records import Signature, World
from perdure.lake.schema import BASE, arrow_fields, component_columns
from perdure.runtime.ports import Executes

COVERINGS_MAX: Final = 16
"""Choices of schemas that one query tries."""

Asked = str | type[Component]
"""A component by class, by name, or by ``Name@fingerprint``."""


@dataclass(frozen=True, slots=True)
class Part:
    """Ticks of one world's own, first and last included: a world or an ancestor of it."""

    world: World
    first: Tick
    last: Tick
    landed: Tick
    checkpoint: Tick
    """Last checkpoint of that world, perhaps behind ``last``; NO_TICK if it has none."""

    def cut(self, first: int, last: int) -> Part:
        """Return what of the part lies within ``first`` and ``last``."""
        return replace(self, first=Tick(max(self.first, first)), last=Tick(min(self.last, last)))

    @property
    def is_empty(self) -> bool:
        return self.last < self.first


@dataclass(frozen=True, slots=True)
class Covering:
    """The tables that hold all the components asked for, and the columns these have."""

    tables: dict[TableId, Signature]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer: base columns, then components in the order asked."""
        return pa.schema([*BASE, *arrow_fields(self.columns)])


def wanted_ticks(state: WorldState, ticks: Tick | range | None) -> range | Tick:
    """Return the tick or range to read, published as a whole. Raises NotPublished, InvalidValue."""
    published = state.published
    last = ticks.stop - 1 if isinstance(ticks, range) and ticks else ticks
    if isinstance(ticks, range) and (ticks.step != 1 or ticks.start < 0):
        raise InvalidValue(
            expected="a range of ticks from 0 upwards, each in turn", found=f"{ticks}"
        )
    if isinstance(last, int) and last < 0:
        raise InvalidValue(expected="a tick from 0 upwards", found=str(last))
    if published == NO_TICK or (isinstance(last, int) and last > published):
        until = "none is yet" if published == NO_TICK else f"the last one is {published}"
        found = "none asked for" if ticks is None else f"tick {last}"
        raise NotPublished(expected=f"a published tick; {until}", found=found)
    return published if ticks is None else ticks


async def lineage_parts(authority: Executes, state: WorldState) -> list[Part]:
    """Return the parts of a world's history, the oldest first. Raises CorruptLineage."""
    world, first = state.world, state.world.begins
    if world.parent is None and not world.lineage:
        return [_part(state, first, state.published)]
    ancestors = await authority.execute(FindAncestors(world, state.published))
    parts: list[Part] = []
    for found, ancestor in zip(ancestors, world.lineage, strict=True):
        first = found.world.begins if not parts else first
        parts.append(_part(found, first, ancestor.up_to))
        first = Tick(ancestor.up_to + 1)
    return [*parts, _part(state, first, state.published)]


def check_begins(parts: Sequence[Part], ticks: range | Tick) -> None:
    """Refuse ticks older than all that is known of a world. Raises NotPublished."""
    first = parts[0].first
    asked = ticks.start if isinstance(ticks, range) else ticks
    if asked < first:
        raise NotPublished(
            expected=f"a tick from {first} on, with which the world came from another storage",
            found=f"tick {asked}",
        )


async def coverings(
    authority: Executes,
    storage: StorageId,
    components: Sequence[Asked],
    registry: Registry,
) -> list[Covering]:
    """Find the tables for ``components`` in the catalog; no class is needed.

    One covering for each choice of schemas, where tables know a name with more than one: a
    world that was made before a component changed keeps its own. A component that no entity
    has had yet has no table; then ``registry`` says what its columns are.
    Raises: InvalidValue for none or one twice, or for too many choices; UnknownComponent.
    """
    signatures = await _signatures(authority, storage)
    choices = [_choices(asked, signatures, registry) for asked in _distinct(components)]
    count = math.prod(map(len, choices))
    if count > COVERINGS_MAX:
        raise InvalidValue(
            expected=f"at most {COVERINGS_MAX} choices of schemas; say Name@fingerprint",
            found=str(count),
        )
    return [_covering(chosen, signatures) for chosen in itertools.product(*choices)]


def _covering(
    columns: Sequence[tuple[str, tuple[Column, ...]]], signatures: Sequence[Signature]
) -> Covering:
    tables = {
        signature.table: signature
        for signature in signatures
        if all(_holds(signature, name, owned) for name, owned in columns)
    }
    return Covering(tables, tuple(column for _, owned in columns for column in owned))


def _part(state: WorldState, first: Tick, last: Tick) -> Part:
    return Part(state.world, first, last, state.landed, state.head.checkpoint)


async def _signatures(authority: Executes, storage: StorageId) -> list[Signature]:
    found: list[Signature] = []
    while True:
        beyond = found[-1].table if found else None
        page = await authority.execute(FindSignatures(storage, beyond))
        if not page:
            return found
        found += page


def _distinct(components: Sequence[Asked]) -> list[Asked]:
    names = [
        each.partition("@")[0] if isinstance(each, str) else each.component.name
        for each in components
    ]
    if not names or len(set(names)) < len(names):
        raise InvalidValue(
            expected="one or more components, each once",
            found=", ".join(names) if names else "none",
        )
    return list(components)


def _choices(
    asked: Asked, signatures: Sequence[Signature], registry: Registry
) -> list[tuple[str, tuple[Column, ...]]]:
    """Return name and columns of one component asked for, once for each schema it may mean."""
    if not isinstance(asked, str):
        return [(asked.component.name, asked.component.columns)]
    name, _, wanted = asked.partition("@")
    # What the application knows now comes first: it is the answer where no row decides.
    known = {
        each.component.fingerprint: each.component.columns
        for each in registry
        if each.component.name == name
    }
    for signature in signatures:
        if name in signature.components:
            owned = component_columns(signature, name)
            known.setdefault(fingerprint(owned), owned)
    matching = [(name, owned) for print_, owned in known.items() if wanted in {"", print_}]
    if not matching:
        names = {each for signature in signatures for each in signature.components}
        names |= {each.component.name for each in registry}
        raise UnknownComponent(
            expected=f"one of the components {', '.join(sorted(names)) or '(none)'}",
            found=repr(asked),
        )
    return matching


def _holds(signature: Signature, name: str, columns: tuple[Column, ...]) -> bool:
    return name in signature.components and fingerprint(
        component_columns(signature, name)
    ) == fingerprint(columns)
