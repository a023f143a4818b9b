"""A process that imports an export, or makes one, and is killed at a moment of that."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.documents import REF, means
from tests.support.steps import SteppedStore, Steps, kill_9

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId, Lineage
from perdure.runtime.documents import export
from perdure.runtime.documents.export import Progress, export_to_file
from perdure.runtime.documents.export_files import FileSource
from perdure.runtime.documents.importing import import_store

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
LINEAGE = Lineage("o" * 22)


async def imported(directory: Path, at: int) -> None:
    """Import ``from.export`` as far as this process lives: up to a commit."""
    records = await SqliteStore.open(directory / "store.db")
    dying = SteppedStore(records, Steps(at, end=kill_9))
    source = FileSource(directory / "from.export")
    await import_store(means(dying, prefix="dying"), COPY, source, lineage=LINEAGE)
    await records.close()


async def exported(directory: Path, at: int) -> None:
    """Export the store of this directory as far as this process lives: up to a report."""
    records = await SqliteStore.open(directory / "store.db")
    steps = Steps(at, end=kill_9)

    def report(_: Progress) -> None:
        steps.take(lambda: None)

    export.REPORT_EVERY = 5  # it is killed while it writes, too
    await export_to_file(means(records), REF, directory / "to.export", report=report)
    await records.close()


if __name__ == "__main__":
    what = {"import": imported, "export": exported}[sys.argv[1]]
    asyncio.run(what(Path(sys.argv[2]), int(sys.argv[3])))
