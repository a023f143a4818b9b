"""The audit table: every event of every world of a storage, appended and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, In, Or, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.events import Event
from perdure.kernel.ids import RunId, TableId, WorldId
from perdure.kernel.ranges import Ranges
from perdure.lake.layout import Layout
from perdure.lake.scan import at_least, at_most, equal
from perdure.lake.schema import physical_fingerprint

AUDIT_TABLE: Final = TableId("audit")

SCHEMA: Final = pa.schema(
    [
        pa.field("event_id", pa.string(), nullable=False),
        pa.field("world_id", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("command_id", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("entity_id", pa.int64()),
        pa.field("operation", pa.string()),
        pa.field("tick", pa.int64()),
        pa.field("token", pa.string()),
        pa.field("code", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("attempts", pa.int64()),
    ]
)
"""Columns of the table. ``at`` is in milliseconds since 1970."""

RANGES_PUSHED_MAX: Final = 50
"""Ranges of sequences that a scan compares itself; more are read from the first to the last."""


def _check(physical: pa.Schema) -> None:
    if physical_fingerprint(physical) != physical_fingerprint(SCHEMA):
        raise SchemaMismatch(
            expected=f"an audit table with columns {', '.join(SCHEMA.names)}",
            found=", ".join(physical.names),
        )


AUDIT: Final = Layout(
    name=AUDIT_TABLE,
    schema=SCHEMA,
    sorted_by=("world_id", "run_id", "seq", "index"),
    check=_check,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events of a world: what is None is not asked about. Bounds are included."""

    kinds: tuple[str, ...] | None = None
    command_id: str | None = None
    actor: str | None = None
    entity_id: int | None = None
    from_tick: int | None = None
    to_tick: int | None = None
    from_at: int | None = None
    to_at: int | None = None

    def expressions(self) -> list[BooleanExpression]:
        """Return what an event must be, all of it."""
        same = {
            "command_id": self.command_id,
            "actor": self.actor,
            "entity_id": self.entity_id,
        }
        least = {"tick": self.from_tick, "at": self.from_at}
        most = {"tick": self.to_tick, "at": self.to_at}
        found = [equal(name, value) for name, value in same.items() if value is not None]
        found += [at_least(name, value) for name, value in least.items() if value is not None]
        found += [at_most(name, value) for name, value in most.items() if value is not None]
        return found if self.kinds is None else [*found, _one_of("kind", self.kinds)]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Log entries ``first`` to ``last``: of their events so many behind (seq, index)."""

    first: int
    last: int
    after: tuple[int, int]
    limit: int


def event_rows(events: Iterable[Event]) -> pa.Table:
    """Spell events, in their order, as rows of the table."""
    held = list(events)
    columns = [[getattr(event, name) for event in held] for name in SCHEMA.names]
    return pa.table(columns, schema=SCHEMA)


def holds_event(table: Table, event: Event) -> bool:
    """Say whether the table has an event."""
    wanted = [equal("world_id", event.world_id), equal("event_id", event.event_id)]
    return bool(_scanned(table, wanted, names=("event_id",)).num_rows)


def world_events(
    table: Table, world: WorldId, run: RunId, stretch: Stretch, wanted: EventFilter
) -> list[dict[str, Any]]:
    """Return the first events of a stretch of the log that are wanted, in order."""
    place = [
        equal("world_id", world),
        equal("run_id", run),
        at_least("seq", stretch.first),
        at_most("seq", stretch.last),
    ]
    found = _scanned(table, [*place, *wanted.expressions()])
    found = found.sort_by([("seq", "ascending"), ("index", "ascending")])
    seq, index = stretch.after
    behind = (pc.field("seq") > seq) | ((pc.field("seq") == seq) & (pc.field("index") > index))
    rows: list[dict[str, Any]] = found.filter(behind).slice(0, stretch.limit).to_pylist()
    return rows


def queued_events(table: Table, worlds: Sequence[WorldId], sequences: Ranges) -> list[Event]:
    """Return the ``queued`` events of commands, of whichever of ``worlds`` has them."""
    held = sequences
    if len(held) > RANGES_PUSHED_MAX:
        held = ((held[0][0], held[-1][1]),)
    among: list[BooleanExpression] = [
        And(at_least("sequence", first), at_most("sequence", last)) for first, last in held
    ]
    some: BooleanExpression = among[0]
    for each in among[1:]:
        some = Or(some, each)
    wanted = [_one_of("world_id", worlds), equal("kind", "queued"), some]
    rows = _scanned(table, wanted).drop_columns(["event_id"]).to_pylist()
    return [Event(**row) for row in rows]


def _scanned(
    table: Table, wanted: Sequence[BooleanExpression], names: tuple[str, ...] | None = None
) -> pa.Table:
    chosen = tuple(SCHEMA.names) if names is None else names
    scan = table.scan(row_filter=reduce(And, wanted), selected_fields=chosen)
    found = scan.to_arrow()
    schema = pa.schema([SCHEMA.field(name) for name in chosen])
    return found.select(chosen).cast(schema)


def _one_of(column: str, values: Sequence[str]) -> BooleanExpression:
    if len(values) == 1:
        return equal(column, values[0])
    return In(term=Reference(column), literals={literal(each) for each in values})
