"""Document stores: commits of conversations beside a bare commit and Durable's own SQLite storage."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from pi_durable.context import BACKGROUND_CONTEXT
from pi_durable.storage.sqlite import SqliteStorage
from pi_durable.storage.sqlite.posix import open_posix_sqlite_database
from tests.bench import floors
from tests.bench.bench import STORAGE, Bench
from tests.bench.figures import Budget, Figure, Sample, counted, in_turn
from tests.support.conversed import DATA, converse, kept
from tests.support.conversing import base, change, conversation, create, delta, entry, latest
from tests.support.ministack import fresh_account, ministack
from tests.support.statements import traced
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority import system
from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.kernel.canonical import canonical
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.pi_durable import PiStorage
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores

DOCUMENT = 2
KINDS = ("entry append", "document delta")
STATEMENTS = {"entry append": Budget(4, of="figure"), "document delta": Budget(5, of="figure")}
BESIDE_DURABLE = Budget(1.5)
FLAT = Budget(1.1)

BARE = "bare INSERT of the same bytes, WAL, FULL"
DURABLE = "SqliteStorage of pi-durable-python 1.4.0, WAL, FULL"
DURABLE_USUAL = "the same as it opens by itself, NORMAL: no sync a commit"
BARE_DYNAMODB = "bare TransactWriteItems of 2 actions on the same MiniStack"

Commit = Callable[[int], Awaitable[object]]
"""Makes the commit of that number."""


async def measure(bench: Bench) -> list[Figure]:
    """Measure an entry's and a delta's commit, one caller, and what stays in memory of many."""
    figures = []
    with bench.directory() as directory:
        figures += await _on_sqlite(bench, directory)
        figures += await _on_dynamodb(bench, directory)
        figures += await _memory(bench, directory)
    return figures


@asynccontextmanager
async def _ours(records: Store) -> AsyncIterator[PiStorage]:
    authority = Authority(records, system.now, system.new_token)
    means = StoreMeans(authority, system.now, system.new_token, asyncio.sleep)
    stores = DocumentStores(means, STORAGE)
    await stores.create("talks")
    store = await stores.open(DocumentStoreId("talks"))
    storage = await PiStorage.open(store)
    await _begun(storage)
    try:
        yield storage
    finally:
        await storage.close(BACKGROUND_CONTEXT)
        await store.close()
        await authority.close()


@asynccontextmanager
async def _durables(path: Path, synchronous: str) -> AsyncIterator[Any]:
    database = await open_posix_sqlite_database(str(path))
    await database.exec(f"PRAGMA synchronous = {synchronous}")
    storage = await SqliteStorage.open(database)
    await _begun(storage)
    try:
        yield storage
    finally:
        await storage.close(BACKGROUND_CONTEXT)


async def _begun(storage: Any) -> None:
    writes = [conversation(1), create(latest(DOCUMENT), base({"n": 0}))]
    await storage.commit(writes, BACKGROUND_CONTEXT)


def _commit(storage: Any, kind: str) -> Commit:
    async def append(_: int) -> None:
        id = await storage.mint_id()
        await storage.commit([entry(id, data=DATA)], BACKGROUND_CONTEXT)

    async def change_it(number: int) -> None:
        content = delta(["s", ["n"], number]) if number % 50 else base({"n": number})
        await storage.commit([change(DOCUMENT, content)], BACKGROUND_CONTEXT)

    return append if kind == "entry append" else change_it


class _Timed:
    """Commits some times in a row; one round's percentiles, in milliseconds, are kept by order."""

    def __init__(self, commit: Commit, commits: int) -> None:
        self._commit = commit
        self._commits = commits
        self._numbers = itertools.count()
        self._slow: list[float] = []

    async def __call__(self) -> float:
        took = []
        for _ in range(self._commits):
            number = next(self._numbers)
            began = time.perf_counter()
            await self._commit(number)
            took.append((time.perf_counter() - began) * 1e3)
        self._slow.append(statistics.quantiles(took, n=100)[98])
        return statistics.median(took)

    @property
    def slow(self) -> Sample:
        """The 99th percentiles of the rounds; the first was to warm up."""
        return Sample(tuple(self._slow[1:]))


