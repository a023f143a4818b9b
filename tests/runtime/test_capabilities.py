"""A world's own choice, on both stores: durable, by name, and followed from the next tick on."""

from __future__ import annotations

import asyncio

import pyarrow.compute as pc
import pytest
from tests.support.anywhere import here, in_the_cloud

from perdure import App, Component, Spawn
from perdure.kernel.errors import (
    PerdureError,
    UnknownHook,
    UnknownProcessor,
    UnknownResource,
    WrongApp,
)
from perdure.kernel.ids import Tick
from perdure.kernel.reading import FindManifests, FindWorld

pytestmark = pytest.mark.lifecycle


class Ship(Component):
    x: float
    load: float


def put(rows, column, values):
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def harbour(*without, name="harbour", told=None):
    """An application of ships that move and fill up, less what it has no longer."""
    app = App(name)
    app.component(Ship)

    def move(rows, tick):
        return put(rows, "ship__x", pc.add(rows["ship__x"], 1.0))

    def fill(rows, tick):
        return put(rows, "ship__load", pc.add(rows["ship__load"], rows["ship__x"]))

    def tell(report):
        if told is not None:
            told.append(report.tick)

    for known_as, process in {"move": move, "fill": fill}.items():
        if known_as not in without:
            app.processor(Ship, name=known_as)(process)
    if "tell" not in without:
        app.hook("PostTick", "tell")(tell)
    if "chart" not in without:
        app.resource("chart")(dict)
    return app


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def place(request, tmp_path, monkeypatch):
    if request.param == "sqlite":
        return here(tmp_path)
    return in_the_cloud(request.getfixturevalue("aws"), monkeypatch)


async def launched(storage):
    world = await storage.create_world("harbour", world_id="h")
    await world.submit([Spawn(Ship(x=0, load=0))])
    return world


async def xs(world):
    return [row["ship__x"] for row in (await world.query(Ship)).to_pylist()]


async def manifest(world, tick):
    execute = world.storage.ticker.means.authority.execute
    partition = world.storage.worlds.ref(world.world_id).partition
    (found,) = await execute(FindManifests(partition, Tick(tick), Tick(tick)))
    return found


async def head(world):
    execute = world.storage.ticker.means.authority.execute
    return (await execute(FindWorld(world.storage.worlds.ref(world.world_id)))).head


def names(used):
    return [each.name for each in used]


async def test_removed_processor_stops_its_rows_stay_and_added_again_it_goes_on(place):
    async with place.opened(harbour()) as storage:
        world = await launched(storage)
        await world.run(ticks=2)
        left = await world.remove_processor("move")
    async with place.opened(harbour()) as storage:
        world = await storage.world("h")
        listed = await world.processors()
        await world.run(ticks=2)
        still, ran = await xs(world), await manifest(world, 3)
        await world.add_processor("move")
        await world.run(ticks=1)
        moved = await xs(world)

    assert names(left) == names(listed) == ["fill"]
    assert (still, moved) == ([2.0], [3.0])
    assert ran.processors == ("fill",)


async def test_what_is_listed_says_what_it_is(place):
    async with place.opened(harbour()) as storage:
        world = await launched(storage)

        await world.add_processor("move", priority=-3)
        processors, hooks = await world.processors(), await world.hooks()
        resources = await world.resources()

    spelled = [(each.name, each.priority, each.components, each.registered) for each in processors]
    assert spelled == [("move", -3, ("Ship",), True), ("fill", 0, ("Ship",), True)]
    assert [(each.name, each.moment, each.registered) for each in hooks] == [
        ("tell", "PostTick", True)
    ]
    assert [(each.name, each.registered) for each in resources] == [("chart", True)]


@pytest.mark.parametrize(("priority", "loads"), [(None, [0.0]), (-1, [1.0])])
async def test_priority_of_the_world_decides_the_order(tmp_path, priority, loads):
    async with here(tmp_path).opened(harbour()) as storage:
        world = await launched(storage)
        await world.add_processor("move", priority=priority)

        await world.run(ticks=1)
        rows = (await world.query(Ship)).to_pylist()

    # "fill" comes before "move" by name: only then is the ship still at 0.
    assert [row["ship__load"] for row in rows] == loads


async def test_removed_hook_is_told_no_longer(place):
    told = []
    async with place.opened(harbour(told=told)) as storage:
        world = await launched(storage)
        await world.run(ticks=1)

        await world.remove_hook("tell")
        await world.run(ticks=1)
        await world.add_hook("tell")
        await world.run(ticks=1)

    assert told == [0, 2]


