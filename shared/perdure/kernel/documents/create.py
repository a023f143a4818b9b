"""Creation of a document store, and what can be told of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.commit import DocumentsRequest, check_whole, no_store
from perdure.kernel.documents.held import HeldOwner
from perdure.kernel.documents.records import (
    DocumentStore,
    StoreHead,
    document_store_key,
    store_head_key,
)
from perdure.kernel.documents.underway import StoreStatus
from perdure.kernel.errors import Conflict, Contended
from perdure.kernel.floor import check_floor, floor_key
from perdure.kernel.ids import (
    DocumentStoreId,
    Instant,
    Lineage,
    Partition,
    Seq,
    StorageId,
    checked_id,
)
from perdure.kernel.places import after, catalog_partition
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Range, Reads, View


@dataclass(frozen=True, slots=True)
class DocumentStoreInfo:
    """What is told of a document store without reading what is in it."""

    store_id: DocumentStoreId
    lineage: Lineage
    created_at: Instant
    seq: Seq
    next_id: int
    log_from: Seq
    held: tuple[HeldOwner, ...]
    diverged: str | None
    follows: bool = False
    """It is a replica."""

    importing: bool = False
    """An import into it has not ended."""

    status: StoreStatus = "open"


def told(store: DocumentStore, head: StoreHead) -> DocumentStoreInfo:
    """Put catalog record and head together."""
    return DocumentStoreInfo(
        store_id=store.store,
        lineage=head.lineage,  # an import brings its own
        created_at=store.created_at,
        seq=head.seq,
        next_id=head.next_id,
        log_from=head.log_from,
        held=head.held,
        diverged=head.diverged,
        follows=head.follows,
        importing=head.importing is not None,
        status=head.status,
    )


@dataclass(frozen=True, slots=True)
class CreateDocumentStore(DocumentsRequest):
    """Begin a document store: catalog record and head. The same id again changes nothing.

    Raises: InvalidId; Conflict if it is another application's.
    """

    lineage: Lineage
    app: str = ""
    follows: bool = False
    """It begins as a replica of a store of that lineage."""

    by: Caller = LOCAL
    """Whose quota it is paid from."""

    def checked(self) -> CreateDocumentStore:
        """Return self if the id is one. Raises InvalidId."""
        checked_id(self.ref.store, what="a document store's id")
        return self

    def reads(self) -> Reads:
        return Reads(
            keys=(
                document_store_key(self.ref),
                store_head_key(self.ref.partition),
                floor_key(self.ref.catalog),
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[DocumentStoreInfo]:
        store = view.get(document_store_key(self.ref))
        head = view.get(store_head_key(self.ref.partition))
        if store is not None and head is not None and head.status != "staged":
            if store.app != self.app:
                raise Conflict(
                    expected=f"document store {self.ref.store!r} of app {self.app!r}",
                    found=f"one of app {store.app!r}",
                )
            return Decision(told(store, head))
        if head is not None:
            check_whole(head, self.ref)
        if store is not None or head is not None:
            raise Contended(
                expected=f"all of document store {self.ref.store!r} or nothing",
                found="a part: its creation is running",
            )
        check_floor(view, self.ref.catalog)
        store = DocumentStore(
            partition=self.ref.catalog,
            storage=self.ref.storage,
            store=self.ref.store,
            lineage=self.lineage,
            created_at=now,
            app=self.app,
        )
        head = StoreHead(partition=self.ref.partition, lineage=self.lineage, follows=self.follows)
        return Decision(told(store, head), (store, head))


@dataclass(frozen=True, slots=True)
class DescribeDocumentStore(DocumentsRequest):
    """Tell what is known of one document store. Raises NotFound."""

    def reads(self) -> Reads:
        return Reads(peeks=(document_store_key(self.ref), store_head_key(self.ref.partition)))

    def decide(self, view: View, now: Instant) -> Decision[DocumentStoreInfo]:
        store = view.peek(document_store_key(self.ref))
        head = view.peek(store_head_key(self.ref.partition))
        if store is not None and head is not None and head.status != "staged":
            return Decision(told(store, head))
        if store is None and (head is None or head.status == "staged"):
            raise no_store(self.ref)
        raise SeenInPart(self.reads().peeks, no_store(self.ref))


@dataclass(frozen=True, slots=True)
class DiscoverDocumentStores:
    """List the document stores of a storage by id, behind one."""

    storage: StorageId
    behind: DocumentStoreId | None
    limit: int

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return catalog_partition(self.storage)

    @property
    def _range(self) -> Range[DocumentStore]:
        # U+0000 sorts first of all that may follow an id, and no id has one.
        first = "documents/" if self.behind is None else f"documents/{self.behind}\0"
        return Range(self.stream, first, after("documents/"), DocumentStore, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range,))

    def decide(
        self, view: View, now: Instant
    ) -> Decision[tuple[list[DocumentStoreInfo], DocumentStoreId | None]]:
        stores = view.find(self._range)
        heads = [store_head_key(store.ref.partition) for store in stores]
        view.require(peeks=heads)
        infos = [
            told(store, head)
            for store, key in zip(stores, heads, strict=True)
            if (head := view.peek(key)) is not None and head.status != "staged"
        ]
        more = stores[-1].store if len(stores) == self.limit else None
        return Decision((infos, more))
