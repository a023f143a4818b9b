"""Hooks advise: told of what is published, in bulk, and unable to change anything."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.runtime.harness import Fuel, Place, Speed, fresh_app, harness
from tests.support.lifecycle import ending

from perdure import AddComponents, Despawn, RemoveComponents, Spawn, Update
from perdure.kernel import limits
from perdure.kernel.errors import InvalidId
from perdure.kernel.ids import IN_TICK_ENTITY_FIRST
from perdure.runtime.app import Hook
from perdure.runtime.compute import tell
from perdure.runtime.run import HOOK_FAILURES_MAX

pytestmark = pytest.mark.lifecycle

CHANGES = ("OnSpawn", "OnDespawn", "OnComponentAdded", "OnComponentRemoved")


def listening(*moments):
    """An application whose hooks keep what they are told."""
    app, told = fresh_app(), []
    for moment in moments:
        app.hook(moment, moment)(told.append)
    return app, told


async def launched(h, *commands):
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", commands)


def groups(told):
    """Return (tick, moment, components, changed, ids) of each group that was told."""
    return [
        (each.number, each.moment, group.components, group.changed, group.entity_ids)
        for each in told
        for group in each.groups
    ]


async def test_each_change_of_an_entity_is_told_once(tmp_path):
    app, told = listening(*CHANGES)
    h = harness(tmp_path, app)
    await launched(
        h, Spawn(Place(x=0, y=0)), Spawn(Place(x=1, y=1), Speed(x=0, y=0)), Spawn(Place(x=2, y=2))
    )
    ticker = h.ticker()
    await h.run("w", 0, ticker)
    await h.worlds.submit(
        "w",
        [
            AddComponents(Fuel(litres=1), entity_id=1),
            RemoveComponents(components=["Speed"], entity_id=2),
            Despawn(entity_id=3),
        ],
    )
    await h.run("w", 1, ticker)
    await h.worlds.submit("w", [Update(Fuel(litres=2), entity_id=1)])
    await h.run("w", 2, ticker)

    assert groups(told) == [
        (0, "OnSpawn", ("Place",), ("Place",), (1, 3)),
        (0, "OnSpawn", ("Place", "Speed"), ("Place", "Speed"), (2,)),
        (1, "OnDespawn", ("Place",), ("Place",), (3,)),
        (1, "OnComponentAdded", ("Fuel", "Place"), ("Fuel",), (1,)),
        (1, "OnComponentRemoved", ("Place",), ("Speed",), (2,)),
    ]


async def test_ten_thousand_spawns_are_one_call(tmp_path):
    app, told = listening("OnSpawn")
    h = harness(tmp_path, app)
    await launched(h, *[Spawn(Place(x=0, y=0))] * 10_000)

    await h.run("w", 1)

    (call,) = told
    (group,) = call.groups
    assert group.entity_ids == tuple(range(1, 10_001))


async def test_what_processors_make_and_end_is_told_like_everything_else(tmp_path):
    app, told = listening("OnSpawn", "OnDespawn")

    @app.processor(Place)
    def relieve(rows, tick):
        if tick.number == 1:
            tick.spawn(Fuel(litres=1))
            tick.despawn(*rows["entity_id"].to_pylist())
        return rows

    h = harness(tmp_path, app)
    await launched(h, Spawn(Place(x=0, y=0)))

    await h.run("w", 2)

    assert groups(told) == [
        (0, "OnSpawn", ("Place",), ("Place",), (1,)),
        (1, "OnSpawn", ("Fuel",), ("Fuel",), (IN_TICK_ENTITY_FIRST,)),
        (1, "OnDespawn", ("Place",), ("Place",), (1,)),
    ]


async def test_entity_that_comes_and_goes_in_one_tick_is_told_of_to_nobody(tmp_path):
    app, told = listening(*CHANGES)
    h = harness(tmp_path, app)
    await launched(h, Spawn(Place(x=0, y=0)), Despawn(entity_id=1))

    report = await h.run("w", 0)

    assert report.applied == 2
    assert told == []


async def test_hooks_hear_of_changes_after_the_tick_is_published(tmp_path):
    app = fresh_app()
    order = []

    async def published(moment):
        info = await h.worlds.describe("w")
        order.append((moment, info.published_tick))

    for moment in ("PreTick", "OnSpawn", "PostTick"):
        app.hook(moment, moment)(lambda fact, moment=moment: published(moment))
    h = harness(tmp_path, app)
    await launched(h, Spawn(Place(x=0, y=0)))

    await h.run("w", 0)

    assert order == [("PreTick", None), ("OnSpawn", 0), ("PostTick", 0)]


async def test_hook_that_fails_at_any_moment_changes_nothing_and_is_reported(tmp_path, caplog):
    app = fresh_app()
    for moment in ("PreTick", "PostTick", *CHANGES):

        def fail(fact, moment=moment):
            raise LookupError(f"{moment} is not for me")

        app.hook(moment, f"fails-{moment}")(fail)
    h, plain = harness(tmp_path / "a", app), harness(tmp_path / "b")
    commands = [Spawn(Place(x=0, y=0)), Spawn(Place(x=1, y=1))]
    more = [AddComponents(Fuel(litres=1), entity_id=1), Despawn(entity_id=2)]

    ran = []
    for each in (h, plain):
        await launched(each, *commands)
        ticker = each.ticker()
        await each.run("w", 0, ticker)
        await each.worlds.submit("w", more)
        with caplog.at_level(logging.WARNING, "perdure"):
            ran.append(await each.run("w", 1, ticker))

    failed = {each.hook: each.code for each in ran[0].hook_failures}
    expected = ("PreTick", "OnDespawn", "OnComponentAdded", "PostTick")
    assert failed == {f"fails-{moment}": "lookup_error" for moment in expected}
    assert ran[1].hook_failures == ()
    assert (ran[0].applied, ran[0].entities) == (ran[1].applied, ran[1].entities) == (2, 1)
    assert "hook fails-PreTick failed in tick 1 of world w: lookup_error" in caplog.text


async def test_same_failure_of_many_ticks_is_told_once_and_different_ones_within_a_limit(tmp_path):
    app = fresh_app()

    @app.hook("PreTick")
    def same(facts):
        raise LookupError("again")

    @app.hook("PostTick")
    def different(report):
        raise LookupError(str(report.tick))

    h = harness(tmp_path, app)
    await launched(h, Spawn(Place(x=0, y=0)))

    few, many = await h.run("w", 2), await h.run("w", 2 + 2 * HOOK_FAILURES_MAX)

    assert [each.hook for each in few.hook_failures] == ["same", *["different"] * 3]
    assert len(many.hook_failures) == HOOK_FAILURES_MAX


async def test_hook_that_cancels_itself_has_failed_and_the_next_is_told():
    told = []

    def cancels(fact):
        raise asyncio.CancelledError

    hooks = [Hook("cancels", "PreTick", cancels), Hook("next", "PreTick", told.append)]

    failures = await tell(hooks, "fact")

    assert [(each.hook, each.code) for each in failures] == [("cancels", "cancelled_error")]
    assert told == ["fact"]


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        (Mute(), "mute", "Mute"),
        (LookupError("\ud800"), "lookup_error", "\\ud800"),
        (LookupError(), "lookup_error", "LookupError"),
        (SystemExit(3), "system_exit", "3"),
    ],
    ids=["mute", "no-unicode", "empty", "exit"],
)
@pytest.mark.parametrize("moment", ["PreTick", "PostTick", "OnDestroy"])
async def test_whatever_a_hook_raises_is_reported_in_text_and_changes_nothing(
    tmp_path, moment, error, code, detail, caplog
):
    app = fresh_app()

    @app.hook(moment)
    def fails(fact):
        raise error

    h = harness(tmp_path, app)
    await launched(h, Spawn(Place(x=0, y=0)))
    ran = await h.run("w", 0)
    done = await ending(h)

    told = done.hook_failures if moment == "OnDestroy" else ran.hook_failures
    assert [(each.code, each.detail) for each in told] == [(code, detail)]
    assert [record.args[-1] for record in caplog.records if record.name.startswith("perdure")] == [
        code
    ]
    assert (ran.published_tick, done.info.status) == (0, "destroyed")


async def test_cancellation_from_outside_goes_through_a_hook():
    begun = asyncio.Event()

    async def waits(fact):
        begun.set()
        await asyncio.Event().wait()

    telling = asyncio.create_task(tell([Hook("waits", "PreTick", waits)], "fact"))
    await begun.wait()
    telling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await telling


async def test_detail_of_a_failure_is_cut():
    def fails(fact):
        raise LookupError("x" * 10_000)

    (failure,) = await tell([Hook("fails", "PreTick", fails)], None)

    assert len(failure.detail) == limits.ERROR_DETAIL_CHARACTERS_MAX


def test_hooks_are_known_by_name_each_once():
    app = fresh_app()

    @app.hook("PreTick")
    def watch(facts): ...

    app.hook("PostTick", "see")(watch)
    with pytest.raises(ValueError, match="one hook named 'see'"):
        app.hook("OnSpawn", "see")(watch)

    assert [(each.name, each.moment) for each in app.hooks()] == [
        ("watch", "PreTick"),
        ("see", "PostTick"),
    ]


def test_names_that_could_not_be_asked_for_are_refused():
    app = fresh_app()

    for register in (
        app.hook("PreTick", "a/b"),
        app.processor(Place, name="a/b"),
        app.resource("a/b"),
    ):
        with pytest.raises(InvalidId):
            register(print)

    app.resource("chart")(dict)
    with pytest.raises(ValueError, match="one resource named 'chart'"):
        app.resource("chart")(dict)
