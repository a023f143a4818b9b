"""The route of forks: a world copied at its published tick."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models
from perdure.api.durations import pace_given
from perdure.api.gateway import Request
from perdure.api.models_fork import ForkWorld
from perdure.api.ports import Api
from perdure.api.routing import Route, route


@route(
    "POST",
    "/v1/worlds/<world>/fork",
    operation="fork_world",
    reply=models.World,
    status=201,
)
async def fork_world(api: Api, world: str, body: ForkWorld, request: Request) -> dict[str, Any]:
    """Fork a world. The same id with the same identity changes nothing."""
    every_ms, missed = pace_given(body)
    info = await api.worlds.fork(
        world,
        body.name,
        world_id=body.world_id,
        pending=body.pending,
        at_tick=body.at_tick,
        every_ms=every_ms,
        missed=missed,
        by=request.by,
    )
    return asdict(info)


ROUTES: Final[tuple[Route[Any], ...]] = (fork_world,)
