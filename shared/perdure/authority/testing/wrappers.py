"""Stores around a store: one counts, one reopens, one lets a rival in, one forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum, auto

from perdure.authority.store import Store
from perdure.kernel.commit import Action, Check, Commit, Put, Remove
from perdure.kernel.view import Reads, Version, View


class CountingStore:
    """Counts what it passes on."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.loads = 0
        self.commits: list[Commit] = []

    async def load(self, reads: Reads) -> View:
        self.loads += 1
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        await self.inner.commit(commit)

    async def close(self) -> None:
        await self.inner.close()


class ReopeningStore:
    """Closes the store and opens it again after every commit; one call at a time."""

    def __init__(self, opened: Store, reopen: Callable[[], Awaitable[Store]]) -> None:
        self._inner = opened
        self._reopen = reopen
        self._is_closed = False
        self._turn = asyncio.Lock()

    async def load(self, reads: Reads) -> View:
        async with self._turn:
            return await self._inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        async with self._turn:
            try:
                await self._inner.commit(commit)
            finally:
                if not self._is_closed:
                    await self._inner.close()
                    self._inner = await self._reopen()

    async def close(self) -> None:
        async with self._turn:
            self._is_closed = True
            await self._inner.close()


class RivalStore:
    """Lets a rival act between a load and the commit that follows it."""

    def __init__(
        self, store: Store, rival: Callable[[], Awaitable[object]], *, times: int = 1
    ) -> None:
        self.inner = store
        self.commits = 0
        self._rival = rival
        self._times = times

    async def load(self, reads: Reads) -> View:
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self.commits += 1
        if self.commits <= self._times:
            await self._rival()
        await self.inner.commit(commit)

    async def close(self) -> None:
        await self.inner.close()


class Condition(Enum):
    """Kinds of condition a commit can hold."""

    NAMED_UNCHANGED = auto()
    NAMED_ABSENT = auto()
    WRITTEN_UNCHANGED = auto()
    WRITTEN_ABSENT = auto()
    REMOVED_UNCHANGED = auto()


class ForgetfulStore:
    """Forgets one kind of condition: a broken store, to show that the kind is needed."""

    def __init__(self, store: Store, forgotten: Condition) -> None:
        self._inner = store
        self._forgotten = forgotten

    async def load(self, reads: Reads) -> View:
        return await self._inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        view = await self._inner.load(Reads(peeks=tuple(each.key for each in commit.actions)))
        actions = (
            self._blind(each, view.version(each.key))
            if condition(each) is self._forgotten
            else each
            for each in commit.actions
        )
        await self._inner.commit(
            Commit(commit.token, tuple(each for each in actions if each is not None))
        )

    async def close(self) -> None:
        await self._inner.close()

    def _blind(self, action: Action, now: Version | None) -> Action | None:
        match action:
            case Check():
                return None
            case Put():
                return replace(action, seen=now)
            case Remove():
                return None if now is None else replace(action, seen=now)


def condition(action: Action) -> Condition:
    """Return the kind of condition that ``action`` holds its commit to."""
    match action:
        case Check():
            absent = action.seen is None
            return Condition.NAMED_ABSENT if absent else Condition.NAMED_UNCHANGED
        case Put():
            absent = action.seen is None
            return Condition.WRITTEN_ABSENT if absent else Condition.WRITTEN_UNCHANGED
        case Remove():
            return Condition.REMOVED_UNCHANGED
