"""The rules of those who write to document stores, and of those who read them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import LEASE_MS, STORAGE, Agreeing, few, lots

from perdure.kernel.documents.commit import CommitWrites, OwnerGrip, ReleaseOwner, TakeOwner
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.create import (
    CreateDocumentStore,
    DescribeDocumentStore,
    DiscoverDocumentStores,
)
from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.records import HISTORIES, StoreHead, store_head_key
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.ids import DocumentId, DocumentStoreId, Epoch, Holder, Lineage, Seq, Token

NOTES = Table(
    "notes",
    "edits",
    {"id": "int", "by": "str", "done": "bool", "text": "json"},
    ("id",),
    {"by_author": ("by",), "by_done": ("done", "by")},
).checked()
WRITERS = st.sampled_from(["ann", "ann", "eve"])


class Papers(Agreeing):
    """What is asked of document stores."""

    def papers(self, lot: int) -> DocumentStoreRef:
        return DocumentStoreRef(STORAGE, DocumentStoreId(f"papers{lot % 2}"))

    def store_head(self, ref: DocumentStoreRef) -> StoreHead:
        found: StoreHead | None = self.three.held(store_head_key(ref.partition))
        return StoreHead(partition=ref.partition, lineage=Lineage("")) if found is None else found

    def attempt(self) -> Token:
        return Token(f"attempt-{next(self.numbers)}")

    @rule(lot=few, app=st.sampled_from(["harbour", "harbour", "other"]))
    def begin_a_store(self, lot: int, app: str) -> None:
        ref = self.papers(lot)
        self.ask(CreateDocumentStore(ref, Lineage(f"lineage-{ref.store}"), app))
        self.ask(DeclareTables(ref, (NOTES,), self.attempt()))

    @rule(lot=few, owner=WRITERS, holder=WRITERS, leaves=st.booleans())
    def hold_an_owner(self, lot: int, owner: str, holder: str, *, leaves: bool) -> None:
        held = self.ask(TakeOwner(self.papers(lot), owner, Holder(holder), LEASE_MS))
        if held is not None and leaves:
            self.ask(ReleaseOwner(self.papers(lot), held[0]))

    @rule(
        lot=few,
        numbers=st.lists(lots, min_size=1, max_size=4),
        owner=WRITERS,
        holder=WRITERS,
        again=st.booleans(),
    )
    def write_documents(
        self, lot: int, numbers: list[int], owner: str, holder: str, *, again: bool
    ) -> None:
        """Commit a few writes of documents and rows, now and then with the answer lost."""
        ref = self.papers(lot)
        head = self.store_head(ref)
        staged = tuple(self._staged(owner, head, number) for number in numbers)
        held = next((each for each in head.held if each.owner == owner), None)
        grip = None
        if held is not None:
            grip = OwnerGrip(owner, Epoch(held.epoch), Holder(holder))
        commit = CommitWrites(
            ref, staged, self.attempt(), seen=head.seq, grip=grip, lease_ms=LEASE_MS
        )
        self.ask(commit)
        if again:
            self.ask(commit)

    def _staged(self, owner: str, head: StoreHead, number: int) -> Any:
        ids = max(1, head.next_id - 2)
        id = DocumentId(2 + number % ids)
        address = Address(owner, "papers", "page", (None, "a", "b")[number % 3])
        history = HISTORIES[number // 3 % 3]
        row = {"id": number % 5, "by": owner, "done": number % 2 == 0, "text": {"n": number}}
        content = base(1, {"n": number, "text": ""})
        writes = (
            CreateDocument(address, history, content),
            CreateDocument(address, history, content, DocumentId(2 + number)),
            CopyDocument(address, history, id, Seq(max(0, head.seq - 1)) if number % 2 else None),
            ChangeDocument(id, delta(1, [["a", ["text"], "x"]])),
            ChangeDocument(id, delta(1, [["a", ["lacking"], "x"]])),
            ChangeDocument(id, base(1 + number % 2, {"n": number, "text": "y"}), revision=1),
            ChangeDocument(id, content, trusted=True),
            RetireDocument(id),
            InsertRow(NOTES, row),
            PutRow(NOTES, row),
            UpdateRow(NOTES, (number % 5,), {"done": True}),
            DeleteRow(NOTES, (number % 5,)),
            UpdateWhere(NOTES, {"by": owner}, {"text": number}),
            DeleteWhere(NOTES, {"done": False}, count=number % 3),
        )
        return writes[number % len(writes)]

    @rule(lot=few, number=lots)
    def read_a_store(self, lot: int, number: int) -> None:
        asked = (
            DescribeDocumentStore(self.papers(lot)),
            DiscoverDocumentStores(STORAGE, None, 1 + number % 3),
        )
        self.three.ask_at_once(asked)
