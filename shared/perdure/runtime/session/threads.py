"""Threads: work that blocks, each piece in a thread of its own.

A pool would do harm here. What waits in its queue has not begun, though nobody outside can tell,
and a call that never returns would keep a place of it, or a process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], *, name: str) -> T:
    """Return what ``work`` returns, or raise what it raises. Cancelled, it goes on unheard."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    outcome = _Outcome[T]()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.results.append(context.run(work))
        except BaseException as error:  # noqa: BLE001  # whoever waits has to hear of it
            outcome.error = error
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name=name, daemon=True).start()
    await ended.wait()
    if outcome.error is not None:
        raise outcome.error
    return outcome.results[0]


@dataclass(slots=True)
class _Outcome(Generic[T]):
    """What a thread leaves behind. A future would not take every exception."""

    results: list[T] = field(default_factory=list)
    error: BaseException | None = None
