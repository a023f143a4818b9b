"""Recomputation: one tick done again on the state before it, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.errors import TickFailed
from perdure.kernel.ids import EntityId, TableId
from perdure.kernel.records import Manifest, World
from perdure.kernel.settle import Failure
from perdure.kernel.stored import StoredCommand
from perdure.lake.archetype import changed_mask, single
from perdure.lake.changes import TableChanges, changes, checkpoint
from perdure.lake.staging import Staging
from perdure.lake.state import WorldState
from perdure.runtime.app import App, Processor
from perdure.runtime.compute import Computed, TickFacts, compute
from perdure.runtime.findings import Finding

IDS_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A tick done again: the state it leads to, None if it could not be done."""

    state: WorldState | None
    tables: tuple[TableChanges, ...]
    findings: list[Finding]


async def recomputed(
    app: App,
    world: World,
    manifest: Manifest,
    before: WorldState,
    commands: Sequence[StoredCommand],
    next_in_tick_entity_id: EntityId,
) -> Recomputed:
    """Apply ``commands`` and run the processors that the manifest names, as the tick did."""
    staging = Staging(before, app.registry, one_by_one=True)
    result = staging.apply(commands, stop_on_retryable=False)
    findings = _fates(manifest, (*result.rejected, *result.retryable))
    by_name = {each.name: each for each in app.processors()}
    unknown = [name for name in manifest.processors if name not in by_name]
    if unknown:
        findings.append(
            _finding(
                manifest,
                f"processors {', '.join(unknown)} in application {app.name!r}",
                f"only {', '.join(by_name) or 'none'}",
            )
        )
        return Recomputed(None, (), findings)
    processors: list[Processor] = [by_name[name] for name in manifest.processors]
    facts = TickFacts(world.world, world.run, manifest.tick, manifest.at)
    try:
        computed = await compute(
            staging.state(),
            processors,
            app.registry,
            facts,
            next_in_tick_entity_id=next_in_tick_entity_id,
            # Which of them the world used then is recorded nowhere; to give more changes nothing.
            resources=app.resources.only(app.resources.names),
        )
    except TickFailed as error:
        findings.append(_finding(manifest, error.expected, error.found))
        return Recomputed(None, (), findings)
    findings += _counts(manifest, computed)
    found = changes(before, computed.state)
    return Recomputed(computed.state, found.tables, findings)


def compared(
    manifest: Manifest, again: Sequence[TableChanges], stored: Mapping[TableId, pa.Table]
) -> list[Finding]:
    """Compare the rows of a tick done again with those that were stored, table by table."""
    expected = {each.table: each.rows for each in again}
    return [
        _finding(manifest, f"{difference[0]} in table {table}", difference[1])
        for table in sorted(expected.keys() | stored.keys())
        for difference in [_difference(stored.get(table), expected.get(table))]
        if difference is not None
    ]


def compared_checkpoint(
    manifest: Manifest, state: WorldState, stored: Mapping[TableId, pa.Table]
) -> list[Finding]:
    """Compare a checkpoint with the state it is of.

    The rows of a tick that changed everybody are its checkpoint too, with those who left.
    """
    expected = {each.table: each.rows for each in checkpoint(state)}
    living = {table: rows.filter(rows.column("is_active")) for table, rows in stored.items()}
    return [
        Finding(
            "recomputed",
            f"checkpoint of tick {manifest.tick}, table {table}",
            difference[0],
            difference[1],
        )
        for table in sorted(expected.keys() | living.keys())
        for difference in [_difference(living.get(table), expected.get(table))]
        if difference is not None
    ]


def difference_of(left: pa.Table | None, right: pa.Table | None) -> tuple[str, str] | None:
    """Tell how two sets of rows, in any order, differ in the columns of ``right``."""
    return _difference(left, right)


def _difference(stored: pa.Table | None, again: pa.Table | None) -> tuple[str, str] | None:
    stored_count = 0 if stored is None else stored.num_rows
    count = 0 if again is None else again.num_rows
    if stored_count != count or stored is None or again is None:
        return None if stored_count == count else (f"{stored_count} rows", f"{count}")
    left, right = _ordered(stored.select(again.schema.names)), _ordered(again)
    differing: set[int] = set()
    for name in right.schema.names:
        ours, theirs = single(left.column(name)), single(right.column(name))
        mask = changed_mask(ours, theirs.cast(ours.type))
        if mask is not None:
            ids = single(left.column("entity_id")).filter(pa.array(mask)).to_pylist()
            differing.update(ids)
    if not differing:
        return None
    shown = ", ".join(map(str, sorted(differing)[:IDS_SHOWN_MAX]))
    more = ", …" if len(differing) > IDS_SHOWN_MAX else ""
    return "the same rows", f"others for entities {shown}{more}"


def _ordered(rows: pa.Table) -> pa.Table:
    return rows.take(
        pc.sort_indices(rows, sort_keys=[("entity_id", "ascending"), ("is_active", "ascending")])
    )


def _counts(manifest: Manifest, computed: Computed) -> list[Finding]:
    pairs = (
        ("entities", manifest.entities, computed.state.entities),
        (
            "the next id of a tick's own entities",
            manifest.next_in_tick_entity_id,
            computed.next_in_tick_entity_id,
        ),
        ("processors", list(manifest.processors), list(computed.processors)),
    )
    return [
        _finding(manifest, f"{what}: {recorded}", str(found))
        for what, recorded, found in pairs
        if recorded != found
    ]


def _fates(manifest: Manifest, failures: Sequence[Failure]) -> list[Finding]:
    """Compare which commands were rejected, and as what, with those that a manifest names."""
    failed = {each.sequence: each.code for each in failures}
    recorded = {each.sequence: each.code for each in manifest.outcomes if each.status == "rejected"}
    return [
        _finding(
            manifest,
            f"command {sequence} {_fate(recorded.get(sequence))}",
            f"it is {_fate(failed.get(sequence))}",
        )
        for sequence in sorted(recorded.keys() | failed.keys())
        if recorded.get(sequence) != failed.get(sequence)
    ]


def _fate(code: str | None) -> str:
    return "applied" if code is None else f"rejected as {code}"


def _finding(manifest: Manifest, expected: str, found: str) -> Finding:
    return Finding("recomputed", f"tick {manifest.tick}", expected, found)
