"""Lines and pages that are written to an open store, and what tests look at in it."""

from __future__ import annotations

from typing import Any

from tests.support.documents import REF

from perdure.authority.memory import MemoryStore
from perdure.authority.packing import unpacked
from perdure.kernel.documents.content import base
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.documents.rows import PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.ids import DocumentId
from perdure.kernel.view import Reads
from perdure.runtime.documents.log import entries_behind
from perdure.runtime.documents.store import OpenStore

LINES = Table("notes", "lines", {"id": "int", "by": "str"}, ("id",), {}).checked()
OTHERS = Table("others", "lines", {"id": "int", "by": "str"}, ("id",), {}).checked()
LEASE_MS = 1_000


def line(id: int, by: str = "ann", table: Table = LINES) -> PutRow:
    return PutRow(table, {"id": id, "by": by})


def page(id: int | None = None, owner: str = "notes") -> CreateDocument:
    named = None if id is None else DocumentId(id)
    content = base(1, {})
    return CreateDocument(
        Address(owner, "pages", "page", f"{id}"), "none", content, named
    ).checked()


def untitled(member: str) -> CreateDocument:
    return CreateDocument(Address("notes", "pages", "page", member), "none", base(1, {})).checked()


async def head_of(store: OpenStore) -> StoreHead:
    key = store_head_key(REF.partition)
    head = (await store.means.authority.view(Reads(peeks=(key,)))).peek(key)  # type: ignore[attr-defined]
    assert head is not None
    return head


def bodies(records: MemoryStore) -> dict[Any, bytes | Any]:
    return {key: unpacked(stored.body) for key, stored in records._records.items()}


async def attempts(store: OpenStore) -> list[str]:
    authority = store.means.authority
    found = entries_behind(authority, REF, LogPlace(), pause=store.means.pause, limit=1_000)
    return [entry.attempt async for entry in found]
