"""A handle commits in turn, and each commit once, whoever else does."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.documents import opened
from tests.support.store_lines import (
    LINES,
    OTHERS,
    attempts,
    bodies,
    head_of,
    line,
    page,
    untitled,
)

from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.authority.store import Store
from perdure.kernel.documents.attempt import UNSEEN_MAX
from perdure.kernel.documents.commit import Committed
from perdure.kernel.documents.errors import (
    RowExists,
    StoreClosed,
    StoreFailed,
)
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.documents.step import Step
from perdure.kernel.errors import PerdureError, StaleWriter, StoreUnavailable, Unavailable
from perdure.kernel.ids import Partition
from perdure.kernel.view import Reads
from perdure.runtime.documents import settling
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


async def test_a_writer_who_may_not_is_refused_before_anything_is_asked_of_the_store():
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        loads, commits = records.loads, records.commits

        with pytest.raises(StaleWriter):
            await store.commit([line(1)], admit=lambda: False)

        assert (records.loads, records.commits) == (loads, commits)
        await store.commit([line(1)], admit=lambda: True)


async def test_whether_a_writer_may_is_asked_when_its_turn_has_come():
    told: list[str] = []

    def may(name: str) -> bool:
        told.append(f"{name} asked")
        return True

    async with opened() as store:
        await prepared(store, [LINES])
        await asyncio.gather(
            *(
                store.commit(
                    [line(each)],
                    admit=lambda each=each: may(f"{each}"),  # type: ignore[misc]
                    adopt=lambda reply, each=each: told.append(f"{each} adopted"),  # type: ignore[misc]
                )
                for each in range(3)
            )
        )

    assert told == [f"{each} {what}" for each in range(3) for what in ("asked", "adopted")]


async def test_each_commit_is_adopted_with_its_seq_before_the_next_begins():
    adopted: list[Committed] = []
    async with opened() as store:
        await prepared(store, [LINES])

        replies = await asyncio.gather(
            *(store.commit([line(each)], adopt=adopted.append) for each in range(20))
        )

    assert adopted == replies
    assert [reply.seq for reply in adopted] == list(range(2, 22))


async def test_an_adoption_that_raises_fails_the_store_whose_commit_stands():
    def adopt(_: Committed) -> None:
        raise LookupError("not now")

    records = MemoryStore()
    async with opened(records.reopened()) as store:
        await prepared(store, [LINES])

        with pytest.raises(StoreFailed, match="not now"):
            await store.commit([line(1)], adopt=adopt)

        for call in (store.commit([line(2)]), store.reserve(1), store.find(page(1).address)):
            with pytest.raises(StoreFailed, match="opened again"):
                await call
        with pytest.raises(StoreFailed):
            store.mint()
    async with opened(records.reopened(), prefix="again") as store:
        assert store.seq == 2


class Unspeakable(Exception):
    """Somebody's error that has nothing to say, or fails to."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Unspeakable()])
async def test_what_failed_a_store_is_named_even_if_it_says_nothing(error: BaseException):
    def adopt(_: Committed) -> None:
        raise error

    async with opened() as store:
        await prepared(store, [LINES])
        for _ in range(2):
            with pytest.raises(StoreFailed, match=type(error).__name__):
                await store.commit([line(1)], adopt=adopt)


async def test_what_waits_in_line_behind_a_commit_that_fails_the_store_is_not_done():
    def adopt(_: Committed) -> None:
        raise LookupError("not now")

    async with opened() as store:
        await prepared(store, [LINES])
        failing = asyncio.create_task(store.commit([line(1)], adopt=adopt))
        await asyncio.sleep(0)
        waiting = [store.hold("notes", 1_000), store.declared([OTHERS])]

        errors = await asyncio.gather(failing, *waiting, return_exceptions=True)

        assert [type(each) for each in errors] == [StoreFailed] * 3
        head = await head_of(store)
        assert (head.seq, head.held) == (2, ())


async def test_a_refusal_leaves_the_store_as_it_was_and_its_queue_goes_on():
    adopted: list[Committed] = []
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        await store.commit([line(1)])
        before = bodies(records)

        row = {"id": 1, "by": "eve"}
        with pytest.raises(RowExists):
            await store.commit([line(2), InsertRow(LINES, row)], adopt=adopted.append)

        assert bodies(records) == before
        assert adopted == []
        assert (await store.commit([line(2)])).seq == 3


async def test_a_close_waits_for_what_was_asked_just_before_it():
    told: list[str] = []
    async with opened() as store:
        await prepared(store, [LINES])

        async def closed() -> None:
            await store.close()
            told.append("closed")

        commit = store.commit([line(1)], adopt=lambda _: told.append("adopted"))
        await asyncio.gather(commit, closed())

    assert told == ["adopted", "closed"]


async def test_a_refusal_leaves_no_chunks_of_what_was_too_large_for_its_record():
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        await store.commit([line(each) for each in range(20)])
        before = bodies(records)

        large = "".join(hashlib.sha256(b"%d" % each).hexdigest() for each in range(3_000))
        with pytest.raises(RowExists):
            await store.commit([InsertRow(LINES, {"id": 1, "by": large})])

        assert bodies(records) == before


