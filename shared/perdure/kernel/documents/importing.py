"""Importing: an export becomes a store, in many commits of which nobody sees one before the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from perdure.kernel.documents import places
from perdure.kernel.documents.commit import DocumentsRequest, check_open, check_whole, no_store
from perdure.kernel.documents.commit_keys import CommitKey
from perdure.kernel.documents.create import DocumentStoreInfo, told
from perdure.kernel.documents.errors import StoreImporting
from perdure.kernel.documents.export import Manifest
from perdure.kernel.documents.export_check import Brought, WholeDocument
from perdure.kernel.documents.records import (
    ID_FIRST,
    DocumentStore,
    IndexRow,
    Life,
    Row,
    Scoped,
    StoreHead,
    document_store_key,
    store_head_key,
)
from perdure.kernel.documents.tables import StoredTable, Table
from perdure.kernel.documents.underway import Importing
from perdure.kernel.errors import Conflict, NotEmpty
from perdure.kernel.floor import check_floor, floor_key
from perdure.kernel.ids import Instant, Lineage, Seq, checked_id
from perdure.kernel.limits import BODY_INLINE_BYTES_MAX, SORT_BYTES_MAX
from perdure.kernel.record import Record
from perdure.kernel.view import Decision, Range, Reads, Removed, View

CHUNK_RECORDS: Final = 90
"""Records of one commit of an import, beside the head. Source: COMMIT_ACTIONS_MAX."""

CHUNK_BYTES: Final = 3_000_000
"""Bytes of one commit of an import, as they are stored. Source: COMMIT_BYTES_MAX."""

_KEY_BYTES: Final = SORT_BYTES_MAX + 256
"""Bytes of a record beside its body, at most."""

_DISCARDED: Final = -1
"""Records that are written of an import that is being removed: nobody goes on with it."""

DISCARD_RECORDS: Final = 90
"""Records that one commit removes of an import that was given up. Source: COMMIT_ACTIONS_MAX."""


def records_of(brought: Brought, shape: Table | None) -> list[Record]:
    """Return the records that a store has of what an export brings; ``table`` is a row's, as its version has it."""
    match brought:
        case StoredTable() | CommitKey():
            return [brought]
        case Row():
            assert shape is not None, "rows come behind their table"
            marks = [
                IndexRow(partition=brought.partition, sort=sort, row_key=brought.row_key)
                for sort in shape.index_sorts(brought.value)
            ]
            return [brought, *marks]
        case WholeDocument():
            return _document(brought)


def _document(brought: WholeDocument) -> list[Record]:
    document = brought.document
    store = document.partition
    scope = places.scope_hash(document.owner, document.namespace)
    found: list[Record] = [document, Scoped(partition=store, scope=scope, id=document.id)]
    if document.created_at != document.retired_at:  # an empty life is at no address
        life = Life(
            partition=store,
            address=document.address.hash,
            created_at=document.created_at,
            id=document.id,
        )
        found.append(life)
    return [*found, *brought.contents]


