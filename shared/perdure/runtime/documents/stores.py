"""Document stores as they are asked for from outside: no handle is held between two requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.called import check_address
from perdure.kernel.documents.commit import Committed
from perdure.kernel.documents.content import Loaded
from perdure.kernel.documents.create import (
    CreateDocumentStore,
    DescribeDocumentStore,
    DiscoverDocumentStores,
    DocumentStoreInfo,
)
from perdure.kernel.documents.cursors import Question, resumed, spelled
from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.errors import (
    DocumentRetired,
    InvalidCursor,
    RowAbsent,
    TableMigrating,
    UnknownDocument,
)
from perdure.kernel.documents.keyed import CommitOnce, stored_table
from perdure.kernel.documents.log import LOG_PAGE_ENTRIES, LogPage, LogPlace
from perdure.kernel.documents.pages import RowPages
from perdure.kernel.documents.places import SYSTEM_PREFIX, Address, DocumentStoreRef
from perdure.kernel.documents.read import (
    DocumentScan,
    check_limit,
    find_document,
    load_document,
    load_row,
)
from perdure.kernel.documents.records import (
    Document,
    Logged,
    Row,
    StoreHead,
    document_key,
    store_head_key,
)
from perdure.kernel.documents.tables import StoredTable, Table
from perdure.kernel.documents.wire import WireWrite, checked_key, checked_parts, parsed_writes
from perdure.kernel.errors import Invalid, InvalidId, InvalidValue, OutOfRange, Unavailable
from perdure.kernel.ids import (
    CommitId,
    DocumentId,
    DocumentStoreId,
    Lineage,
    Partition,
    Seq,
    StorageId,
    checked_id,
)
from perdure.kernel.places import after
from perdure.kernel.shown import shown
from perdure.kernel.view import Range, Request, View
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.reading import ASKED_TRIES, executed_at_once, read_at_once
from perdure.runtime.documents.store import OpenStore, StoreMeans
from perdure.runtime.session.sessions import lineage_of
from perdure.runtime.steady import steadily

T = TypeVar("T")

LIST_MAX: Final = 1_000
"""Document stores of one answer, and tables of one store."""

LOG_PAGE_BYTES: Final = 4_400_000
"""Bytes at which a page of the log ends: in base64 they fit a reply of 6 MB."""


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """Which rows of a table: by what their key, or the columns of an index, begin with."""

    table: str
    values: Sequence[Any] = ()
    index: str | None = None
    order: str | None = None
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentStores:
    """The document stores of one storage."""

    means: StoreMeans
    storage: StorageId
    app: str = ""

    def ref(self, store: str) -> DocumentStoreRef:
        """Name a document store of this storage. Raises InvalidId."""
        checked_id(store, what="a document store's id")
        return DocumentStoreRef(self.storage, DocumentStoreId(store))

    def others(self, store: str) -> DocumentStoreRef:
        """Name a document store that callers may write to. Raises InvalidId."""
        if store.startswith(SYSTEM_PREFIX):
            raise InvalidId(
                expected=f"an id that does not begin with {SYSTEM_PREFIX!r}", found=shown(store)
            )
        return self.ref(store)

    async def create(self, store_id: str | None = None, *, by: Caller = LOCAL) -> DocumentStoreInfo:
        """Begin a document store, or return it if it was begun before. Raises InvalidId, Conflict."""
        lineage = lineage_of(self.means.new_token())
        ref = self.others(self.means.new_token() if store_id is None else store_id)
        return await self._steady(CreateDocumentStore(ref, lineage, self.app, by=by).checked())

    async def describe(self, store: str) -> DocumentStoreInfo:
        """Tell what is known of a document store. Raises NotFound."""
        return await self._steady(DescribeDocumentStore(self.ref(store)))

    async def discover(
        self, behind: str | None = None, limit: int = 100
    ) -> tuple[list[DocumentStoreInfo], str | None]:
        """List document stores by id, and where to go on if there may be more."""
        if not 1 <= limit <= LIST_MAX:
            raise Invalid(expected=f"a limit of 1 to {LIST_MAX}", found=str(limit))
        if behind is not None:
            checked_id(behind, what="an id to go on behind")
        beyond = None if behind is None else DocumentStoreId(behind)
        return await self._steady(DiscoverDocumentStores(self.storage, beyond, limit))

    async def open(self, store: str) -> OpenStore:
        """Open a document store, to keep it in hand. Raises NotFound."""
        return await OpenStore.open(self.means, self.ref(store))

    async def declare(self, store: str, table: Table, *, by: Caller = LOCAL) -> int:
        """Make a table if it is not there, and return the store's number of changes of tables.

        Raises: Invalid kinds, NotFound, NewerTable, TableDiffers; TableMigrating for one that
        has rows of an older version.
        """
        token = self.means.new_token()
        request = DeclareTables(self.others(store), (table.checked(),), token, by=by)
        declared = await self._steady(request)
        for behind, stored in declared.behind:
            raise TableMigrating(
                expected=f"{behind.full_name} at version {behind.version}",
                found=f"rows of version {stored.version}, which its owner must migrate",
            )
        return declared.schema

    async def tables(self, store: str) -> list[StoredTable]:
        """List the tables of a store by name: LIST_MAX at most."""
        ref = self.ref(store)
        wanted = Range(ref.partition, "table/", after("table/"), StoredTable, limit=LIST_MAX)
        return await self._read(ref, lambda view: view.find(wanted))

    def drawn_commit_id(self) -> str:
        """Draw an id for a commit that came without one."""
        return self.means.new_token()

    async def commit(
        self, store: str, writes: Any, *, commit_id: str | None = None, by: Caller = LOCAL
    ) -> Committed:
        """Apply writes, spelled as JSON or read already, as one commit; at most once for its id.

        An id that is not given is drawn; it comes with an unknown outcome, to ask again with.
        Raises: Invalid kinds, NotFound, Conflict, UnknownTable, TableMigrating, OwnerHeld,
        StoreDiverged, and what the writes raise: nothing has happened. Unavailable kinds with
        ``commit_id`` set.
        """
        chosen = CommitId(self.drawn_commit_id() if commit_id is None else commit_id)
        wanted: tuple[WireWrite, ...] = parsed_writes(writes)
        request = CommitOnce(self.others(store), wanted, chosen, self.means.new_token(), by)
        try:
            checked = request.checked()
            return await executed_at_once(self.means.authority, checked, None, self.means.pause)
        except Unavailable as error:
            error.commit_id = chosen
            raise

    async def document(self, store: str, id: int, at: int | None = None) -> Loaded:
        """Return what a document says, now or as it was at a commit.

        Raises: NotFound, UnknownDocument, DocumentRetired, HistoryNotKept, OutOfRange.
        """
        ref = self.ref(store)
        return await self._read(
            ref, lambda view: _loaded(view, ref.partition, DocumentId(id), _point(view, ref, at))
        )

    async def lookup(self, store: str, address: Address, at: int | None = None) -> Loaded:
        """Return what the document at an address says. Raises as :meth:`document`."""
        ref = self.ref(store)
        check_address(address)

        def looked(view: View) -> Loaded:
            point = _point(view, ref, at)
            found = find_document(view, ref.partition, address, point)
            if found is None:
                raise UnknownDocument(
                    expected=f"a document at {shown(address.kind)} of {shown(address.owner)}",
                    found="none",
                )
            return _loaded(view, ref.partition, found.id, point)

        return await self._read(ref, looked)

    async def documents(  # what a listing can say
        self,
        store: str,
        owner: str,
        namespace: str,
        *,
        kind: str | None = None,
        at: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[list[Document], str | None]:
        """List the documents of a namespace by id, and the cursor that goes on behind them.

        Raises: NotFound, InvalidValue, OutOfRange, InvalidCursor, StaleCursor.
        """
        ref = self.ref(store)
        check_limit(limit)
        check_address(Address(owner, namespace, kind or ""))
        question = Question(("documents", owner, namespace, kind, at), "ascending")

        def looked(view: View) -> tuple[list[Document], str | None]:
            head = _head(view, ref)
            scan = DocumentScan(owner, namespace, _point(view, ref, at), kind)
            order, key = resumed(cursor, head, question)
            found, more = scan.page(view, ref.partition, _id_behind(key), limit)
            return found, None if more is None else spelled(head, question, order, (more,))

        return await self._read(ref, looked)

    async def row(self, store: str, table: str, key: Sequence[Any]) -> Row:
        """Return the row under a key. Raises NotFound, UnknownTable, RowAbsent, Invalid kinds."""
        ref = self.ref(store)

        def looked(view: View) -> Row:
            stored = stored_table(view, ref.partition, table)
            found = load_row(view, ref.partition, stored, checked_key(stored, key))
            if found is None:
                raise RowAbsent(expected=f"a row {shown(list(key))} in {table}", found="none")
            return found

        return await self._read(ref, looked)

    async def rows(self, store: str, asked: RowsAsked) -> tuple[list[Row], str | None]:
        """List rows in the order of their keys, and the cursor that goes on behind them.

        Raises: NotFound, UnknownTable, Invalid kinds, InvalidCursor, StaleCursor, OtherOrder.
        """
        ref = self.ref(store)
        check_limit(asked.limit)
        question = Question(("rows", asked.table, asked.index, *asked.values), asked.order)

        def looked(view: View) -> tuple[list[Row], str | None]:
            head = _head(view, ref)
            pages = _pages(stored_table(view, ref.partition, asked.table), asked)
            order, key = resumed(asked.cursor, head, question)
            found, more = pages.page(view, ref.partition, order, key, asked.limit)
            return found, None if more is None else spelled(head, question, order, more)

        return await self._read(ref, looked)

    async def log(
        self,
        store: str,
        *,
        after: int = 0,
        limit: int = LOG_PAGE_ENTRIES,
        lineage: str | None = None,
        bytes_max: int = LOG_PAGE_BYTES,
    ) -> LogPage:
        """Return the commits behind one, as they were applied; one larger than a page comes alone.

        ``lineage`` is that of the history which was read before, if any.
        Raises: NotFound, InvalidValue, LogTrimmed, LineageChanged, StaleCursor, Corrupt.
        """
        known = None if lineage is None else Lineage(lineage)
        place = LogPlace(Seq(after), None, known)
        means = self.means
        page = await read_log(
            means.authority, self.ref(store), place, pause=means.pause, limit=limit
        )
        size, entries = 0, list[Logged]()
        for each in page.entries:
            size += len(each.writes)
            if entries and size > bytes_max:
                break
            entries.append(each)
        if len(entries) == len(page.entries):
            return page
        last = entries[-1]
        return LogPage(
            page.head, tuple(entries), LogPlace(last.seq, last.digest, page.head.lineage)
        )

    async def _read(self, ref: DocumentStoreRef, look: Callable[[View], T]) -> T:
        _, found = await read_at_once(
            self.means.authority, ref, look, self.means.pause, self.means.whole
        )
        return found

    async def _steady(self, request: Request[T]) -> T:
        """Execute a request that may meet a half-visible commit: ask again, a few times."""
        return await steadily(
            self.means.authority, request, tries=ASKED_TRIES, pause=self.means.pause
        )


def _head(view: View, ref: DocumentStoreRef) -> StoreHead:
    head = view.peek(store_head_key(ref.partition))
    assert head is not None, "a reading begins with the head"
    return head


def _point(view: View, ref: DocumentStoreRef, at: int | None) -> Seq | None:
    """Return a commit that has happened, or None for now. Raises OutOfRange."""
    if at is None:
        return None
    head = _head(view, ref)
    if type(at) is not int or not 0 <= at <= head.seq:
        raise OutOfRange(expected=f"a commit of 0 to {head.seq}, the last", found=shown(at))
    return Seq(at)


def _loaded(view: View, store: Partition, id: DocumentId, at: Seq | None) -> Loaded:
    found = load_document(view, store, id, at)
    if found is not None:
        return found
    document = view.peek(document_key(store, id))
    if document is not None and document.retired_at is not None and at is None:
        raise DocumentRetired(
            expected="a living document", found=f"document {id}, retired at {document.retired_at}"
        )
    when = "" if at is None else f" that lived at commit {at}"
    raise UnknownDocument(expected=f"a document{when}", found=f"unknown document {id}")


def _pages(table: Table, asked: RowsAsked) -> RowPages:
    """Return the pages that are asked for. Raises InvalidValue kinds."""
    if asked.index is None:
        return RowPages(table, None, checked_parts(table, table.key, asked.values))
    columns = table.indexes.get(asked.index)
    if columns is None:
        raise InvalidValue(
            expected=f"an index of {table.full_name}: {', '.join(table.indexes) or 'it has none'}",
            found=shown(asked.index),
        )
    if len(asked.values) != len(columns):
        raise InvalidValue(
            expected=f"a value for each of {', '.join(columns)}", found=shown(list(asked.values))
        )
    parts = checked_parts(table, columns, asked.values)
    if not all(parts):
        raise InvalidValue(
            expected=f"values that rows of index {asked.index!r} have: none is in it with false, 0"
            ' or ""',
            found=shown(list(asked.values)),
        )
    return RowPages(table, asked.index, parts)


def _id_behind(key: tuple[Any, ...] | None) -> int | None:
    if key is None:
        return None
    match key:
        case (int(id),) if id > 0:
            return id
        case _:
            raise InvalidCursor(expected="a cursor of this scan", found=shown(key))
