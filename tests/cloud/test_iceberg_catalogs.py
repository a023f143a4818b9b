"""Landing and reading on every catalog: SQL, Glue, and the one of an S3 table bucket."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.types import StringType
from tests.support.catalogs import BUCKET, EVERY, FILE, LOCAL, opened
from tests.support.day import BOTH, ONLY, a_day, expected
from tests.support.place import Place
from tests.support.steps import Died
from tests.support.worlds import gone, position, signature_of, table_of

from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.ids import Tick, Token
from perdure.lake.expire import expire
from perdure.lake.iceberg import Lake, Verdict, append, verdict
from perdure.lake.segment import Origin
from perdure.runtime import land as land_module
from perdure.runtime.land import Landed

pytestmark = pytest.mark.cloud


QUICK = {BUCKET}
"""In the quick suite; SQL and Glue are there with tests of their own."""


@pytest.fixture(
    params=[each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in EVERY]
)
def kind(request) -> str:
    return request.param


@pytest.fixture
def place(kind, tmp_path, monkeypatch, request) -> Iterator[Place]:
    address = None if kind == LOCAL else request.getfixturevalue("aws")
    with opened(kind, tmp_path, address, monkeypatch) as catalog:
        yield Place(tmp_path, catalog)


def test_rows_land_once_and_are_read_from_the_tables(place):
    worlds = [a_day(place, "w"), a_day(place, "v")]

    landed = place.land("w", "v")
    again = place.land("w", "v")

    assert (landed.rows, landed.files, again) == (32, 2, Landed())
    assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
    assert [world.landed_tick() for world in worlds] == [4, 4]
    assert len(place.latitudes()) == 4


def test_what_a_table_keeps_of_a_world_that_is_gone_is_inactive_rows(place):
    world = place.world("w")
    world.publish({ONLY: [position(7, 40.5), position(8, 41.5)]})
    world.publish({ONLY: [gone(8)]})

    place.land("w")

    assert sorted(place.keys(*ONLY).elements()) == [("w", 0, 7), ("w", 0, 8), ("w", 1, 8)]
    assert place.latitudes() == [(1, 7, 40.5)]


def test_rivals_make_one_table(kind, place):
    if kind == FILE:
        pytest.skip("rivals have a connection each; the local catalog has its own test")

    def made(_: int) -> str:
        return str(Lake(place.catalog, "main").created(signature_of(*ONLY)).metadata.table_uuid)

    with ThreadPoolExecutor(4) as pool:
        uuids = set(pool.map(made, range(4)))

    assert len(uuids) == 1


def test_of_rivals_on_one_head_one_appends_and_the_other_knows_nothing(place):
    place.lake.created(signature_of(*ONLY))
    stale = place.lake.opened(signature_of(*ONLY))
    append(place.lake.opened(signature_of(*ONLY)), rows_of_tick(0), "b1")

    with pytest.raises(CommitStateUnknownException):
        append(stale, rows_of_tick(1), "b2")

    table = place.lake.opened(signature_of(*ONLY))
    assert sum(place.keys(*ONLY).values()) == 1
    assert verdict(table, "b1", None) is Verdict.LANDED
    assert verdict(table, "b2", None) is Verdict.NOT_LANDED


def test_a_table_of_another_schema_takes_no_rows_and_gives_none(place):
    world = a_day(place)
    place.land("w")
    with place.lake.opened(signature_of(*ONLY)).update_schema() as update:
        update.add_column("note", StringType())
    world.publish({ONLY: [position(9, 5.0)]})

    with pytest.raises(SchemaMismatch):
        place.land("w")
    with pytest.raises(SchemaMismatch):
        place.lake.opened(signature_of(*ONLY))

    assert world.landed_tick() == 4


def lander_dies(place: Any, *, arrives: bool) -> None:
    """Let a lander die at its commit, which may have arrived, and its fence run out."""
    commit = place.catalog.commit_table

    def dying(*arguments: Any) -> Any:
        if arrives:
            commit(*arguments)
        raise Died

    place.catalog.commit_table = dying
    with pytest.raises(Died):
        place.land("w", holder="the dead")
    place.catalog.commit_table = commit
    place.authority.now += land_module.LEASE_MS


@pytest.mark.parametrize("arrives", [True, False])
def test_whoever_dies_at_its_commit_another_finishes_what_it_intended(place, arrives):
    world = a_day(place)
    lander_dies(place, arrives=arrives)

    place.land("w")

    assert place.keys(*BOTH) == expected("w", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,))
    assert world.landed_tick() == 4


@pytest.mark.slow
@pytest.mark.parametrize("has_landed", [True, False])
def test_a_table_rewritten_under_an_open_intent_gets_its_rows_once(place, has_landed):
    """As S3 Tables does when it compacts: the same rows in other files, under another snapshot."""
    world = a_day(place, ticks=1)
    place.land("w")
    world.publish({ONLY: [position(9, 5.0)]})
    lander_dies(place, arrives=has_landed)
    table = place.lake.opened(signature_of(*ONLY))
    table.overwrite(table.scan().to_arrow())

    place.land("w")

    assert sorted(place.keys(*ONLY).elements()) == [("w", 0, 9), ("w", 1, 9)]
    assert world.landed_tick() == 1


def test_old_snapshots_go_unless_the_catalog_keeps_house(kind, place):
    place.lake.created(signature_of(*ONLY))
    for number in range(6):
        append(place.lake.opened(signature_of(*ONLY)), rows_of_tick(number), f"b{number}")

    commit, asked = place.catalog.commit_table, []
    place.catalog.commit_table = lambda *arguments: (asked.append(1), commit(*arguments))[1]

    dropped, removed = expire(place.lake.opened(signature_of(*ONLY)), above=4, kept=2)

    table = place.lake.opened(signature_of(*ONLY))
    assert sum(place.keys(*ONLY).values()) == 6
    if kind == BUCKET:
        assert (dropped, removed, len(table.snapshots())) == (0, 0, 6)
        assert asked == [], "it is not even asked"
    else:
        assert (dropped, len(table.snapshots())) == (4, 2)
        assert removed > 0
        append(table, rows_of_tick(6), "b6")
        assert sum(place.keys(*ONLY).values()) == 7


def rows_of_tick(tick: int) -> pa.Table:
    origin = Origin("w", "run-1", Tick(tick), Token(f"t{tick}"))
    return table_of(ONLY, [position(9, float(tick))], origin)
