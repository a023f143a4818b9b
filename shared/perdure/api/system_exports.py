"""Exports that Perdure's own job makes: beside the data, under a name that is the job's alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perdure.api import wiring_objects
from perdure.api.settings import Settings
from perdure.authority.engine import Authority
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import Conflict, StoreUnavailable
from perdure.kernel.ids import JobId, short_hash
from perdure.runtime.documents.export import Exported, Report, export_to_file, export_to_objects
from perdure.runtime.documents.export_files import JOBS_FOLDER, FileSource, ObjectsSource
from perdure.runtime.documents.importing import checked_export
from perdure.runtime.documents.store import StoreMeans


class Exports(Protocol):
    """Exports document stores, each under a name that its job alone has."""

    def __call__(
        self, ref: DocumentStoreRef, job: JobId, report: Report
    ) -> Coroutine[Any, Any, tuple[str, Exported]]:
        """Export a store, or find that the job has done so before; return where it lies."""
        ...


@dataclass(frozen=True, slots=True)
class ExportsHere:
    """Exports to where a storage's own objects lie: a file of this machine, or its bucket."""

    chosen: Settings
    authority: Authority
    means: StoreMeans

    async def __call__(
        self, ref: DocumentStoreRef, job: JobId, report: Report
    ) -> tuple[str, Exported]:
        """Export a store, or find that the job has done so before; return where it lies.

        Raises: as export_to_file and export_to_objects, checked_export.
        """
        name = f"{JOBS_FOLDER}/{short_hash(ref.store)}/{short_hash(job)}"
        if self.chosen.is_local:
            path = self.chosen.catalog.parent / f"{name}.jsonl"
            _made(path.parent)
            done = await once(
                lambda: export_to_file(self.means, ref, path, report=report),
                lambda: checked_export(ref, FileSource(path), report=report),
            )
            return str(path), done
        objects = wiring_objects.owned(self.chosen, self.authority)
        done = await once(
            lambda: export_to_objects(self.means, ref, objects, name, report=report),
            lambda: checked_export(ref, ObjectsSource(objects, name), report=report),
        )
        bucket, prefix = wiring_objects.bucket_and_prefix(self.chosen)
        return f"s3://{bucket}/{prefix}/{name}", done


async def once(
    export: Callable[[], Awaitable[Exported]], check: Callable[[], Awaitable[Exported]]
) -> Exported:
    """Export; or, where the one who died at it came to its end, check what lies there.

    Raises: what either raises.
    """
    try:
        return await export()
    except Conflict:
        return await check()


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(expected=f"a directory {folder}", found=str(error)) from error
