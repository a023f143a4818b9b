"""A connection to a SQLite file, used by one piece of work at a time, in its thread or in the caller's."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

import aiosqlite

T = TypeVar("T")


class Connection(aiosqlite.Connection):
    """A connection that runs a whole piece of work in one hop to its thread.

    aiosqlite hops once a statement, which costs more than the statement.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, iter_chunk_size=64)
        self._in_use = threading.Lock()
        """Work goes on in the thread though nobody awaits it any more."""

    async def opened(self) -> None:
        """Open; if that fails, wait for the thread, which would outlive the event loop."""
        try:
            await self
        except BaseException:
            await asyncio.to_thread(self._thread.join)
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a piece of work in the thread of the connection."""
        done: T = await self._execute(self._alone, work)  # type: ignore[no-untyped-call]
        return done

    def _alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._in_use:
            return work(self._conn)

    def run_here(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a piece of work in the thread of the caller; None if another one runs."""
        if not self._in_use.acquire(blocking=False):
            return None
        try:
            return work(self._conn)
        finally:
            self._in_use.release()
