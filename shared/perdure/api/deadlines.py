"""Deadlines: an answer before the function, or API Gateway, runs out of time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

MARGIN_MS: Final = 1_000
"""Left of the function's time for work that stops by itself."""

LAST_MARGIN_MS: Final = 500
"""Left of it when work that did not stop by itself is given up."""

HTTP_MS_MAX: Final = 29_000
"""Longest an HTTP answer takes. Source: API Gateway HTTP API, integration timeout, 30 s."""


LET_GO_SECONDS: Final = 0.2
"""What is given up gets this to let its fence go, or the next writer would wait for its end."""


class TimeUp(Exception):
    """The time for an answer is over; what was begun may still happen."""


def time_left(remaining_ms: int) -> int:
    """Return the milliseconds that an HTTP answer may take."""
    return max(0, min(remaining_ms, HTTP_MS_MAX) - MARGIN_MS)


def last_ms(remaining_ms: int) -> int:
    """Return after how many milliseconds an event is given up."""
    return max(remaining_ms - LAST_MARGIN_MS, remaining_ms // 2)


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns, if it does so in time. Raises TimeUp.

    Work that is given up is told to let go of what it holds, and gets a moment for that; no
    longer, for what it hangs on may hang there, too.
    """
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    # An error that comes too late is nobody's: asyncio would print it, text and all.
    task.add_done_callback(_looked_at)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=LET_GO_SECONDS)
        raise TimeUp
    return task.result()


def _looked_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
