"""Scans: rows of a landed table, pruned before they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from perdure.kernel.ids import EntityId, RunId, Tick, Token, WorldId
from perdure.kernel.refusals import unanswered
from perdure.lake.schema import BASE_COLUMNS

ENTITIES_PUSHED_MAX: Final = 200
"""Entity ids up to which the scan itself compares them; more are sorted out afterwards.
Source: pyiceberg evaluates an `In` of at most 200 against file statistics."""


def landed_rows(
    table: Table,
    *,
    world: WorldId,
    run: RunId,
    first: Tick,
    last: Tick,
    schema: pa.Schema,
    entity_ids: Sequence[EntityId] | None = None,
) -> pa.Table:
    """Return a world's rows of ticks ``first`` to ``last``, both included, in no order.

    Only files and row groups that can hold such rows are read, and only the columns of
    ``schema`` that are not the same in all of them.

    Raises: FileNotFoundError if the snapshot was expired meanwhile; StoreUnavailable.
    """
    wanted = And(
        equal("world_id", world),
        And(equal("run_id", run), And(at_least("tick", first), at_most("tick", last))),
    )
    if entity_ids is not None and len(entity_ids) <= ENTITIES_PUSHED_MAX:
        ids = {literal(each) for each in entity_ids}
        wanted = And(wanted, In(term=Reference("entity_id"), literals=ids))
    same = {"world_id": world, "run_id": run}
    read = [field for field in schema if field.name not in same]
    scan = table.scan(row_filter=wanted, selected_fields=tuple(field.name for field in read))
    try:
        found = scan.to_arrow()
    except FileNotFoundError:
        raise
    except Exception as error:
        # A damaged file may raise anything: it is no proof that nothing is there.
        raise unanswered(f"rows of Iceberg table {table.name()[-1]}", error) from error
    arrays = [
        pa.repeat(pa.scalar(same[field.name]), found.num_rows)
        if field.name in same
        else found.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def holds_rows(table: Table, world: WorldId, tick: Tick, token: Token) -> bool:
    """Say whether the table has rows of one published tick."""
    wanted = And(equal("world_id", world), And(equal("tick", tick), equal("commit", token)))
    scan = table.scan(row_filter=wanted, selected_fields=BASE_COLUMNS, limit=1)
    return bool(scan.to_arrow().num_rows)


def equal(column: str, value: str | int) -> BooleanExpression:
    return EqualTo(term=Reference(column), value=literal(value))


def at_least(column: str, value: int) -> BooleanExpression:
    return GreaterThanOrEqual(term=Reference(column), value=literal(value))


def at_most(column: str, value: int) -> BooleanExpression:
    return LessThanOrEqual(term=Reference(column), value=literal(value))