@dataclass(frozen=True, slots=True)
class BeginImport(DocumentsRequest):
    """Set a store aside for an import, or find how far the same one had come.

    Returns the records that are written already. Raises: InvalidId; NotEmpty for a store that has
    anything in it; StoreImporting for one that another export is being imported into;
    StoreMoving, StoreMoved; Conflict for one of another application.
    """

    lineage: Lineage
    """Of the store until the import ends, and after one that was discarded."""

    sha256: str
    app: str = ""

    def checked(self) -> BeginImport:
        """Return self if the id is one. Raises InvalidId."""
        checked_id(self.ref.store, what="a document store's id")
        return self

    def reads(self) -> Reads:
        return Reads(
            keys=(
                document_store_key(self.ref),
                store_head_key(self.stream),
                floor_key(self.ref.catalog),
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[int]:
        store = view.get(document_store_key(self.ref))
        head = view.get(store_head_key(self.stream))
        if head is not None and head.importing is not None:
            if head.importing.sha256 != self.sha256 or head.importing.done == _DISCARDED:
                raise StoreImporting(
                    expected=f"no other import into document store {self.ref.store!r}",
                    found=f"one of {head.importing.sha256[:12]}…: discard it first",
                )
            return Decision(head.importing.done)
        if store is not None and store.app != self.app:
            raise Conflict(
                expected=f"document store {self.ref.store!r} of app {self.app!r}",
                found=f"one of app {store.app!r}",
            )
        check_floor(view, self.ref.catalog)
        writes: list[Record] = []
        if store is None:
            store = DocumentStore(
                partition=self.ref.catalog,
                storage=self.ref.storage,
                store=self.ref.store,
                lineage=self.lineage,
                created_at=now,
                app=self.app,
            )
            writes.append(store)
        if head is None:
            head = StoreHead(partition=self.stream, lineage=self.lineage)
        check_whole(head, self.ref)
        check_open(head, self.ref)
        check_empty(head)
        head = replace(head, importing=Importing(sha256=self.sha256, done=0))
        return Decision(0, (*writes, head))


def check_empty(head: StoreHead) -> None:
    """Refuse a store that anything was ever written to. Raises NotEmpty."""
    if head.seq or head.held or head.next_id != ID_FIRST or head.diverged is not None:
        raise NotEmpty(
            expected="an empty document store, or none", found=f"one with {head.seq} commits"
        )


@dataclass(frozen=True, slots=True)
class ImportRecords(DocumentsRequest):
    """Write the next records of an import. Returns how many are written by now.

    Raises: NotFound; StoreImporting if another hand has gone on with it, or ended it.
    """

    sha256: str
    done: int
    """Records that were written before."""

    records: tuple[Record, ...]

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        head, importing = _running(view, self, self.sha256)
        done = self.done + len(self.records)
        if importing.done == done:
            return Decision(done)  # it was asked for before
        if importing.done != self.done:
            raise _another_hand(self.done, importing.done)
        after = replace(head, importing=replace(importing, done=done))
        return Decision(done, (*self.records, after))


@dataclass(frozen=True, slots=True)
class EndImport(DocumentsRequest):
    """Let a whole import be seen. The store has the history, the ids and the commits of its source.

    Nobody has an owner of it in hand, and no epoch of the source is given again. ``follows`` makes
    it a replica. Raises: NotFound; StoreImporting.
    """

    manifest: Manifest
    sha256: str
    done: int
    follows: bool = False

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream), document_store_key(self.ref)))

    def decide(self, view: View, now: Instant) -> Decision[DocumentStoreInfo]:
        store = view.get(document_store_key(self.ref))
        head = view.get(store_head_key(self.stream))
        if store is None or head is None:
            raise no_store(self.ref)
        if head.importing is None and self._is_ended(head):
            return Decision(told(store, head))
        head, importing = _running(view, self, self.sha256)
        if importing.done != self.done:
            raise _another_hand(self.done, importing.done)
        after = replace(
            head,
            lineage=self.manifest.lineage,
            seq=self.manifest.last_seq,
            digest=self.manifest.digest,
            next_id=self.manifest.next_id,
            epoch=max(head.epoch, self.manifest.epoch),
            schema=head.schema + 1,
            log_from=Seq(self.manifest.last_seq + 1),
            follows=self.follows,
            importing=None,
        )
        return Decision(told(store, after), (after,))

    def _is_ended(self, head: StoreHead) -> bool:
        ended = (head.lineage, head.seq, head.digest)
        return ended == (self.manifest.lineage, self.manifest.last_seq, self.manifest.digest)


@dataclass(frozen=True, slots=True)
class DiscardImport(DocumentsRequest):
    """Remove some records of an import that has not ended; behind the last is an empty store.

    Returns how many: 0 if none was left. Raises: NotFound; NotEmpty for one that has ended.
    """

    @property
    def _range(self) -> Range[Any]:
        # What these are does not matter: none of them is read.
        return Range(self.stream, " ", "\x7f", Record, limit=DISCARD_RECORDS)

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),), ranges=(self._range,))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        head_key = store_head_key(self.stream)
        head = view.get(head_key)
        if head is None:
            raise no_store(self.ref)
        if head.importing is None:
            check_empty(head)
            return Decision(0)
        left = [key for key in view.keys_of(self._range) if key != head_key]
        importing = replace(head.importing, done=_DISCARDED) if left else None
        gone = [Removed(key) for key in left]
        return Decision(len(left), (replace(head, importing=importing), *gone))


def _running(
    view: View, request: ImportRecords | EndImport, sha256: str
) -> tuple[StoreHead, Importing]:
    head = view.get(store_head_key(request.stream))
    if head is None:
        raise no_store(request.ref)
    if head.importing is None or head.importing.sha256 != sha256:
        raise StoreImporting(
            expected=f"the import of {sha256[:12]}… into document store {request.ref.store!r}",
            found="none: it was ended or discarded by another hand",
        )
    return head, head.importing


def _another_hand(expected: int, found: int) -> StoreImporting:
    return StoreImporting(
        expected=f"an import with {expected} records written", found=f"{found}: another hand has it"
    )


class Chunks:
    """Puts the records of an import into commits, behind those that are written already."""

    def __init__(self, done: int) -> None:
        self._left = done
        self._records: list[Record] = []
        self._bytes = 0

    def add(self, record: Record) -> tuple[Record, ...]:
        """Take the next record, and return those before it if they make a commit."""
        if self._left:
            self._left -= 1
            return ()
        # A larger body is put first, in chunks.
        size = min(len(record.body()), BODY_INLINE_BYTES_MAX) + _KEY_BYTES
        full: tuple[Record, ...] = ()
        if len(self._records) == CHUNK_RECORDS or self._bytes + size > CHUNK_BYTES:
            full = self.rest()
        self._records.append(record)
        self._bytes += size
        return full

    def rest(self) -> tuple[Record, ...]:
        """Return what makes no whole commit yet."""
        rest = tuple(self._records)
        self._records, self._bytes = [], 0
        return rest
