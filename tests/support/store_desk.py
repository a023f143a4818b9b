"""A document store on a fake authority: what is asked of it, and what lies in it, record by record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any, TypeVar

from tests.support.authority import FakeAuthority
from tests.support.documents import LINEAGE, REF

from perdure.kernel.documents import places
from perdure.kernel.documents.commit import Committed, CommitWrites
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.records import (
    IndexRow,
    Logged,
    Row,
    StoreHead,
    logged_key,
    store_head_key,
)
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import StoredTable, Table, stored_table_key
from perdure.kernel.ids import Token
from perdure.kernel.view import Request

T = TypeVar("T")


class Desk:
    """One store, and its records as they lie there."""

    def __init__(self, *tables: Table) -> None:
        self.fake = FakeAuthority()
        self._numbers = count(1)
        self.ask(CreateDocumentStore(REF, LINEAGE).checked())
        if tables:
            self.ask(DeclareTables(REF, tables, self.attempt()).checked())

    def attempt(self) -> Token:
        return Token(f"attempt-{next(self._numbers)}")

    def ask(self, request: Request[T]) -> T:
        return asyncio.run(self.fake.execute(request))

    def commit(self, *staged: StagedWrite, **fields: Any) -> Committed:
        fields = {"attempt": self.attempt(), **fields}
        return self.ask(CommitWrites(REF, staged, **fields))

    @property
    def head(self) -> StoreHead:
        head: StoreHead = self.fake.held(store_head_key(REF.partition))
        return head

    def stored(self, table: Table) -> StoredTable:
        stored: StoredTable = self.fake.held(stored_table_key(REF.partition, table.full_name))
        return stored

    def last(self) -> list[Mapping[str, Any]]:
        """Return the writes of the last commit as the log tells them."""
        entry: Logged = self.fake.held(logged_key(REF.partition, self.head.seq))
        return list(entry.told())

    def rows(self, table: Table) -> list[Row]:
        """Return the rows of a table in the order of their keys."""
        prefix = places.rows_prefix(table.full_name)
        return [
            Row.read(key.partition, key.sort, stored.body)
            for key, stored in sorted(self.fake.records.items(), key=lambda each: each[0].sort)
            if key.sort.startswith(prefix)
        ]

    def values(self, table: Table) -> list[dict[str, Any]]:
        return [row.value for row in self.rows(table)]

    def index(self, table: Table) -> dict[str, tuple[Any, ...]]:
        """Return every place in the indexes of a table, and the key of the row that it names."""
        prefix = f"index/{table.full_name}/"
        return {
            key.sort: IndexRow.read(key.partition, key.sort, stored.body).row_key
            for key, stored in self.fake.records.items()
            if key.sort.startswith(prefix)
        }

    def index_is_whole(self, table: Table) -> bool:
        """Say whether the indexes of a table have a place for each of its rows, and no other."""
        due = {
            sort: row.row_key for row in self.rows(table) for sort in table.index_sorts(row.value)
        }
        return self.index(table) == due

    def bodies(self) -> dict[tuple[str, str], bytes]:
        """Return every record byte by byte."""
        return {tuple(key): stored.body for key, stored in self.fake.records.items()}
