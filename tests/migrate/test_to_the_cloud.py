"""A storage on one machine moves into the cloud, and back: another authority, other objects."""

from __future__ import annotations

import asyncio
import itertools

import boto3
import pytest
from tests.emulator.harbour import Position, app
from tests.migrate.storages import SHIPS, rows
from tests.support.ministack import account

import perdure
from perdure.api.settings import local, settings
from perdure.api.wiring_migrate import migrated
from perdure.authority.dynamodb_wire import table_definition

pytestmark = [pytest.mark.lifecycle, pytest.mark.cloud]

NUMBERS = itertools.count(700)


@pytest.fixture
def cloud(aws, monkeypatch):
    """Settings of an empty storage in the cloud, in an account of its own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account(next(NUMBERS)))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    boto3.client("dynamodb").create_table(**table_definition("authority"))
    boto3.client("s3").create_bucket(Bucket="lake")
    return settings(
        {
            "PERDURE_STORAGE": "s3://lake/worlds",
            "PERDURE_TABLE": "authority",
            "AWS_ENDPOINT_URL": aws,
        }
    )


def test_storage_moves_into_the_cloud_and_goes_on_there(source, cloud):
    receipt = asyncio.run(migrated(local(source), cloud, "move"))

    async def go_on():
        opened = perdure.open("s3://lake/worlds", app=app, table="authority")
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
