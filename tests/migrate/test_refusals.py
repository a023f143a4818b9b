"""What is not moved: storages that are not at rest, places that are not empty, rivals."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.emulator.harbour import Position
from tests.migrate.moving import Stopped, listed, move, stopping
from tests.migrate.storages import opened, tree
from tests.support.sessions import app_with

import perdure
from perdure.api.settings import local
from perdure.api.wiring import api, made, opened_authority
from perdure.kernel.errors import (
    Conflict,
    InvalidId,
    NotEmpty,
    NotQuiescent,
    StoreUnavailable,
    WorldMoving,
)
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, WorldId
from perdure.kernel.migration import Reserve
from perdure.kernel.places import WorldRef
from perdure.runtime.migrate import Mover

pytestmark = pytest.mark.lifecycle


async def with_open_command(root):
    async with opened(root) as storage:
        harbour = await storage.world("harbour")
        await harbour.submit([perdure.Spawn(Position(x=0.0, y=0.0))], tick=9)


async def with_unlanded_tick(root):
    async with opened(root) as storage:
        await (await storage.world("yard")).run(to_tick=1)


async def with_a_consumer_that_is_behind(root):
    async with opened(root) as storage:
        await (await storage.world("yard")).set_consumer("webhook", required=True)


async def with_a_writer(root):
    async with opened_authority(local(root)) as authority:
        ref = WorldRef(local(root).storage, WorldId("fresh"))
        await authority.execute(TakeFence(ref, Holder("someone"), 600_000))


@pytest.mark.parametrize(
    ("unrest", "world", "why"),
    [
        (with_open_command, "harbour", "open commands"),
        (with_unlanded_tick, "yard", "landed up to 0"),
        (with_a_writer, "fresh", "held by a writer"),
        (with_a_consumer_that_is_behind, "yard", "webhook"),
    ],
)
def test_source_that_is_not_at_rest_is_refused_by_name_and_stays_as_it_was(
    source, tmp_path, unrest, world, why
):
    asyncio.run(unrest(source))
    before = tree(source)

    with pytest.raises(NotQuiescent, match=f"{world}.*{why}"):
        move(source, tmp_path / "destination")

    assert tree(source) == before
    assert not (tmp_path / "destination").exists()


async def with_sessions(root):
    app = app_with()
    async with perdure.open(root.as_uri(), app=app) as storage:
        for name in ("talk", "chat"):
            await storage.create_session("pilot", session_id=name)


@pytest.mark.sessions
def test_source_with_sessions_is_refused_by_their_names_and_stays_as_it_was(source, tmp_path):
    asyncio.run(with_sessions(source))
    before = tree(source)

    with pytest.raises(NotQuiescent, match="'chat', 'talk'"):
        move(source, tmp_path / "destination")

    assert tree(source) == before
    assert not (tmp_path / "destination").exists()


@pytest.mark.sessions
def test_no_session_begins_in_a_source_that_is_being_moved(source, tmp_path):
    def tell(stage, done, total):
        if (stage, done) == ("stilled", 0):
            raise Stopped

    with pytest.raises(Stopped):
        move(source, tmp_path / "destination", progress=tell)
    with pytest.raises(WorldMoving):
        asyncio.run(with_sessions(source))


@pytest.mark.sessions
def test_destination_with_a_session_is_not_empty(source, tmp_path):
    destination = tmp_path / "destination"
    asyncio.run(with_sessions(destination))

    with pytest.raises(NotEmpty, match="a session"):
        move(source, destination)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


async def with_stores(root):
    async with api(made(local(root, app="tests.emulator.harbour:app"))) as ports:
        for name in ("papers", "notes"):
            await ports.stores.create(name)


@pytest.mark.stores
def test_no_document_store_begins_in_a_source_that_is_being_moved(source, tmp_path):
    def tell(stage, done, total):
        if (stage, done) == ("stilled", 0):
            raise Stopped

    with pytest.raises(Stopped):
        move(source, tmp_path / "destination", progress=tell)
    with pytest.raises(WorldMoving):
        asyncio.run(with_stores(source))


@pytest.mark.stores
def test_destination_with_a_document_store_is_not_empty(source, tmp_path):
    destination = tmp_path / "destination"
    asyncio.run(with_stores(destination))

    with pytest.raises(NotEmpty, match="a document store"):
        move(source, destination)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


def test_command_that_comes_in_while_worlds_are_stilled_frees_them_all(source, tmp_path):
    def tell(stage, done, total):
        if (stage, done) == ("stilling worlds", 1):
            with ThreadPoolExecutor() as pool:
                pool.submit(asyncio.run, with_open_command(source)).result()

    with pytest.raises(NotQuiescent, match="harbour"):
        move(source, tmp_path / "destination", progress=tell)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}
    assert asyncio.run(listed(tmp_path / "destination")) == []


def test_destination_with_a_world_is_refused_and_stays_as_it_was(source, tmp_path):
    destination = tmp_path / "destination"
    asyncio.run(made_with_a_world(destination))
    before = tree(source), tree(destination)

    with pytest.raises(NotEmpty, match="other"):
        move(source, destination)

    assert (tree(source), tree(destination)) == before


async def made_with_a_world(root):
    async with opened(root) as storage:
        await storage.create_world("other", world_id="other")


def test_destination_with_objects_of_somebody_is_refused(source, tmp_path):
    destination = tmp_path / "destination"
    (destination / "default" / "objects" / "segments").mkdir(parents=True)
    (destination / "default" / "objects" / "segments" / "one").write_bytes(b"x")

    with pytest.raises(NotEmpty):
        move(source, destination)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


def test_storage_that_is_not_there_is_unavailable_and_nothing_is_made(tmp_path):
    with pytest.raises(StoreUnavailable):
        move(tmp_path / "nowhere", tmp_path / "destination")

    assert list(tmp_path.iterdir()) == []


def test_storage_is_not_moved_into_itself(source):
    with pytest.raises(Conflict):
        move(source, source)


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a" * 129, "a b"])
def test_migration_ids_of_another_form_are_refused(source, tmp_path, name):
    with pytest.raises(InvalidId):
        move(source, tmp_path / "destination", name)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


def test_second_migration_is_refused_while_and_after_the_first_runs(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("copying records"))

    with pytest.raises(Conflict, match="move"):
        move(source, destination, "rival")
    with pytest.raises(Conflict, match="move"):
        move(source, tmp_path / "elsewhere", "rival")
    with pytest.raises(Conflict):
        move(source, tmp_path / "elsewhere", "move")

    move(source, destination)
    with pytest.raises(Conflict):
        move(source, tmp_path / "third", "rival")
    assert not (tmp_path / "third").exists()


def test_rival_that_comes_first_leaves_the_other_destination_open(source, tmp_path, monkeypatch):
    destination = tmp_path / "destination"
    look = Mover._check_empty

    async def overtaken(self):
        await look(self)
        ends = {**self._endpoints, "to_uri": "file:///elsewhere"}
        rival = Reserve(self.source.storage, "rival", "source", ends)
        await self.source.authority.execute(rival)

    monkeypatch.setattr(Mover, "_check_empty", overtaken)
    with pytest.raises(Conflict, match="rival"):
        move(source, destination)

    assert asyncio.run(listed(destination)) == []
