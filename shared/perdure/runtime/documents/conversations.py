"""Storage of conversations on a document store: records by table, documents by address."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from perdure.kernel.documents import conversation
from perdure.kernel.documents.content import Loaded
from perdure.kernel.documents.conversation import ConversationTables, conversation_tables
from perdure.kernel.documents.conversation_read import Conversations
from perdure.kernel.documents.errors import StoreClosed, StoreFailed
from perdure.kernel.documents.read import DocumentScan, ScanStart, check_limit, scan_start
from perdure.kernel.documents.records import Document
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.view import View
from perdure.runtime.documents.calls import Calls
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

T = TypeVar("T")

MINTED_MAX: Final = 4_096
"""Ids kept in mind that were given and not yet committed; about more of them a store is asked."""

Page = dict[str, Any]
"""`items`, and `next`, a cursor, if there are more."""

Scanned = tuple[list[dict[str, Any]], ScanStart]
"""One more item than a page has, if there are more, and where its scan has begun."""


class ConversationStorage:
    """The conversations that one owner keeps in a store. What comes out is the caller's own."""

    def __init__(self, store: OpenStore, tables: ConversationTables, bound: Sequence[str]) -> None:
        self._store = store
        self._tables = tables
        self._bound = bound
        self._minted: set[int] = set()
        self._calls = Calls("storage of conversations")

    @classmethod
    async def open(cls, store: OpenStore, owner: str, *, lease_ms: int = 0) -> Self:
        """Take an owner's tables and namespaces in hand, the tables made if they are not there.

        Nobody else of this process can have them until this is closed. Another process that opens
        them after ``lease_ms`` without a commit has them from then on, and this one is refused.
        Raises: NameBound, OwnerHeld, TableMigrating, NewerTable.
        """
        tables = conversation_tables(owner)
        bound = store.bind(*(table.full_name for table in tables.all), f"{owner}/*")
        try:
            await store.hold(owner, lease_ms)
            await prepared(store, tables.all)
            # An import or a replica may have brought records whose ids this handle has not seen.
            store.raise_to(await store.read(partial(_last_id, tables, store.ref.partition)))
        except BaseException:
            with contextlib.suppress(PerdureError):  # its lease ends by itself
                await store.let_go(owner)
            store.release(bound)
            raise
        return cls(store, tables, bound)

    @property
    def owner(self) -> str:
        return self._tables.record_ids.owner

    async def commit(
        self, writes: Sequence[Mapping[str, Any]], adopt: Callable[[Seq], None] | None = None
    ) -> Seq:
        """Commit storage writes, all or none, and return the commit's seq.

        Raises: IdTaken, WrittenTwice, AddressTaken, UnknownDocument, DocumentRetired, NeedsBase,
        CopyRefused, Invalid kinds: nothing has happened; StaleWriter once another process has opened
        the owner; StoreFailed.
        """
        with self._calls.one():
            staged = conversation.staged_of(self._tables, writes, self._minted)
            reply = await self._store.commit(
                staged, adopt=None if adopt is None else lambda each: adopt(each.seq)
            )
            self._minted.difference_update(each.names_id for each in staged)
            return reply.seq

    def mint(self) -> int:
        """Give the next id. Raises IdsExhausted."""
        with self._calls.one():
            if len(self._minted) >= MINTED_MAX:
                self._minted.clear()
            id = self._store.mint()
            self._minted.add(id)
            return id

    async def conversation(self, id: int) -> dict[str, Any] | None:
        return await self._look(lambda each: each.conversation(id))

    async def task(self, id: int) -> dict[str, Any] | None:
        return await self._look(lambda each: each.task(id))

    async def submission(self, id: int) -> dict[str, Any] | None:
        return await self._look(lambda each: each.submission(id))

    async def submission_by_request(self, conversation: int, request: str) -> dict[str, Any] | None:
        return await self._look(lambda each: each.submission_by_request(conversation, request))

    async def entry(self, id: int) -> dict[str, Any] | None:
        """Return `entry` and `commitSeq` of an entry, wherever it is."""
        return await self._look(lambda each: each.entry(id))

    async def visible_entry(self, conversation: int, id: int) -> dict[str, Any] | None:
        """Return `entry` and `commitSeq` of one that a conversation sees, its ancestors' included.

        Raises: UnknownConversation.
        """
        return await self._look(lambda each: each.visible_entry(conversation, id))

    async def latest_head(self, conversation: int, most: int | None = None) -> Any:
        """Return the newest visible entry with a head, at or below an id. Raises UnknownConversation."""
        return await self._look(lambda each: each.latest_head(conversation, most))

    async def scan_conversations(
        self, query: Mapping[str, Any], limit: int, cursor: Any = None
    ) -> Page:
        return await self._page(lambda each: each.conversations(query, limit, cursor), limit)

    async def scan_entries(self, query: Mapping[str, Any], limit: int, cursor: Any = None) -> Page:
        """Return entries that a conversation sees, newest first unless asked otherwise.

        Raises: UnknownConversation, InvalidCursor, OtherOrder.
        """
        return await self._page(lambda each: each.entries(query, limit, cursor), limit)

    async def scan_tasks(self, query: Mapping[str, Any], limit: int, cursor: Any = None) -> Page:
        return await self._page(lambda each: each.tasks(query, limit, cursor), limit)

    async def scan_submissions(
        self, query: Mapping[str, Any], limit: int, cursor: Any = None
    ) -> Page:
        return await self._page(lambda each: each.submissions(query, limit, cursor), limit)

    async def find_document(
        self, address: Mapping[str, Any], at: Seq | None = None
    ) -> dict[str, Any] | None:
        with self._calls.one():
            found = await self._store.find(conversation.address_of(self.owner, address), at)
            return None if found is None else shown_document(found)

    async def document(self, id: int, at: Seq | None = None) -> dict[str, Any] | None:
        """Return `record`, `version`, `value` and `deltasSinceBase`. Raises HistoryNotKept."""
        with self._calls.one():
            found = await self._store.load(DocumentId(id), at)
            is_mine = found is not None and found.document.owner == self.owner
            return shown_loaded(found) if found is not None and is_mine else None

    async def scan_documents(
        self,
        scope: Mapping[str, Any],
        limit: int,
        cursor: Any = None,
        *,
        at: Seq | None = None,
        kind: str | None = None,
    ) -> Page:
        check_limit(limit)
        with self._calls.one():
            namespace = conversation.namespace_of(scope)
            wanted = None if kind is None else conversation.encoded(kind)
            scan = DocumentScan(self.owner, namespace, at, wanted)
            start = scan_start("ascending", cursor, "ascending")
            store = self._store.ref.partition
            documents, more = await self._store.read(
                lambda view: scan.page(view, store, start.after, limit)
            )
            page: Page = {"items": [shown_document(each) for each in documents]}
            return page if more is None else {**page, "next": _cursor(more, start)}

    async def close(self) -> None:
        """Refuse new calls, wait for those under way, let go of the names; the store stays open."""
        await self._calls.close()
        if self._bound:
            with contextlib.suppress(StoreFailed, StoreClosed):
                await self._store.let_go(self.owner)
        self._store.release(self._bound)
        self._bound = ()

    async def _page(self, look: Callable[[Conversations], Scanned], limit: int) -> Page:
        check_limit(limit)
        items, start = await self._look(look)
        page: Page = {"items": items[:limit]}
        if len(items) > limit:
            page["next"] = _cursor(items[limit - 1]["id"], start)
        return page

    async def _look(self, look: Callable[[Conversations], T]) -> T:
        with self._calls.one():
            store = self._store.ref.partition

            def looked(view: View) -> T:
                return look(Conversations(self._tables, store, view))

            return await self._store.read(looked)


def _last_id(tables: ConversationTables, store: Partition, view: View) -> int:
    return Conversations(tables, store, view).last_id()


def shown_document(document: Document) -> dict[str, Any]:
    """Return a document's record as its reader knows it."""
    shown: dict[str, Any] = {
        "id": document.id,
        "kind": json.loads(document.kind),
        "scope": conversation.scope_of(document.namespace),
        **document.meta,
        "createdAt": document.created_at,
    }
    if document.member is not None:
        shown["key"] = json.loads(document.member)
    if document.retired_at is not None:
        shown["retiredAt"] = document.retired_at
    return shown


def shown_loaded(loaded: Loaded) -> dict[str, Any]:
    """Return a document's content as its reader knows it."""
    return {
        "record": shown_document(loaded.document),
        "version": loaded.version,
        "value": loaded.value,
        "deltasSinceBase": loaded.deltas,
    }


def _cursor(behind: int, start: ScanStart) -> dict[str, Any]:
    return {"after": behind, "order": start.order}
