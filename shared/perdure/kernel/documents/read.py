"""Reading a document store: documents at any commit, rows by key or index. Pure, over a view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, Literal

from perdure.kernel.documents import places
from perdure.kernel.documents.content import Loaded, check_history, current, past
from perdure.kernel.documents.errors import InvalidCursor, OtherOrder
from perdure.kernel.documents.places import Address, Part
from perdure.kernel.documents.records import (
    Document,
    IndexRow,
    Row,
    Scoped,
    document_key,
    row_key,
)
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import lives_before, no_document
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.places import after, number
from perdure.kernel.seen import SeenInPart
from perdure.kernel.shown import shown
from perdure.kernel.view import Range, View

Order = Literal["ascending", "descending"]

PAGE_MAX = 1_000
"""Things of one page of a scan."""


@dataclass(frozen=True, slots=True)
class ScanStart:
    """Where a scan goes on, and which way."""

    order: Order
    after: int | None


def scan_start(order: Any, cursor: Any, usual: Order) -> ScanStart:
    """Return where a scan starts that a query and a cursor ask for.

    A query without an order goes on in the cursor's. Raises: InvalidValue, InvalidCursor,
    OtherOrder.
    """
    if order not in (None, "ascending", "descending"):
        raise InvalidValue(
            expected="an order, ascending or descending", found=f"Invalid scan order: {order}"
        )
    if cursor is None:
        return ScanStart(order or usual, None)
    behind = cursor.get("after") if isinstance(cursor, Mapping) else None
    known = cursor.get("order") if isinstance(cursor, Mapping) else None
    if type(behind) is not int or abs(behind) > places.SAFE_INTEGER_MAX:
        raise InvalidCursor(
            expected="a cursor of this scan", found=f"Invalid storage cursor {shown(cursor)}"
        )
    if known is None:
        known = usual
    if known not in ("ascending", "descending"):
        raise InvalidCursor(
            expected="a cursor of this scan", found=f"Invalid storage cursor {shown(cursor)}"
        )
    if order is not None and order != known:
        raise OtherOrder(
            expected=f"the order of the cursor, {known}",
            found=f"The cursor continues a {known} scan; the query asks for {order}",
        )
    return ScanStart(known, behind)


def loaded_counts(limit: int) -> Iterator[int]:
    """Yield how many things each load of a page looks at: more and more, if few are wanted ones."""
    count = limit
    while True:
        yield count
        count = max(count, min(2 * count, PAGE_MAX))


def check_limit(limit: Any) -> int:
    """Return a page's limit. Raises InvalidValue."""
    if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
        raise InvalidValue(expected=f"a limit of 1 to {PAGE_MAX}", found=shown(limit))
    return limit


def find_document(
    view: View, store: Partition, address: Address, at: Seq | None = None
) -> Document | None:
    """Return the document that lives at an address, now or at a commit.

    Raises: Missing; SeenInPart, at last Corrupt.
    """
    for life in view.find(lives_before(store, address, at)):
        key = document_key(store, life.id)
        document = view.peek(key)
        if document is None:
            raise SeenInPart((key,), no_document(life.id, "an address"))
        if document.is_alive(at):
            return document
    return None


def load_document(
    view: View, store: Partition, id: DocumentId, at: Seq | None = None
) -> Loaded | None:
    """Return what a document says, now or as it was at a commit; None if it did not live then.

    Raises: Missing, HistoryNotKept; SeenInPart, at last Corrupt.
    """
    document = view.peek(document_key(store, id))
    if document is None:
        return None
    check_history(document, at)
    if not document.is_alive(at):
        return None
    return current(view, store, document) if at is None else past(view, store, document, at)


