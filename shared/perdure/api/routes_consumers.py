"""Routes of consumers: who reads a world's log, how far, and whether the world waits for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models_consumers as models
from perdure.api.gateway import Request
from perdure.api.models import Consumer
from perdure.api.ports import Api
from perdure.api.routing import Route, route

ONE: Final = "/v1/worlds/<world>/consumers/<name>"


@route("GET", "/v1/worlds/<world>/consumers", operation="list_consumers", reply=models.Consumers)
async def list_consumers(api: Api, world: str) -> dict[str, Any]:
    """List the consumers of a world's log, by name, with how far they are behind."""
    found = await api.worlds.consumers.list(world)
    return {"consumers": [asdict(each) for each in found]}


@route("PUT", ONE, operation="set_consumer", reply=Consumer)
async def set_consumer(
    api: Api, world: str, name: str, body: models.SetConsumer, request: Request
) -> dict[str, Any]:
    """Register a consumer, and say whether the world waits for it."""
    kept = await api.worlds.consumers.set(world, name, required=body.required, by=request.by)
    return asdict(kept)


@route("DELETE", ONE, operation="set_consumer", reply=models.Removed)
async def remove_consumer(api: Api, world: str, name: str, request: Request) -> dict[str, Any]:
    """Forget a consumer, and how far it had read."""
    await api.worlds.consumers.remove(world, name, by=request.by)
    return {"removed": name}


@route("POST", ONE, operation="acknowledge_consumer", reply=Consumer)
async def acknowledge(
    api: Api, world: str, name: str, body: models.Acknowledge, request: Request
) -> dict[str, Any]:
    """Say how far a consumer has read the log. The same again changes nothing."""
    return asdict(await api.worlds.consumers.acknowledge(world, name, body.seq, by=request.by))


ROUTES: Final[tuple[Route[Any], ...]] = (
    list_consumers,
    set_consumer,
    remove_consumer,
    acknowledge,
)
