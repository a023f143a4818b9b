"""Routes of landing: copy what was published into the tables now."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models
from perdure.api.gateway import Request
from perdure.api.ports import Landing
from perdure.api.routes_tick import HTTP_MS_MAX, MARGIN_MS
from perdure.api.routing import Route, route


@route("POST", "/v1/land", reply=models.Landed)
async def land(landing: Landing, request: Request) -> dict[str, int]:
    """Land what is published and not landed yet, as much as there is time for."""
    return await land_due(landing, min(request.remaining_ms, HTTP_MS_MAX))


async def land_due(landing: Landing, remaining_ms: int) -> dict[str, int]:
    """Land, as a schedule asks."""
    landed = await landing.land(deadline_ms=max(0, remaining_ms - MARGIN_MS))
    return {"rows": landed.rows, "files": landed.files}


ROUTES: Final[tuple[Route[Any], ...]] = (land,)
