"""Stores in another process, so that rivals are real."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import pickle
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.children import child

from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import RevisionConflict
from perdure.kernel.commit import Commit
from perdure.kernel.errors import PerdureError
from perdure.kernel.view import Reads, View


class ElsewhereStore:
    """Loads from its own handle; its commits are made by another process."""

    def __init__(self, here: SqliteStore) -> None:
        self._here = here
        self._is_closed = False

    async def load(self, reads: Reads) -> View:
        return await self._here.load(reads)

    async def commit(self, commit: Commit) -> None:
        if self._is_closed:
            await self._here.commit(commit)
        outcome = await asyncio.to_thread(_other().ask, (str(self._here.path), commit))
        if outcome is not None:
            raise outcome

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(_other().ask, (str(self._here.path), None))
        await self._here.close()


class _Other:
    """The other process: answers one question after another over its pipes."""

    def __init__(self) -> None:
        begun = child(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_CHILD}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._running = contextlib.ExitStack()
        self._child = self._running.enter_context(begun)
        self._turn = threading.Lock()
        atexit.register(self.stop)

    def ask(self, question: Any) -> Any:
        with self._turn:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            pickle.dump(question, self._child.stdin)
            self._child.stdin.flush()
            return pickle.load(self._child.stdout)

    def stop(self) -> None:
        with self._running, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._child.communicate(timeout=10)


_CHILD = "from tests.support.processes import answer; answer()"


@cache
def _other() -> _Other:
    return _Other()


def answer() -> None:
    """Run the other process: commit what is asked for until there are no more questions."""
    asyncio.run(_answer())


async def _answer() -> None:
    stores: dict[str, SqliteStore] = {}
    with contextlib.suppress(EOFError):
        while True:
            path, commit = await asyncio.to_thread(pickle.load, sys.stdin.buffer)
            outcome: Exception | None = None
            if commit is None:
                if path in stores:
                    await stores.pop(path).close()
            else:
                if path not in stores:
                    stores[path] = await SqliteStore.open(Path(path))
                try:
                    await stores[path].commit(commit)
                except (RevisionConflict, PerdureError) as error:
                    outcome = error
            pickle.dump(outcome, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    for store in stores.values():
        await store.close()
