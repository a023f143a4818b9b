"""Tables of a store and rows of theirs, for tests of what is written to them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.store_desk import Desk

from perdure.kernel.documents.rows import (
    InsertRow,
)
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import (
    PerdureError,
)

EDITS = Table(
    "notes",
    "edits",
    {"id": "int", "by": "str", "done": "bool", "size": "float", "text": "json", "seq": "int"},
    ("id",),
    {"by_author": ("by",), "by_done": ("done", "by")},
).checked()
NAMES = Table("notes", "names", {"name": "str", "page": "int"}, ("name", "page"), {}).checked()
MANY = Table(
    "notes", "many", {"id": "int", "a": "int", "b": "int", "c": "int"}, ("id",),
    {"a": ("a",), "b": ("b",), "c": ("c",)},
).checked()  # fmt: skip


def edit(id: int, by: str = "ann", **columns: Any) -> dict[str, Any]:
    row = {"id": id, "by": by, "done": False, "size": 1.5, "text": {"n": id}, "seq": 0}
    return row | columns


def desk(*rows: dict[str, Any]) -> Desk:
    made = Desk(EDITS, NAMES, MANY)
    made.commit(*(InsertRow(EDITS, row) for row in rows))
    return made


def refuses(at: Desk, kind: type[PerdureError], *staged: StagedWrite) -> PerdureError:
    """Commit what must be refused, beside a write that is none; not a byte has changed."""
    before = at.bodies()

    with pytest.raises(kind) as refused:
        at.commit(InsertRow(EDITS, edit(1_000_000)), *staged)

    assert at.bodies() == before
    return refused.value
