"""Creation: one commit or none, the same id the same world, one name one world."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.paper import Paper
from tests.support.worldly import WORLD, World, due

from perdure.kernel.create import CreateWorld, Describe, Discover
from perdure.kernel.errors import (
    Conflict,
    Contended,
    NameTaken,
    NotFound,
    PerdureError,
    WorldDestroyed,
)
from perdure.kernel.ids import RunId, WorldId
from perdure.kernel.places import MINUTE_MS, WorldRef, wake_sort
from perdure.kernel.records import head_key, name_key, world_key
from perdure.kernel.upkeep import Wake, schedule_key
from perdure.kernel.view import Key

OK = "ok"


def creation(world="w", name="harbour", **more):
    return CreateWorld(WorldRef(WORLD.storage, WorldId(world)), name, RunId("run-1"), **more)


def test_a_world_enters_its_catalog_with_name_head_and_first_log_entry():
    paper = Paper()

    info = paper.ask(creation(kind="port"))

    assert (info.world_id, info.name, info.kind, info.run_id) == ("w", "harbour", "port", "run-1")
    assert (info.status, info.published_tick, info.next_tick) == ("active", None, 0)
    assert (info.pending_commands, info.entities, info.stalled) == (0, 0, False)
    minute = f"{(paper.now + 60_000) // MINUTE_MS:019d}"
    sorts = [key.sort.split("/")[0] for key in paper.stored]
    assert sorts == ["world", "name", "log", minute, "head"]


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        (creation(), OK),
        (replace(creation(), run=RunId("run-2")), OK),
        (creation(every_ms=5_000), OK),
        (creation(name="other"), Conflict),
        (creation(kind="port"), Conflict),
        (creation(writer_mode="cleanup_only"), Conflict),
        (creation(world="v"), NameTaken),
        (creation(world="v", name="other"), OK),
    ],
    ids=range(8),
)
def test_the_same_identity_is_the_same_world_and_another_is_refused(again, verdict):
    paper = Paper()
    paper.ask(creation())
    before = dict(paper.stored)

    if verdict is not OK:
        with pytest.raises(verdict):
            paper.ask(again)
    else:
        info = paper.ask(again)
        assert info.run_id == "run-1"

    if again.ref.world == "w" or verdict is not OK:
        assert paper.stored == before


def test_creating_again_tells_the_world_as_it_is_now():
    world = World()
    world.admit(due())
    world.tick(entities=7)
    world.admit(due(), due())

    info = world.paper.ask(CreateWorld(WORLD, "harbour", RunId("another")))

    assert (info.run_id, info.published_tick, info.next_tick) == ("run", 0, 1)
    assert (info.entities, info.pending_commands) == (7, 2)


def test_a_destroyed_world_is_not_created_again():
    world = World()
    world.change(lambda head: replace(head, status="destroyed"))

    with pytest.raises(WorldDestroyed):
        world.paper.ask(CreateWorld(WORLD, "harbour", RunId("run")))


@pytest.mark.parametrize("hidden", [world_key, head_key])
def test_a_creation_seen_in_part_is_neither_refused_nor_repeated(hidden):
    world = World()
    part = hidden(WORLD if hidden is world_key else WORLD.partition)
    del world.paper.stored[part]

    with pytest.raises(Contended):
        world.paper.ask(CreateWorld(WORLD, "harbour", RunId("run")))


@pytest.mark.parametrize(
    ("request_", "verdict"),
    [
        (creation(), OK),
        (creation(name="x" * 128), OK),
        (creation(name="x" * 129), "invalid_id"),
        (creation(name=""), "invalid_id"),
        (creation(name="a/b"), "invalid_id"),
        (creation(name="\ud800"), "invalid_id"),
        (creation(world=""), "invalid_id"),
        (creation(world="x" * 129), "invalid_id"),
        (creation(kind="a\n"), "invalid_id"),
        (creation(every_ms=999), "invalid"),
        (creation(every_ms=1_000), OK),
        (creation(every_ms=10**12), "invalid"),
    ],
    ids=range(12),
)
def test_ids_name_and_schedule_are_checked(request_, verdict):
    try:
        request_.checked()
        found = OK
    except PerdureError as error:
        found = error.code

    assert found == verdict


@pytest.mark.parametrize(("every_ms", "wake_ms"), [(10_000, 10_000), (90_000, 60_000)])
def test_a_scheduled_world_is_woken_for_its_first_tick_or_to_be_read(every_ms, wake_ms):
    paper = Paper()

    info = paper.ask(creation(every_ms=every_ms))

    ref = WorldRef(WORLD.storage, info.world_id)
    at = paper.now + wake_ms
    assert paper.held(schedule_key(ref.partition)).next_at == paper.now + every_ms
    assert paper.held(head_key(ref.partition)).wake_at == at
    hint = paper.held(Key(ref.wake, wake_sort(at, ref), Wake))
    assert (hint.world, hint.at // MINUTE_MS) == ("w", at // MINUTE_MS)


def test_of_two_that_create_one_name_one_wins():
    paper = Paper()

    with pytest.raises(NameTaken):
        paper.ask(creation(), rival=lambda: paper.ask(creation(world="v")))

    assert paper.held(name_key(WORLD.catalog, "harbour")).world == "v"
    assert paper.held(world_key(WorldRef(WORLD.storage, WorldId("w")))) is None


def test_what_does_not_exist_is_not_found():
    with pytest.raises(NotFound):
        Paper().ask(Describe(WORLD))


def test_worlds_are_listed_by_id_and_from_a_place_on():
    paper = Paper()
    for name in ("b", "a", "ab", "c"):
        paper.ask(creation(world=name, name=f"name-{name}"))
    world = World(paper)
    world.tick(entities=3)

    def listed(after, limit):
        page = paper.ask(Discover(WORLD.storage, after, limit))
        return [(info.world_id, info.entities) for info in page]

    assert listed(None, 3) == [("a", 0), ("ab", 0), ("b", 0)]
    assert listed("b", 9) == [("c", 0), ("world", 3)]
    assert listed("aa", 1) == [("ab", 0)]
    assert paper.loads <= 3
