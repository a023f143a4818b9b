"""Pages of a table: rows in the order of their keys, whatever those are made of. Pure, over a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.documents import places
from perdure.kernel.documents.errors import InvalidCursor
from perdure.kernel.documents.places import Part
from perdure.kernel.documents.read import Order
from perdure.kernel.documents.records import IndexRow, Row, row_key
from perdure.kernel.documents.tables import Table
from perdure.kernel.ids import Partition
from perdure.kernel.places import after
from perdure.kernel.shown import shown
from perdure.kernel.view import Range, View


@dataclass(frozen=True, slots=True)
class RowPages:
    """Rows whose key, or whose columns of an index, begin with certain values."""

    table: Table
    index: str | None = None
    values: tuple[Part, ...] = ()

    def page(
        self,
        view: View,
        store: Partition,
        order: Order,
        behind: tuple[Part, ...] | None,
        limit: int,
    ) -> tuple[list[Row], tuple[Part, ...] | None]:
        """Return at most ``limit`` rows, and behind which key to go on if there are more.

        An index wants a value for each of its columns. Raises: Missing, InvalidCursor.
        """
        marks = view.find(self._range(store, order, behind, limit + 1))
        keys = [mark.row_key for mark in marks[:limit]]
        if self.index is None:
            rows = marks[:limit]
        else:
            found = [row_key(store, self.table.full_name, key) for key in keys]
            view.require(peeks=found)
            rows = [row for key in found if (row := view.peek(key)) is not None]
        return rows, keys[-1] if len(marks) > limit else None

    def _range(
        self, store: Partition, order: Order, behind: tuple[Part, ...] | None, limit: int
    ) -> Range[Any]:
        name = self.table.full_name
        whole = places.rows_prefix(name)
        prefix = whole + places.spelled_key(self.values)
        if self.index is not None:
            prefix = whole = places.index_prefix(name, self.index, self.values)
        first, last = prefix, after(prefix)
        if behind is not None:
            place = whole + places.spelled_key(behind)
            if len(behind) != len(self.table.key) or not place.startswith(prefix):
                raise InvalidCursor(expected="a cursor of this scan", found=shown(behind))
            # U+0000 sorts first of all that may follow a key, and no key has one.
            first, last = (f"{place}\0", last) if order == "ascending" else (first, place)
        of = Row if self.index is None else IndexRow
        return Range(store, first, last, of, limit=limit, descending=order == "descending")
