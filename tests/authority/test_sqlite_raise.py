"""A SQLite file of before: raised by whoever has it alone."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from tests.authority.test_sqlite import opened_and_closed, run

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.cloud


def old_manifest(tick: int) -> tuple[str, str, int, str, bytes]:
    return ("w/storage/world", f"manifest/{tick:019}", 1, "t", b"{}")


def file_of_before(path: Path) -> sqlite3.Connection:
    """Make a file as the version before left it, and return the connection of a process of it."""
    run(opened_and_closed(path))
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
    old.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?)", old_manifest(0))
    return old


def partitions(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    try:
        return [each for (each,) in database.execute("SELECT partition FROM record ORDER BY sort")]
    finally:
        database.close()


def test_a_file_that_an_older_version_has_open_is_not_raised_under_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    old = file_of_before(path)

    async def opened() -> None:
        await (await SqliteStore.open(path, busy_ms=50)).close()

    with pytest.raises(StoreUnavailable) as refused:
        run(opened())

    assert "close the older version" in refused.value.expected
    old.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?)", old_manifest(1))
    old.close()
    assert partitions(path) == ["w/storage/world"] * 2
    run(opened_and_closed(path))
    assert partitions(path) == ["m/storage/world"] * 2


def test_a_file_is_raised_as_soon_as_the_older_version_lets_go_of_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    old = file_of_before(path)

    async def story() -> None:
        opening = asyncio.create_task(SqliteStore.open(path))
        await asyncio.sleep(0.1)
        assert not opening.done()
        old.close()
        await (await opening).close()

    run(story())

    assert partitions(path) == ["m/storage/world"]


def test_many_may_open_a_file_of_before_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    file_of_before(path).close()

    async def story() -> None:
        stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
        for store in stores:
            await store.close()

    run(story())

    assert partitions(path) == ["m/storage/world"]
