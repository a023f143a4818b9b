"""The state of a world at one tick, in memory: archetypes of living entities, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from perdure.kernel.component import ComponentType, fingerprint
from perdure.kernel.ids import TableId
from perdure.kernel.records import Signature
from perdure.lake.archetype import NO_IDS, Archetype, Ids, Mask, Shape, empty, single
from perdure.lake.schema import component_columns

FOLD_ROWS: Final = 2_000_000
"""Changed rows folded at once: about 100 MB of them, well within one function's memory."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Stored rows of one table: base columns and those of its components."""

    shape: Shape
    table: pa.Table = field(repr=False)


@dataclass(frozen=True)
class WorldState:
    """Every living entity, by archetype. A change makes a new state that shares what it can."""

    # asyncio spells the results of its tasks: a million rows must not be part of that.
    archetypes: Mapping[TableId, Archetype] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, archetypes: Iterable[Archetype]) -> WorldState:
        """Hold these archetypes, without the empty ones, in the order of their tables."""
        living = {each.shape.table: each for each in archetypes if len(each)}
        return cls({table: living[table] for table in sorted(living)})

    @cached_property
    def entities(self) -> int:
        return sum(map(len, self.archetypes.values()))

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory, what they share with other states counted too."""
        return sum(each.rows.nbytes for each in self.archetypes.values())

    @cached_property
    def ordered(self) -> tuple[Archetype, ...]:
        return tuple(self.archetypes.values())

    def homes(self, wanted: Ids) -> tuple[Ids, Ids]:
        """Return for each id the place of its archetype in ``ordered``, -1 for none, and its row."""
        homes = np.full(len(wanted), -1, np.int64)
        rows = np.zeros(len(wanted), np.int64)
        for index, archetype in enumerate(self.ordered):
            places, found = archetype.places(wanted)
            homes[found] = index
            rows[found] = places[found]
        return homes, rows

    def merged(self, gone: Mapping[TableId, Ids], fresh: Iterable[Rows]) -> WorldState:
        """Return the state without ``gone`` and with ``fresh`` rows; both ascend by entity."""
        merged = dict(self.archetypes)
        put = {each.shape.table: each for each in fresh}
        for table in {*gone, *put} & {*merged, *put}:
            rows = put.get(table)
            base = merged[table] if table in merged else empty(put[table].shape)
            merged[table] = base.merged(gone.get(table, NO_IDS), rows.table if rows else None)
        return WorldState.of(merged.values())

    def advanced(self, stored: Sequence[Rows]) -> WorldState:
        """Return the state after later stored rows, of one or many ticks, in any order.

        The latest tick of an entity wins; at one tick an active row wins over an inactive one.
        """
        if not stored:
            return self
        part, row, active, ids = _latest(stored)
        fresh = []
        gone: dict[TableId, Ids] = {}
        for table, indexes in _by_table(stored).items():
            shape = stored[indexes[0]].shape
            chosen = active & np.isin(part, indexes)
            if chosen.any():
                fresh.append(Rows(shape, _taken(stored, indexes, part[chosen], row[chosen])))
            gone[table] = ids[~chosen]
        for table in self.archetypes.keys() - gone.keys():
            gone[table] = ids
        return self.merged(gone, fresh)


EMPTY: Final = WorldState()


def rebuilt(ticks: Iterable[Sequence[Rows]], base: WorldState = EMPTY) -> WorldState:
    """Return the state after ticks of stored rows, in ascending order, a checkpoint first.

    Rows of several ticks are folded together, up to FOLD_ROWS of them.
    """
    state, waiting, count = base, list[Rows](), 0
    for tick in ticks:
        waiting.extend(tick)
        count += sum(each.table.num_rows for each in tick)
        if count >= FOLD_ROWS:
            state, waiting, count = state.advanced(waiting), [], 0
    return state.advanced(waiting)


def shape_from_signature(signature: Signature) -> Shape:
    """Return the shape of a table from its catalog record, without any class."""
    columns = {name: component_columns(signature, name) for name in signature.components}
    return Shape(tuple(ComponentType(name, c, fingerprint(c)) for name, c in columns.items()))


def _latest(stored: Sequence[Rows]) -> tuple[Ids, Ids, Mask, Ids]:
    """Return part, row, liveness and id of each entity's deciding row, ascending by id."""
    sizes = [each.table.num_rows for each in stored]
    part = np.repeat(np.arange(len(stored)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes])
    ids, ticks, active = (
        np.concatenate([_numbers(each.table, name) for each in stored])
        for name in ("entity_id", "tick", "is_active")
    )
    if not (active.all() and (np.diff(ids) > 0).all()):
        order = np.lexsort((active, ticks, ids))
        last = np.ones(len(order), np.bool_)
        last[:-1] = np.diff(ids[order]) != 0
        order = order[last]
        part, row, active, ids = part[order], row[order], active[order], ids[order]
    return part, row, active, ids


def _numbers(table: pa.Table, name: str) -> Ids:
    numbers: Ids = single(table.column(name)).to_numpy(zero_copy_only=False)
    return numbers


def _by_table(stored: Sequence[Rows]) -> dict[TableId, list[int]]:
    grouped: dict[TableId, list[int]] = {}
    for index, each in enumerate(stored):
        grouped.setdefault(each.shape.table, []).append(index)
    return grouped


def _taken(stored: Sequence[Rows], indexes: list[int], part: Ids, row: Ids) -> pa.Table:
    """Return the chosen rows of the parts of one table, in the order they are named."""
    schema = stored[indexes[0]].shape.schema
    starts = np.zeros(len(stored), np.int64)
    starts[indexes] = np.cumsum([0, *(stored[each].table.num_rows for each in indexes[:-1])])
    joined = pa.concat_tables(
        stored[each].table.select(schema.names).cast(schema) for each in indexes
    )
    where = starts[part] + row
    if len(where) == joined.num_rows and (np.diff(where) == 1).all():
        return joined
    return joined.take(pa.array(where))
