"""Resuming: a process that shares nothing with a world's last writer becomes its next one."""

from __future__ import annotations

from perdure.kernel.create import Describe, WorldInfo
from perdure.kernel.places import WorldRef
from perdure.runtime.tick import Ticker


async def resume(ticker: Ticker, ref: WorldRef) -> WorldInfo:
    """Make sure that this process can go on with a world, and make every writer before it stale.

    The fence is let go again, for whoever ticks next; what was read stays warm in this
    process. Raises: NotFound, and the refusals of :func:`check_resumable` and
    :func:`check_components`, all before the fence is touched; FenceHeld while another writes.
    """
    async with ticker.turn(ref):
        await ticker.check(ref)
        grip = await ticker.take(ref)
        await ticker.release(ref, grip)
    return await ticker.means.authority.execute(Describe(ref))
