"""The Iceberg catalog: opened beside the data, and kept from deleting what it still needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from perdure.kernel.errors import StoreUnavailable
from perdure.lake.durable import WAREHOUSE

BUSY_SECONDS: Final = 30
OPEN_ATTEMPTS_MAX: Final = 5

if TYPE_CHECKING:
    _Base = Catalog
else:
    _Base = object


class Guarded(_Base):
    """Put before a catalog class: no answer to a commit is taken as proof that it failed.

    On CommitFailedException and ValidationException pyiceberg (0.12) deletes the manifests
    of the snapshot it wanted to commit, and on the former it commits again on top of what
    is there now. Both are wrong when the commit had landed and the answer was not about
    it (a retry inside the transport): the table is unreadable after the first, and holds
    the rows twice after the second. So a commit whose snapshot is found is a success, and
    every other outcome is "unknown", after which pyiceberg neither deletes nor retries.
    """

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        try:
            return super().commit_table(table, requirements, updates)  # type: ignore[safe-super]  # a catalog class follows
        except Exception as error:
            unknown = CommitStateUnknownException(f"{type(error).__name__}: {error}")
            try:
                found = self.load_table(table.name())
            except Exception:  # noqa: BLE001  # whatever it is, the outcome stays unknown
                # The look-up tells nothing; what the commit said is the better cause.
                raise unknown from error
            if not _holds(found, updates):
                raise unknown from error
            return CommitTableResponse(
                metadata=found.metadata, metadata_location=found.metadata_location
            )


class LocalCatalog(Guarded, SqlCatalog):
    """pyiceberg's SQL catalog on a SQLite file, guarded."""


def open_local(directory: Path, catalog: type[SqlCatalog] = LocalCatalog) -> SqlCatalog:
    """Open the catalog in ``directory``, a SQLite file beside the warehouse it describes.

    Raises: StoreUnavailable. Close it when done.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unavailable(directory, error) from error
    file = URL.create(
        "sqlite",
        database=str(directory.absolute() / "iceberg.db"),
        query={"timeout": str(BUSY_SECONDS)},
    )
    failed: Exception | None = None
    for _ in range(OPEN_ATTEMPTS_MAX):
        try:
            return catalog(
                "perdure",
                **{
                    "uri": file.render_as_string(),
                    # A path, not a URI: characters that mean something in a URI stay themselves.
                    "warehouse": str(directory.absolute() / WAREHOUSE),
                    "py-io-impl": "perdure.lake.durable.DurableFileIO",
                },
            )
        except SQLAlchemyError as error:  # also when another process creates it right now
            failed = error
    raise _unavailable(directory, failed) from failed


def _holds(table: Table, updates: tuple[TableUpdate, ...]) -> bool:
    ours = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
    return bool(ours) and all(
        table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None for snapshot in ours
    )


def _unavailable(directory: Path, error: Exception | None) -> StoreUnavailable:
    return StoreUnavailable(
        expected=f"an Iceberg catalog in {directory}", found=str(error).splitlines()[0]
    )
