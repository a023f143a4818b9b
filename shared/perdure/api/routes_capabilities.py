"""Routes of what a world uses: its processors, hooks and resources, listed and changed by name."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models_capabilities as models
from perdure.api.gateway import Request
from perdure.api.ports import CapabilityPorts
from perdure.api.routing import Route, route
from perdure.kernel.caller import Caller
from perdure.kernel.capabilities import CapabilityKind
from perdure.runtime.configure import InUse

PROCESSORS: Final = "/v1/worlds/<world>/processors"
HOOKS: Final = "/v1/worlds/<world>/hooks"
RESOURCES: Final = "/v1/worlds/<world>/resources"

_SHOWN: Final[dict[CapabilityKind, tuple[str, ...]]] = {
    "processor": ("name", "priority", "components", "registered"),
    "hook": ("name", "moment", "registered"),
    "resource": ("name", "registered"),
}


@route("GET", PROCESSORS, operation="list_processors", reply=models.Processors)
async def list_processors(ports: CapabilityPorts, world: str) -> dict[str, Any]:
    """List the processors that a world runs, in their order."""
    return await _listed(ports, "processor", world)


@route("PUT", f"{PROCESSORS}/<name>", operation="add_processor", reply=models.Processors)
async def add_processor(
    ports: CapabilityPorts, world: str, name: str, body: models.AddProcessor, request: Request
) -> dict[str, Any]:
    """Run a processor from the next tick on. The same again changes nothing."""
    ref = ports.worlds.ref(world)
    used = await ports.configuring.add(
        "processor", ref, name, priority=body.priority, by=request.by
    )
    return _spelled("processor", used)


@route("DELETE", f"{PROCESSORS}/<name>", operation="remove_processor", reply=models.Processors)
async def remove_processor(
    ports: CapabilityPorts, world: str, name: str, request: Request
) -> dict[str, Any]:
    """Run a processor no longer. What it has written stays."""
    return await _removed(ports, "processor", world, name, request.by)


@route("GET", HOOKS, operation="list_hooks", reply=models.Hooks)
async def list_hooks(ports: CapabilityPorts, world: str) -> dict[str, Any]:
    """List the hooks that are told of a world's ticks."""
    return await _listed(ports, "hook", world)


@route("PUT", f"{HOOKS}/<name>", operation="add_hook", reply=models.Hooks)
async def add_hook(
    ports: CapabilityPorts, world: str, name: str, request: Request
) -> dict[str, Any]:
    """Tell a hook from the next tick on."""
    return await _added(ports, "hook", world, name, request.by)


@route("DELETE", f"{HOOKS}/<name>", operation="remove_hook", reply=models.Hooks)
async def remove_hook(
    ports: CapabilityPorts, world: str, name: str, request: Request
) -> dict[str, Any]:
    """Tell a hook no longer."""
    return await _removed(ports, "hook", world, name, request.by)


@route("GET", RESOURCES, operation="list_resources", reply=models.Resources)
async def list_resources(ports: CapabilityPorts, world: str) -> dict[str, Any]:
    """List the resources that a world's processors are given."""
    return await _listed(ports, "resource", world)


@route("PUT", f"{RESOURCES}/<name>", operation="add_resource", reply=models.Resources)
async def add_resource(
    ports: CapabilityPorts, world: str, name: str, request: Request
) -> dict[str, Any]:
    """Give a world's processors a resource from the next tick on."""
    return await _added(ports, "resource", world, name, request.by)


@route("DELETE", f"{RESOURCES}/<name>", operation="remove_resource", reply=models.Resources)
async def remove_resource(
    ports: CapabilityPorts, world: str, name: str, request: Request
) -> dict[str, Any]:
    """Give a world's processors a resource no longer."""
    return await _removed(ports, "resource", world, name, request.by)


async def _listed(ports: CapabilityPorts, kind: CapabilityKind, world: str) -> dict[str, Any]:
    return _spelled(kind, await ports.configuring.listed(kind, ports.worlds.ref(world)))


async def _added(
    ports: CapabilityPorts, kind: CapabilityKind, world: str, name: str, by: Caller
) -> dict[str, Any]:
    return _spelled(kind, await ports.configuring.add(kind, ports.worlds.ref(world), name, by=by))


async def _removed(
    ports: CapabilityPorts, kind: CapabilityKind, world: str, name: str, by: Caller
) -> dict[str, Any]:
    return _spelled(
        kind, await ports.configuring.remove(kind, ports.worlds.ref(world), name, by=by)
    )


def _spelled(kind: CapabilityKind, used: tuple[InUse, ...]) -> dict[str, Any]:
    return {f"{kind}s": [{name: getattr(each, name) for name in _SHOWN[kind]} for each in used]}


ROUTES: Final[tuple[Route[Any], ...]] = (
    list_processors,
    add_processor,
    remove_processor,
    list_hooks,
    add_hook,
    remove_hook,
    list_resources,
    add_resource,
    remove_resource,
)