async def test_rivals_who_change_at_once_both_have_their_way(place):
    async with place.opened(harbour()) as one, place.opened(harbour()) as other:
        mine = await launched(one)
        theirs = await other.world("h")

        await asyncio.gather(
            mine.remove_processor("move"),
            theirs.remove_processor("fill"),
            mine.remove_hook("tell"),
            theirs.add_processor("move", priority=4),
            theirs.remove_resource("chart"),
        )
        listed = await mine.processors()
        others = (await mine.hooks(), await theirs.resources())
        entries = [each for each in await mine.log() if each.kind == "configured"]

    # Of "move" the later one holds.
    assert "fill" not in names(listed)
    assert others == ((), ())
    last = [each for each in entries if each.facts["name"] == "move"][-1]
    assert ("move" in names(listed)) == (last.facts["action"] == "add")
    assert len(entries) == 5


@pytest.mark.parametrize(
    ("lost", "error"), [("move", UnknownProcessor), ("chart", UnknownResource)]
)
async def test_world_of_more_than_the_application_has_is_not_ticked(place, lost, error):
    async with place.opened(harbour()) as storage:
        world = await launched(storage)
        await world.run(ticks=1)
        await world.add_processor("move", priority=1)
        await world.remove_resource("chart")
        await world.add_resource("chart")
    async with place.opened(harbour(lost)) as storage:
        world = await storage.world("h")
        before = await head(world)

        with pytest.raises(error) as refused:
            await world.run(ticks=1)
        after = await head(world)
        listed = [*await world.processors(), *await world.resources()]

    assert refused.value.code == f"unknown_{'resource' if lost == 'chart' else 'processor'}"
    assert after.fence == before.fence
    assert after.published == 0
    assert {each.name: each.registered for each in listed if each.name == lost} == {lost: False}


async def test_hook_that_the_application_has_no_longer_is_reported_and_the_tick_goes_on(tmp_path):
    place = here(tmp_path)
    async with place.opened(harbour()) as storage:
        world = await launched(storage)
        await world.remove_hook("tell")
        await world.add_hook("tell")
    async with place.opened(harbour("tell")) as storage:
        world = await storage.world("h")

        ran = await world.run(ticks=2)

    assert ran.ticks == 2
    assert [(each.hook, each.code) for each in ran.hook_failures] == [("tell", "unknown_hook")]


async def test_another_application_may_neither_list_nor_change(place):
    async with place.opened(harbour()) as storage:
        await launched(storage)
    async with place.opened(harbour(name="airspace")) as storage:
        world = await storage.world("h")
        before = await head(world)

        for asked in (
            world.processors(),
            world.add_processor("move", priority=1),
            world.remove_hook("tell"),
        ):
            with pytest.raises(WrongApp):
                await asked
        after = await head(world)

    assert after == before


async def test_names_that_nothing_has_are_refused_with_their_codes(tmp_path):
    async with here(tmp_path).opened(harbour()) as storage:
        world = await launched(storage)
        before = await head(world)

        refused = []
        for asked in (world.add_processor("m"), world.add_hook("m"), world.add_resource("m")):
            with pytest.raises((UnknownProcessor, UnknownHook, UnknownResource)) as error:
                await asked
            refused.append(error.value.code)
        after = await head(world)

    assert refused == ["unknown_processor", "unknown_hook", "unknown_resource"]
    assert after == before


async def test_change_in_the_midst_of_a_tick_holds_from_the_next_one_on(tmp_path):
    app = harbour()

    @app.hook("PreTick")
    async def stop_at_two(facts):
        if facts.number == 2:
            await world.remove_processor("move")

    async with here(tmp_path).opened(app) as storage:
        world = await launched(storage)

        await world.run(ticks=5)
        moved = await xs(world)
        ran = [(await manifest(world, tick)).processors for tick in range(5)]

    assert moved == [3.0]
    assert ran == [("fill", "move")] * 3 + [("fill",)] * 2


async def test_resource_is_made_once_and_shared_by_name_until_it_is_taken_away(tmp_path):
    app, made = harbour("chart"), []

    @app.resource("chart")
    def chart():
        made.append("chart")
        return {"seen": 0}

    @app.processor(Ship)
    def look(rows, tick):
        tick.resources["chart"]["seen"] += 1
        return rows

    async with here(tmp_path).opened(app) as storage:
        one = await launched(storage)
        other = await storage.create_world("other")
        await other.submit([Spawn(Ship(x=0, load=0))])
        await one.run(ticks=2)
        await other.run(ticks=1)

        await one.remove_resource("chart")
        with pytest.raises(PerdureError) as failed:
            await one.run(ticks=1)

    assert made == ["chart"]
    assert app.resources.made("chart") == {"seen": 3}
    assert failed.value.code == "tick_failed"
    assert "UnknownResource" in failed.value.found
