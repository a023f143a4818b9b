"""The SQLite file: its tables, its version, and what can be wrong with it."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from perdure.kernel.errors import (
    Corrupt,
    NewerSchema,
    PerdureError,
    SchemaMismatch,
    StoreUnavailable,
)

if sys.platform != "win32":
    import fcntl

SCHEMA: Final = 2
"""Version of what a file holds; one with a higher version is not opened, a lower one is raised."""

_META: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID"
)
_RECORD: Final = """
CREATE TABLE record (
    partition TEXT NOT NULL,
    sort TEXT NOT NULL,
    revision INTEGER NOT NULL,
    token TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (partition, sort)
) STRICT
"""
# With rowids: rows of several hundred bytes are appended. WITHOUT ROWID they would go into the
# middle of full pages, and what is over a quarter of a page into a page of its own.

_RAISE: Final[dict[int, str]] = {
    # Manifests lie in partitions of their own.
    1: "UPDATE record SET partition = 'm' || substr(partition, 2)"
    " WHERE partition LIKE 'w/%' AND sort LIKE 'manifest/%'",
}
"""What raises a file from each version to the next."""

_TURNS: Final = 10
"""How often a file of before is tried to be had alone, in the time that others are waited for."""

_WORDS: Final[dict[int, tuple[type[PerdureError], str]]] = {
    sqlite3.SQLITE_BUSY: (StoreUnavailable, "a turn to write"),
    sqlite3.SQLITE_LOCKED: (StoreUnavailable, "a turn to write"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "a file that can be opened or made"),
    sqlite3.SQLITE_READONLY: (StoreUnavailable, "a file that can be written"),
    sqlite3.SQLITE_PERM: (StoreUnavailable, "a file that may be opened"),
    sqlite3.SQLITE_AUTH: (StoreUnavailable, "a file that may be opened"),
    sqlite3.SQLITE_FULL: (StoreUnavailable, "room on the disk"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "a disk that works"),
    sqlite3.SQLITE_NOTADB: (Corrupt, "a SQLite database"),
    sqlite3.SQLITE_CORRUPT: (Corrupt, "an intact SQLite database"),
}


class _Older(Exception):
    """The file has to be raised first."""


class _Held(Exception):
    """Somebody else has the file open."""


def translated(error: sqlite3.Error, path: Path) -> PerdureError:
    """Say what an error of the driver means when nothing was committed."""
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    kind, expected = _WORDS.get(primary, (StoreUnavailable, "a store that answers"))
    return kind(expected=f"{expected} at {path}", found=str(error))


def open_database(path: Path, *, busy_ms: int) -> sqlite3.Connection:
    """Open the file ready for use, with its tables made if it is new.

    Raises: NewerSchema, SchemaMismatch, Corrupt; StoreUnavailable, also for a file of before
    that somebody else has open.
    """
    try:
        return _opened(path, str(path), busy_ms, _prepare)
    except _Older:
        pass
    # One after another: two who want a file alone keep each other out for as long as both try.
    with _turn(path.parent):
        for _ in range(_TURNS):
            try:  # another may have raised it meanwhile
                return _opened(path, str(path), busy_ms, _prepare)
            except _Older:
                if _raised(path, busy_ms=busy_ms // _TURNS):
                    return _opened(path, str(path), busy_ms, _prepare)
    raise StoreUnavailable(
        expected=f"nobody to have {path} open while it is raised to schema {SCHEMA}:"
        " close the older version of Perdure that has",
        found="a process that has it open",
    )


@contextmanager
def _turn(directory: Path) -> Iterator[None]:
    """Wait until nobody else of this machine is here. A death ends a turn, too."""
    if sys.platform == "win32":  # no such locks: there, who comes first may keep others out
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _raised(path: Path, *, busy_ms: int) -> bool:
    """Raise a file of before to the schema of today, unless somebody has it open.

    Who had would go on putting records where they lay before.
    """
    try:
        _opened(path, str(path), busy_ms, _raise_alone).close()
    except _Held:
        return False
    return True


def open_untouched(path: Path, *, busy_ms: int) -> sqlite3.Connection:
    """Open a file to be read, which must be there: no byte of its directory changes.

    Raises: NewerSchema, SchemaMismatch, also for a file that has to be raised first; Corrupt,
    StoreUnavailable.
    """
    # A log beside the file: somebody has it open, or died. Without one, nobody does; to be read
    # as any other file it would be given one.
    how = "readonly_shm=1" if _log_of(path).exists() else "immutable=1"
    return _opened(path, f"{path.absolute().as_uri()}?mode=ro&{how}", busy_ms, _check_current)


def _opened(
    path: Path, address: str, busy_ms: int, prepare: Callable[[sqlite3.Connection, Path], None]
) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(
            address,
            timeout=busy_ms / 1_000,
            isolation_level=None,
            uri=address != str(path),
            check_same_thread=False,  # a store sees to it that two never use it at once
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        prepare(database, path)
    except sqlite3.Error as error:
        database.close()
        raise translated(error, path) from error
    except BaseException:
        database.close()
        raise
    return database


def _check_current(database: sqlite3.Connection, path: Path) -> None:
    if _checked(database, path) and _version(database, path) < SCHEMA:
        raise SchemaMismatch(
            expected=f"schema {SCHEMA} at {path}, to which any other command raises it",
            found=f"schema {_version(database, path)}",
        )


def has_log(path: Path) -> bool:
    """Say whether the file is written through a write-ahead log, as its header tells.

    Source: https://www.sqlite.org/fileformat2.html, bytes 18 and 19 of the header.
    """
    with path.open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    tables = _checked(database, path)
    if database.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise StoreUnavailable(
            expected=f"a file system that can share a write-ahead log at {path}",
            found="one that cannot",
        )
    database.execute("PRAGMA synchronous = FULL")
    if not tables:
        _in_transaction(database, lambda: _make(database, path))
    if _version(database, path) < SCHEMA:
        raise _Older


def _checked(database: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of the tables there are, if the file is ours or empty."""
    rows = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    tables = {name for (name,) in rows}
    if not tables:
        return tables
    if not {"meta", "record"} <= tables:
        raise SchemaMismatch(
            expected=f"a store of Perdure at {path}",
            found=f"a database with the tables {', '.join(sorted(tables))[:200]}",
        )
    found = _version(database, path)
    if found > SCHEMA:
        raise NewerSchema(expected=f"schema {SCHEMA} or older at {path}", found=f"schema {found}")
    return tables


