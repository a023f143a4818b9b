"""A process that commits to a document store beside others, as often as it is told, and ends."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.support.documents import opened

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import CreateDocument
from perdure.runtime.documents.tables import prepared

LINES = Table("notes", "lines", {"by": "str", "number": "int"}, ("by", "number"), {"by": ("by",)})


async def committed(directory: Path, name: str, count: int) -> dict[str, list[int]]:
    """Commit a row and a document each time, and return which commits and ids that made."""
    records = await SqliteStore.open(directory / "store.db")
    told: dict[str, list[int]] = {"seqs": [], "ids": []}
    async with opened(records, prefix=name) as store:
        await prepared(store, [LINES])
        for number in range(count):
            address = Address("notes", "pages", "page", f"{name}-{number}")
            row = InsertRow(LINES, {"by": name, "number": number})
            reply = await store.commit([row, CreateDocument(address, "none", base(1, number))])
            told["seqs"].append(reply.seq)
            told["ids"] += reply.ids
    return told


if __name__ == "__main__":
    outcome = asyncio.run(committed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
    sys.stdout.write(json.dumps(outcome))
