"""Wherever a transaction of SQLite fails, its commit is done once or not at all, and known to be."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_outcomes import ALWAYS, handle, ids, line

from perdure.authority import sqlite
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.errors import StoreFailed
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.stores


class Failing:
    """A database of which one statement fails, some times, before it is done or behind that."""

    def __init__(self, database: sqlite3.Connection, plan: Plan) -> None:
        self.database = database
        self.plan = plan

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def execute(self, statement: str, *parameters: Any) -> Any:
        return self.plan.does(statement, lambda: self.database.execute(statement, *parameters))

    def executemany(self, statement: str, rows: Any) -> Any:
        return self.plan.does("body", lambda: self.database.executemany(statement, rows))


class Plan:
    """Which statements of a transaction fail, and how often."""

    def __init__(
        self,
        *statements: str,
        times: int = 1,
        is_done: bool = False,
        then: tuple[str, int] | None = None,
    ) -> None:
        self.left = dict.fromkeys(statements, times)
        self.is_done = is_done
        self.then = then

    def does(self, statement: str, work: Callable[[], Any]) -> Any:
        if not self.left.get(statement):
            return work()
        self.left[statement] -= 1
        if self.is_done and statement == "COMMIT":
            work()
        if self.then is not None:
            self.left |= dict([self.then])
        raise sqlite3.OperationalError(f"disk I/O error in {statement}")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Plan], None]:
    """Return how SQLite is made to fail from now on."""
    apply_all = sqlite._apply_all

    def fail(plan: Plan) -> None:
        def applied(commits: Any, path: Any, database: Any) -> Any:
            broken: Any = Failing(database, plan)
            return apply_all(commits, path, broken)

        monkeypatch.setattr(sqlite, "_apply_at_once", lambda *_: None)
        monkeypatch.setattr(sqlite, "_apply_all", applied)

    return fail


@pytest.mark.parametrize(
    "statements",
    [("BEGIN IMMEDIATE",), ("body",), ("body", "ROLLBACK")],
    ids=["begin", "body", "body and rollback"],
)
async def test_what_fails_before_the_end_of_a_transaction_is_known_not_to_have_happened(
    tmp_path: Path, failing: Callable[[Plan], None], statements: tuple[str, ...]
):
    async with handle(await SqliteStore.open(tmp_path / "store.db")) as store:
        await store.commit([line(1)])
        failing(Plan(*statements))

        with pytest.raises(StoreUnavailable):
            await store.commit([line(2)])

        assert await ids(store) == [1]
        await store.commit([line(3)])
        assert await ids(store) == [1, 3]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("also", [(), ("ROLLBACK",)])
async def test_an_end_whose_answer_is_lost_is_asked_for_again_and_happens_once(
    tmp_path: Path, failing: Callable[[Plan], None], also: tuple[str, ...], *, is_done: bool
):
    async with handle(await SqliteStore.open(tmp_path / "store.db")) as store:
        await store.commit([line(1)])
        failing(Plan("COMMIT", *also, is_done=is_done))

        await store.commit([line(2)])

        assert await ids(store) == [1, 2]


async def test_an_end_that_is_never_known_fails_the_store_until_it_is_opened_again(
    tmp_path: Path, failing: Callable[[Plan], None]
):
    adopted: list[Any] = []
    async with handle(await SqliteStore.open(tmp_path / "store.db")) as store:
        await store.commit([line(1)])
        plan = Plan("COMMIT", times=ALWAYS)
        failing(plan)

        with pytest.raises(StoreFailed):
            await store.commit([line(2)], adopt=adopted.append)

        with pytest.raises(StoreFailed):
            await store.commit([line(3)])
        assert adopted == []
        plan.left = {}
    async with handle(await SqliteStore.open(tmp_path / "store.db"), "again") as store:
        assert await ids(store) == [1]
        await store.commit([line(3)])


async def test_an_end_that_happened_and_is_never_answered_is_found_in_the_log(
    tmp_path: Path, failing: Callable[[Plan], None]
):
    adopted: list[Any] = []
    async with handle(await SqliteStore.open(tmp_path / "store.db")) as store:
        await store.commit([line(1)])
        plan = Plan("COMMIT", is_done=True, then=("BEGIN IMMEDIATE", ALWAYS))
        failing(plan)

        reply = await store.commit([line(2)], adopt=adopted.append)

        plan.left = {}
        assert reply.replayed
        assert adopted == [reply]
        await store.commit([line(3)])
        assert await ids(store) == [1, 2, 3]
