"""A store in one SQLite file, which several processes may share."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from perdure.authority import system
from perdure.authority.sqlite_connection import Connection
from perdure.authority.sqlite_schema import open_database, open_untouched, translated
from perdure.authority.store import RevisionConflict
from perdure.kernel.commit import Action, Check, Commit, Put, Remove
from perdure.kernel.errors import Corrupt, OutcomeUnknown, PerdureError, StoreUnavailable
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Range, Reads, Stored, Version, View

T = TypeVar("T")

BUSY_MS: Final = 5_000
"""How long a process waits for the commit of another."""

TRANSACTION_COMMITS_MAX: Final = 128
"""Commits that share one transaction, and one sync."""

AT_ONCE_SECONDS_MAX: Final = 0.002
"""How long the last transaction may have taken for the next to be made without a thread: what an
event loop is held up by anyway, by a few requests. Slow disks are above it with every sync."""

AT_ONCE_COMMITS_MAX: Final = 32
AT_ONCE_BYTES_MAX: Final = 64_000
"""What a transaction may hold to be made without a thread: more takes longer than the last one
can tell. As many callers, or as many bytes, as one request has."""

_READ: Final = "SELECT revision, token, body FROM record WHERE partition = ? AND sort = ?"
_SEEN: Final = "SELECT revision, token FROM record WHERE partition = ? AND sort = ?"
_RANGE: Final = (
    "SELECT sort, revision, token, body FROM record"
    " WHERE partition = ? AND sort >= ? AND sort < ? ORDER BY sort {} LIMIT ?"
)
_ASCENDING: Final = _RANGE.format("ASC")
_DESCENDING: Final = _RANGE.format("DESC")
_CREATE: Final = "INSERT INTO record VALUES (?, ?, 1, ?, ?) ON CONFLICT DO NOTHING"
_REPLACE: Final = (
    "UPDATE record SET revision = ?, token = ?, body = ?"
    " WHERE partition = ? AND sort = ? AND revision = ? AND token = ?"
)
_REMOVE: Final = (
    "DELETE FROM record WHERE partition = ? AND sort = ? AND revision = ? AND token = ?"
)

_Outcome = RevisionConflict | PerdureError | None


class SqliteStore:
    """Two connections: loads do not wait for the sync of a commit."""

    def __init__(
        self,
        path: Path,
        reader: Connection,
        writer: Connection,
        *,
        busy_ms: int,
        seconds: Callable[[], float],
    ) -> None:
        self.path = path
        self._busy_ms = busy_ms
        self._seconds = seconds
        self._last_took = AT_ONCE_SECONDS_MAX
        self.syncs = 0
        """Transactions committed: each syncs the log once."""
        self._closing: asyncio.Task[None] | None = None
        self._reader = reader
        self._writer = writer
        self._waiting: deque[tuple[Commit, asyncio.Future[None]]] = deque()
        self._writing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        busy_ms: int = BUSY_MS,
        untouched: bool = False,
        seconds: Callable[[], float] = system.seconds,
    ) -> SqliteStore:
        """Open the file, and make it if its directory exists.

        ``untouched`` is for whoever only reads: nothing is made, and no commit succeeds.
        Raises: NewerSchema, SchemaMismatch, Corrupt, StoreUnavailable.
        """
        opening = open_untouched if untouched else open_database
        connect = partial(opening, path, busy_ms=busy_ms)
        reader, writer = Connection(connect), Connection(connect)
        await writer.opened()
        try:
            await reader.opened()
        except BaseException:
            await writer.close()
            raise
        return cls(path, reader, writer, busy_ms=busy_ms, seconds=seconds)

    async def load(self, reads: Reads) -> View:
        self._check_open()
        try:
            return await self._reader.run(partial(_view, reads))
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    async def commit(self, commit: Commit) -> None:
        self._check_open()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await answer

    def commit_in_place(self, commit: Commit) -> bool:
        """Make a commit in this very call, if nothing has to be waited for; False: nothing is done.

        For whoever knows that nobody else is about to commit: it shares its sync with none.
        Raises: OutcomeUnknown.
        """
        if self._closing is not None or self._writing is not None:
            return False
        outcomes = self._applied_here([commit])
        if outcomes is None:
            return False
        self.syncs += 1
        if outcomes[0] is not None:
            raise outcomes[0]
        return True

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._writing is not None:
            await self._writing
        await self._reader.close()
        await self._writer.close()

    def _check_open(self) -> None:
        if self._closing is not None:
            raise StoreUnavailable(expected=f"an open store at {self.path}", found="a closed one")

    async def _write(self) -> None:
        """Commit what waits, all that came in during one transaction in the next."""
        group: list[tuple[Commit, asyncio.Future[None]]] = []
        try:
            while self._waiting:
                count = min(len(self._waiting), TRANSACTION_COMMITS_MAX)
                group = [self._waiting.popleft() for _ in range(count)]
                outcomes = await self._applied([commit for commit, _ in group])
                self.syncs += 1
                for (_, answer), outcome in zip(group, outcomes, strict=True):
                    _tell(answer, outcome)
        except BaseException as error:
            for _, answer in (*group, *self._waiting):
                _tell(answer, error)
            self._waiting.clear()
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._writing = None

    async def _applied(self, commits: list[Commit]) -> list[_Outcome]:
        """Apply commits in one transaction, at once while the disk is fast.

        The way to a thread and back is not free: two threads are woken, and with every statement
        the one that writes gives up the interpreter and waits for it.
        """
        outcomes = self._applied_here(commits)
        if outcomes is None:
            patient = partial(_patiently, self._busy_ms, partial(_apply_all, commits, self.path))
            outcomes = await self._writer.run(partial(self._timed, patient))
        return outcomes

    def _applied_here(self, commits: list[Commit]) -> list[_Outcome] | None:
        """Apply commits in this very thread; None, and nothing done, if that would take long."""
        if self._last_took >= AT_ONCE_SECONDS_MAX or not _is_small(commits):
            return None
        return self._writer.run_here(
            partial(self._timed, partial(_apply_at_once, commits, self.path))
        )

    def _timed(self, work: Callable[[sqlite3.Connection], T], database: sqlite3.Connection) -> T:
        """Take the time of a transaction alone: on a busy machine the way to a thread is longer."""
        began = self._seconds()
        try:
            return work(database)
        finally:
            self._last_took = self._seconds() - began


def _tell(answer: asyncio.Future[None], outcome: BaseException | None) -> None:
    if answer.done():  # the caller has gone; the commit stands
        return
    if outcome is None:
        answer.set_result(None)
    elif isinstance(outcome, asyncio.CancelledError):
        answer.cancel()
    else:
        answer.set_exception(outcome)


def _view(reads: Reads, database: sqlite3.Connection) -> View:
    """Read everything as of one moment."""
    stored: dict[Key[Any], Stored | None] = {}
    found: dict[Range[Any], list[Key[Any]]] = {}
    database.execute("BEGIN")
    try:
        for key in (*reads.keys, *reads.peeks):
            row = database.execute(_READ, (key.partition, key.sort)).fetchone()
            stored[key] = None if row is None else _stored(*row)
        for wanted in reads.ranges:
            found[wanted] = []
            for sort, revision, token, body in database.execute(
                _DESCENDING if wanted.descending else _ASCENDING,
                (wanted.partition, wanted.first, wanted.last, wanted.limit),
            ):
                key = Key(wanted.partition, sort, wanted.of)
                found[wanted].append(key)
                stored.setdefault(key, _stored(revision, token, body))
    finally:
        database.execute("COMMIT")
    return View(stored, found, reads.keys, is_snapshot=True)


def _stored(revision: Any, token: Any, body: Any) -> Stored:
    """Return a row as a record. Raises Corrupt: pages may be damaged, and the types with them."""
    if not (isinstance(revision, int) and isinstance(token, str) and isinstance(body, bytes)):
        raise Corrupt(expected="a row of a number, a text and bytes", found="other types")
    return Stored(Version(revision, Token(token)), body)


def _is_small(commits: list[Commit]) -> bool:
    size = 0
    for commit in commits:
        for each in commit.actions:
            if isinstance(each, Put):
                size += len(each.body)
    return len(commits) <= AT_ONCE_COMMITS_MAX and size <= AT_ONCE_BYTES_MAX


def _patiently(
    busy_ms: int, work: Callable[[sqlite3.Connection], T], database: sqlite3.Connection
) -> T:
    """Let another process end what it writes, and then do ``work``."""
    database.execute(f"PRAGMA busy_timeout = {busy_ms}")
    try:
        return work(database)
    finally:
        database.execute("PRAGMA busy_timeout = 0")


def _apply_at_once(
    commits: list[Commit], path: Path, database: sqlite3.Connection
) -> list[_Outcome] | None:
    """Apply all commits in one transaction; None, and nothing done, if there is more to it.

    More to it is: another process that writes, a condition that does not hold, an error.
    """
    _roll_back(database)
    try:
        database.execute("BEGIN IMMEDIATE")
        if all(_is_done(commit, database) for commit in commits):
            return _ended([None] * len(commits), path, database)
    except sqlite3.Error:
        pass
    except BaseException:
        _roll_back(database)
        raise
    _roll_back(database)
    return None


def _apply_all(commits: list[Commit], path: Path, database: sqlite3.Connection) -> list[_Outcome]:
    """Apply each commit in one transaction, and return how each went."""
    outcomes: list[_Outcome] = [None] * len(commits)
    _roll_back(database)
    try:
        database.execute("BEGIN IMMEDIATE")
        if not all(_is_done(commit, database) for commit in commits):
            database.execute("ROLLBACK")
            database.execute("BEGIN IMMEDIATE")
            outcomes = [_apply(commit, database) for commit in commits]
    except BaseException as error:
        _roll_back(database)
        if isinstance(error, sqlite3.Error):
            return [translated(error, path) for _ in commits]
        raise
    return _ended(outcomes, path, database)


def _ended(outcomes: list[_Outcome], path: Path, database: sqlite3.Connection) -> list[_Outcome]:
    """End a transaction, and return how each of its commits went."""
    try:
        database.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(database)
        found = f"{error} at the end of a transaction in {path}"
        return [
            outcome or OutcomeUnknown(expected="a commit that is synced", found=found)
            for outcome in outcomes
        ]
    return outcomes


def _is_done(commit: Commit, database: sqlite3.Connection) -> bool:
    """Do a commit as if its conditions held; if one does not, return False with half of it done.

    Most commits hold: they are spared the savepoint and a statement a new record.
    """
    new, rest = [], []
    for action in commit.actions:
        if isinstance(action, Put) and action.seen is None:
            new.append((*action.key, commit.token, action.body))
        else:
            rest.append(action)
    if new and database.executemany(_CREATE, new).rowcount != len(new):
        return False
    return all(_holds(action, commit, database) for action in rest)


def _apply(commit: Commit, database: sqlite3.Connection) -> _Outcome:
    """Apply one commit under a savepoint of its own."""
    database.execute("SAVEPOINT one")
    failed = next(
        (action for action in commit.actions if not _holds(action, commit, database)), None
    )
    if failed is None:
        database.execute("RELEASE one")
        return None
    database.execute("ROLLBACK TO one")
    database.execute("RELEASE one")
    return None if _has_happened(commit, database) else RevisionConflict(failed.key)


def _holds(action: Action, commit: Commit, database: sqlite3.Connection) -> bool:
    """Do one action, or return False if what it is conditioned on has changed."""
    address = tuple(action.key)
    seen = action.seen
    version = () if seen is None else (seen.revision, seen.token)
    match action:
        case Check():
            found = database.execute(_SEEN, address).fetchone()
            return bool((found or ()) == version)
        case Put():
            if seen is None:
                created = database.execute(_CREATE, (*address, commit.token, action.body))
                return created.rowcount == 1
            written = (action.revision, commit.token, action.body)
            return database.execute(_REPLACE, (*written, *address, *version)).rowcount == 1
        case Remove():
            return database.execute(_REMOVE, (*address, *version)).rowcount == 1


def _has_happened(commit: Commit, database: sqlite3.Connection) -> bool:
    """Tell whether an earlier sending of ``commit`` got through: it left its token."""
    for action in commit.actions:
        if isinstance(action, Put):
            row = database.execute(_SEEN, (action.key.partition, action.key.sort)).fetchone()
            if row == (action.revision, commit.token):
                return True
    return False


def _roll_back(database: sqlite3.Connection) -> None:
    """End a transaction. Where that fails too, what failed first is told, and the next ends it."""
    with contextlib.suppress(sqlite3.Error):
        if database.in_transaction:
            database.execute("ROLLBACK")