@dataclass(frozen=True, slots=True)
class DocumentScan:
    """Documents of a namespace that live at a commit, or now, by id."""

    owner: str
    namespace: str
    at: Seq | None = None
    kind: str | None = None

    def page(
        self, view: View, store: Partition, behind: int | None, limit: int
    ) -> tuple[list[Document], int | None]:
        """Return at most ``limit``, and behind which id to go on if there are more. Raises Missing."""
        prefix = places.scope_prefix(places.scope_hash(self.owner, self.namespace))
        found: list[Document] = []
        for count in loaded_counts(limit + 1):
            first = prefix if behind is None else prefix + number(behind + 1)
            wanted = Range(store, first, after(prefix), Scoped, limit=count)
            marks = view.find(wanted)
            keys = [document_key(store, mark.id) for mark in marks]
            view.require(peeks=keys)
            for mark, key in zip(marks, keys, strict=True):
                document = view.peek(key)
                if document is None:
                    raise SeenInPart((key,), no_document(mark.id, "its namespace"))
                if self._wants(document):
                    found.append(document)
            if len(found) > limit:
                return found[:limit], found[limit - 1].id
            if len(marks) < count:
                break
            behind = marks[-1].id
        return found, None

    def _wants(self, document: Document) -> bool:
        return document.is_alive(self.at) and self.kind in (None, document.kind)


@dataclass(frozen=True, slots=True)
class RowScan:
    """Rows of a table whose key, or whose columns of an index, begin with certain values.

    The part of the key behind those is one number: rows come in its order.
    """

    table: Table
    values: tuple[Part, ...] = ()
    index: str | None = None
    where: Mapping[str, Any] | None = None
    """What columns must hold beside that: rows that do not are passed over."""

    def page(
        self,
        view: View,
        store: Partition,
        start: ScanStart,
        limit: int,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> list[Row]:
        """Return at most ``limit`` rows with a last part of the key within bounds. Raises Missing."""
        found: list[Row] = []
        behind = start.after
        for count in loaded_counts(limit):
            wanted = self._range(store, ScanStart(start.order, behind), count, least, most)
            rows = self._rows(view, store, wanted)
            found += [row for row in rows if self._wants(row)]
            if len(found) >= limit or len(rows) < count:
                break
            last = rows[-1].row_key[-1]
            assert isinstance(last, int), "the last part is a number"
            behind = last
        return found[:limit]

    def _rows(self, view: View, store: Partition, wanted: Range[Any]) -> Sequence[Row]:
        if self.index is None:
            return view.find(wanted)
        marks = view.find(wanted)
        keys = [row_key(store, self.table.full_name, mark.row_key) for mark in marks]
        view.require(peeks=keys)
        return [row for key in keys if (row := view.peek(key)) is not None]

    def _range(
        self,
        store: Partition,
        start: ScanStart,
        limit: int,
        least: int | None,
        most: int | None,
    ) -> Range[Any]:
        name = self.table.full_name
        if self.index is None:
            prefix = places.rows_prefix(name) + places.spelled_key(self.values)
        else:
            prefix = places.index_prefix(name, self.index, self.values)
            # Behind the values of the index is the whole key: numbers alone can be bounded there.
        if start.after is not None and start.order == "ascending":
            least = start.after + 1 if least is None else max(least, start.after + 1)
        if start.after is not None and start.order == "descending":
            most = start.after - 1 if most is None else min(most, start.after - 1)
        first, last = prefix, after(prefix)
        if least is not None and least > places.SAFE_INTEGER_MAX:
            first = last  # nothing is behind the last number
        elif least is not None:
            first = prefix + places.spelled_key((max(least, -places.SAFE_INTEGER_MAX),))
        if most is not None and most < places.SAFE_INTEGER_MAX:
            last = prefix + places.spelled_key((max(most + 1, -places.SAFE_INTEGER_MAX),))
        of = Row if self.index is None else IndexRow
        return Range(store, first, last, of, limit=limit, descending=start.order == "descending")

    def _wants(self, row: Row) -> bool:
        if self.index is not None:
            # A place in the index that its row has just left may show still.
            columns = self.table.indexes[self.index]
            if any(map(ne, map(row.value.get, columns), self.values)):
                return False
        return all(row.value.get(name) == each for name, each in (self.where or {}).items())


def load_row(view: View, store: Partition, table: Table, key: tuple[Part, ...]) -> Row | None:
    """Return the row under a key. Raises Missing."""
    return view.peek(row_key(store, table.full_name, key))
