"""Openers for the contract suite: one for each way a store is used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import boto3
from moto import mock_aws
from tests.support.ministack import fresh_account
from tests.support.processes import ElsewhereStore

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import client_config, table_definition
from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.authority.testing import Opener, ReopeningStore

OpenerOf = Callable[[], contextlib.AbstractAsyncContextManager[Opener]]
"""Gives each case an opener on empty data, and closes what the case opened."""

TABLE = "perdure"


@contextlib.asynccontextmanager
async def closing(open_one: Callable[[], Awaitable[Store]]) -> AsyncIterator[Opener]:
    """Close every store that was opened, last first."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_store() -> Store:
            store = await open_one()
            stack.push_async_callback(store.close)
            return store

        yield open_store


def memory() -> contextlib.AbstractAsyncContextManager[Opener]:
    records = MemoryStore()

    async def open_one() -> Store:
        return records.reopened()

    return closing(open_one)


def sqlite(directory: Path) -> contextlib.AbstractAsyncContextManager[Opener]:
    return closing(lambda: SqliteStore.open(directory / "store.db"))


def sqlite_reopened(directory: Path) -> contextlib.AbstractAsyncContextManager[Opener]:
    def reopen() -> Awaitable[Store]:
        return SqliteStore.open(directory / "store.db")

    async def open_one() -> Store:
        return ReopeningStore(await reopen(), reopen)

    return closing(open_one)


def sqlite_elsewhere(directory: Path) -> contextlib.AbstractAsyncContextManager[Opener]:
    """Load here, commit in another process."""

    async def open_one() -> Store:
        return ElsewhereStore(await SqliteStore.open(directory / "store.db"))

    return closing(open_one)


@contextlib.asynccontextmanager
async def dynamodb_moto() -> AsyncIterator[Opener]:
    with mock_aws():
        client = dynamodb_client(None, "1" * 12, threads=1)
        client.create_table(**table_definition(TABLE))
        async with closing(lambda: _dynamo(client, threads=1)) as opener:
            yield opener


@contextlib.asynccontextmanager
async def dynamodb_http(address: str) -> AsyncIterator[Opener]:
    """Use an account of its own: request tokens are remembered by account."""
    client = dynamodb_client(address, fresh_account(), threads=8)
    client.create_table(**table_definition(TABLE))
    async with closing(lambda: _dynamo(client, threads=8)) as opener:
        yield opener
    client.close()


def dynamodb_client(address: str | None, account: str, *, threads: int) -> Any:
    return boto3.client(
        "dynamodb",
        "eu-west-1",
        endpoint_url=address,
        aws_access_key_id=account,
        aws_secret_access_key="x",
        config=client_config(threads),
    )


async def _dynamo(client: Any, *, threads: int) -> Store:
    return DynamoStore(client, TABLE, threads=threads, pause=lambda seconds: asyncio.sleep(0))
