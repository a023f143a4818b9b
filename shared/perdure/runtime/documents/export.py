"""Exporting a document store to a file or to objects, while its writers go on."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perdure.kernel.documents import export
from perdure.kernel.documents.export import Counts, Manifest
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.lake.objects import ObjectStore
from perdure.runtime.documents.collect import Collector
from perdure.runtime.documents.export_files import FileSink, ObjectsSink, Sink
from perdure.runtime.documents.spool import Spool
from perdure.runtime.documents.store import StoreMeans

Phase = Literal["reading", "checking", "writing"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an export or an import has come: parts of the export, and bytes of them."""

    phase: Phase
    parts: int
    bytes: int


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export holds."""

    manifest: Manifest
    counts: Counts
    bytes: int
    sha256: str
    """Of every line but the last, as the last one says."""


def silently(progress: Progress) -> None:
    """Report to nobody."""


class ReadyExport:
    """A store as of one commit, ready to be written out. Good for one writing at a time."""

    def __init__(self, manifest: Manifest, spool: Spool) -> None:
        self.manifest = manifest
        self._spool = spool

    async def write(self, sink: Sink, report: Report = silently) -> Exported:
        """Write all lines into ``sink`` and let it finish. Raises what the sink raises."""
        counts, sha256, size = Counts(), hashlib.sha256(), 0
        line = self.manifest.spelled()
        sha256.update(line)
        await sink.write(line)
        size += len(line)
        for things, (place, lines, spelled) in enumerate(self._spool, start=1):
            counts.count(place, lines)
            sha256.update(spelled)
            await sink.write(spelled)
            size += len(spelled)
            if things % REPORT_EVERY == 0:
                report(Progress("writing", things, size))
        end = export.end_line(counts, sha256.hexdigest())
        await sink.write(end)
        await sink.finish()
        exported = Exported(self.manifest, counts, size + len(end), sha256.hexdigest())
        report(Progress("writing", self._spool.things, exported.bytes))
        return exported


REPORT_EVERY = 100
"""Things of an export between two reports."""


@asynccontextmanager
async def collected(
    means: StoreMeans,
    ref: DocumentStoreRef,
    *,
    report: Report = silently,
    directory: Path | None = None,
) -> AsyncIterator[ReadyExport]:
    """Read a store as of one commit into a nameless file in ``directory``, or where such are made.

    Nobody who writes to it waits. In memory are the largest document, or a page of rows, and what
    was written while it was read.
    Raises: NotFound, StoreImporting, StoreDiverged, Contended, LogTrimmed, Corrupt.
    """
    with Spool(directory) as spool:

        def saw() -> None:
            report(Progress("reading", spool.things, spool.bytes))

        head = await Collector(means, ref, spool, saw).collect()
        yield ReadyExport(export.manifest_of(head), spool)


async def export_to_file(
    means: StoreMeans, ref: DocumentStoreRef, path: Path, *, report: Report = silently
) -> Exported:
    """Export a store to a file that is not there yet. It has its name once it is whole and durable.

    Raises: Conflict if something has that name; as :func:`collected`; StoreUnavailable.
    """
    async with collected(means, ref, report=report, directory=path.parent) as ready:
        with FileSink(path) as sink:
            return await ready.write(sink, report)


async def export_to_objects(
    means: StoreMeans,
    ref: DocumentStoreRef,
    objects: ObjectStore,
    name: str,
    *,
    report: Report = silently,
) -> Exported:
    """Export a store to objects below ``name``: parts, and last of all the list of them.

    What died before that has left parts which no list names: the same export again takes them over,
    and whichever comes to its end removes the rest.
    Raises: Conflict if another export has that name; as :func:`collected`; StoreUnavailable,
    OutcomeUnknown.
    """
    async with collected(means, ref, report=report) as ready:
        return await ready.write(ObjectsSink(objects, name), report)
