"""Stores around a store: they count, reopen, let a rival in, forget, echo, withhold, shelve."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from perdure.authority.store import Store
from perdure.kernel.commit import Action, Check, Commit, Put, Remove
from perdure.kernel.errors import OutcomeUnknown
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Range, Reads, Stored, Version, View


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


class EchoingStore:
    """Makes every commit twice, and loses the answers of the first ones."""

    def __init__(self, store: Store, *, losses: int) -> None:
        self.inner = store
        self._losses = losses

    async def load(self, reads: Reads) -> View:
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self.inner.commit(commit)
        await self.inner.commit(commit)
        if self._losses:
            self._losses -= 1
            raise OutcomeUnknown(expected="an answer to a commit", found="none")

    async def close(self) -> None:
        await self.inner.close()


class WithholdingStore:
    """Keeps commits back, as a network does that delivers them when nobody waits any more."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.commits: list[Commit] = []

    async def load(self, reads: Reads) -> View:
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        raise OutcomeUnknown(expected="an answer to a commit", found="none")

    async def close(self) -> None:
        await self.inner.close()


class ShelvingStore:
    """Moves records out of a store, and supplies them as if they were still there."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self._shelf: dict[Key[Any], Stored] = {}

    async def shelve(self, keys: Sequence[Key[Any]]) -> None:
        """Move records to the shelf."""
        view = await self.inner.load(Reads(peeks=tuple(keys)))
        held = {key: stored for key, stored in view.stored.items() if stored is not None}
        gone = tuple(Remove(key, stored.version) for key, stored in held.items())
        left = Put(Key(keys[0].partition, "shelved", keys[0].of), None, b"gone")
        self._shelf |= held
        await self.inner.commit(Commit(Token("shelved"), (*gone, left)))

    async def load(self, reads: Reads) -> View:
        view = await self.inner.load(reads)
        ranges = {each: self._joined(view, each) for each in reads.ranges}
        wanted = {*reads.peeks, *(key for keys in ranges.values() for key in keys)}
        view.supply({key: self._shelf[key] for key in wanted if key in self._shelf}, ranges)
        return view

    async def commit(self, commit: Commit) -> None:
        await self.inner.commit(commit)

    async def close(self) -> None:
        await self.inner.close()

    def _joined(self, view: View, wanted: Range[Any]) -> list[Key[Any]]:
        shelved = (
            key
            for key in self._shelf
            if key.partition == wanted.partition and wanted.first <= key.sort < wanted.last
        )
        return sorted({*shelved, *view.keys_of(wanted)}, key=lambda key: key.sort)


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
