"""The Python face: what the README shows, on a real directory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import perdure
from perdure import App, Component, Despawn, Spawn
from perdure.api.settings import local
from perdure.api.wiring import made
from perdure.kernel.errors import Corrupt, NameTaken, NotPublished
from perdure.kernel.ids import Tick
from perdure.kernel.places import manifest_sort, manifests_partition


class Position(Component):
    x: float
    y: float


class Velocity(Component):
    x: float
    y: float


def harbour_app() -> App:
    app = App("harbour")

    @app.processor(Position, Velocity)
    def drift(rows: pa.Table, tick):
        moved = pc.add(rows["position__x"], rows["velocity__x"])
        return rows.set_column(rows.schema.get_field_index("position__x"), "position__x", moved)

    return app


async def test_a_world_is_made_run_and_read_and_is_there_for_the_next_process(tmp_path):
    uri = (tmp_path / "data").as_uri()
    async with perdure.open(uri, app=harbour_app()) as storage:
        world = await storage.create_world("harbour", world_id="h")
        sent = await world.submit([Spawn(Position(x=0, y=0), Velocity(x=2, y=0))], tick=3)
        ran = await world.run(to_tick=5)
        live = await world.query(Position, ticks=range(3, 6))

    async with perdure.open(uri, app=harbour_app()) as storage:
        again = await storage.world("h")
        await again.land()
        cold = await again.query("Position", ticks=range(3, 6))
        state = await again.query(Position, Velocity, ticks=4)

    assert (ran.published_tick, ran.applied) == (5, 1)
    assert sent.receipts[0].entity_id == 1
    assert live["position__x"].to_pylist() == [2.0, 4.0, 6.0]
    assert cold.equals(live)
    assert state["position__x"].to_pylist() == [4.0]


async def test_a_world_that_cannot_be_read_is_told_after_the_others_have_landed(tmp_path):
    async with perdure.open(tmp_path.as_uri(), app=harbour_app()) as storage:
        for name in ("broken", "sound"):
            world = await storage.create_world(name, world_id=name)
            await world.submit([Spawn(Position(x=0, y=0))])
            await world.run(to_tick=2)
        place = manifests_partition(storage.worlds.ref("broken").partition)
        catalog = tmp_path / "default" / ".perdure-catalog-sqlite.db"
        with closing(sqlite3.connect(catalog)) as database, database:
            garbled = "UPDATE record SET body = x'00' WHERE partition = ? AND sort = ?"
            database.execute(garbled, (place, manifest_sort(Tick(0))))

        with pytest.raises(Corrupt):
            await storage.land()

        landed = await storage.land("sound")
        assert landed.rows == 0  # it has landed beside the broken one
        assert (await (await storage.world("sound")).query(Position)).num_rows == 1


async def test_what_is_not_published_is_not_read_and_what_is_stays_readable(tmp_path):
    async with perdure.open(tmp_path.as_uri(), app=harbour_app()) as storage:
        world = await storage.create_world("harbour")
        (ship,) = (await world.submit([Spawn(Position(x=0, y=0))])).receipts
        await world.run(ticks=1)
        await world.submit([Despawn(entity_id=ship.entity_id)])
        await world.run(ticks=1)

        now, before = await world.query(Position), await world.query(Position, ticks=0)
        with pytest.raises(NotPublished):
            await world.query(Position, ticks=2)
        with pytest.raises(NameTaken):
            await storage.create_world("harbour")

    assert (now.num_rows, before.num_rows) == (0, 1)


@pytest.mark.lifecycle
async def test_a_world_is_resumed_by_the_next_process_and_ended_by_the_one_after(tmp_path):
    told = []
    app = harbour_app()
    app.hook("OnDestroy")(lambda ending: told.append((ending.world_id, ending.name)))
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        world = await storage.create_world("harbour", world_id="h")
        await world.submit([Spawn(Position(x=0, y=0), Velocity(x=2, y=0))])
        await world.run(to_tick=1)

    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        world = await storage.resume("h")
        ran = await world.run(to_tick=2)
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        world = await storage.world("h")
        ended, again = await world.destroy(), await world.destroy()
        rows = await world.query(Position, ticks=2)

    assert (ran.ticks, rows["position__x"].to_pylist()) == (1, [6.0])
    assert (ended.info.status, again.info, told) == ("destroyed", ended.info, [("h", "harbour")])


def test_who_opens_a_storage_beside_another_is_not_told_that_it_cannot_be_written(
    tmp_path, monkeypatch
):
    touch = Path.touch

    def touched_beside_a_rival(path, **options):
        touch(path, **options)
        path.unlink()  # the rival had touched it, too

    monkeypatch.setattr(Path, "touch", touched_beside_a_rival)

    chosen = made(local(tmp_path))

    assert chosen.root == tmp_path
