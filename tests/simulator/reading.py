"""Reading published ticks, and comparing what was read with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from tests.simulator.landed import TOLD
from tests.simulator.records import expect
from tests.simulator.rows import Row, State, rows_of
from tests.simulator.stage import Process
from tests.simulator.world import WorldTruth

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Partition, Tick, WorldId
from perdure.kernel.record import Record
from perdure.kernel.view import Key
from perdure.lake.audit import EventFilter
from perdure.runtime.history import History, HistoryAsked

ASKED = (("Place",), ("Speed",), ("Place", "Speed"), ("Tag",), ("Fickle",), ("Place", "Tag"))


async def read_once(me: Process, world: str, tick: int | None = None) -> bool:
    """Ask one question of a world; say whether it was answered."""
    stage = me.stage
    truth = stage.truth.named(world)
    assert truth is not None, "it was created"
    before = _shown(me, truth)
    if before < 0:
        return True
    components = stage.pick(ASKED)
    wanted: int | range | None = tick
    if tick is None and stage.chance.random() < 0.8:
        wanted = stage.chance.randint(0, before)
        if stage.chance.random() < 0.3:
            wanted = range(stage.chance.randint(0, wanted), wanted + 1)
    asked = Tick(wanted) if isinstance(wanted, int) else wanted
    try:
        table = await me.reader.query(WorldId(world), components, ticks=asked)
    except PerdureError as error:
        me.met(f"read: {error.code}")
        me.note("is told of its question to {}: {}", world, error)
        me.check("read", error, world)
        return False
    me.met("read: state" if not isinstance(wanted, range) else "read: range")
    me.note("has read {} rows of {} at {}", table.num_rows, world, wanted)
    names = [each.lower() for each in components]
    if isinstance(wanted, range):
        _compare_range(stage.truth.tables, truth, names, wanted, table)
    else:
        _compare(truth, names, wanted, before, table)
    return True


def _shown(me: Process, truth: WorldTruth) -> int:
    """Return the last tick that shows: of one that does not yet, nobody was told."""
    stored = me.stage.disk.visible(Key(Partition(f"w/{truth.suffix}"), "head", Record))
    return -1 if stored is None else int(me.stage.chunks.decoded(stored.body)["published"])


async def history_read(me: Process, world: str, command: str, *, whole: bool = False) -> bool:
    """Ask what happened to a command; say whether it was answered. ``whole`` wants all there is."""
    stage = me.stage
    truth = stage.truth.named(world)
    assert truth is not None, "it was created"
    history = History(me.authority, me.lake, stage.storage)
    asked = HistoryAsked(wanted=EventFilter(command_id=command))
    try:
        page = await history.read(world, asked)
    except PerdureError as error:
        me.met(f"history: {error.code}")
        me.note("is told of the history of {} in {}: {}", command, world, error)
        me.check("history", error, world)
        return False
    me.met("history: events" if page.events else "history: nothing")
    me.note("has read {} events of {} in {}", len(page.events), command, world)
    expect(
        page.through_seq == truth.seq or not whole, "I4", "{} ends at {}", world, page.through_seq
    )
    found = [tuple(each[name] for name in ("seq", "index", *TOLD)) for each in page.events]
    wanted = [
        (seq, index, *event)
        for seq in sorted(truth.entries)
        if seq <= page.through_seq
        for index, event in enumerate(stage.landed.expected(truth, seq))
        if event[2] == command
    ]
    expect(found == wanted, "I4", "history of {}: {}, expected {}", command, found, wanted)
    return True


def _compare(
    truth: WorldTruth,
    names: Sequence[str],
    wanted: int | None,
    before: int,
    table: pa.Table,
) -> None:
    found = _state_of(names, table)
    if wanted is not None:
        expected = _having(names, truth.states[wanted])
        expect(found == expected, "I3", "tick {}: read {}, true is {}", wanted, found, expected)
        return
    ticks = sorted(set(table.column("tick").to_pylist()))
    expect(len(ticks) <= 1, "I3", "one state of ticks {}", ticks)
    span = range(before, truth.published + 1)
    among = [each for each in span if _having(names, truth.states[each]) == found]
    expect(
        among and (not ticks or ticks[0] in among), "I3", "read {} of {}: {}", ticks, span, found
    )


def _state_of(names: Sequence[str], table: pa.Table) -> State:
    rows = rows_of(table.to_pydict())
    return {row.entity_id: _filled(names, row).entity for row in rows}


def _having(names: Sequence[str], state: State) -> State:
    return {
        entity_id: {name: entity[name] for name in names}
        for entity_id, entity in state.items()
        if set(names) <= entity.keys()
    }


def _compare_range(
    tables: Mapping[str, Sequence[str]],
    truth: WorldTruth,
    names: Sequence[str],
    ticks: range,
    table: pa.Table,
) -> None:
    expected: dict[tuple[int, int], Row] = {}
    for (tick, name), rows in truth.rows.items():
        if tick not in ticks or not set(names) <= set(tables[name]):
            continue
        for row in rows:
            if row.is_active or (tick, row.entity_id) not in expected:
                expected[tick, row.entity_id] = row
    columns = table.to_pydict()
    told = [
        (tick, *_spelled(names, _filled(names, row)))
        for tick, row in zip(columns["tick"], rows_of(columns), strict=True)
    ]
    wanted = [(place[0], *_spelled(names, expected[place])) for place in sorted(expected)]
    expect(told == wanted, "I3", "ticks {}: read {}, true is {}", ticks, told, wanted)


def _filled(names: Sequence[str], row: Row) -> Row:
    """Give a row its components that have no columns."""
    return Row(row.entity_id, row.is_active, {name: row.entity.get(name, {}) for name in names})


def _spelled(names: Sequence[str], row: Row) -> tuple[int, bool, object]:
    values = {name: row.entity.get(name, {}) for name in names} if row.is_active else None
    return row.entity_id, row.is_active, values
