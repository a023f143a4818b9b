"""What a commit of conversations costs: statements of SQLite, actions and requests of DynamoDB.

BEGIN and COMMIT are not counted: bare code has to say them too. Reads for the sake of a commit are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.conversing import (
    base,
    change,
    conversation,
    create,
    delta,
    entry,
    latest,
    retire,
    rewindable,
    submission,
    task,
)
from tests.support.documents import opened
from tests.support.statements import traced

from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.runtime.documents.conversations import ConversationStorage

pytestmark = pytest.mark.stores

ENTRY_STATEMENTS_MAX = 4
DELTA_STATEMENTS_MAX = 5

COUNTS: dict[str, tuple[int, int]] = {
    "entry": (4, 0),
    "entry with a head": (5, 0),
    "conversation": (4, 0),
    "task created": (7, 0),
    "task replaced, in another state": (5, 0),
    "task replaced, in the same state": (3, 0),
    "submission created": (7, 0),
    "submission replaced": (5, 0),
    "rewindable document created": (7, 3),
    "rewindable document, delta": (4, 0),
    "rewindable document, base": (4, 0),
    # The read is of the place in an index that the task leaves: it was written many commits ago.
    "entry, task and delta": (9, 1),
    "rewindable document retired": (3, 0),
    "latest document created": (7, 3),
    "latest document, delta": (4, 0),
    "latest document, base over two contents": (6, 1),
    "latest document retired": (4, 1),
}
"""Writes and reads of each commit. A write is a statement of SQLite, and an action of DynamoDB."""


async def commits(storage: ConversationStorage) -> AsyncIterator[tuple[str, list[Any]]]:
    """Yield the commits of COUNTS, in its order, on a handle that has begun to work."""
    await storage.commit([conversation(1)])
    for _ in range(3):
        await storage.commit([entry(storage.mint())])
    job, asked, notes, told = (storage.mint() for _ in range(4))
    tool = [
        entry(storage.mint()),
        task(job, "completing"),
        change(notes, delta(["s", ["n"], 6])),
    ]
    told_once = change(told, delta(["s", ["n"], 1]))
    for name, writes in zip(
        COUNTS,
        [
            [entry(storage.mint())],
            [entry(storage.mint(), head=2)],
            [conversation(storage.mint())],
            [task(job)],
            [task(job, "running")],
            [task(job, "running", input={"value": "other"})],
            [submission(asked, requestId="r")],
            [submission(asked, "placed", entry=2, requestId="r")],
            [create(rewindable(notes), base({"n": 0}))],
            [change(notes, delta(["s", ["n"], 1]))],
            [change(notes, base({"n": 5}))],
            tool,
            [retire(notes)],
            [create(latest(told, "told"), base({"n": 0}))],
            [told_once],
            [change(told, base({"n": 5}))],
            [retire(told)],
        ],
        strict=True,
    ):
        yield name, writes


@asynccontextmanager
async def conversing(records: Store) -> AsyncIterator[ConversationStorage]:
    async with opened(records) as store:
        storage = await ConversationStorage.open(store, "pi")
        yield storage
        await storage.close()


async def test_sqlite_runs_as_many_statements_as_are_told(tmp_path: Path) -> None:
    records = await SqliteStore.open(tmp_path / "store.db")
    counts = {}

    async with conversing(records) as storage, traced(records) as seen:
        async for name, writes in commits(storage):
            seen.clear()
            await storage.commit(writes)
            counts[name] = (len(seen.writes), len(seen.reads))

    assert counts == COUNTS
    assert sum(counts["entry"]) <= ENTRY_STATEMENTS_MAX
    assert sum(counts["rewindable document, delta"]) <= DELTA_STATEMENTS_MAX
    assert sum(counts["latest document, delta"]) <= DELTA_STATEMENTS_MAX


async def test_a_handle_that_has_just_begun_keeps_within_the_bounds_after_its_first_commit(
    tmp_path: Path,
) -> None:
    async with conversing(await SqliteStore.open(tmp_path / "store.db")) as storage:
        await storage.commit([conversation(1), create(rewindable(2), base({"n": 0}))])

    records = await SqliteStore.open(tmp_path / "store.db")
    async with conversing(records) as storage, traced(records) as seen:
        await storage.commit([entry(3)])
        seen.clear()
        await storage.commit([entry(4)])
        of_entry = seen.counted
        seen.clear()
        await storage.commit([change(2, delta(["s", ["n"], 1]))])
        of_first_delta = seen.counted

    assert of_entry <= ENTRY_STATEMENTS_MAX
    assert of_first_delta <= DELTA_STATEMENTS_MAX


async def test_entries_between_deltas_do_not_make_a_document_be_read_again(tmp_path: Path) -> None:
    records = await SqliteStore.open(tmp_path / "store.db")
    async with conversing(records) as storage:
        await storage.commit([conversation(1), create(rewindable(2), base({"n": 0}))])
        await storage.commit([change(2, delta(["s", ["n"], 0]))])

        async with traced(records) as seen:
            for number in range(20):
                await storage.commit([entry(storage.mint())])
                await storage.commit([change(2, delta(["s", ["n"], number]))])

    assert not seen.reads
    assert len(seen.writes) == 20 * (4 + 4)


async def test_dynamodb_takes_an_action_a_write_and_one_request_where_nothing_is_read() -> None:
    actions, requests = {}, {}

    async with stores.dynamodb_moto() as open_store:
        records: Any = await open_store()
        async with conversing(records) as storage:
            async for name, writes in commits(storage):
                before = replace(records.counters)
                await storage.commit(writes)
                actions[name] = records.counters.actions - before.actions
                requests[name] = records.counters.requests - before.requests

    assert actions == {name: writes for name, (writes, _) in COUNTS.items()}
    assert {name for name, count in requests.items() if count == 1} == {
        name for name, (_, reads) in COUNTS.items() if not reads
    }
