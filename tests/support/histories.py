"""Histories of a document store for tests: every kind of write, drawn from a seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from tests.support import conversing as c

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.errors import AddressTaken, RowAbsent, RowExists
from perdure.kernel.documents.keyed import CommitOnce
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import HISTORIES, History
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.wire import parsed_writes
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.ids import CommitId, DocumentId
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

ITEMS = Table(
    "notes",
    "items",
    {"shelf": "str", "number": "int", "color": "str", "more": "json"},
    ("shelf", "number"),
    {"by_color": ("color",)},
)
MOVED = replace(
    ITEMS, version=2, columns={**ITEMS.columns, "size": "int"}, indexes={"by_size": ("size",)}
)
COLORS = ("red", "green", "blue", "")
NAMES = ("", "a/b", "ü", "\ud800", "\U0001f600")


_ROW = {"shelf": "stock", "number": 0, "color": "grey", "more": None}


def sized(row: dict[str, Any], version: int) -> dict[str, Any]:
    """Return a row of the first version as the second has it."""
    assert version == 1
    return {**row, "size": len(row["color"])}


class Past:
    """Makes commits to a store as a seed says, each of them one that the store takes or refuses."""

    def __init__(self, store: OpenStore, seed: int) -> None:
        self._store = store
        self._draw = random.Random(seed)
        self._living: dict[int, tuple[Address, History, int]] = {}
        self._papers: list[int] = []
        self._talk: ConversationStorage | None = None
        self._items = ITEMS
        self._asked_for = 0

    async def begin(self) -> None:
        """Declare what the commits need."""
        await prepared(self._store, (ITEMS,))
        self._talk = await ConversationStorage.open(self._store, "pi")
        await self._talk.commit([c.conversation(1)])

    async def migrate(self) -> None:
        """Bring the table of items to its next version, in as many commits as it has chunks."""
        many = [InsertRow(ITEMS, {**_ROW, "number": number}) for number in range(60)]
        await self._store.commit(many[:20])
        await self._store.commit(many[20:40])
        await self._store.commit(many[40:])
        await prepared(self._store, (MOVED,), {"items": sized})
        self._items = MOVED

    async def end(self) -> None:
        """Let go of what is in hand."""
        assert self._talk is not None, "it has begun"
        await self._talk.close()

    async def go_on(self, commits: int) -> None:
        """Make so many commits, less those that are refused."""
        steps: tuple[Callable[[], Awaitable[Any]], ...] = (
            self._rows,
            self._rows,
            self._rows,
            self._rows_by_condition,
            self._create,
            self._create,
            self._change,
            self._change,
            self._retire,
            self._copy,
            self._briefly,
            self._talks,
            self._reserve,
            self._asked,
        )
        for _ in range(commits):
            with contextlib.suppress(AddressTaken, RowAbsent, RowExists):
                await self._draw.choice(steps)()

    async def _rows(self) -> None:
        key = (self._draw.choice(NAMES[:3]), self._draw.randrange(2))
        row = {
            "shelf": key[0],
            "number": key[1],
            "color": self._draw.choice(COLORS),
            "more": {"n": self._draw.random(), "text": self._draw.choice(NAMES)},
        }
        items, row = self._items, self._whole(row)
        write: StagedWrite = self._draw.choice(
            (
                InsertRow(items, row),
                PutRow(items, row),
                UpdateRow(items, key, {"color": row["color"]}),
                DeleteRow(items, key),
            )
        )
        await self._store.commit([write])

    async def _rows_by_condition(self) -> None:
        where = {"color": self._draw.choice(COLORS)}
        update = UpdateWhere(self._items, where, {"more": None, "color": self._draw.choice(COLORS)})
        await self._store.commit([self._draw.choice((update, DeleteWhere(self._items, where)))])

    async def _reserve(self) -> None:
        await self._store.commit([ReserveIds(self._draw.randrange(1, 9))])

    async def _asked(self) -> None:
        """Commit what came over a wire, and ask for it again."""
        number = self._asked_for = self._asked_for + 1
        key = {"shelf": "wire", "number": number}
        row = self._whole({**key, "color": self._draw.choice(COLORS), "more": None})
        address = {"owner": "notes", "namespace": "wire", "kind": "paper", "key": f"{number}"}
        create = {**address, "write": "document.create", "value": [number]}
        put = {"write": "row.put", "table": self._items.full_name, "row": row}
        wanted = parsed_writes([put, create][: self._draw.randrange(1, 3)])
        store, commit = self._store, CommitId(f"c-{number}")
        for is_again in (False, True):
            once = CommitOnce(store.ref, wanted, commit, store.attempt())
            async with store.in_line():
                reply = await store.means.authority.execute(once)
                store.saw(reply.seq, reply.next_id)
            assert reply.replayed == is_again, "it happens once"

    def _whole(self, row: dict[str, Any]) -> dict[str, Any]:
        return row if self._items is ITEMS else sized(row, 1)

    async def _create(self) -> None:
        address = Address("notes", "papers", self._draw.choice(NAMES), self._draw.choice(NAMES))
        history = self._draw.choice(HISTORIES)
        create = CreateDocument(address, history, base(1, {"text": "", "list": []}), meta={"a": 1})
        reply = await self._store.commit([create])
        self._living[reply.ids[0]] = (address, history, 1)

    async def _change(self) -> None:
        if not self._living:
            return
        id = self._draw.choice(sorted(self._living))
        address, history, version = self._living[id]
        if self._draw.random() < 0.3:
            version += 1
            content = base(version, {"text": "anew", "list": [version]})
        else:
            content = delta(version, [["a", ["text"], "x"], ["p", ["list"], 0, 0, [1.5]]])
        self._living[id] = (address, history, version)
        row = {"shelf": "changes", "number": id, "color": "red", "more": version}
        put = PutRow(self._items, self._whole(row))
        await self._store.commit([ChangeDocument(DocumentId(id), content), put])

    async def _retire(self) -> None:
        if self._living:
            id = self._draw.choice(sorted(self._living))
            address, history, version = self._living.pop(id)
            again = CreateDocument(address, history, base(version, {"text": "", "list": []}))
            more = [again] if self._draw.random() < 0.5 else []
            change = ChangeDocument(DocumentId(id), base(version, {"text": "last", "list": []}))
            reply = await self._store.commit([*more, RetireDocument(DocumentId(id)), change])
            for made in reply.ids:
                self._living[made] = (address, history, version)

    async def _copy(self) -> None:
        rewindable = [id for id, (_, history, _) in self._living.items() if history == "rewindable"]
        if rewindable:
            id = self._draw.choice(rewindable)
            address, history, version = self._living[id]
            elsewhere = Address("notes", f"copy-{self._store.seq}", address.kind, address.key)
            found = await self._store.load(DocumentId(id))
            assert found is not None, "it lives"
            meta = found.document.meta
            copy = CopyDocument(elsewhere, history, DocumentId(id), meta=meta)
            reply = await self._store.commit([copy])
            self._living[reply.ids[0]] = (elsewhere, history, version)

    async def _briefly(self) -> None:
        """Create documents that end in the commit that makes them."""
        id = DocumentId(self._store.mint())
        address = Address("notes", "brief", "kind")
        history = self._draw.choice(HISTORIES)
        create = CreateDocument(address, history, base(1, None), id)
        await self._store.commit([create, RetireDocument(id)])

    async def _talks(self) -> None:
        talk = self._talk
        assert talk is not None, "it has begun"
        record = c.rewindable(talk.mint(), kind=f"notes-{self._store.seq}")
        writes = [
            c.entry(talk.mint(), head={"n": 1}),
            c.task(talk.mint()),
            c.create(record, c.base({"n": 1})),
        ]
        await talk.commit(writes)
        await talk.commit([c.change(record["id"], c.delta(["s", ["n"], 2]))])
        if self._draw.random() < 0.5:
            copied = {**record, "id": talk.mint(), "scope": c.scope_of(2)}
            await talk.commit([c.copy(copied, record["id"])])
            await talk.commit([c.retire(record["id"])])
