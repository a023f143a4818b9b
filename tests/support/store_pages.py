"""A table that is moved to another version, for tests of what becomes of its rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.store_desk import Desk

from perdure.kernel.documents.migrate import (
    Migrate,
    MoveRows,
    migrated,
    rows_left,
)
from perdure.kernel.documents.rows import PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import (
    PerdureError,
)

OLD = Table(
    "notes", "pages", {"id": "int", "by": "str", "size": "int"}, ("id",),
    {"by_author": ("by",), "by_size": ("size",)},
).checked()  # fmt: skip
NEW = Table(
    "notes", "pages", {"id": "int", "author": "str", "size": "int", "done": "bool"}, ("id",),
    {"by_author": ("author",), "by_done": ("done", "author")}, version=2,
).checked()  # fmt: skip


THIRD = Table(
    "notes", "pages", {"id": "int", "author": "str", "pages": "json"}, ("id",),
    {"by_author": ("author",), "by_id": ("id", "author")}, version=3,
).checked()  # fmt: skip


def renamed(row: dict[str, Any], version: int) -> dict[str, Any]:
    assert version == OLD.version
    return {"id": row["id"], "author": row["by"], "size": row["size"], "done": row["size"] > 2}


def paged(row: dict[str, Any], version: int) -> dict[str, Any]:
    """Make a row of THIRD of one of any older version."""
    author = row["by"] if version == OLD.version else row["author"]
    return {"id": row["id"], "author": author, "pages": [row["size"]]}


def old(id: int) -> dict[str, Any]:
    return {"id": id, "by": "ann" if id % 2 else "", "size": id}


def desk(count: int = 5) -> Desk:
    made = Desk(OLD)
    made.commit(*(PutRow(OLD, old(id)) for id in range(1, count + 1)))
    return made


def move(at: Desk, count: int, migrate: Migrate = renamed, table: Table = NEW) -> None:
    """Move the next rows of a table that is on its way."""
    stored = at.stored(table)
    assert stored.moving is not None
    left = rows_left(stored, count)
    rows = [row for row in at.rows(table) if left.first <= row.key.sort < left.last][:count]
    chunk = migrated(stored, rows, migrate)
    at.ask(MoveRows(REF, table, at.attempt(), (), stored.moving.behind, chunk))


def refuses(at: Desk, kind: type[PerdureError], request: Any) -> None:
    before = at.bodies()

    with pytest.raises(kind):
        at.ask(request)

    assert at.bodies() == before
