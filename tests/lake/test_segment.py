"""Segments: what a tick wrote comes back exactly, or is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, RunId, TableId, Tick, Token, WorldId
from perdure.kernel.records import TableRows
from perdure.lake import segment
from perdure.lake.objects import LocalObjects
from perdure.lake.schema import archetype_schema
from perdure.lake.segment import Origin, inlined, rows_of, segment_bytes, segment_name, stored_rows

TABLE = TableId("a_1c_x")
WORLD = Partition("w/s-_/w-_")
ORIGIN = Origin(WorldId("w"), RunId("r"), Tick(7), Token("t"))


class Position(Component):
    x: float
    label: str | None = None
    count: int = 0


SCHEMA = archetype_schema([Position.component])


def rows(count: int) -> pa.Table:
    return pa.table(
        [
            pa.repeat("w", count),
            pa.repeat("r", count),
            pa.array(range(count), pa.int64()),
            pa.array([7] * count, pa.int64()),
            pa.array([n % 3 != 0 for n in range(count)]),
            pa.repeat("t", count),
            pa.array([0.1 * n for n in range(count)], pa.float64()),
            pa.array([None if n % 2 else f"é{n}" for n in range(count)], pa.string()),
            pa.array([2**63 - 1 - n for n in range(count)], pa.int64()),
        ],
        schema=SCHEMA,
    )


@pytest.mark.parametrize(("count", "is_inline"), [(0, True), (1, True), (50, True), (2_000, False)])
def test_rows_come_back_as_they_were_stored(tmp_path, count, is_inline):
    objects = LocalObjects(tmp_path)

    async def story() -> tuple[TableRows, pa.Table]:
        held = await stored_rows(TABLE, rows(count), world=WORLD, origin=ORIGIN, objects=objects)
        return held, await rows_of(held, ORIGIN, SCHEMA, objects)

    held, back = asyncio.run(story())

    assert back.equals(rows(count))
    assert held.rows == count
    assert (held.segment is None) == is_inline
    assert asyncio.run(objects.names("")) == ([] if is_inline else [held.segment])


def test_few_long_rows_go_to_a_segment(tmp_path):
    long = rows(1).set_column(7, SCHEMA.field(7), [["x" * limits.INLINE_ROWS_BYTES_MAX]])

    held = asyncio.run(
        stored_rows(TABLE, long, world=WORLD, origin=ORIGIN, objects=LocalObjects(tmp_path))
    )

    assert held.segment is not None


@pytest.mark.parametrize("spare", [-1, 0])
def test_rows_ride_in_the_manifest_while_their_spelling_fits(spare):
    many = rows(30)
    whole = len(canonical(many.drop_columns(["world_id", "run_id", "tick", "commit"]).to_pydict()))
    room = limits.INLINE_ROWS_BYTES_MAX - whole + spare + 1
    label = many["position__label"].to_pylist()
    label[0] += "x" * room
    long = many.set_column(7, SCHEMA.field(7), [label])

    assert (inlined(TABLE, long) is None) == (spare == 0)


def test_inline_rows_may_leave_out_what_is_empty_or_true():
    held = TableRows(table=TABLE, rows=2, inline={"entity_id": [3, 4], "position__x": [1, 2.5]})

    back = asyncio.run(rows_of(held, ORIGIN, SCHEMA, LocalObjects(Path("unused"))))

    assert back.select(
        ["entity_id", "is_active", "position__x", "position__count"]
    ).to_pylist() == [
        {"entity_id": 3, "is_active": True, "position__x": 1.0, "position__count": None},
        {"entity_id": 4, "is_active": True, "position__x": 2.5, "position__count": None},
    ]


@pytest.mark.parametrize(
    "inline",
    [
        {"position__x": [1.0]},
        {"entity_id": [1, 2]},
        {"entity_id": [1], "velocity__x": [1.0]},
        {"entity_id": [1], "position__x": ["fast"]},
        {"entity_id": [2**63]},
    ],
)
def test_inline_rows_that_do_not_fit_their_table_are_corrupt(inline):
    held = TableRows(table=TABLE, rows=1, inline=inline)

    with pytest.raises(Corrupt):
        asyncio.run(rows_of(held, ORIGIN, SCHEMA, LocalObjects(Path("unused"))))


def test_a_segment_with_one_changed_bit_is_corrupt(tmp_path):
    objects = LocalObjects(tmp_path)
    held = asyncio.run(stored_rows(TABLE, rows(2_000), world=WORLD, origin=ORIGIN, objects=objects))
    path = tmp_path / held.segment
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(Corrupt):
        asyncio.run(rows_of(held, ORIGIN, SCHEMA, objects))


def test_a_segment_of_another_schema_is_corrupt(tmp_path):
    objects = LocalObjects(tmp_path)
    held = asyncio.run(stored_rows(TABLE, rows(2_000), world=WORLD, origin=ORIGIN, objects=objects))
    other = SCHEMA.set(8, pa.field("position__count", pa.float64()))

    with pytest.raises(Corrupt):
        asyncio.run(rows_of(held, ORIGIN, other, objects))


def test_a_segment_holds_no_column_that_its_manifest_implies():
    thousand = segment_bytes(rows(1_000)).nbytes

    assert thousand < 1_000 * (8 + 8 + 8 + 4 + 8) + 3_000


def test_names_of_segments_tell_attempts_and_kinds_apart():
    names = {
        segment_name(WORLD, Tick(7), Token("t"), TABLE),
        segment_name(WORLD, Tick(7), Token("u"), TABLE),
        segment_name(WORLD, Tick(8), Token("t"), TABLE),
        segment_name(WORLD, Tick(7), Token("t"), TABLE, is_checkpoint=True),
        segment_name(Partition("w/s-/_w-_"), Tick(7), Token("t"), TABLE),
    }

    assert len(names) == 5
    assert min(names).startswith("checkpoint/w.s-_.w-_/0000000000000000/0000000000000000007.t.")


@pytest.mark.proof
@pytest.mark.parametrize("count", [0, 1, 2_000, 20_000])
def test_a_segment_has_the_same_bytes_whether_its_size_is_measured_first_or_not(monkeypatch, count):
    found = {}
    for at_once in (0, 10**9):
        monkeypatch.setattr(segment, "AT_ONCE_BYTES_MAX", at_once)
        found[at_once] = bytes(segment_bytes(rows(count)))

    assert found[0] == found[10**9]


@pytest.mark.proof
def test_a_manifest_says_the_same_of_a_segment_digested_at_once_or_beside(tmp_path, monkeypatch):
    found = []
    for at_once in (0, 10**9):
        monkeypatch.setattr(segment, "AT_ONCE_BYTES_MAX", at_once)
        objects = LocalObjects(tmp_path / str(at_once))
        put = stored_rows(TABLE, rows(2_000), world=WORLD, origin=ORIGIN, objects=objects)
        found.append(asyncio.run(put))

    assert found[0] == found[1]
