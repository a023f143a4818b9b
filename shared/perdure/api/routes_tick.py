"""Routes of ticks: let a world advance."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models
from perdure.api.decoding import header
from perdure.api.gateway import Request
from perdure.api.ports import Ticker
from perdure.api.routes_commands import IDEMPOTENCY_KEY
from perdure.api.routing import Route, route
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import Tick, WorldId

MARGIN_MS: Final = 1_000
"""Left of the function's time for the answer to get out."""

HTTP_MS_MAX: Final = 29_000
"""Longest an HTTP answer takes. Source: API Gateway HTTP API, integration timeout, 30 s."""


@route("POST", "/v1/worlds/<world>/tick", reply=models.Ticked)
async def run_ticks(
    ticker: Ticker, world: str, body: models.RunTicks, request: Request
) -> dict[str, Any]:
    """Run ticks, as many as there is time for. ``ticks`` needs an Idempotency-Key."""
    key = header(request.headers, IDEMPOTENCY_KEY)
    if body.ticks is not None and key is None:
        raise InvalidValue(
            expected="a header Idempotency-Key beside `ticks`, so that a repeat ticks no more",
            found="none",
        )
    ticked = await ticker.run_ticks(
        WorldId(world),
        ticks=body.ticks,
        to_tick=None if body.to_tick is None else Tick(body.to_tick),
        deadline_ms=max(0, min(request.remaining_ms, HTTP_MS_MAX) - MARGIN_MS),
        request_key=key,
    )
    return {
        "published_tick": ticked.published_tick,
        "ticks": ticked.ticks,
        "done": ticked.done,
        "applied": ticked.applied,
        "rejected": ticked.rejected,
    }


async def run_due(ticker: Ticker, remaining_ms: int) -> dict[str, int]:
    """Tick every world whose time has come, as a schedule asks."""
    return {"ticks": await ticker.run_due(deadline_ms=max(0, remaining_ms - MARGIN_MS))}


ROUTES: Final[tuple[Route[Any], ...]] = (run_ticks,)
