"""Calls that the emulator makes by itself, for a clock or a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

SETTLE_SECONDS: Final = 5
"""What a call that has begun gets to come to an end, when it is cancelled."""


async def settled(call: Coroutine[Any, Any, None], *, seconds: float = SETTLE_SECONDS) -> None:
    """Make a call; if cancelled meanwhile, let it come to an end first, for so many seconds.

    What it does then is done, and what it sends is taken: a queue is still there.
    """
    running = asyncio.create_task(call)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running], timeout=seconds)
        if not running.cancel() and not running.cancelled():
            running.exception()  # nobody waits for it any more
        raise
