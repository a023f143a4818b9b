"""One archetype in memory: its rows as columns, in the fixed order of their entity ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.component import ComponentType, table_id
from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.ids import TableId
from perdure.lake.schema import BASE_COLUMNS, archetype_schema

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SLICES_MAX: Final = 32

NO_IDS: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class Shape:
    """What the rows of one archetype look like.

    ``schema`` is ``entity_id`` and then the component columns in the order of the table.
    """

    types: tuple[ComponentType, ...]
    table: TableId = field(init=False)
    schema: pa.Schema = field(init=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.types, key=lambda each: each.name))
        schema = archetype_schema(ordered)
        kept = [
            each for each in schema if each.name not in BASE_COLUMNS or each.name == "entity_id"
        ]
        names = [each.name for each in kept]
        if len(set(names)) < len(names):
            raise SchemaMismatch(
                expected="components whose columns have different names",
                found=", ".join(sorted({each for each in names if names.count(each) > 1})),
            )
        object.__setattr__(self, "types", ordered)
        object.__setattr__(self, "table", table_id(ordered))
        object.__setattr__(self, "schema", pa.schema(kept))

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        return {each.name: each.fingerprint for each in self.types}

    @cached_property
    def nullable(self) -> frozenset[str]:
        """Component columns that may be empty in a living entity."""
        return frozenset(
            column.name for each in self.types for column in each.columns if column.nullable
        )

    def covers(self, wanted: Iterable[ComponentType]) -> bool:
        """Say whether every wanted component is one of these, of the same fingerprint."""
        return all(self.fingerprints.get(each.name) == each.fingerprint for each in wanted)

    def fields(self, component: ComponentType) -> Iterator[tuple[str, pa.Field]]:
        """Yield each field of one of the components, and its column."""
        prefix = len(f"{component.name.lower()}__")
        for column in component.columns:
            yield column.name[prefix:], self.schema.field(column.name)


@dataclass(frozen=True, slots=True)
class Archetype:
    """Living entities of one shape.

    Invariants: ``ids`` ascend and equal ``rows["entity_id"]``; every column is one chunk;
    ``rows`` has exactly ``shape.schema``. Arrays are shared and never written.
    """

    shape: Shape
    rows: pa.Table = field(repr=False)
    ids: Ids = field(repr=False)

    @classmethod
    def of(cls, shape: Shape, rows: pa.Table) -> Self:
        """Keep rows that are in order already. Raises KeyError for a column that is missing."""
        whole = whole_columns(rows.select(shape.schema.names).cast(shape.schema))
        return cls(shape, whole, ids_of(whole))

    def __len__(self) -> int:
        return len(self.ids)

    def array(self, name: str) -> pa.Array:
        return single(self.rows.column(name))

    def places(self, wanted: Ids) -> tuple[Ids, Mask]:
        """Return where each wanted id is, or would be, and whether it is."""
        return placed(self.ids, wanted)

    def merged(self, gone: Ids, fresh: pa.Table | None) -> Self:
        """Return the archetype without ``gone`` and with the ``fresh`` rows put in or replaced.

        Both ascend by entity; ``gone`` may name entities that are not here.
        """
        rows, added = self.rows, None
        if fresh is not None and fresh.num_rows:
            rows, added = _replaced(rows, self.ids, fresh)
        places, found = placed(self.ids, gone)
        parts = _without(rows, places[found])
        if added is not None and added.num_rows:
            parts.append(added)
        rows = whole_columns(pa.concat_tables(parts))
        if len(parts) > 1 and added is not None and not self._precedes(added):
            rows = rows.take(pa.array(np.argsort(ids_of(rows), kind="stable")))
        return type(self)(self.shape, rows, ids_of(rows))

    def _precedes(self, added: pa.Table) -> bool:
        return bool(not len(self) or ids_of(added)[0] > self.ids[-1])


def empty(shape: Shape) -> Archetype:
    return Archetype(shape, shape.schema.empty_table(), NO_IDS)


def single(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without copying one that has a single chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def whole_columns(rows: pa.Table) -> pa.Table:
    """Return the rows with one chunk a column."""
    if all(column.num_chunks == 1 for column in rows.columns):
        return rows
    return pa.Table.from_arrays([single(each) for each in rows.columns], schema=rows.schema)


def ids_of(rows: pa.Table) -> Ids:
    ids: Ids = single(rows.column("entity_id")).to_numpy()
    return ids


def placed(ids: Ids, wanted: Ids) -> tuple[Ids, Mask]:
    """Return where each wanted id is in the ascending ``ids``, or would be, and whether it is."""
    if not len(ids):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    places = np.searchsorted(ids, wanted)
    found: Mask = ids[np.minimum(places, len(ids) - 1)] == wanted
    return places, found


def same_array(left: pa.Array, right: pa.Array) -> bool:
    """Say whether two arrays are the very same memory: cheap, and never wrong when True."""
    return (
        len(left) == len(right)
        and left.offset == right.offset
        and _addresses(left) == _addresses(right)
    )


def changed_mask(left: pa.Array, right: pa.Array) -> Mask | None:
    """Return which values of two arrays of one type and length differ, None for none.

    Floats are compared bit by bit, so NaN equals itself; null equals null only.
    """
    if same_array(left, right):
        return None
    if pa.types.is_float64(left.type):
        left, right = left.view(pa.int64()), right.view(pa.int64())
    mask: Mask
    if left.null_count or right.null_count:
        differ = pc.fill_null(pc.not_equal(left, right), fill_value=False)
        emptied = pc.xor(left.is_null(), right.is_null())
        mask = pc.or_(differ, emptied).to_numpy(zero_copy_only=False)
    elif pa.types.is_int64(left.type):
        mask = left.to_numpy() != right.to_numpy()
    else:
        mask = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
    return mask if mask.any() else None


def _addresses(array: pa.Array) -> list[Any]:
    return [None if each is None else (each.address, each.size) for each in array.buffers()]


def _replaced(rows: pa.Table, ids: Ids, fresh: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows with those of ``fresh`` in the place of theirs, and those that have none.

    A column that nobody changed keeps its memory: comparing it later then costs nothing.
    """
    new_ids = ids_of(fresh)
    if np.array_equal(ids, new_ids):
        return _with_old_where_same(rows, fresh), None
    places, known = placed(ids, new_ids)
    if not known.any():
        return rows, fresh
    at = np.zeros(len(ids), np.bool_)
    at[places[known]] = True
    mask, where = pa.array(at), pa.array(places[known])
    columns = []
    held = whole_columns(fresh.filter(pa.array(known)))
    for old, new in zip(map(single, rows.columns), map(single, held.columns), strict=True):
        same = changed_mask(old.take(where), new) is None
        columns.append(old if same else pc.replace_with_mask(old, mask, new))
    replaced = pa.Table.from_arrays(columns, schema=rows.schema)
    return replaced, None if known.all() else fresh.filter(pa.array(~known))


def _with_old_where_same(rows: pa.Table, fresh: pa.Table) -> pa.Table:
    columns = [
        old if changed_mask(old, new) is None else new
        for old, new in zip(map(single, rows.columns), map(single, fresh.columns), strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _without(rows: pa.Table, places: Ids) -> list[pa.Table]:
    """Return the rows but those at ascending places; few gaps are left by slicing, uncopied."""
    if not len(places):
        return [rows]
    if len(places) > _SLICES_MAX:
        stays = np.ones(rows.num_rows, np.bool_)
        stays[places] = False
        return [rows.filter(pa.array(stays))]
    edges = [-1, *places.tolist(), rows.num_rows]
    return [rows.slice(last + 1, following - last - 1) for last, following in pairwise(edges)]
