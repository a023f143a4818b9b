"""Schemas: one table per archetype, the same on every machine, checked before it is read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from perdure.kernel.component import Component
from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.ids import StorageId
from perdure.kernel.places import catalog_partition
from perdure.lake.schema import (
    BASE_COLUMNS,
    archetype_schema,
    check_fingerprint,
    component_columns,
    schema_from_signature,
    signature_record,
)

CATALOG = catalog_partition(StorageId("s"))


class Position(Component):
    latitude: float
    longitude: float


class Flight(Component):
    number: int
    carrier: str
    tail: str | None = None
    cargo: bool = False


TYPES = (Position.component, Flight.component)


def test_columns_are_base_first_then_components_by_name():
    schema = archetype_schema(TYPES)

    assert schema.names == [
        *BASE_COLUMNS,
        "flight__number",
        "flight__carrier",
        "flight__tail",
        "flight__cargo",
        "position__latitude",
        "position__longitude",
    ]
    assert schema == archetype_schema(reversed(TYPES))


def test_the_catalog_record_alone_gives_the_schema_back():
    record = signature_record(CATALOG, TYPES)

    again = type(record).read(record.partition, record.key.sort, record.body())

    assert again == record
    assert schema_from_signature(again) == archetype_schema(TYPES)
    assert [column.name for column in component_columns(again, "Position")] == [
        "position__latitude",
        "position__longitude",
    ]
    assert component_columns(again, "Flight") == Flight.component.columns


def _with(index: int, field: pa.Field) -> pa.Schema:
    return archetype_schema(TYPES).set(index, field)


@pytest.mark.parametrize(
    ("physical", "is_accepted"),
    [
        (archetype_schema(TYPES), True),
        (_with(7, pa.field("flight__carrier", pa.large_string())), True),
        (_with(6, pa.field("flight__number", pa.int64(), nullable=False)), True),
        (_with(0, pa.field("world_id", pa.large_string(), nullable=True)), True),
        (_with(6, pa.field("flight__number", pa.int32())), False),
        (_with(6, pa.field("flight__number", pa.float64())), False),
        (_with(6, pa.field("flight__count", pa.int64())), False),
        (_with(3, pa.field("tick", pa.string())), False),
        (archetype_schema(TYPES).remove(6), False),
        (archetype_schema(TYPES).append(pa.field("more", pa.int64())), False),
    ],
)
def test_a_table_that_is_not_its_record_is_refused(physical, is_accepted):
    record = signature_record(CATALOG, TYPES)

    if is_accepted:
        check_fingerprint(record, physical)
    else:
        with pytest.raises(SchemaMismatch):
            check_fingerprint(record, physical)
