"""Spelled: the commands of one batch read from their bytes into columns, with no object for any."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from perdure.kernel.component import ComponentType, Registry
from perdure.kernel.errors import UnknownComponent
from perdure.kernel.ids import EntityId
from perdure.kernel.plain import PlainField, plain_fields
from perdure.kernel.stored import StoredBatch
from perdure.lake.schema import ARROW

SPELLED_MIN: Final = 512
"""Commands of one batch from which on it is worth a try: others are read one by one."""

_BEGIN: Final = b'{"commands":['
_END: Final = b'],"origin":'
_LOGICAL: Final = {int: "int64", float: "float64", bool: "bool"}
_OPTIONS: Final = ("entity_id", "max_attempts", "priority", "tick")


@dataclass(frozen=True, slots=True)
class Spelled:
    """Spawns or updates of one batch that name the same components, all of which fit."""

    operation: str
    types: tuple[ComponentType, ...]
    subjects: Sequence[EntityId]
    columns: Mapping[str, Mapping[str, pa.Array]]


def spelled(batch: StoredBatch, registry: Registry) -> Spelled | None:
    """Return the commands of a batch by columns; None where they must be read one by one.

    That is so for other operations, for components that not every command names, for classes
    with rules of their own, for texts and nullable fields, and for whatever does not fit.
    """
    payload = batch.entry.payload
    end = payload.rfind(_END)
    if end < 0 or not payload.startswith(_BEGIN):
        return None
    types = _types(payload[end + 2 :])
    fields = None if types is None else _fields(types, registry)
    rows = None if fields is None else _read(payload[len(_BEGIN) : end], fields, batch.size)
    if fields is None or rows is None:
        return None
    operation = _only(rows.column("operation"))
    columns = _columns(rows, fields)
    subjects = _subjects(batch, operation, rows.column("entity_id"))
    if columns is None or subjects is None:
        return None
    return Spelled(operation, tuple(each for each, _ in fields), subjects, columns)


_Fields = list[tuple[ComponentType, tuple[PlainField, ...]]]


def _types(rest: bytes) -> Mapping[str, str] | None:
    """Return what stands behind the commands; None for what was never written."""
    try:
        types = json.loads(b"{" + rest)["types"]
    except (KeyError, ValueError):
        return None
    is_told = type(types) is dict and all(type(each) is str for each in types.values())
    return types if is_told else None


def _fields(types: Mapping[str, str], registry: Registry) -> _Fields | None:
    """Return the components and their fields, None if one could not be read by columns."""
    found: _Fields = []
    for name, fingerprint in types.items():
        try:
            model = registry.exact(name, fingerprint)
        except UnknownComponent:
            return None
        plain = plain_fields(model)
        if not plain or any(each.is_nullable or each.kind not in _LOGICAL for each in plain):
            return None
        found.append((model.component, plain))
    return found or None


def _read(inner: bytes, fields: _Fields, count: int) -> pa.Table | None:
    """Return so many commands as a table, None if they are not what the fields say."""
    floats = sum(field.kind is float for _, held in fields for field in held)
    if inner.count(b".") != floats * count:  # an integer in the place of a float has none
        return None
    # Between two commands, and nowhere else: there is no text in which it could stand.
    lines = inner.replace(b'},{"', b'}\n{"')
    try:
        rows = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=_schema(fields), unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return rows if rows.num_rows == count else None


def _schema(fields: _Fields) -> pa.Schema:
    components = [
        (each.name, pa.struct([(held.name, ARROW[_LOGICAL[held.kind]]) for held in plain]))
        for each, plain in fields
    ]
    options = [(name, pa.int64()) for name in _OPTIONS]
    return pa.schema([("components", pa.struct(components)), ("operation", pa.string()), *options])


def _columns(rows: pa.Table, fields: _Fields) -> dict[str, dict[str, pa.Array]] | None:
    """Take the columns out of their structures; None if one lacks a value."""
    components = rows.column("components").combine_chunks()
    if components.null_count:
        return None
    columns: dict[str, dict[str, pa.Array]] = {}
    for each, plain in fields:
        values = components.field(each.name)
        if values.null_count:
            return None
        held = columns[each.name] = {field.name: values.field(field.name) for field in plain}
        for array in held.values():
            if array.null_count or not _is_finite(array):
                return None
    return columns


def _is_finite(array: pa.Array) -> bool:
    return not pa.types.is_floating(array.type) or bool(np.isfinite(array.to_numpy()).all())


def _only(column: pa.ChunkedArray) -> str:
    """Return what all values of a column are, nothing if they differ."""
    different: list[str] = column.unique().to_pylist()
    return different[0] if len(different) == 1 else ""


def _subjects(
    batch: StoredBatch, operation: str, given: pa.ChunkedArray
) -> Sequence[EntityId] | None:
    """Return the entities that a batch of one operation is about, None if it cannot be told."""
    if operation == "spawn" and given.null_count == batch.size:
        first = batch.first_entity_id
        return cast("Sequence[EntityId]", range(first, first + batch.size))
    if operation == "update" and not given.null_count:
        entities: list[EntityId] = given.to_pylist()
        return entities
    return None
