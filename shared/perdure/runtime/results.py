"""Results: what a processor returns must be the rows it was given, with other values at most."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.errors import TickFailed
from perdure.lake.archetype import Archetype, same_array, single


def accepted(processor: str, archetype: Archetype, result: Any) -> Archetype:
    """Return the archetype with the rows a processor returned. Raises TickFailed.

    Columns that are the very same memory are not looked at. A column of another type is taken
    if it converts without loss; NaN, infinities and nulls only where a component has them.
    """
    if not isinstance(result, pa.Table):
        refuse(processor, "a pyarrow.Table", type(result).__name__)
    names = archetype.shape.schema.names
    if sorted(result.schema.names) != sorted(names):
        refuse(processor, f"columns {', '.join(names)}", ", ".join(result.schema.names) or "none")
    if result.num_rows != len(archetype):
        refuse(processor, f"{len(archetype)} rows", str(result.num_rows))
    columns, is_same = [], True
    for field in archetype.shape.schema:
        before, after = archetype.array(field.name), single(result.column(field.name))
        if same_array(before, after):
            columns.append(before)
            continue
        after = _converted(processor, field, after)
        if field.name == "entity_id":
            if not after.equals(before):
                refuse(processor, "the entities it was given, in their order", "others")
            after = before
        else:
            _check(processor, field.name, after, is_nullable=field.name in archetype.shape.nullable)
            is_same = False
        columns.append(after)
    if is_same:
        return archetype
    rows = pa.Table.from_arrays(columns, schema=archetype.shape.schema)
    return Archetype(archetype.shape, rows, archetype.ids)


def refuse(processor: str, expected: str, found: str) -> NoReturn:
    raise TickFailed(expected=f"processor {processor!r} to return {expected}", found=found)


def _converted(processor: str, field: pa.Field, column: pa.Array) -> pa.Array:
    if column.type == field.type:
        return column
    if not _is_akin(column.type, field.type):
        refuse(processor, f"{field.name} as {field.type}", str(column.type))
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        refuse(processor, f"{field.name} as {field.type}", f"{column.type}: {error}")


def _is_akin(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Say whether values may convert: numbers to numbers, texts to texts, nothing to anything."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    return bool(
        pa.types.is_null(given)
        or (_is_number(given) and _is_number(wanted))
        or (_is_text(given) and _is_text(wanted))
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _check(processor: str, name: str, column: pa.Array, *, is_nullable: bool) -> None:
    if column.null_count and not is_nullable:
        refuse(processor, f"{name} without nulls", f"{column.null_count} of them")
    if pa.types.is_floating(column.type):
        finite = pc.is_finite(column)
        if finite.false_count:
            places = pc.index(finite, pa.scalar(value=False)).as_py()
            refuse(processor, f"{name} as finite numbers", f"{column[places]} in row {places}")
