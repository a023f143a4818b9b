"""Document stores for tests: an authority on any store, and what it means to work on one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId, Instant, Lineage, StorageId, Token
from perdure.runtime.documents.store import OpenStore, StoreMeans

REF = DocumentStoreRef(StorageId("memory"), DocumentStoreId("notes"))
LINEAGE = Lineage("0123456789abcdefghijkl")
NOW = Instant(1_700_000_000_000)


def means(records: Store | None = None, *, prefix: str = "t") -> StoreMeans:
    """Return what works on ``records``, or on a new memory.

    Attempts, which a log tells, have numbers of their own: how many tokens an authority draws for
    its commits depends on the store, and on how fast that is.
    """
    numbers, attempts = itertools.count(1), itertools.count(1)
    authority = Authority(
        MemoryStore() if records is None else records,
        now=lambda: NOW,
        new_token=lambda: Token(f"{prefix}-{next(numbers)}"),
    )
    return StoreMeans(
        authority=authority,
        now=lambda: NOW,
        new_token=lambda: Token(f"{prefix}-attempt-{next(attempts)}"),
        pause=asyncio.sleep,
    )


@asynccontextmanager
async def opened(
    records: Store | None = None, *, prefix: str = "t", ref: DocumentStoreRef = REF
) -> AsyncIterator[OpenStore]:
    """Open a store that is made if it is not there."""
    with_ = means(records, prefix=prefix)
    await with_.authority.execute(CreateDocumentStore(ref, LINEAGE).checked())
    store = await OpenStore.open(with_, ref)
    try:
        yield store
    finally:
        await store.close()
        await with_.authority.close()
