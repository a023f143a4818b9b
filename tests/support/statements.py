"""Statements that SQLite runs for a store, counted by SQLite itself."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from perdure.authority.sqlite import SqliteStore

BRACKETS = ("BEGIN", "COMMIT", "PRAGMA")
"""What begins or ends a transaction, or says how: bare code has to say it too."""


@dataclass
class Statements:
    """What both connections of a store ran."""

    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """How many there were, reads for the sake of a commit included."""
        return len(self.writes) + len(self.reads)

    def clear(self) -> None:
        self.writes.clear()
        self.reads.clear()


@asynccontextmanager
async def traced(store: SqliteStore) -> AsyncIterator[Statements]:
    """Hear of every statement, but for :data:`BRACKETS`, while the block runs."""
    found = Statements()
    for connection, told in ((store._writer, found.writes), (store._reader, found.reads)):
        await connection.run(partial(_hear, told))
    try:
        yield found
    finally:
        for connection in (store._writer, store._reader):
            await connection.run(lambda database: database.set_trace_callback(None))


def _hear(told: list[str], database: sqlite3.Connection) -> None:
    def hear(statement: str) -> None:
        if not statement.startswith(BRACKETS):
            told.append(statement)

    database.set_trace_callback(hear)
