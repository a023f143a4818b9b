"""Importing a document store from an export, so that nobody sees a part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from perdure.kernel.documents.create import DocumentStoreInfo
from perdure.kernel.documents.errors import DigestDiffers, InvalidExport
from perdure.kernel.documents.export_check import Brought, ExportCheck, WholeDocument
from perdure.kernel.documents.importing import (
    BeginImport,
    Chunks,
    DiscardImport,
    EndImport,
    ImportRecords,
    records_of,
)
from perdure.kernel.documents.jobs.records import JobAddress, job_at
from perdure.kernel.documents.moves import shapes_of
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Row
from perdure.kernel.documents.tables import StoredTable, Table
from perdure.kernel.ids import Lineage
from perdure.kernel.limits import BODY_BYTES_MAX
from perdure.kernel.record import Record
from perdure.runtime.documents.export import (
    REPORT_EVERY,
    Exported,
    Phase,
    Progress,
    Report,
    silently,
)
from perdure.runtime.documents.export_files import Source
from perdure.runtime.documents.jobs.hinting import hint_jobs
from perdure.runtime.documents.store import StoreMeans

LINE_BYTES_MAX: Final = BODY_BYTES_MAX + 4_096
"""Bytes of one line: the largest body with what stands around it."""


async def checked_export(
    ref: DocumentStoreRef, source: Source, *, report: Report = silently
) -> Exported:
    """Read an export from end to end and return what it holds, if it may be imported.

    In memory are its largest document, and some 200 bytes for each document and each commit id.
    Raises: InvalidExport kinds, NotFound, StoreUnavailable, Corrupt.
    """
    reading = _Reading(ref, source, report, "checking")
    async for _ in reading.things():
        pass
    return reading.exported()


async def import_store(
    means: StoreMeans,
    ref: DocumentStoreRef,
    source: Source,
    *,
    lineage: Lineage,
    app: str = "",
    follows: bool = False,
    report: Report = silently,
) -> tuple[DocumentStoreInfo, Exported]:
    """Make a store of an export, in a store that is empty or none. It is visible once it is whole.

    All of the export is checked before anything is written. One that died goes on where it had come
    to, if it is the same export; ``lineage`` is the store's until it ends. ``follows`` makes it a
    replica, which goes on with the log of its source; the jobs of any other are found from then on.
    Raises: as :func:`checked_export`, and nothing was written; NotEmpty, StoreImporting, Conflict.
    """
    exported = await checked_export(ref, source, report=report)
    begin = BeginImport(ref, lineage, exported.sha256, app).checked()
    done = await means.authority.execute(begin)
    chunks = Chunks(done)
    reading = _Reading(ref, source, report, "writing")

    async def written(records: Sequence[Record]) -> int:
        if not records:
            return done
        request = ImportRecords(ref, exported.sha256, done, tuple(records))
        return await means.authority.execute(request)

    shapes: dict[int, Table] = {}
    jobs: list[JobAddress] = []
    async for brought in reading.things():
        if isinstance(brought, StoredTable):
            shapes = shapes_of(brought)
        table = shapes[brought.version] if isinstance(brought, Row) else None
        job = job_at(brought.document) if isinstance(brought, WholeDocument) else None
        if job is not None:
            jobs.append(job)
        for record in records_of(brought, table):
            done = await written(chunks.add(record))
    done = await written(chunks.rest())
    if reading.exported().sha256 != exported.sha256:
        raise DigestDiffers(
            expected=f"the export {exported.sha256[:12]}… that was checked", found="another by now"
        )
    if not follows:  # the jobs of a replica are its source's
        await hint_jobs(means, ref, jobs, imports=True)
    end = EndImport(ref, exported.manifest, exported.sha256, done, follows)
    return await means.authority.execute(end), exported


async def discard_import(means: StoreMeans, ref: DocumentStoreRef) -> None:
    """Give up an import that has not ended: an empty store is left.

    Raises: NotFound; NotEmpty for one that has ended.
    """
    while await means.authority.execute(DiscardImport(ref)):
        pass


class _Reading:
    """One reading of an export."""

    def __init__(self, ref: DocumentStoreRef, source: Source, report: Report, phase: Phase) -> None:
        self._check = ExportCheck(ref.partition)
        self._source = source
        self._report = report
        self._phase: Phase = phase
        self._bytes = 0

    async def things(self) -> AsyncIterator[Brought]:
        """Yield what it brings, thing by thing. Raises InvalidExport kinds at what is wrong."""
        count = 0
        async for line in self._lines():
            self._bytes += len(line)
            brought = self._check.take(line)
            if brought is not None:
                count += 1
                if count % REPORT_EVERY == 0:
                    self._report(Progress(self._phase, count, self._bytes))
                yield brought
        self._check.done()
        self._report(Progress(self._phase, count, self._bytes))

    def exported(self) -> Exported:
        """Return what it held, once it was read."""
        check = self._check
        return Exported(check.manifest, check.counts, self._bytes, check.sha256)

    async def _lines(self) -> AsyncIterator[bytes]:
        pending = bytearray()
        async for chunk in self._source.chunks():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield bytes(pending) + line + b"\n"
                pending.clear()
            pending += rest
            if len(pending) > LINE_BYTES_MAX:
                raise InvalidExport(
                    expected=f"lines of at most {LINE_BYTES_MAX} bytes", found="a longer one"
                )
        if pending:
            yield bytes(pending)
