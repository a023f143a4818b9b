"""Defects that systems of this kind are known to have: costs that grow, counted instead of timed."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.runtime.harness import Place, fresh_app, harness
from tests.support.worlds import Position, position, signature_of

from perdure import Spawn, Update
from perdure.kernel import limits

pytestmark = pytest.mark.lifecycle


class CountingObjects:
    """Objects that count how often they are asked for what."""

    def __init__(self, objects):
        self._objects = objects
        self.calls = Counter()

    def __getattr__(self, name):
        method = getattr(self._objects, name)

        async def counted(*args):
            self.calls[name] += 1
            return await method(*args)

        return counted


class CountingStore:
    """A store that counts loads, commits and the records that were loaded."""

    def __init__(self, store):
        self._store = store
        self.calls = Counter()

    async def load(self, reads):
        self.calls["loads"] += 1
        view = await self._store.load(reads)
        self.calls["records"] += len(view.stored)
        return view

    async def commit(self, commit):
        self.calls["commits"] += 1
        await self._store.commit(commit)

    async def close(self):
        await self._store.close()


def moving_app():
    app = fresh_app()

    @app.processor(Place)
    def drift(rows, tick):
        moved = rows.column("place__x").to_numpy() + 1.0
        return rows.set_column(rows.schema.get_field_index("place__x"), "place__x", [moved])

    return app


def counting(tmp_path, app=None):
    h = harness(tmp_path, app)
    h.store = CountingStore(h.store)
    h.objects = CountingObjects(h.objects)
    h.__post_init__()
    return h


async def cost(h, run):
    before, objects = Counter(h.store.calls), Counter(h.objects.calls)
    await run
    return h.store.calls - before, h.objects.calls - objects


async def test_a_tick_costs_the_same_after_hundreds_of_ticks(tmp_path):
    """Where each tick appends and reads back the whole state, the thousandth costs far more."""
    h = counting(tmp_path, moving_app())
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(400)])
    ticker = h.ticker()
    await h.run("w", 10, ticker)

    early = await cost(h, h.run("w", 15, ticker))
    await h.run("w", 400, ticker)
    late = await cost(h, h.run("w", 405, ticker))

    assert late == early
    assert late[1]["get"] == 0, "a warm tick reads nothing back"


async def test_a_cold_start_reads_no_more_than_what_a_checkpoint_leaves(tmp_path):
    """Where a resume scans every table, it takes as long as the world is old."""
    h = counting(tmp_path, moving_app())
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(400)])
    await h.run("w", 6 * limits.CHECKPOINT_TICKS + 5)

    store, objects = await cost(h, h.run("w", 6 * limits.CHECKPOINT_TICKS + 6, h.ticker("cold")))

    assert objects["get"] <= limits.CHECKPOINT_TICKS + 1
    assert store["records"] <= limits.CHECKPOINT_TICKS + 30


async def test_a_thousand_updates_read_as_much_as_one(tmp_path):
    """Where every update reads the table for its entity, a tick of updates crawls."""
    h = counting(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(1_000)])
    ticker = h.ticker()
    await h.run("w", 0, ticker)

    await h.worlds.submit("w", [Update(Place(x=0, y=1), entity_id=1)])
    one = await cost(h, h.run("w", 1, ticker))
    await h.worlds.submit("w", [Update(Place(x=0, y=2), entity_id=n) for n in range(1, 1_001)])
    thousand = await cost(h, h.run("w", 2, ticker))

    assert thousand[0]["loads"] == one[0]["loads"]
    assert thousand[1]["get"] == one[1]["get"] == 0


def test_a_query_of_one_tick_opens_the_files_of_that_tick_alone(place, monkeypatch):
    """Where filters are dropped on the way to the table, one row costs a scan of everything."""
    world = place.world()
    for tick in range(4):
        world.publish({(Position,): [position(1, float(tick))]})
        place.land()
    opened = Counter()
    file_io = type(place.lake.opened(signature_of(Position)).io)
    whole = file_io.new_input

    def counted(self, location):
        opened["data" if location.endswith(".parquet") else "metadata"] += 1
        return whole(self, location)

    monkeypatch.setattr(file_io, "new_input", counted)

    rows = place.latitudes(ticks=range(2, 3))

    assert rows == [(2, 1, 2.0)]
    assert opened["data"] == 1
