"""Calls that are under way: whoever ends lets no more of them in, and waits for these."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

from perdure.kernel.documents.errors import StoreClosed


class Calls(AbstractContextManager[None]):
    """The calls of one handle. ``handle`` is what it is called in a refusal."""

    def __init__(self, handle: str) -> None:
        self._handle = handle
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._closed = False

    def one(self) -> AbstractContextManager[None]:
        """Return what a call is under way in. Raises StoreClosed as it begins."""
        return self

    def __enter__(self) -> None:
        if self._closed:
            raise StoreClosed(expected=f"open {self._handle}", found="a handle that was closed")
        self._under_way += 1
        self._is_idle.clear()

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._is_idle.set()

    async def close(self) -> None:
        """Refuse new calls and wait for those under way. Idempotent."""
        self._closed = True
        await self._is_idle.wait()
