"""Commits made in the loop's own thread come to what those made in a thread of their own do."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path

import pytest
from tests.authority.test_sqlite import run

from perdure.authority import sqlite
from perdure.authority.sqlite import (
    AT_ONCE_BYTES_MAX,
    AT_ONCE_COMMITS_MAX,
    AT_ONCE_SECONDS_MAX,
    SqliteStore,
)
from perdure.authority.testing.records import note, put
from perdure.kernel.commit import Check, Commit, Put, Remove
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Token
from perdure.kernel.view import Reads, Version

pytestmark = pytest.mark.proof

NAMES = "abcd"


def fast():
    """Return a clock that hardly moves: every commit but the first is made at once."""
    return 0.0


def slow():
    """Return a clock by which every transaction is a slow one."""
    numbers = count()
    return lambda: next(numbers) * 2 * AT_ONCE_SECONDS_MAX


def commits(seed):
    """Draw commits of every kind of action, some on versions that are not there."""
    chance = random.Random(seed)
    for number in range(60):
        actions = []
        for name in chance.sample(NAMES, chance.randint(1, 3)):
            seen = chance.choice(
                [
                    None,
                    Version(1, Token("t0")),
                    Version(chance.randint(1, 3), Token(f"t{number - 1}")),
                ]
            )
            kinds = [Put(note(name), seen, b"%d" % number), Check(note(name), seen)]
            kinds += [Remove(note(name), seen)] if seen else []
            actions.append(chance.choice(kinds))
        if any(isinstance(each, Put) for each in actions):
            yield Commit(Token(f"t{number}"), tuple(actions))


async def told(store, seed):
    """Make the commits in groups, and return how each went and what is there afterwards."""
    outcomes = []
    waiting = list(commits(seed))
    while waiting:
        group, waiting = waiting[:3], waiting[3:]
        outcomes += await asyncio.gather(*map(store.commit, group), return_exceptions=True)
    view = await store.load(Reads(keys=tuple(note(name) for name in NAMES)))
    await store.close()
    return [repr(each) for each in outcomes], view.stored


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_answer_and_leave_the_same(seed, tmp_path: Path):
    async def story(name, seconds):
        return await told(await SqliteStore.open(tmp_path / name, seconds=seconds), seed)

    assert run(story("here", fast)) == run(story("apart", slow()))


def threads_of(seconds, tmp_path, monkeypatch):
    """Return which threads three commits are made in."""
    found = []
    is_done = sqlite._is_done

    def watched(commit, database):
        found.append(threading.current_thread() is threading.main_thread())
        return is_done(commit, database)

    async def story():
        store = await SqliteStore.open(tmp_path / "store.db", seconds=seconds)
        for name in "abc":
            await store.commit(put(name, b"x", by="t"))
        await store.close()

    monkeypatch.setattr(sqlite, "_is_done", watched)
    run(story())
    return found


def test_after_a_fast_transaction_the_next_is_made_in_the_loops_own_thread(tmp_path, monkeypatch):
    assert threads_of(fast, tmp_path, monkeypatch) == [False, True, True]


def test_after_a_slow_transaction_the_next_is_made_in_a_thread(tmp_path, monkeypatch):
    assert threads_of(slow(), tmp_path, monkeypatch) == [False, False, False]


def test_a_way_to_the_thread_that_takes_long_is_no_slow_transaction(tmp_path, monkeypatch):
    hours = count()

    def seconds():
        """Stand still in the thread that writes; in the loop's own, an hour is over with each look."""
        is_loops = threading.current_thread() is threading.main_thread()
        return next(hours) * 3_600.0 if is_loops else 0.0

    assert threads_of(seconds, tmp_path, monkeypatch) == [False, True, False]


