"""Routes of ticks: let a world advance."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models
from perdure.api.deadlines import time_left
from perdure.api.decoding import IDEMPOTENCY_KEY, header
from perdure.api.gateway import Request
from perdure.api.ports import TickPorts
from perdure.api.routing import Route, route


@route(
    "POST", "/v1/worlds/<world>/tick", operation="run_ticks", reply=models.Ticked, key="optional"
)
async def run_ticks(
    ports: TickPorts, world: str, body: models.RunTicks, request: Request
) -> dict[str, Any]:
    """Run ticks, as many as there is time for.

    ``ticks`` may be asked for again only under an Idempotency-Key: otherwise they run again.
    """
    key = header(request.headers, IDEMPOTENCY_KEY)
    ran = await ports.run_ticks(
        world,
        ticks=body.ticks,
        to_tick=body.to_tick,
        ms=time_left(request.remaining_ms),
        key=key if body.to_tick is None else None,
        by=request.by,
    )
    return {
        "published_tick": ran.published_tick,
        "ticks": ran.ticks,
        "done": ran.done,
        "applied": ran.applied,
        "rejected": ran.rejected,
        "hook_failures": [
            {"hook": each.hook, "code": each.code, "detail": each.detail}
            for each in ran.hook_failures
        ],
    }


ROUTES: Final[tuple[Route[Any], ...]] = (run_ticks,)
