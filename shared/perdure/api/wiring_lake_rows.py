"""Rows as they leave: read from the lake, spelled as JSON or as an Arrow stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pydantic_core import to_json

from perdure.api.ports import RowsAsked
from perdure.kernel.ids import WorldId
from perdure.runtime.read import Reader

UNSAID: Final = {"world_id", "run_id", "commit"}
"""Base columns that the JSON form leaves out: the same in row after row."""


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Reads rows as Arrow tables and spells them."""

    reader: Reader

    async def read(self, world: WorldId, asked: RowsAsked) -> pa.Table:
        """Return a table, sorted by (tick, entity)."""
        return await self.reader.query(
            world,
            asked.components,
            ticks=asked.tick if asked.ticks is None else asked.ticks,
            entity_ids=asked.entity_ids,
            where=asked.where,
            limit=asked.limit,
        )

    def count(self, table: pa.Table) -> int:
        """Return how many rows a table has."""
        return int(table.num_rows)

    def page(self, table: pa.Table, first: int, limit: int) -> pa.Table:
        """Return so many rows of a table, from the ``first`` on."""
        return table.slice(first, limit)

    def as_json(self, table: pa.Table) -> bytes:
        """Spell a table as a JSON list with an object a row."""
        names = [name for name in table.schema.names if name not in UNSAID]
        return to_json(table.select(names).to_pylist())

    def as_stream(self, table: pa.Table) -> bytes:
        """Spell a table as an Arrow IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        spelled: bytes = sink.getvalue().to_pybytes()
        return spelled
