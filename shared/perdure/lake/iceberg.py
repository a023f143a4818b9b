"""Iceberg tables: made on first landing, appended to once per batch, opened by any reader."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DoubleType, IcebergType, LongType, NestedField, StringType

from perdure.kernel.records import Signature
from perdure.kernel.refusals import unanswered
from perdure.lake.layout import Layout
from perdure.lake.schema import check_fingerprint, schema_from_signature

SORTED_BY: Final = ("world_id", "tick", "entity_id")
"""Order of rows inside a file. No partitions: a world's ticks are found by file statistics."""

BATCH: Final = "perdure.batch"
"""Snapshot property with the batch id of the landing that appended it."""

CREATE_ATTEMPTS_MAX: Final = 5

PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "8",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.metadata.metrics.column.world_id": "full",
    "write.parquet.row-group-limit": "65536",
}
"""A commit is one compare-and-swap; few old metadata files; row groups small enough that a
few ticks of a long file are read without the rest. Manifests are joined early: a scan reads each
of them, however long ago it was written."""


_TYPES: Final[Mapping[pa.DataType, IcebergType]] = {
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
}


class Verdict(Enum):
    """What the snapshots of a table say about a batch."""

    LANDED = "landed"
    NOT_LANDED = "not landed"
    UNTOLD = "the chain of parents is broken: ask the rows"


class Lake:
    """The tables of one storage, in one namespace of a catalog. Not for the event loop."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog = catalog
        self._namespace = namespace

    def opened(self, signature: Signature) -> Table | None:
        """Open a table; None if nothing was landed in it.

        Raises: SchemaMismatch, StoreUnavailable.
        """
        return self.opened_as(layout_of(signature))

    def names(self) -> list[str]:
        """Return the names of all tables there are, sorted. Raises StoreUnavailable."""
        try:
            found = self._catalog.list_tables(self._namespace)
        except NoSuchNamespaceError:
            return []
        except Exception as error:
            raise unanswered("a list of Iceberg tables", error) from error
        return sorted(identifier[-1] for identifier in found)

    def table(self, name: str) -> Table | None:
        """Open a table by its name alone; None if there is none. Raises StoreUnavailable."""
        try:
            return self._catalog.load_table((self._namespace, name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            # Whatever the catalog or its transport says: it is no proof that nothing is there.
            raise unanswered(f"Iceberg table {name}", error) from error

    def like(self, name: str, model: Table) -> Table:
        """Open a table, made as ``model`` is if it is not there yet. Raises StoreUnavailable."""
        how = {
            "schema": model.schema(),
            "partition_spec": model.spec(),
            "sort_order": model.sort_order(),
            "properties": {"format-version": str(model.format_version), **model.properties},
        }
        return self._there(name, lambda: self.table(name), lambda: self._made(name, **how))

    def created(self, signature: Signature) -> Table:
        """Open a table, made if it is not there yet; rivals may make it at the same time.

        Raises: SchemaMismatch, StoreUnavailable.
        """
        return self.created_as(layout_of(signature))

    def opened_as(self, layout: Layout) -> Table | None:
        """Open the table of a layout; None if it was not made yet.

        Raises: SchemaMismatch, StoreUnavailable.
        """
        table = self.table(layout.name)
        if table is not None:
            layout.check(table.schema().as_arrow())
        return table

    def created_as(self, layout: Layout) -> Table:
        """Open the table of a layout, made if it is not there yet, as :meth:`created` does."""
        return self._there(
            layout.name, lambda: self.opened_as(layout), lambda: self._create(layout)
        )

    def _there(
        self, name: str, opened: Callable[[], Table | None], create: Callable[[], object]
    ) -> Table:
        """Open a table, made if it is not there: after each attempt the catalog is asked again."""
        failed: Exception | None = None
        for _ in range(CREATE_ATTEMPTS_MAX):
            table = opened()
            if table is not None:
                return table
            try:
                create()
            except Exception as error:  # noqa: BLE001  # whatever it was, the catalog is asked
                failed = error
        assert failed is not None
        raise unanswered(f"to create table {name}", failed) from failed

    def _create(self, layout: Layout) -> None:
        schema = _iceberg_schema(layout.schema)
        self._made(
            layout.name,
            schema=schema,
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
            sort_order=_sort_order(schema, layout.sorted_by),
            properties={**PROPERTIES, **layout.properties},
        )

    def _made(self, name: str, **how: Any) -> Table:
        """Create a table, in a namespace that is created only if there is none.

        Whoever lands in a namespace that a deployment made may not be allowed to make one.
        """
        try:
            return self._catalog.create_table((self._namespace, name), **how)
        except NoSuchNamespaceError:
            with contextlib.suppress(NamespaceAlreadyExistsError):
                self._catalog.create_namespace(self._namespace)
            return self._catalog.create_table((self._namespace, name), **how)


def layout_of(signature: Signature) -> Layout:
    """Return how the table of an archetype is made."""
    return Layout(
        name=signature.table,
        schema=schema_from_signature(signature),
        sorted_by=SORTED_BY,
        check=partial(check_fingerprint, signature),
        properties={"perdure.components": ",".join(signature.components)},
    )


def head_of(table: Table) -> int | None:
    """Return the id of the current snapshot, None while the table is empty."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def append(table: Table, rows: pa.Table, batch: str) -> int:
    """Append ``rows`` as one snapshot on the head ``table`` was loaded with; count the files.

    A compare-and-swap: if the head has moved, nothing is appended. Any exception leaves
    the outcome unknown; load the table again and look with :func:`verdict`.
    """
    table.append(rows, snapshot_properties={BATCH: batch})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary.additional_properties["added-data-files"])


def verdict(table: Table, batch: str, parent: int | None) -> Verdict:
    """Say whether ``batch`` landed, by the snapshots from the head back to ``parent``.

    ``parent`` is the head the table had before the batch was first tried, None if it was
    empty. Absence is proven only by an unbroken chain: expiry cuts a snapshot's parent
    off, so the end of a chain is the table's beginning only if it is sequence number 1.
    """
    at: Snapshot | None = table.current_snapshot()
    if at is None:
        return Verdict.NOT_LANDED if parent is None else Verdict.UNTOLD
    while at is not None:
        if at.summary is not None and at.summary.additional_properties.get(BATCH) == batch:
            return Verdict.LANDED
        if at.snapshot_id == parent:
            return Verdict.NOT_LANDED
        if at.parent_snapshot_id is None:
            is_first = parent is None and at.sequence_number == 1
            return Verdict.NOT_LANDED if is_first else Verdict.UNTOLD
        at = table.metadata.snapshot_by_id(at.parent_snapshot_id)
    return Verdict.UNTOLD


def _iceberg_schema(fields: pa.Schema) -> Schema:
    return Schema(
        *(
            NestedField(number, field.name, _TYPES[field.type], required=not field.nullable)
            for number, field in enumerate(fields, start=1)
        )
    )


def _sort_order(schema: Schema, columns: tuple[str, ...]) -> SortOrder:
    return SortOrder(
        *(
            SortField(source_id=schema.find_field(name).field_id, transform=IdentityTransform())
            for name in columns
        )
    )
