"""Iceberg tables that outlive every process, behind the catalog that the lake asks.

A table is a chain of snapshots, and an append a compare-and-swap on the one it was loaded with:
no more is promised by Iceberg, and no more is needed here. Answers may be lost or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual, Or
from tests.simulator.faults import Faults
from tests.simulator.loop import SimulatedLoop
from tests.simulator.trace import Trace

from perdure.lake.catalog import Guarded

SNAPSHOTS_KEPT = 2
"""So many snapshots a catalog leaves when it keeps house, as one of S3 Tables does."""

LATE_SECONDS = 10.0

Watch = Callable[[str, pa.Table], None]


@dataclass(frozen=True, slots=True)
class Summary:
    additional_properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a table: what was appended, on top of which other."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    summary: Summary


@dataclass(slots=True)
class Held:
    """What there is of one table."""

    schema: Any
    rows: list[pa.Table] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)


@dataclass(eq=False)
class Warehouse:
    """All tables, and whoever watches what is appended to them."""

    watch: Watch = lambda name, rows: None
    tables: dict[str, Held] = field(default_factory=dict)

    def append(self, name: str, parent: int | None, rows: pa.Table, properties: Any) -> None:
        """Append if the table is still as it was loaded. Raises CommitFailedException."""
        held = self.tables[name]
        head = held.snapshots[-1].snapshot_id if held.snapshots else None
        if head != parent:
            raise CommitFailedException(f"expected {parent}, found {head}")
        number = held.snapshots[-1].sequence_number + 1 if held.snapshots else 1
        summary = Summary({**properties, "added-data-files": "1"})
        held.snapshots.append(Snapshot(1_000 + number, head, number, summary))
        held.rows.append(rows)
        self.watch(name, rows)

    def keep_house(self) -> None:
        """Forget all but the last snapshots: chains of parents are cut."""
        for held in self.tables.values():
            del held.snapshots[:-SNAPSHOTS_KEPT]


class _Metadata:
    def __init__(self, snapshots: list[Snapshot]) -> None:
        self._by_id = {each.snapshot_id: each for each in snapshots}

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        return self._by_id.get(snapshot_id)


class SimulatedTable:
    """A table as one process has loaded it."""

    def __init__(self, catalog: SimulatedCatalog, name: str) -> None:
        held = catalog.warehouse.tables[name]
        self.catalog = catalog
        self._name = name
        self._schema = held.schema
        self._snapshots = list(held.snapshots)
        self._rows = list(held.rows)

    def name(self) -> tuple[str, ...]:
        return ("simulated", self._name)

    def schema(self) -> Any:
        return self._schema

    def snapshots(self) -> list[Snapshot]:
        return list(self._snapshots)

    def current_snapshot(self) -> Snapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def metadata(self) -> _Metadata:
        return _Metadata(self._snapshots)

    def append(self, rows: pa.Table, snapshot_properties: dict[str, str]) -> None:
        head = self.current_snapshot()
        parent = None if head is None else head.snapshot_id
        self.catalog.commit(self._name, parent, rows, snapshot_properties)
        fresh = self.catalog.warehouse.tables[self._name]
        self._snapshots, self._rows = list(fresh.snapshots), list(fresh.rows)

    def scan(
        self, row_filter: Any, selected_fields: Iterable[str], limit: int | None = None
    ) -> _Scan:
        return _Scan(self, row_filter, tuple(selected_fields), limit)

    def rows(self) -> pa.Table:
        """Return all rows of the snapshot that was loaded."""
        schema = self._schema.as_arrow()
        found = [each.cast(schema) for each in self._rows]
        return pa.concat_tables(found) if found else schema.empty_table()


@dataclass(frozen=True, slots=True)
class _Scan:
    table: SimulatedTable
    row_filter: Any
    names: tuple[str, ...]
    limit: int | None

    def to_arrow(self) -> pa.Table:
        found = self.table.rows().filter(_expression(self.row_filter)).select(list(self.names))
        return found if self.limit is None else found.slice(0, self.limit)


def _expression(wanted: Any) -> pc.Expression:
    match wanted:
        case And():
            return _expression(wanted.left) & _expression(wanted.right)
        case Or():
            return _expression(wanted.left) | _expression(wanted.right)
        case In():
            return pc.field(wanted.term.name).isin([each.value for each in wanted.literals])
        case EqualTo():
            return pc.field(wanted.term.name) == wanted.literal.value
        case GreaterThanOrEqual():
            return pc.field(wanted.term.name) >= wanted.literal.value
        case LessThanOrEqual():
            return pc.field(wanted.term.name) <= wanted.literal.value
        case _:
            raise NotImplementedError(f"no scan here needs {wanted}")


@dataclass(eq=False)
class SimulatedCatalog(Guarded):
    """A catalog as one process has it; it keeps house by itself, at any moment."""

    keeps_house: ClassVar[bool] = True

    who: str
    loop: SimulatedLoop
    warehouse: Warehouse
    faults: Faults
    trace: Trace

    def load_table(self, identifier: tuple[str, str]) -> SimulatedTable:
        if self.faults.drawn(self.faults.weather.loads) is not None:
            raise OSError("no answer to a load of a table")
        if self.faults.hits("house kept", self.faults.weather.house):
            self.warehouse.keep_house()
        if identifier[-1] not in self.warehouse.tables:
            raise NoSuchTableError(identifier[-1])
        return SimulatedTable(self, identifier[-1])

    def create_table(self, identifier: tuple[str, str], *, schema: Any, **_: Any) -> SimulatedTable:
        name = identifier[-1]
        fault = self.faults.drawn(self.faults.weather.tables)
        self.trace.tell(self.who, "creates table {} {}", name, fault)
        if fault == "append failed":
            raise OSError("no answer to a creation")
        if name in self.warehouse.tables:
            raise TableAlreadyExistsError(name)
        self.warehouse.tables[name] = Held(schema)
        if fault is not None:
            raise OSError("no answer to a creation")
        return SimulatedTable(self, name)

    def commit(self, name: str, parent: int | None, rows: pa.Table, properties: Any) -> None:
        """Commit an append, or seem not to have."""
        fault = self.faults.drawn(self.faults.weather.tables)
        self.trace.tell(self.who, "appends {} rows to {} {}", rows.num_rows, name, fault)
        if fault == "append failed":
            raise OSError("the catalog is out of reach")
        if fault == "append late":
            seconds = self.faults.chance.random() * LATE_SECONDS * self.faults.pace
            self.loop.outside(seconds, self._late, name, parent, rows, properties)
            _unknown()
        self.warehouse.append(name, parent, rows, properties)
        if fault == "append answered as conflict":
            raise CommitFailedException("the head has moved")
        if fault == "append without an answer":
            _unknown()

    def _late(self, name: str, parent: int | None, rows: pa.Table, properties: Any) -> None:
        try:
            self.warehouse.append(name, parent, rows, properties)
        except CommitFailedException:
            self.trace.tell(self.who, "has a late append to {} refused", name)
        else:
            self.trace.tell(self.who, "has a late append to {} done", name)


def _unknown() -> NoReturn:
    raise CommitStateUnknownException("504")
