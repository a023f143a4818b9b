"""The SQLite file: what can be wrong with it, and what a failing disk means."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perdure.authority import sqlite
from perdure.authority.sqlite import SqliteStore
from perdure.authority.sqlite_schema import SCHEMA, translated
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import HERE, Add, Look, note, put, version
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Commit, Put
from perdure.kernel.errors import (
    Corrupt,
    NewerSchema,
    OutcomeUnknown,
    PerdureError,
    SchemaMismatch,
    StoreUnavailable,
)
from perdure.kernel.ids import Partition, Token
from perdure.kernel.view import Reads, Version

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def opened_and_closed(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.close()


def refusal(path: Path) -> PerdureError:
    with pytest.raises(PerdureError) as caught:
        run(opened_and_closed(path))
    assert str(path) in str(caught.value)
    return caught.value


def test_a_missing_directory_is_one_clear_error(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none" / "store.db")

    assert isinstance(error, StoreUnavailable)
    assert not (tmp_path / "none").exists()


def test_a_directory_in_place_of_the_file_is_one_clear_error(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path), StoreUnavailable)


def test_a_file_that_cannot_be_written_is_one_clear_error() -> None:
    assert isinstance(refusal(Path("/proc/self/status")), StoreUnavailable | Corrupt)
    assert isinstance(refusal(Path("/proc/store.db")), StoreUnavailable)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, " * 100)

    assert isinstance(refusal(path), Corrupt)
    assert path.read_text() == "these are my notes, " * 100


def test_a_database_of_someone_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE album (title TEXT)")
    database.close()
    before = path.read_bytes()

    assert isinstance(refusal(path), SchemaMismatch)
    assert path.read_bytes() == before


def test_a_store_that_lost_its_version_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(opened_and_closed(path))
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM meta")
    database.close()

    assert isinstance(refusal(path), SchemaMismatch)


def test_a_newer_schema_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(opened_and_closed(path))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = ?", (SCHEMA + 1,))
    database.close()

    assert isinstance(refusal(path), NewerSchema)


def test_a_file_of_before_is_raised_and_its_manifests_are_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(opened_and_closed(path))
    sorts = ["head", "manifest/0000000000000000000"]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
        rows = [("w/storage/world", sort, 1, "t", b"{}") for sort in sorts]
        database.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?)", rows)
    database.close()

    run(opened_and_closed(path))
    run(opened_and_closed(path))

    with sqlite3.connect(path) as database:
        held = database.execute("SELECT partition, sort FROM record ORDER BY sort").fetchall()
        schema = database.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    database.close()
    assert held == [("w/storage/world", sorts[0]), ("m/storage/world", sorts[1])]
    assert schema == (SCHEMA,)


def test_a_file_of_before_is_not_read_as_if_it_were_of_today(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(opened_and_closed(path))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
    database.close()

    with pytest.raises(SchemaMismatch) as refused:
        run(SqliteStore.open(path, untouched=True))

    assert (refused.value.found, SCHEMA) == ("schema 1", 2)


def test_a_file_is_synced_at_every_commit(tmp_path: Path) -> None:
    async def pragmas() -> list[Any]:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            return [
                await store._writer.run(lambda base, p=p: base.execute(p).fetchone()[0])
                for p in ("PRAGMA journal_mode", "PRAGMA synchronous")
            ]
        finally:
            await store.close()

    assert run(pragmas()) == ["wal", 2]


def test_commits_that_wait_share_one_sync_but_not_one_fate(tmp_path: Path) -> None:
    async def story() -> tuple[list[Any], int]:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            await store.commit(put("taken", b"x", by="t0"))
            before = store.syncs
            outcomes = await asyncio.gather(
                *(store.commit(put(f"{number}", b"x", by="t")) for number in range(20)),
                store.commit(put("taken", b"y", by="t1")),
                return_exceptions=True,
            )
            view = await store.load(Reads(keys=tuple(note(f"{number}") for number in range(20))))
            assert all(view.stored.values())
            return outcomes, store.syncs - before
        finally:
            await store.close()

    outcomes, syncs = run(story())

    assert outcomes[:-1] == [None] * 20
    assert isinstance(outcomes[-1], RevisionConflict)
    assert syncs == 1


def test_another_process_that_writes_for_too_long_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        store = await SqliteStore.open(path, busy_ms=50)
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await store.commit(put("a", b"x", by="t1"))
            assert (await store.load(Reads(keys=(note("a"),)))).stored[note("a")] is None
            other.execute("ROLLBACK")
            await store.commit(put("a", b"x", by="t1"))
        finally:
            other.close()
            await store.close()

    run(story())


class Failing:
    """A database whose next COMMIT fails, before or after it is done."""

    def __init__(
        self, database: sqlite3.Connection, *, is_done: bool, no_rollback: bool = False
    ) -> None:
        self.database = database
        self.is_done = is_done
        self.no_rollback = no_rollback

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            if self.is_done:
                self.database.execute(statement)
            raise sqlite3.OperationalError("disk I/O error")
        if statement == "ROLLBACK" and self.no_rollback:
            raise sqlite3.OperationalError("disk I/O error")
        return self.database.execute(statement, *parameters)

    def executemany(self, statement: str, rows: Any) -> Any:
        return self.database.executemany(statement, rows)


@pytest.mark.parametrize("no_rollback", [False, True])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_failing_commit_is_unknown_and_the_same_token_settles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_done: bool, no_rollback: bool
) -> None:
    apply_all = sqlite._apply_all

    def failing(commits: Any, path: Any, database: Any) -> Any:
        broken: Any = Failing(database, is_done=is_done, no_rollback=no_rollback)
        return apply_all(commits, path, broken)

    async def story() -> bool:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            monkeypatch.setattr(sqlite, "_apply_all", failing)
            with pytest.raises(OutcomeUnknown):
                await store.commit(put("a", b"x", by="t1"))
            monkeypatch.undo()
            found = (await store.load(Reads(keys=(note("a"),)))).stored[note("a")]
            await store.commit(put("a", b"x", by="t1"))
            view = await store.load(Reads(keys=(note("a"),)))
            assert view.version(note("a")) == version("t1")
            return found is not None
        finally:
            await store.close()

    assert run(story()) is is_done


def test_an_error_in_the_middle_undoes_everything(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            await store._writer.run(_without_room)
            with pytest.raises(StoreUnavailable):
                await store.commit(put("a", b"x" * 300_000, by="t1"))
            await store._writer.run(_with_room)
            await store.commit(put("a", b"x" * 300_000, by="t1"))
        finally:
            await store.close()

    run(story())


def test_text_that_is_no_text_fails_its_caller_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> int:
        store = await SqliteStore.open(tmp_path / "store.db")
        engine = authority(store)
        try:
            with pytest.raises(UnicodeEncodeError):
                await store.commit(put("\ud800", b"x", by="t1"))
            with pytest.raises(UnicodeEncodeError):
                await engine.execute(Add(stream=Partition("\ud800")))
            return await engine.execute(Add())
        finally:
            await store.close()

    assert run(story()) == 1


def test_a_commit_goes_on_when_its_caller_goes_away(tmp_path: Path) -> None:
    async def story() -> bool:
        store = await SqliteStore.open(tmp_path / "store.db")
        task = asyncio.create_task(store.commit(put("a", b"x", by="t1")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            view = await store.load(Reads(keys=(note("a"),)))
            return view.stored[note("a")] is not None
        finally:
            await store.close()

    assert run(story())


def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    async def story() -> tuple[int, ...]:
        stores = await asyncio.gather(*(SqliteStore.open(tmp_path / "store.db") for _ in range(8)))
        try:
            for number, store in enumerate(stores):
                await authority(store, f"{number}").execute(Add())
            return await authority(stores[0]).execute(Look(("c",), stream=HERE))
        finally:
            for store in stores:
                await store.close()

    assert run(story()) == (8,)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable),
        (sqlite3.SQLITE_LOCKED, StoreUnavailable),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_READONLY, StoreUnavailable),
        (sqlite3.SQLITE_FULL, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable),
        (sqlite3.SQLITE_NOTADB, Corrupt),
        (sqlite3.SQLITE_CORRUPT, Corrupt),
        (sqlite3.SQLITE_MISUSE, StoreUnavailable),
        (None, StoreUnavailable),
    ],
)
def test_an_error_of_the_driver_has_one_meaning(code: int | None, kind: type[Exception]) -> None:
    error = sqlite3.OperationalError("words of the driver")
    if code is not None:
        error.sqlite_errorcode = code

    told = translated(error, Path("/data/store.db"))

    assert type(told) is kind
    assert "/data/store.db" in str(told)
    assert "words of the driver" in str(told)


def _without_room(database: sqlite3.Connection) -> None:
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")


def _with_room(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA max_page_count = 1000000")


def test_a_commit_that_fails_half_done_leaves_nothing_and_its_neighbours_stand(
    tmp_path: Path,
) -> None:
    names = ("a", "b", "c")
    half = Commit(
        Token("t2"),
        (Put(note("b"), None, b"new"), Put(note("a"), version("stale", 7), b"written over")),
    )

    async def story() -> tuple[list[Any], list[Version | None], int]:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            commits = (put("a", b"x", by="t1"), half, put("c", b"x", by="t3"))
            outcomes = await asyncio.gather(
                *(store.commit(commit) for commit in commits), return_exceptions=True
            )
            view = await store.load(Reads(keys=tuple(map(note, names))))
            return outcomes, [view.version(note(name)) for name in names], store.syncs
        finally:
            await store.close()

    (first, failed, third), versions, syncs = run(story())

    assert (first, third, syncs) == (None, None, 1)
    assert isinstance(failed, RevisionConflict)
    assert failed.keys == (note("a"),)
    assert versions == [version("t1"), None, version("t3")]
