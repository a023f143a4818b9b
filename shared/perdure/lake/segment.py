"""Segments: the rows one tick wrote to one table, as an Arrow file or inside its manifest."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, RunId, TableId, Tick, Token, WorldId
from perdure.kernel.places import number
from perdure.kernel.records import TableRows
from perdure.lake.objects import ObjectStore
from perdure.lake.schema import physical_fingerprint

IMPLIED: Final = ("world_id", "run_id", "tick", "commit")
"""Base columns with one value in all rows of a tick: known from its manifest, never stored."""

AT_ONCE_BYTES_MAX: Final = 256_000
"""Bytes that are spelled and digested in less time than it takes to ask another thread."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which tick rows are of: what a segment or a manifest leaves unsaid in its rows."""

    world: WorldId
    run: RunId
    tick: Tick
    token: Token


def segment_name(
    world: Partition, tick: Tick, token: Token, table: TableId, *, is_checkpoint: bool = False
) -> str:
    """Name the object that holds a table's rows of one attempt at one tick.

    A thousand ticks share a directory: a new one costs local files a sync more.
    """
    kind = "checkpoint" if is_checkpoint else "segment"
    at = number(tick)
    return f"{kind}/{world.replace('/', '.')}/{at[:-3]}/{at}.{token}.{table}.arrow"


async def stored_rows(
    table: TableId,
    rows: pa.Table,
    *,
    world: Partition,
    origin: Origin,
    objects: ObjectStore,
    is_checkpoint: bool = False,
) -> TableRows:
    """Keep the rows of one (tick, table), and return what the manifest says of them.

    Few rows ride in the manifest itself; others are put as a segment. Putting the same
    rows again under the same origin changes nothing.
    """
    inline = inlined(table, rows)
    if inline is not None:
        return inline
    data = segment_bytes(rows)
    name = segment_name(world, origin.tick, origin.token, table, is_checkpoint=is_checkpoint)
    if data.nbytes <= AT_ONCE_BYTES_MAX:
        await objects.put(name, data)
        sha256 = _sha256(data)
    else:  # beside each other, and beside the event loop: either takes milliseconds
        _, sha256 = await asyncio.gather(objects.put(name, data), asyncio.to_thread(_sha256, data))
    return TableRows(
        table=table, rows=rows.num_rows, segment=name, bytes=data.nbytes, sha256=sha256
    )


async def rows_of(
    held: TableRows, origin: Origin, schema: pa.Schema, objects: ObjectStore
) -> pa.Table:
    """Return the rows a manifest names, with all base columns, in the columns of ``schema``.

    Raises: NotFound if the segment is gone, Corrupt if it is not what the manifest says.
    """
    if held.segment is None:
        rows = _from_inline(held, schema)
    else:
        rows = read_segment(held, await objects.get(held.segment), schema)
    return with_origin(rows, origin, schema)


def inlined(table: TableId, rows: pa.Table) -> TableRows | None:
    """Return the rows as part of a manifest, None if they are too many for that."""
    lean = _lean(rows)
    if lean.num_rows * lean.num_columns * 2 > limits.INLINE_ROWS_BYTES_MAX:
        return None
    columns: dict[str, list[Any]] = {}
    room = limits.INLINE_ROWS_BYTES_MAX - len("{")
    for name in reversed(lean.schema.names):  # values of components are longer than ids
        columns[name] = lean.column(name).to_pylist()
        room -= len(canonical({name: columns[name]})) - len("{")
        if room < 0:
            return None
    return TableRows(table=table, rows=lean.num_rows, inline=columns)


def segment_bytes(rows: pa.Table) -> memoryview:
    """Spell rows as an Arrow IPC file, uncompressed, without the implied columns."""
    lean = _lean(rows)
    if lean.nbytes <= AT_ONCE_BYTES_MAX:
        sink = pa.BufferOutputStream()
        _write(lean, sink)
        return memoryview(sink.getvalue()).cast("B")
    # Measured first: a buffer that grows is copied, and touches twice the memory.
    measure = pa.MockOutputStream()
    _write(lean, measure)
    buffer = pa.allocate_buffer(measure.size())
    _write(lean, pa.FixedSizeBufferWriter(buffer))
    return memoryview(buffer).cast("B")


def read_segment(held: TableRows, data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of a segment without the implied columns. Raises Corrupt."""
    found = _sha256(data)
    if found != held.sha256:
        raise Corrupt(
            expected=f"segment {held.segment} with SHA-256 {held.sha256[:12]}…",
            found=f"{found[:12]}…",
        )
    try:
        rows = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(expected=f"an Arrow file in {held.segment}", found=str(error)) from error
    lean = pa.schema([field for field in schema if field.name not in IMPLIED])
    is_same = rows.schema.equals(lean)  # by far the most, and cheaper to see
    if not is_same and physical_fingerprint(rows.schema) != physical_fingerprint(lean):
        raise Corrupt(
            expected=f"segment {held.segment} with columns {', '.join(lean.names)}",
            found=", ".join(rows.schema.names),
        )
    return rows


def with_origin(rows: pa.Table, origin: Origin, schema: pa.Schema) -> pa.Table:
    """Return rows with the implied columns set, in the columns of ``schema``."""
    implied = {
        "world_id": origin.world,
        "run_id": origin.run,
        "tick": origin.tick,
        "commit": origin.token,
    }
    arrays = [
        pa.repeat(pa.scalar(implied[field.name], type=field.type), rows.num_rows)
        if field.name in implied
        else rows.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _write(rows: pa.Table, sink: pa.NativeFile) -> None:
    with sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _lean(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.schema.names if name not in IMPLIED])


def _from_inline(held: TableRows, schema: pa.Schema) -> pa.Table:
    columns = held.inline or {}
    misfits = set(columns) - set(schema.names) or "entity_id" not in columns
    if misfits or any(len(values) != held.rows for values in columns.values()):
        raise Corrupt(
            expected=f"{held.rows} inline rows of table {held.table}",
            found=f"columns {', '.join(sorted(columns))} that do not fit",
        )
    fields = [field for field in schema if field.name not in IMPLIED]
    absent = {"is_active": [True] * held.rows}
    nothing = [None] * held.rows
    try:
        arrays = [
            pa.array(columns.get(field.name, absent.get(field.name, nothing)), type=field.type)
            for field in fields
        ]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise Corrupt(
            expected=f"inline values that fit table {held.table}", found=str(error)
        ) from error
    return pa.table(arrays, schema=pa.schema(fields))
