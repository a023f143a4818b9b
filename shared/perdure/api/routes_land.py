"""Routes of landing: copy what was published, and what happened, into the tables now."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models
from perdure.api.deadlines import MARGIN_MS, time_left
from perdure.api.gateway import Request
from perdure.api.ports import Landed, LandPorts
from perdure.api.routing import Route, route
from perdure.kernel.errors import FenceHeld


@route("POST", "/v1/land", operation="land", reply=models.Landed)
async def land(ports: LandPorts, request: Request) -> dict[str, Any]:
    """Land what is published, and project what the logs say, as much as there is time for."""
    landed = await ports.land_all(ms=time_left(request.remaining_ms), by=request.by)
    return asdict(landed)


async def land_due(ports: LandPorts, remaining_ms: int) -> dict[str, Any]:
    """Land what waits, as a schedule asks.

    Where another is at it still, that is no failure: it goes on with what waits.
    """
    try:
        landed = await ports.land_due(ms=max(0, remaining_ms - MARGIN_MS))
    except FenceHeld as error:
        return {**asdict(Landed()), "failed": [], "left": error.code}
    return {**asdict(landed), "failed": list(landed.failed)}


ROUTES: Final[tuple[Route[Any], ...]] = (land,)
