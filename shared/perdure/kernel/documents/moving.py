"""Moving a document store to another storage: it is stilled, carried, and only then alive elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel.documents.commit import DocumentsRequest, no_store
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import (
    DocumentStore,
    StoreHead,
    document_store_key,
    store_head_key,
)
from perdure.kernel.errors import Conflict, NotQuiescent
from perdure.kernel.floor import check_run_by, check_unclaimed, floor_key
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, Reads, View


def unquiet_store(ref: DocumentStoreRef, head: StoreHead, now: Instant) -> NotQuiescent | None:
    """Return why a document store cannot be moved now, None if it can.

    A replica can, and one that is diverged: it is there what it was here.
    """
    found: str | None = None
    held = next((each for each in head.held if each.is_running(now)), None)
    if head.importing is not None:
        found = "importing: end the import, or discard it"
    elif held is not None:
        found = f"whose owner {held.owner!r} is held for {held.until - now} ms more"
    if found is None:
        return None
    return NotQuiescent(
        expected="every document store of the source at rest",
        found=f"document store {ref.store!r} {found}",
    )


@dataclass(frozen=True, slots=True)
class FindStoreHead(DocumentsRequest):
    """Return the head of a document store, whatever it says. Raises NotFound."""

    def reads(self) -> Reads:
        return Reads(peeks=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[StoreHead]:
        head = view.peek(store_head_key(self.stream))
        if head is None:
            raise no_store(self.ref)
        return Decision(head)


@dataclass(frozen=True, slots=True)
class StillStore(DocumentsRequest):
    """Stop a document store that is to be moved: it takes no commit.

    Its log does not tell of it: the store is elsewhere what it was. Asked again, it changes
    nothing. Raises: NotFound, NotQuiescent; Conflict once it was given up.
    """

    migration: str

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream), floor_key(self.ref.catalog)))

    def decide(self, view: View, now: Instant) -> Decision[StoreHead]:
        check_run_by(view, self.ref.catalog, "moving", self.migration)
        head = _head(view, self.ref)
        if head.status == "moving":
            return Decision(head)
        refused = unquiet_store(self.ref, head, now)
        if refused is not None:
            raise refused
        stilled = replace(head, status="moving")
        return Decision(stilled, (stilled,))


@dataclass(frozen=True, slots=True)
class FreeStore(DocumentsRequest):
    """Let a document store go on where it is, whose migration was given up. Idempotent.

    Raises: NotFound; Conflict while any migration has the storage.
    """

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream), floor_key(self.ref.catalog)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        floor = view.get(floor_key(self.ref.catalog))
        if floor is not None:
            check_unclaimed(floor)
        head = _head(view, self.ref)
        if head.status != "moving":
            return Decision(None)
        return Decision(None, (replace(head, status="open"),))


@dataclass(frozen=True, slots=True)
class PartStore(DocumentsRequest):
    """Say of a document store that it lives in another storage from now on. Idempotent."""

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = _head(view, self.ref)
        if head.status != "moving":
            return Decision(None)
        return Decision(None, (replace(head, status="moved"),))


@dataclass(frozen=True, slots=True)
class ActivateStore(DocumentsRequest):
    """Let a document store that was carried here appear: identity and head in one commit.

    Asked again, it changes nothing. Raises: NotFound, Conflict.
    """

    store: DocumentStore
    """As the source has it."""

    def reads(self) -> Reads:
        return Reads(keys=(document_store_key(self.ref), store_head_key(self.stream)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        arrived = replace(self.store, partition=self.ref.catalog, storage=self.ref.storage)
        known = view.get(arrived.key)
        if known is not None:
            if known == arrived:
                return Decision(None)
            raise Conflict(
                expected=f"document store {arrived.store!r} as it was carried", found=str(known)
            )
        head = _head(view, self.ref)
        if head.status != "staged":
            raise Conflict(
                expected=f"the head of document store {arrived.store!r} as it was carried",
                found=f"one that is {head.status}",
            )
        return Decision(None, (arrived, replace(head, status="open")))


def _head(view: View, ref: DocumentStoreRef) -> StoreHead:
    head = view.get(store_head_key(ref.partition))
    if head is None:
        raise no_store(ref)
    return head