async def _on_sqlite(bench: Bench, directory: Path) -> list[Figure]:
    figures = []
    records = await SqliteStore.open(directory / "ours.db")
    async with (
        _ours(records) as ours,
        _durables(directory / "full.db", "FULL") as full,
        _durables(directory / "normal.db", "NORMAL") as normal,
    ):
        with floors.database(directory / "floor.db") as bare:
            for kind in KINDS:
                bench.say(f"stores, {kind} on SQLite")
                body = canonical(DATA if kind == "entry append" else ["s", ["n"], 1])

                async def insert(number: int, body: bytes = body, kind: str = kind) -> None:
                    floors.admit(bare, f"{kind} {number}", body)

                commits = [_commit(each, kind) for each in (ours, full, normal)]
                timed = [_Timed(each, bench.scale.commits) for each in (*commits, insert)]
                medians = await in_turn(bench.scale.rounds, *timed)
                figures += _beside(kind, medians, [each.slow for each in timed])
        figures += await _statements(records, ours)
    return figures


def _beside(kind: str, medians: list[Sample], slow: list[Sample]) -> list[Figure]:
    figures = []
    for name, samples in (("p50", medians), ("p99", slow)):
        ours, full, normal, bare = samples
        budget = BESIDE_DURABLE if name == "p50" else None
        figures += [
            Figure(f"{kind}, {name}", "ms", ours, bare, BARE),
            Figure(f"{kind}, {name}, beside Durable's", "ms", ours, full, DURABLE, budget),
            Figure(
                f"{kind}, {name}, beside Durable's without sync", "ms", ours, normal, DURABLE_USUAL
            ),
        ]
    return figures


async def _statements(records: SqliteStore, ours: PiStorage) -> list[Figure]:
    figures = []
    for kind in KINDS:
        commit = _commit(ours, kind)
        await commit(1)
        async with traced(records) as seen:
            await commit(2)
        found = counted(seen.counted)
        figures.append(Figure(f"{kind}, statements", "", found, budget=STATEMENTS[kind]))
    return figures


async def _on_dynamodb(bench: Bench, directory: Path) -> list[Figure]:
    figures = []
    try:
        with ministack(directory / "ministack.log") as address:
            client = dynamodb_client(address, fresh_account(), threads=2)
            with closing(client):
                client.create_table(**table_definition(TABLE))
                records = DynamoStore(client, TABLE, threads=2)
                async with _ours(records) as ours:
                    for kind in KINDS:
                        bench.say(f"stores, {kind} on MiniStack")
                        figures += await _beside_bare(bench, client, records, ours, kind)
    except OSError as error:
        bench.notes.append(f"MiniStack was left out: {error}.")
    return figures


async def _beside_bare(
    bench: Bench, client: Any, records: DynamoStore, ours: PiStorage, kind: str
) -> list[Figure]:
    async def bare(number: int) -> None:
        items = [
            {"Put": {"TableName": TABLE, "Item": _item(f"{kind} {number} {half}", DATA)}}
            for half in range(2)
        ]
        await asyncio.to_thread(client.transact_write_items, TransactItems=items)

    commits = max(10, bench.scale.commits // 20)
    timed = [_Timed(_commit(ours, kind), commits), _Timed(bare, commits)]
    medians = await in_turn(bench.scale.rounds, *timed)
    before = records.counters.actions
    await _commit(ours, kind)(1)
    actions = records.counters.actions - before
    return [
        Figure(f"{kind} on MiniStack, p50", "ms", medians[0], medians[1], BARE_DYNAMODB),
        Figure(f"{kind} on MiniStack, p99", "ms", timed[0].slow, timed[1].slow, BARE_DYNAMODB),
        Figure(f"{kind}, actions", "", counted(actions)),
    ]


def _item(name: str, data: Any) -> dict[str, Any]:
    pk, sk = (each["AttributeName"] for each in table_definition(TABLE)["KeySchema"])
    return {pk: {"S": "bare"}, sk: {"S": name}, "body": {"B": canonical(data)}}


async def _memory(bench: Bench, directory: Path) -> list[Figure]:
    commits = bench.scale.store_commits
    bench.say(f"stores, memory over {commits:,} commits")
    async with _ours(await SqliteStore.open(directory / "long.db")) as ours:
        await converse(ours.storage, commits // 5, DOCUMENT)
        early = kept()
        await converse(ours.storage, commits - commits // 5, DOCUMENT)
        late = kept()
    after = f"after {commits // 5:,} commits"
    return [
        Figure(
            f"memory after {commits:,} commits",
            "MiB",
            counted(late.bytes / 2**20),
            counted(early.bytes / 2**20),
            after,
            FLAT,
        ),
        Figure(
            f"objects after {commits:,} commits",
            "",
            counted(late.objects),
            counted(early.objects),
            after,
            FLAT,
        ),
    ]
