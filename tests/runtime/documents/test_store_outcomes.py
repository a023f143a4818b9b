"""Answers that DynamoDB or the way to it loses: what is unknown is found out, and done once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from tests.authority.test_dynamodb_errors import BUSY, answered
from tests.authority.test_dynamodb_faults import FaultyClient, after, canceled, instead
from tests.house.sources import ROOT, environment
from tests.support.children import children
from tests.support.documents import REF
from tests.support.store_lines import untitled
from tests.support.store_outcomes import ALWAYS, LINES, LOST, at_once, handle, ids, line
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.authority.store import RevisionConflict
from perdure.kernel.commit import Commit
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import StoreFailed
from perdure.kernel.documents.writes import CreateDocument, RetireDocument
from perdure.kernel.errors import Corrupt, OutcomeUnknown, StoreUnavailable
from perdure.kernel.ids import DocumentId
from perdure.kernel.view import Reads, View
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


@asynccontextmanager
async def table() -> AsyncIterator[tuple[OpenStore, FaultyClient]]:
    with mock_aws():
        client = dynamodb_client(None, "1" * 12, threads=1)
        client.create_table(**table_definition(TABLE))
        faulty = FaultyClient(client)
        records = DynamoStore(faulty, TABLE, threads=1, chance=lambda: 0.5, pause=at_once)  # type: ignore[arg-type]
        async with handle(records) as store:
            await store.commit([line(1)])
            yield store, faulty


@pytest.mark.parametrize(
    "plan",
    [
        [after(LOST)],
        [instead(LOST)],
        pytest.param([after(LOST), instead(LOST), after(LOST)], marks=pytest.mark.slow),
        [instead(canceled(BUSY))],
        pytest.param([instead(answered("ThrottlingException"))], marks=pytest.mark.slow),
        [instead(answered("TransactionInProgressException"))],
    ],
    ids=["done", "not done", "again and again", "conflict", "throttled", "under way"],
)
async def test_dynamodb_commits_once_whatever_answer_is_lost(plan: list[Any]):
    async with table() as (store, client):
        client.plan = list(plan)

        await store.commit([line(2)])

        client.plan = []
        assert await ids(store) == [1, 2]


async def test_dynamodb_that_is_throttled_for_long_has_done_nothing_and_the_store_goes_on():
    async with table() as (store, client):
        client.plan = [instead(answered("ThrottlingException"))] * ALWAYS

        with pytest.raises(StoreUnavailable):
            await store.commit([line(2)])

        client.plan = []
        assert await ids(store) == [1]
        await store.commit([line(2)])


@pytest.mark.slow
async def test_dynamodb_whose_answers_are_all_lost_fails_the_store_and_the_log_tells_what_happened():
    async with table() as (store, client):
        client.plan = [after(LOST), *[instead(LOST)] * ALWAYS]

        with pytest.raises(StoreFailed):
            await store.commit([line(2)])

        client.plan = []
        again = await OpenStore.open(store.means, REF)
        await prepared(again, [LINES])
        assert await ids(again) == [1, 2]


async def test_dynamodb_where_a_rival_was_first_is_decided_again():
    async with table() as (store, _):
        rival = await OpenStore.open(store.means, REF)
        await prepared(rival, [LINES])
        await asyncio.gather(store.commit([line(2)]), rival.commit([line(3)]))

        assert await ids(store) == [1, 2, 3]


class Withholding:
    """A store that keeps some commits back, to be delivered when nobody expects them any more."""

    def __init__(self, records: MemoryStore) -> None:
        self.records = records
        self.withholds = False
        self.kept: list[Commit] = []
        self._is_full = asyncio.Event()
        self._count = 0

    async def has_kept(self, count: int) -> None:
        """Wait until so many commits were kept back: the authority gives up after twelve."""
        self._count = count
        await self._is_full.wait()

    async def load(self, reads: Reads) -> View:
        return await self.records.load(reads)

    async def commit(self, commit: Commit) -> None:
        if not self.withholds:
            await self.records.commit(commit)
            return
        self.kept.append(commit)
        if len(self.kept) == self._count:
            self._is_full.set()
        raise OutcomeUnknown(expected="an answer to a commit", found="none")

    async def close(self) -> None:
        await self.records.close()


@asynccontextmanager
async def failed_by(records: MemoryStore) -> AsyncIterator[Withholding]:
    """Let a handle fail over a commit that is still on its way."""
    late = Withholding(records.reopened())
    async with handle(late, "late") as store:
        await store.commit([line(1)])
        late.withholds = True
        with pytest.raises(StoreFailed):
            await store.commit([line(2)])
        yield late


async def test_a_commit_on_its_way_never_lands_once_a_successor_has_written():
    records = MemoryStore()
    async with failed_by(records) as late, handle(records.reopened(), "next") as store:
        await store.commit([line(3)])
        before = dict(records._records)

        for commit in late.kept:
            with pytest.raises(RevisionConflict):
                await records.reopened().commit(commit)

        assert dict(records._records) == before
        assert await ids(store) == [1, 3]
        assert len({each.token for each in late.kept}) > 1


async def test_a_commit_on_its_way_never_lands_once_a_successor_holds_its_owner():
    records = MemoryStore()
    async with failed_by(records) as late, handle(records.reopened(), "next") as store:
        await store.hold("notes", 1_000)

        for commit in late.kept:
            with pytest.raises(RevisionConflict):
                await records.reopened().commit(commit)

        assert await ids(store) == [1]


async def test_a_commit_that_lands_before_its_successor_writes_is_there_and_lands_once():
    records = MemoryStore()
    async with failed_by(records) as late, handle(records.reopened(), "next") as store:
        await records.reopened().commit(late.kept[0])

        assert (await store.commit([line(3)])).seq == 4
        for commit in late.kept:
            with contextlib.suppress(RevisionConflict):  # it is the one that has happened
                await records.reopened().commit(commit)

        assert await ids(store) == [1, 2, 3]


async def test_a_commit_that_lands_while_it_is_looked_for_is_found_and_adopted_once():
    records = MemoryStore()
    late = Withholding(records.reopened())
    adopted: list[Any] = []
    async with handle(late, "late") as store:
        await store.commit([line(1)])
        late.withholds = True
        committing = asyncio.create_task(store.commit([line(2)], adopt=adopted.append))
        await late.has_kept(14)
        await records.reopened().commit(late.kept[-1])

        reply = await committing

        assert reply.replayed
        assert adopted == [reply]
        late.withholds = False
        await store.commit([line(3)])
        assert await ids(store) == [1, 2, 3]


async def test_a_store_that_answers_again_settles_what_was_unknown_without_failing():
    records = MemoryStore()
    late = Withholding(records.reopened())
    async with handle(late, "late") as store:
        await store.commit([line(1)])
        late.withholds = True
        committing = asyncio.create_task(store.commit([line(2)]))
        await late.has_kept(13)
        late.withholds = False

        reply = await committing

        assert (reply.seq, await ids(store)) == (3, [1, 2])


@pytest.mark.parametrize(
    "faults",
    [
        {1: Fault.LOST_BEFORE},
        {1: Fault.LOST_AFTER},
        {1: Fault.DUPLICATE},
        {1: Fault.CONFLICT},
        dict.fromkeys(range(1, 6), Fault.LOST_BEFORE),
        dict.fromkeys(range(1, 6), Fault.LOST_AFTER),
        dict.fromkeys(range(1, 14), Fault.LOST_BEFORE),
        {1: Fault.LOST_AFTER, **dict.fromkeys(range(2, 14), Fault.LOST_BEFORE)},
        {1: Fault.LOST_BEFORE, 2: Fault.CONFLICT, 3: Fault.LOST_AFTER, 4: Fault.THROTTLE},
    ],
)
async def test_lost_answers_in_any_order_leave_one_commit(faults: dict[int, Fault]):
    records = MemoryStore()
    async with handle(records.reopened()) as store:
        await store.commit([line(1)])
    faulty = records.reopened(FaultPlan(faults))
    async with handle(faulty, "again") as store:
        reply = await store.commit([line(2)])

        assert (reply.seq, await ids(store)) == (3, [1, 2])


@pytest.mark.slow
def test_two_processes_commit_hundreds_once(tmp_path: Path):
    count = 150
    rival = (sys.executable, "-m", "tests.support.store_rival", tmp_path)
    commands = [(*rival, name, count) for name in ("a", "b")]
    given = {"cwd": ROOT, "env": environment(), "stdout": subprocess.PIPE}
    with children(commands, **given) as rivals:
        told = [json.loads(each.communicate(timeout=200)[0]) for each in rivals]

    seqs = [seq for each in told for seq in each["seqs"]]
    ids = [id for each in told for id in each["ids"]]
    assert sorted(seqs) == list(range(2, 2 * count + 2))
    assert len(set(ids)) == 2 * count


class Damaging(Withholding):
    """A store that loses an answer, and whose log is damaged from then on."""

    async def load(self, reads: Reads) -> View:
        firsts = [wanted.first for wanted in reads.ranges]
        sorts = [key.sort for key in (*reads.keys, *reads.peeks)]
        if self.withholds and any(each.startswith("log/") for each in (*firsts, *sorts)):
            raise Corrupt(expected="a row of a number, a text and bytes", found="other types")
        return await super().load(reads)

    async def commit(self, commit: Commit) -> None:
        await self.records.commit(commit)
        if self.withholds:
            raise OutcomeUnknown(expected="an answer to a commit", found="none")


async def test_a_lost_commit_that_a_damaged_log_says_nothing_of_is_not_taken_for_refused():
    damaging = Damaging(MemoryStore())
    async with handle(damaging) as store:
        await store.commit([line(1)])
        damaging.withholds = True

        with pytest.raises(StoreFailed):
            await store.commit([line(2)])

        with pytest.raises(StoreFailed):
            await store.commit([line(3)])


class Losing(Withholding):
    """A store that loses the next commit, before which a rival is first."""

    def __init__(self, records: MemoryStore, rival: OpenStore) -> None:
        super().__init__(records)
        self.rival = rival

    async def commit(self, commit: Commit) -> None:
        if not self.withholds:
            await self.records.commit(commit)
            return
        self.withholds = False
        await self.rival.commit([untitled("rival's")])
        raise OutcomeUnknown(expected="an answer to a commit", found="none")


async def test_a_commit_that_is_lost_while_a_rival_takes_its_ids_is_made_with_others():
    records = MemoryStore()
    async with handle(records.reopened(), "rival") as rival:
        losing = Losing(records.reopened(), rival)
        async with handle(losing, "mine") as store:
            await store.commit([untitled("first")])
            losing.withholds = True

            reply = await store.commit([untitled("mine")])

            assert (reply.seq, reply.replayed) == (4, False)
            assert await store.find(untitled("rival's").address) is not None
            found = await store.find(untitled("mine").address)
            assert found is not None
            assert (found.id,) == reply.ids


async def test_an_address_that_a_rival_took_and_freed_since_this_handles_commit_is_free():
    records = MemoryStore()
    async with handle(records.reopened(), "a") as store, handle(records, "b") as rival:
        await store.commit([line(1)])
        address = untitled("one").address
        (id,) = (await rival.commit([CreateDocument(address, "latest", base(1, {}))])).ids
        await rival.commit([RetireDocument(DocumentId(id))])

        reply = await store.commit([untitled("one")])

        assert (reply.seq, reply.ids) == (5, (id + 1,))