@dataclass(frozen=True)
class Raising:
    """A write that raises an error of its own, where it says what it reads or when it is applied."""

    error: Exception
    where: str
    owner: None = None
    names_id: int = 0

    def reads(self, store: Partition) -> Reads:
        if self.where == "reads":
            raise self.error
        return Reads()

    def apply(self, step: Step) -> None:
        raise self.error


@pytest.mark.parametrize("where", ["reads", "apply"])
@pytest.mark.parametrize("kind", [LookupError, OSError, StoreUnavailable])
async def test_an_error_of_a_write_is_that_commits_refusal_and_the_store_goes_on(
    where: str, kind: type[Exception]
):
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        before = bodies(records)
        error = kind(expected="b", found="c") if issubclass(kind, PerdureError) else kind("its own")

        with pytest.raises(kind):
            await store.commit([line(1), Raising(error, where)])

        assert bodies(records) == before
        assert (await store.commit([line(2)])).seq == 2


async def test_a_caller_that_goes_away_takes_nothing_back():
    adopted: list[Committed] = []
    async with opened() as store:
        await prepared(store, [LINES])
        going = asyncio.create_task(store.commit([line(1)], adopt=adopted.append))
        await asyncio.sleep(0)

        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        reply = await store.commit([line(2)])

        assert [each.seq for each in adopted] == [2]
        assert reply.seq == 3


async def test_a_caller_that_goes_away_before_a_refusal_is_told_of_nothing():
    async with opened() as store:
        await prepared(store, [LINES])
        await store.commit([line(1)])
        going = asyncio.create_task(store.commit([InsertRow(LINES, {"id": 1, "by": ""})]))
        await asyncio.sleep(0)

        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

        assert (await store.commit([line(2)])).seq == 3


async def test_a_closed_store_ends_what_it_has_begun_and_takes_no_more():
    async with opened() as store:
        await prepared(store, [LINES])
        begun = [asyncio.create_task(store.commit([line(each)])) for each in range(3)]
        await asyncio.sleep(0)

        await store.close()

        assert [(await each).seq for each in begun] == [2, 3, 4]
        with pytest.raises(StoreClosed):
            await store.commit([line(9)])
        with pytest.raises(StoreClosed):
            store.mint()


async def rivals(first: Store, second: Store, commits: int) -> None:
    """Let two handles commit at once, and hold the log to each commit once."""
    async with opened(first, prefix="a") as one, opened(second, prefix="b") as other:
        await prepared(one, [LINES])
        await prepared(other, [LINES])
        ids: list[int] = []

        async def writing(store: OpenStore, by: str) -> None:
            for each in range(commits):
                minted = store.mint()
                reply = await store.commit(
                    [line(each if by == "a" else -each - 1, by), untitled(f"{by}{each}")],
                    adopt=lambda reply: ids.extend(reply.ids),
                )
                assert minted not in reply.ids

        await asyncio.gather(writing(one, "a"), writing(other, "b"))

        told = await attempts(one)
        assert len(told) == len(set(told)) == 1 + 2 * commits
        assert len(ids) == len(set(ids)) == 2 * commits
        assert (await head_of(one)).next_id > max(ids)


async def test_two_handles_on_one_memory_commit_everything_once():
    records = MemoryStore()
    await rivals(records.reopened(), records.reopened(), 40)


@pytest.mark.slow
async def test_two_handles_on_one_file_commit_hundreds_once(tmp_path: Path):
    async with stores.sqlite(tmp_path) as opener:
        await rivals(await opener(), await opener(), 200)


async def test_who_has_not_looked_for_long_commits_once_all_the_same():
    records = MemoryStore()
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        await prepared(first, [LINES])
        for _ in range(UNSEEN_MAX + 10):
            await second.commit([])

        reply = await first.commit([line(1)])

        assert reply.seq == UNSEEN_MAX + 12
        assert len(await attempts(first)) == UNSEEN_MAX + 12


async def test_who_falls_behind_again_while_it_looks_commits_once_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    records = MemoryStore()
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        await prepared(first, [LINES])
        look, looks = settling.head_of, 0

        async def far_ahead() -> None:
            for _ in range(UNSEEN_MAX + 10):
                await second.commit([])

        async def overtaken(*asked: Any) -> StoreHead | None:
            nonlocal looks
            looks += 1
            head = await look(*asked)
            if looks < 4:
                await far_ahead()
            return head

        monkeypatch.setattr(settling, "head_of", overtaken)
        await far_ahead()

        reply = await first.commit([line(1)])

        assert (looks, reply.seq) == (4, 4 * (UNSEEN_MAX + 10) + 2)


async def test_a_store_that_is_busy_is_usable_when_it_is_no_more():
    records = MemoryStore()
    async with opened(records.reopened()) as store:
        await prepared(store, [LINES])
    busy = records.reopened(FaultPlan({1: Fault.THROTTLE}))
    async with opened(busy, prefix="again") as store:
        await prepared(store, [LINES])
        with pytest.raises(Unavailable):
            await store.commit([line(1)])

        assert (await store.commit([line(1)])).seq == 2
