"""Routes of a world's life: end it, and make sure that somebody can go on with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models
from perdure.api.gateway import Request
from perdure.api.ports import TickPorts
from perdure.api.routing import Route, route


@route("DELETE", "/v1/worlds/<world>", operation="destroy_world", reply=models.World)
async def destroy_world(ports: TickPorts, world: str, request: Request) -> dict[str, Any]:
    """Destroy a world. Its history stays; destroying it again changes nothing.

    What fails leaves the world closing, and the same call goes on.
    """
    return asdict(await ports.destroy(world, by=request.by))


@route("POST", "/v1/worlds/<world>/resume", operation="resume_world", reply=models.World)
async def resume_world(ports: TickPorts, world: str, request: Request) -> dict[str, Any]:
    """Check that the world can go on here, and make every writer before this call stale.

    What cannot go on is refused with its fence untouched.
    """
    return asdict(await ports.resume(world, by=request.by))


ROUTES: Final[tuple[Route[Any], ...]] = (destroy_world, resume_world)
