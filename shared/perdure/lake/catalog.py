"""The Iceberg catalog: opened beside the data, and kept from deleting what it still needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import URL, make_url
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

    keeps_house: ClassVar[bool] = False
    """Whether the catalog itself expires snapshots, removes files and compacts them."""

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
    """pyiceberg's SQL catalog on a SQLite file, guarded; made by its first table.

    Whoever only reads makes nothing: of a file that is not there, it says that no table is.
    """

    _is_open = False

    def load_table(self, identifier: str | Identifier) -> Table:
        if not self._is_there():
            raise NoSuchTableError(f"no catalog of tables, so no {identifier}")
        return super().load_table(identifier)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        if not self._is_there():
            raise NoSuchNamespaceError(f"no catalog of tables, so no {namespace}")
        return super().list_tables(namespace)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        return super().list_namespaces(namespace) if self._is_there() else []

    def namespace_exists(self, identifier: str | Identifier) -> bool:
        return self._is_there() and super().namespace_exists(identifier)

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        if not self._is_there():
            self._open()
        super().create_namespace(namespace, properties)

    def _init_catalog(self) -> None:
        self._is_there()

    def _is_there(self) -> bool:
        """Say whether there is a file by now: if it came later, open it."""
        if not self._is_open and self._file.is_file():
            self._open()
        return self._is_open

    @property
    def _file(self) -> Path:
        return Path(str(make_url(self.properties["uri"]).database))

    def _open(self) -> None:
        """Open the file, made if need be, whoever else does so right now.

        Raises: StoreUnavailable.
        """
        directory = self._file.parent
        failed: Exception | None = None
        for _ in range(OPEN_ATTEMPTS_MAX):
            try:
                directory.mkdir(parents=True, exist_ok=True)
                super()._init_catalog()
            except (SQLAlchemyError, OSError) as error:
                failed = error
            else:
                self._is_open = True
                return
        raise _unavailable(directory, failed) from failed


def open_local(directory: Path, catalog: type[SqlCatalog] = LocalCatalog) -> SqlCatalog:
    """Open the catalog in ``directory``, a SQLite file beside the warehouse it describes.

    Raises: StoreUnavailable. Close it when done.
    """
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not there.is_dir():
        raise _unavailable(directory, NotADirectoryError(str(there)))
    properties = {
        # A path, not a URI: characters that mean something in a URI stay themselves.
        "warehouse": str(directory.absolute() / WAREHOUSE),
        "py-io-impl": "perdure.lake.durable.DurableFileIO",
    }
    return open_file(directory.absolute() / "iceberg.db", properties, catalog)


def open_file(
    path: Path, properties: Mapping[str, str], catalog: type[SqlCatalog] = LocalCatalog
) -> SqlCatalog:
    """Open the catalog in a SQLite file, of a warehouse that ``properties`` name.

    Raises: StoreUnavailable. Close it when done.
    """
    file = URL.create("sqlite", database=str(path), query={"timeout": str(BUSY_SECONDS)})
    failed: Exception | None = None
    for _ in range(OPEN_ATTEMPTS_MAX):
        try:
            return catalog("perdure", **{"uri": file.render_as_string(), **properties})
        except SQLAlchemyError as error:  # also when another process creates it right now
            failed = error
    raise _unavailable(path.parent, failed) from failed


def _holds(table: Table, updates: tuple[TableUpdate, ...]) -> bool:
    ours = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
    return bool(ours) and all(
        table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None for snapshot in ours
    )


def _unavailable(directory: Path, error: Exception | None) -> StoreUnavailable:
    return StoreUnavailable(
        expected=f"an Iceberg catalog in {directory}", found=str(error).splitlines()[0]
    )
