"""A handle whose pauses are over at once, and what became of what it committed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from botocore.exceptions import ReadTimeoutError
from tests.support.documents import LINEAGE, NOW, REF

from perdure.authority.engine import Authority
from perdure.authority.store import Store
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.read import RowScan, scan_start
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.ids import Token
from perdure.runtime.documents.log import entries_behind
from perdure.runtime.documents.store import OpenStore, StoreMeans
from perdure.runtime.documents.tables import prepared

LINES = Table("notes", "lines", {"id": "int"}, ("id",), {"by_id": ("id",)}).checked()
ALWAYS = 1_000
LOST = ReadTimeoutError(endpoint_url="x")


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def handle(records: Store, prefix: str = "t") -> AsyncIterator[OpenStore]:
    """Open a store whose pauses are over at once."""
    numbers = itertools.count(1)

    def new_token() -> Token:
        return Token(f"{prefix}-{next(numbers)}")

    authority = Authority(records, now=lambda: NOW, new_token=new_token, pause=at_once)
    with_ = StoreMeans(authority, now=lambda: NOW, new_token=new_token, pause=at_once)
    await authority.execute(CreateDocumentStore(REF, LINEAGE).checked())
    store = await OpenStore.open(with_, REF)
    try:
        await prepared(store, [LINES])
        yield store
    finally:
        await store.close()
        await authority.close()


def line(id: int) -> InsertRow:
    return InsertRow(LINES, {"id": id})


async def ids(store: OpenStore) -> list[int]:
    """Return the rows that are there, and hold the log to one commit for each of them."""
    scan = RowScan(LINES)
    start = scan_start(None, None, "ascending")
    rows = await store.read(lambda view: scan.page(view, REF.partition, start, 100))
    found = entries_behind(store.means.authority, REF, LogPlace(), pause=at_once)
    told = [each["row"]["id"] async for entry in found for each in entry.told() if "row" in each]
    assert sorted(told) == [row.value["id"] for row in rows]
    return sorted(told)
