"""Columns: commands field by field, so that thousands of them are a few lists."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple, cast

from perdure.kernel.ids import EntityId, Sequence
from perdure.kernel.stored import StoredBatch, StoredCommand


class CommandColumns(NamedTuple):
    """Stored commands in an order: what is at one place of all four columns is one of them."""

    sequences: list[Sequence]
    reserved: list[EntityId | None]
    operations: list[dict[str, Any]]
    types: list[dict[str, str]]

    @classmethod
    def of(cls, commands: Iterable[StoredCommand]) -> CommandColumns:
        """Take commands apart."""
        columns = cls([], [], [], [])
        for sequence, reserved, operation, types in commands:
            columns.sequences.append(sequence)
            columns.reserved.append(reserved)
            columns.operations.append(operation)
            columns.types.append(types)
        return columns

    def add(self, batch: StoredBatch, first: Sequence, last: Sequence) -> None:
        """Append the commands of a batch from one sequence to another, both included."""
        start, stop = first - batch.first_sequence, last + 1 - batch.first_sequence
        self.sequences.extend(cast("list[Sequence]", range(first, last + 1)))
        self.reserved.extend(batch.reserved[start:stop])
        self.operations.extend(batch.operations[start:stop])
        self.types.extend(repeat(batch.types, stop - start))
