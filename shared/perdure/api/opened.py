"""Opening late: what not every caller needs is opened by the first who does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def once(opening: Callable[[], Coroutine[Any, Any, T]]) -> Callable[[], Awaitable[T]]:
    """Open when first asked, and give the same from then on; one that failed is tried again."""
    task: asyncio.Task[T] | None = None

    async def opened() -> T:
        nonlocal task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = asyncio.ensure_future(opening())
        return await asyncio.shield(task)

    return opened
