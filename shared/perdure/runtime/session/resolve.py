"""Resolving: what may be done again after a call whose outcome is not known."""

from __future__ import annotations

from collections.abc import Callable

from perdure.kernel.ids import Instant
from perdure.runtime.session.ports import CallOutcome, CallRequest, Pause, Tool


async def resolve(
    tool: Tool, request: CallRequest, *, now: Callable[[], Instant], pause: Pause
) -> CallOutcome:
    """Make a call, and return what is known of it at last."""
    return await tool.call(request)
