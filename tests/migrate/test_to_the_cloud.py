"""A storage on one machine moves into the cloud, and back: another authority, other objects."""

from __future__ import annotations

import asyncio

import boto3
import pytest
from tests.emulator.harbour import Position, app
from tests.migrate.storages import NOTES, SHIPS, killed, note, rows
from tests.support.ministack import fresh_account

import perdure
from perdure.api.settings import local, settings
from perdure.api.wiring_exports import exported
from perdure.api.wiring_lake_migrate import migrated
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.authority.dynamodb_wire import table_definition
from perdure.kernel.documents.errors import StoreMoved
from perdure.kernel.errors import Conflict, NotFound, StoreUnavailable

pytestmark = [pytest.mark.lifecycle, pytest.mark.cloud]


@pytest.fixture
def cloud(aws, monkeypatch):
    """Settings of an empty storage in the cloud, in an account of its own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    access = fresh_account()
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers the account before
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    boto3.client("dynamodb").create_table(**table_definition("authority"))
    boto3.client("s3").create_bucket(Bucket=f"lake-{access}")
    return settings(
        {
            "PERDURE_STORAGE": f"s3://lake-{access}/worlds",
            "PERDURE_TABLE": "authority",
            "AWS_ENDPOINT_URL": aws,
        }
    )


def keys(cloud):
    """Return every key in the bucket."""
    bucket, _ = bucket_and_prefix(cloud)
    listed = boto3.client("s3").list_objects_v2(Bucket=bucket)
    return {found["Key"] for found in listed.get("Contents", [])}


def test_storage_moves_into_the_cloud_and_goes_on_there(source, cloud):
    receipt = asyncio.run(migrated(local(source), cloud, "move"))

    async def go_on():
        opened = perdure.open(cloud.uri, app=app, table="authority")
        async with opened as storage:
            harbour = await storage.world("harbour")
            before = len(await rows(storage, "harbour", "Position", ticks=2))
            await harbour.submit([perdure.Spawn(Position(x=0.0, y=0.0))], batch_id="new")
            await harbour.run(to_tick=5)
            await storage.land()
            return before, len(await rows(storage, "harbour", "Position")), await harbour.info()

    before, after, info = asyncio.run(go_on())
    assert (before, after) == (SHIPS, SHIPS + 1)
    assert info.epoch > receipt["worlds"]["harbour"]["epoch"]
    assert asyncio.run(migrated(local(source), cloud, "move")) == receipt


def bytes_at(chosen, path):
    """Return the export of the document store of a storage."""
    asyncio.run(exported(chosen, "notes", str(path), lambda progress: None))
    return path.read_bytes()


@pytest.mark.stores
@pytest.mark.slow
def test_document_stores_move_into_the_cloud_and_back(source, cloud, tmp_path):
    before = bytes_at(local(source), tmp_path / "before.jsonl")

    asyncio.run(migrated(local(source), cloud, "there"))
    there = bytes_at(cloud, tmp_path / "there.jsonl")
    asyncio.run(migrated(cloud, local(tmp_path / "home"), "back"))
    back = bytes_at(local(tmp_path / "home"), tmp_path / "back.jsonl")

    async def again():
        async with perdure.open((tmp_path / "home").as_uri(), app=app) as storage:
            return await storage.document_stores.commit("notes", [note(NOTES - 1)], commit_id="4")

    assert (there, back) == (before, before)
    assert asyncio.run(again()).replayed
    with pytest.raises(StoreMoved):
        asyncio.run(begun_note(cloud))


async def begun_note(cloud):
    async with perdure.open(cloud.uri, app=app, table="authority") as storage:
        await storage.document_stores.commit("notes", [note(NOTES)])


async def begun(cloud, name, *, ships=SHIPS, table=None):
    """Make a world with ships in the bucket and land them; return how many can be read."""
    async with perdure.open(cloud.uri, app=app, table=table) as storage:
        world = await storage.create_world(name, world_id=name)
        await world.submit([perdure.Spawn(Position(x=n / 3, y=n / 7)) for n in range(ships)])
        await world.run(to_tick=0)
        await storage.land()
        return (await world.query("Position")).num_rows


async def read(cloud, name, *, table=None):
    async with perdure.open_readonly(cloud.uri, table=table) as storage:
        world = await storage.open_readonly(name)
        return (await world.query("Position")).num_rows


def test_remote_data_have_a_local_authority_when_no_table_is_named(cloud, tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "catalogs"))

    assert asyncio.run(begun(cloud, "harbour")) == SHIPS

    before = keys(cloud), sorted((tmp_path / "catalogs").iterdir())
    assert asyncio.run(read(cloud, "harbour")) == SHIPS
    assert (keys(cloud), sorted((tmp_path / "catalogs").iterdir())) == before
    assert {path.suffix for path in before[1]} == {".db"}
    assert "worlds/default/authority.json" in before[0]


@pytest.mark.parametrize("ships", [1, SHIPS])
def test_second_machine_is_no_second_authority_over_the_same_data(
    cloud, tmp_path, monkeypatch, ships
):
    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "one"))
    asyncio.run(begun(cloud, "harbour"))
    before = keys(cloud)

    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "two"))
    with pytest.raises(Conflict, match="another"):
        asyncio.run(begun(cloud, "yard", ships=ships))
    with pytest.raises(Conflict, match="another"):
        asyncio.run(begun(cloud, "yard", ships=ships, table="authority"))

    assert keys(cloud) == before
    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "one"))
    assert asyncio.run(begun(cloud, "yard")) == SHIPS


def test_reading_remote_data_that_are_not_there_makes_nothing(cloud, tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "catalogs"))

    with pytest.raises(StoreUnavailable):
        asyncio.run(read(cloud, "harbour"))
    with pytest.raises(NotFound):
        asyncio.run(read(cloud, "harbour", table="authority"))

    assert (keys(cloud), list(tmp_path.iterdir())) == (set(), [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage", ["copying objects", "copying rows", "activating worlds", "activating stores"]
)
def test_killed_on_the_way_into_the_cloud_the_same_call_goes_on(source, cloud, stage):
    assert killed(local(source), cloud, "move", stage, 1) == -9

    receipt = asyncio.run(migrated(local(source), cloud, "move"))

    assert receipt["worlds"].keys() == {"harbour", "yard", "fresh"}
    assert asyncio.run(read(cloud, "harbour", table="authority")) == SHIPS
