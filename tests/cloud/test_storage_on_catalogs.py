"""A whole storage as it is deployed, with its tables in Glue and in an S3 table bucket."""

from __future__ import annotations

import asyncio
import os

import boto3
import pytest
from tests.emulator.harbour import Position, app
from tests.support.catalogs import BUCKET, GLUE, settings_in_aws

import perdure
from perdure.api.settings import settings
from perdure.api.wiring_lake import lake
from perdure.authority.dynamodb_wire import table_definition
from perdure.kernel.caller import LOCAL
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.cloud

SHIPS = 5


@pytest.fixture(params=[GLUE, BUCKET])
def chosen(request, aws, monkeypatch):
    """Settings of an empty storage, as the environment of this process says them."""
    found = settings_in_aws(request.param, aws, monkeypatch)
    for name, value in found.environment().items():
        monkeypatch.setenv(name, value)
    client = boto3.client("dynamodb")
    client.create_table(**table_definition(found.table))
    client.close()
    return found


def opened(chosen):
    return perdure.open(chosen.uri, app=app, table=chosen.table, namespace=chosen.namespace)


def test_rows_and_events_are_landed_by_a_function_and_read_by_another(chosen):
    async def story():
        async with opened(chosen) as storage:
            harbour = await storage.create_world("harbour", world_id="harbour")
            await harbour.submit([perdure.Spawn(Position(x=n, y=0.5)) for n in range(SHIPS)])
            await harbour.run(to_tick=2)
        async with lake(settings(os.environ)) as ports:
            landed = await ports.land_all(ms=60_000, by=LOCAL)
            again = await ports.land_all(ms=60_000, by=LOCAL)
        async with opened(chosen) as storage:
            harbour = await storage.world("harbour")
            state = await harbour.query("Position")
            past = await harbour.query("Position", ticks=range(3))
            history = await harbour.history()
        return landed, again, state, past, history

    landed, again, state, past, history = asyncio.run(story())

    assert (landed.rows, again.rows, again.events) == (past.num_rows, 0, 0)
    assert state.num_rows == SHIPS
    assert past.num_rows >= SHIPS
    assert landed.events == len(history.events) > 0


def test_a_table_bucket_that_is_not_there_is_said_to_be_unavailable(aws, monkeypatch):
    found = settings_in_aws(BUCKET, aws, monkeypatch)
    for name, value in found.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3TABLES", "http://127.0.0.1:9")

    async def story():
        async with opened(found):
            """It does not come to this."""

    with pytest.raises(StoreUnavailable, match="s3tables"):
        asyncio.run(story())
