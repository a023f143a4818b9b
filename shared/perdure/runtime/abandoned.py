"""Sweeping: private worlds whose holder has died are retired by whoever finds their hint."""

from __future__ import annotations

from perdure.kernel.errors import FenceHeld
from perdure.kernel.places import WorldRef
from perdure.runtime.close import destroy
from perdure.runtime.tick import Ticker


async def retire_abandoned(ticker: Ticker, ref: WorldRef) -> bool:
    """Destroy a private world unless its holder, or another sweeper, is at it after all.

    Its rows stay readable; nobody resumes it. Raises as :func:`destroy` does.
    """
    try:
        await destroy(ticker.means, ref, lease_ms=ticker.lease_ms, spares_held=True)
    except FenceHeld:
        return False
    return True
