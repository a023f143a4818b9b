"""Schemas: what the columns of an archetype's table are, in Arrow and in the catalog's record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from perdure.kernel.component import Column, ComponentType, Logical, fingerprint, table_id
from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.ids import Partition
from perdure.kernel.records import Signature

BASE: Final = pa.schema(
    [
        pa.field("world_id", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("entity_id", pa.int64(), nullable=False),
        pa.field("tick", pa.int64(), nullable=False),
        pa.field("is_active", pa.bool_(), nullable=False),
        pa.field("commit", pa.string(), nullable=False),
    ]
)
"""Columns every table begins with. ``commit`` is the publication token of the row's tick."""

BASE_COLUMNS: Final = tuple(BASE.names)

ARROW: Final[Mapping[str, pa.DataType]] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}
"""The Arrow type of each logical type."""

_LOGICAL: Final[Mapping[pa.DataType, Logical]] = {
    pa.int64(): "int64",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
}


def archetype_schema(types: Iterable[ComponentType]) -> pa.Schema:
    """Return the Arrow schema of an archetype: base columns, then components sorted by name.

    Component columns are nullable whatever their class says: the last row of an entity that
    left the table may be empty.
    """
    return _schema(
        (column.name, column.logical) for each in _ordered(types) for column in each.columns
    )


def signature_record(catalog: Partition, types: Iterable[ComponentType]) -> Signature:
    """Describe the table of an archetype for the catalog, so that no class is needed to read it."""
    ordered = _ordered(types)
    columns = tuple(column for each in ordered for column in each.columns)
    return Signature(
        partition=catalog,
        table=table_id(ordered),
        components=tuple(each.name for each in ordered),
        columns=tuple((column.name, column.logical, column.nullable) for column in columns),
        fingerprint=fingerprint(columns),
    )


def schema_from_signature(signature: Signature) -> pa.Schema:
    """Return the Arrow schema of a table from its catalog record alone."""
    return _schema((name, logical) for name, logical, _ in signature.columns)


def arrow_fields(columns: Iterable[Column]) -> list[pa.Field]:
    """Return component columns as Arrow fields."""
    return [pa.field(column.name, ARROW[column.logical]) for column in columns]


def component_columns(signature: Signature, component: str) -> tuple[Column, ...]:
    """Return the columns that one component of an archetype owns."""
    prefixes = {name: f"{name.lower()}__" for name in signature.components}
    owned: list[Column] = []
    for name, logical, nullable in signature.columns:
        owners = [each for each, prefix in prefixes.items() if name.startswith(prefix)]
        if max(owners, key=len) == component:
            owned.append(Column(name, logical, nullable))  # type: ignore[arg-type]  # a Logical
    return tuple(owned)


def physical_fingerprint(schema: pa.Schema) -> str:
    """Return the fingerprint of a table as it lies on disk, base columns included.

    Names and logical types in order; nullability and encodings (``large_string``) are left out.
    """
    return fingerprint(
        Column(field.name, _LOGICAL.get(field.type, str(field.type)), nullable=True)  # type: ignore[arg-type]  # an unknown type matches nothing
        for field in schema
    )


def check_fingerprint(signature: Signature, physical: pa.Schema) -> None:
    """Refuse a table that is not what its catalog record says. Raises SchemaMismatch."""
    recorded = schema_from_signature(signature)
    claimed = fingerprint(
        Column(name, logical, nullable)  # type: ignore[arg-type]  # a Logical
        for name, logical, nullable in signature.columns
    )
    if claimed != signature.fingerprint:
        raise SchemaMismatch(
            expected=f"columns of fingerprint {signature.fingerprint[:12]}… in the catalog record"
            f" of table {signature.table}",
            found=f"columns of fingerprint {claimed[:12]}…",
        )
    if physical_fingerprint(physical) != physical_fingerprint(recorded):
        raise SchemaMismatch(
            expected=f"table {signature.table} with columns {_described(recorded)}",
            found=_described(physical),
        )


def _schema(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    return pa.schema([*BASE, *(pa.field(name, ARROW[logical]) for name, logical in columns)])


def _ordered(types: Iterable[ComponentType]) -> list[ComponentType]:
    return sorted(types, key=lambda each: each.name)


def _described(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {_LOGICAL.get(field.type, field.type)}"
        for field in schema
        if field.name not in BASE_COLUMNS
    )