def _version(database: sqlite3.Connection, path: Path) -> int:
    found = database.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if found is None:
        raise SchemaMismatch(
            expected=f"a store of Perdure at {path}", found="one without a version"
        )
    if int(found[0]) < min(_RAISE):
        raise Corrupt(expected=f"a schema of {min(_RAISE)} or later", found=str(found[0]))
    return int(found[0])


def _raise_alone(database: sqlite3.Connection, path: Path) -> None:
    """Raise the file while no other connection is open. Raises _Held."""
    # Whoever has a file with a write-ahead log open holds a shared lock on it until it is closed.
    # Before anything is read, so that the first read asks for the exclusive one, and keeps it.
    # Source: https://www.sqlite.org/wal.html, "Use of WAL Without Shared-Memory".
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        _checked(database, path)
        database.execute("PRAGMA synchronous = FULL")
        _in_transaction(database, lambda: _raise(database, path))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise _Held from error
        raise


def _raise(database: sqlite3.Connection, path: Path) -> None:
    # Asked again: another process may have raised it meanwhile.
    for version in range(_version(database, path), SCHEMA):
        database.execute(_RAISE[version])
    database.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA,))


def _make(database: sqlite3.Connection, path: Path) -> None:
    if not _checked(database, path):  # else another process was faster
        database.execute(_META)
        database.execute(_RECORD)
        database.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA,))


def _in_transaction(database: sqlite3.Connection, work: Callable[[], None]) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        work()
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
