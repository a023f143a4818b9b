"""A process that commits to a document store, tells each commit once it has an answer, and is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.documents import opened

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.runtime.documents.tables import prepared

ADDRESS = Address("notes", "papers", "tally")
LINES = Table("notes", "lines", {"number": "int", "by": "str"}, ("number",), {"by": ("by",)})


async def written(directory: Path, name: str) -> None:
    """Count in a document and write a row for each count, until killed."""
    records = await SqliteStore.open(directory / "store.db")
    async with opened(records, prefix=name) as store:
        await prepared(store, (LINES,))
        tally = await store.find(ADDRESS)
        if tally is None:
            first = base(1, {"count": 0, "by": ""})
            await store.commit([CreateDocument(ADDRESS, "rewindable", first)])
            tally = await store.find(ADDRESS)
        assert tally is not None, "it was found or made"
        loaded = await store.load(tally.id)
        count = loaded.value["count"]
        while True:
            count += 1
            ops = [["s", ["count"], count], ["a", ["by"], name]]
            line = InsertRow(LINES, {"number": count, "by": name})
            await store.commit([line, ChangeDocument(tally.id, delta(1, ops))])
            sys.stdout.write(f"{count}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(written(Path(sys.argv[1]), sys.argv[2]))
