"""Collecting a store for an export: all of it as of one commit, while its writers go on.

It is read once from end to end. Then the log says what was written meanwhile, and that is read
again, until one look at it and at the head finds the head where the log ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from perdure.kernel.documents import export
from perdure.kernel.documents.commit import check_undivided
from perdure.kernel.documents.commit_keys import commit_key, commit_keys
from perdure.kernel.documents.export import Touched
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import (
    Document,
    Revision,
    Row,
    StoreHead,
    document_key,
    store_head_key,
)
from perdure.kernel.documents.tables import StoredTable, stored_table_key
from perdure.kernel.errors import Contended, Corrupt, LineageChanged
from perdure.kernel.ids import CommitId, DocumentId, Seq
from perdure.kernel.view import Key, Reads
from perdure.runtime.documents.log import entries_behind
from perdure.runtime.documents.reading import whole_head
from perdure.runtime.documents.showing import SNAPSHOT_KEYS
from perdure.runtime.documents.spool import Spool
from perdure.runtime.documents.store import StoreMeans

T = TypeVar("T")

TABLES_PAGE: Final = 50
ROWS_PAGE: Final = 100
DOCUMENTS_PAGE: Final = 16
"""Things that are read at once, and in memory together."""

ROUNDS_MAX: Final = 200
"""Times that what commits have touched is read again before a store is too busy."""


class Collector:
    """Reads a store into a spool. ``saw`` is told after every page."""

    def __init__(
        self, means: StoreMeans, ref: DocumentStoreRef, spool: Spool, saw: Callable[[], None]
    ) -> None:
        self._means = means
        self._views = means.authority
        self._ref = ref
        self._store = ref.partition
        self._spool = spool
        self._saw = saw
        self._keys: dict[str, tuple[str, ...]] = {}
        """Key columns of the tables seen."""
        self._touched = Touched()

    async def collect(self) -> StoreHead:
        """Return the head that everything in the spool is as of.

        Raises: NotFound, StoreImporting, StoreDiverged; Contended for a store that is never still for one look; LogTrimmed if the
        log was cut meanwhile; Corrupt for a document without its contents.
        """
        head = await whole_head(self._views, self._ref)
        check_undivided(head, self._ref)
        # On DynamoDB a range may not show yet what the commit of the head has written.
        known = Seq(max(head.seq - 1, head.log_from - 1))
        await self._scan_tables()
        await self._scan_commits()
        await self._scan_documents()
        for _ in range(ROUNDS_MAX):
            known = await self._touch(known, head)
            seen = await self._again()
            if seen.lineage != head.lineage:
                raise LineageChanged(expected=f"lineage {head.lineage}", found=seen.lineage)
            if seen.seq == known and not self._touched:
                return seen
            self._saw()
        if self._touched.documents:
            raise Corrupt(
                expected="every content of each document",
                found=f"less of document {min(self._touched.documents)}",
            )
        raise Contended(
            expected=f"a moment without a commit to document store {self._ref.store!r}",
            found=f"commits in each of {ROUNDS_MAX} readings",
        )

    async def _touch(self, known: Seq, head: StoreHead) -> Seq:
        """Note what commits behind one have written, and return the last of them."""
        place = LogPlace(known, lineage=head.lineage)
        entries = entries_behind(self._means.authority, self._ref, place, pause=self._means.pause)
        async for entry in entries:
            self._touched.add(self._store, entry, self._keys)
            known = entry.seq
        return known

    async def _again(self) -> StoreHead:
        """Read again what was touched, and return the head as it was at the last look."""
        touched, self._touched = self._touched, Touched()
        head: StoreHead | None = None
        for name in sorted(touched.whole_tables):
            await self._rows_again(name, touched)
        for names in _parts(sorted(touched.tables | touched.whole_tables)):
            keys = [stored_table_key(self._store, name) for name in names]
            head, tables = await self._at_once(keys)
            for name, table in zip(names, tables, strict=True):
                self._replace_table(name, table)
        for row_keys in _parts(list(touched.rows)):
            head, found = await self._at_once(row_keys)
            for key, row in zip(row_keys, found, strict=True):
                self._replace_row(touched.rows[key], key, row)
        for commits in _parts(sorted(touched.commits)):
            head, kept = await self._at_once([commit_key(self._store, id) for id in commits])
            for id, each in zip(commits, kept, strict=True):
                line = None if each is None else (1, export.commit_line(each))
                self._spool.replace(export.commit_place(id), line)
        for ids in _parts(sorted(touched.documents)):
            head, documents = await self._at_once([document_key(self._store, id) for id in ids])
            await self._documents_again(ids, documents)
        return head or await whole_head(self._views, self._ref)

    async def _at_once(self, keys: Sequence[Key[Any]]) -> tuple[StoreHead, list[Any]]:
        """Return head and records as of one moment."""
        head_key = store_head_key(self._store)
        view = await self._views.view(Reads(peeks=(head_key, *keys), snapshot=True))
        head = view.peek(head_key)
        if head is None:
            return await whole_head(self._views, self._ref), []  # raises: it has just gone
        return head, [view.peek(key) for key in keys]

    async def _rows_again(self, table: str, touched: Touched) -> None:
        """Find which rows a table has by now: a range is of no one moment, so each is read again."""
        self._spool.drop_rows(table)
        for place in self._spool.again_in(table):
            touched.rows[export.key_at(self._store, place)] = table
        async for rows in self._rows(table):
            touched.rows |= {row.key: table for row in rows}

    def _replace_table(self, name: str, table: StoredTable | None) -> None:
        found = None
        if table is not None:
            self._keys[name] = table.key_columns
            found = (1, export.table_line(table))
        self._spool.replace(export.table_place(name), found)

    def _replace_row(self, table: str, key: Key[Row], row: Row | None) -> None:
        found = None if row is None else (1, export.row_line(row))
        self._spool.replace(export.row_place(table, key), found)

    async def _documents_again(
        self, ids: Sequence[DocumentId], documents: Sequence[Document | None]
    ) -> None:
        for id, document in zip(ids, documents, strict=True):
            if document is None:
                self._spool.replace(export.document_place(id), None)
        for part in _parts([each for each in documents if each is not None], DOCUMENTS_PAGE):
            for document, contents in zip(part, await self._contents(part), strict=True):
                if export.is_whole(document, contents):
                    lines = export.document_lines(document, contents)
                    found = (len(lines), b"".join(lines))
                    self._spool.replace(export.document_place(document.id), found)
                else:
                    self._touched.documents.add(document.id)

    async def _scan_tables(self) -> None:
        behind: str | None = None
        while True:
            wanted = export.tables_range(self._store, behind, TABLES_PAGE)
            tables = (await self._views.view(Reads(ranges=(wanted,)))).find(wanted)
            for table in tables:
                self._keys[table.name] = table.key_columns
                self._spool.add(export.table_place(table.name), 1, export.table_line(table))
                async for rows in self._rows(table.name):
                    for row in rows:
                        place = export.row_place(table.name, row.key)
                        self._spool.add(place, 1, export.row_line(row))
                    self._saw()
            if len(tables) < TABLES_PAGE:
                return
            behind = tables[-1].name

    async def _scan_commits(self) -> None:
        behind: CommitId | None = None
        while True:
            wanted = commit_keys(self._store, behind, ROWS_PAGE)
            kept = (await self._views.view(Reads(ranges=(wanted,)))).find(wanted)
            for each in kept:
                self._spool.add(export.commit_place(each.commit), 1, export.commit_line(each))
            self._saw()
            if len(kept) < ROWS_PAGE:
                return
            behind = kept[-1].commit

    async def _rows(self, table: str) -> AsyncIterator[list[Row]]:
        behind: Row | None = None
        while True:
            wanted = export.rows_range(self._store, table, behind, ROWS_PAGE)
            rows = (await self._views.view(Reads(ranges=(wanted,)))).find(wanted)
            if rows:
                yield rows
            if len(rows) < ROWS_PAGE:
                return
            behind = rows[-1]

    async def _scan_documents(self) -> None:
        behind: DocumentId | None = None
        while True:
            wanted = export.documents_range(self._store, behind, DOCUMENTS_PAGE)
            documents = (await self._views.view(Reads(ranges=(wanted,)))).find(wanted)
            for document, contents in zip(documents, await self._contents(documents), strict=True):
                if export.is_whole(document, contents):
                    lines = export.document_lines(document, contents)
                    place = export.document_place(document.id)
                    self._spool.add(place, len(lines), b"".join(lines))
                else:  # it was written in between: the log says so, or it is damaged
                    self._touched.documents.add(document.id)
            self._saw()
            if len(documents) < DOCUMENTS_PAGE:
                return
            behind = documents[-1].id

    async def _contents(self, documents: Sequence[Document]) -> list[list[Revision]]:
        """Return the contents that an export has of each, as far as they are there now."""
        firsts = {
            document.id: export.contents_range(self._store, document, None)
            for document in documents
            if export.kept_contents(document)
        }
        view = await self._views.view(Reads(ranges=tuple(firsts.values())))
        found: list[list[Revision]] = []
        for document in documents:
            if document.id not in firsts:
                found.append([])
                continue
            contents = view.find(firsts[document.id])
            page = contents
            while len(page) == export.CONTENTS_PAGE:
                wanted = export.contents_range(self._store, document, page[-1].seq)
                page = (await self._views.view(Reads(ranges=(wanted,)))).find(wanted)
                contents += page
            found.append(contents)
        return found


def _parts(found: Sequence[T], size: int = SNAPSHOT_KEYS - 1) -> Iterator[Sequence[T]]:
    for start in range(0, len(found), size):
        yield found[start : start + size]
