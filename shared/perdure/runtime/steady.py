"""Steady reading: what met a running commit is looked at again, a few times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.kernel.errors import Contended
from perdure.kernel.view import Request
from perdure.runtime.ports import Executes

T = TypeVar("T")


async def steadily(
    authority: Executes,
    request: Request[T],
    *,
    tries: int,
    pause: Callable[[float], Awaitable[None]],
) -> T:
    """Execute a request that may meet a half-visible commit.

    Waits 5, 10, 20, … ms between its tries. Raises Contended after the last of them.
    """
    for attempt in range(tries - 1):
        try:
            return await authority.execute(request)
        except Contended:
            await pause(0.005 * 2**attempt)
    return await authority.execute(request)