@pytest.mark.parametrize(
    "group",
    [
        [put(f"{number}", b"x", by=f"t{number}") for number in range(AT_ONCE_COMMITS_MAX + 1)],
        [put("large", b"x" * (AT_ONCE_BYTES_MAX + 1), by="t")],
    ],
    ids=["many", "large"],
)
def test_a_transaction_that_holds_much_is_made_in_a_thread(group, tmp_path, monkeypatch):
    found = set()
    is_done = sqlite._is_done

    def watched(commit, database):
        found.add(threading.current_thread() is threading.main_thread())
        return is_done(commit, database)

    async def story():
        store = await SqliteStore.open(tmp_path / "store.db", seconds=fast)
        await store.commit(put("first", b"x", by="t"))
        monkeypatch.setattr(sqlite, "_is_done", watched)
        await asyncio.gather(*map(store.commit, group))
        await store.close()

    run(story())

    assert found == {False}


def test_the_loop_goes_on_while_another_process_writes_and_the_commit_waits_for_it(tmp_path):
    async def story():
        store = await SqliteStore.open(tmp_path / "store.db", seconds=fast)
        await store.commit(put("a", b"x", by="t1"))
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(store.commit(put("b", b"x", by="t2")))
            turns = 0
            while turns < 20:
                await asyncio.sleep(0.002)
                turns += 1
            was_waiting = not waiting.done()
            other.execute("ROLLBACK")
            await waiting
        await store.close()
        return was_waiting

    assert run(story())


def test_what_is_held_by_another_process_for_too_long_is_unavailable_at_once_too(tmp_path):
    async def story():
        store = await SqliteStore.open(tmp_path / "store.db", busy_ms=30, seconds=fast)
        await store.commit(put("a", b"x", by="t1"))
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await store.commit(put("b", b"x", by="t2"))
            other.execute("ROLLBACK")
        await store.commit(put("b", b"x", by="t2"))
        await store.close()

    run(story())


class LosesTheLast:
    """A database that commits and then says that it failed."""

    def __init__(self, database):
        self.database = database

    @property
    def in_transaction(self):
        return self.database.in_transaction

    def execute(self, statement, *parameters):
        done = self.database.execute(statement, *parameters)
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return done

    def executemany(self, statement, rows):
        return self.database.executemany(statement, rows)


def test_a_commit_made_at_once_that_fails_at_its_end_is_unknown(tmp_path):
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE record (partition, sort, revision, token, body)")

        outcomes = sqlite._apply_at_once(
            [put("a", b"x", by="t1")], tmp_path / "store.db", LosesTheLast(database)
        )

        assert [each.code for each in outcomes] == ["outcome_unknown"]
        assert not database.in_transaction


def test_a_transaction_that_nobody_awaits_any_more_is_left_alone(tmp_path, monkeypatch):
    path, go_on, is_done = tmp_path / "store.db", threading.Event(), sqlite._is_done
    in_thread = threading.Event()

    def waits(commit, database):
        if threading.current_thread() is not threading.main_thread():
            in_thread.set()
            assert go_on.wait(120)
        return is_done(commit, database)

    async def story():
        async with AsyncExitStack() as ends:
            store = await SqliteStore.open(path, seconds=fast)
            ends.push_async_callback(store.close)  # or its threads outlive a failure
            ends.callback(go_on.set)
            await store.commit(put("a", b"x", by="t1"))
            monkeypatch.setattr(sqlite, "_is_done", waits)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                left = asyncio.create_task(store.commit(put("b", b"x", by="t2")))
                await asyncio.sleep(0.01)
                other.execute("ROLLBACK")
            assert await asyncio.to_thread(in_thread.wait, 120)
            store._writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await left
            later = asyncio.create_task(store.commit(put("c", b"x", by="t3")))
            await asyncio.sleep(0.01)
            assert not later.done()

            go_on.set()
            await later

            view = await store.load(Reads(keys=tuple(note(name) for name in "abc")))
            return [each and each.version.token for each in view.stored.values()]

    assert run(story()) == ["t1", "t2", "t3"]
