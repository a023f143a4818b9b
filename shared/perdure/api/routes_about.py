"""Routes about the interface itself: is it there, and what can it be asked."""

from __future__ import annotations

import importlib
from typing import Any, Final

from perdure.api import models
from perdure.api.gateway import Answer
from perdure.api.ports import Api
from perdure.api.routing import Route, route


@route("GET", "/healthz", operation="tell_health", reply=models.Health)
async def tell_health(_: Api) -> dict[str, str]:
    """Tell that the function answers and could open its storage."""
    return {"status": "ok"}


@route("GET", "/openapi.json", operation="describe_interface", reply=models.OpenApi)
async def describe_interface(_: Api) -> Answer:
    """Describe every route of the interface."""
    # By name, so that nobody else waits for Powertools' models of the specification.
    document: str = importlib.import_module("perdure.api.openapi").document()
    return Answer(200, document.encode())


ROUTES: Final[tuple[Route[Any], ...]] = (tell_health, describe_interface)
