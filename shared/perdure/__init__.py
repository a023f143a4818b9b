"""Durable worlds on serverless infrastructure."""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.kernel.component import Component
    from perdure.kernel.errors import PerdureError, Refused, Unavailable
    from perdure.kernel.operations import (
        AddComponents,
        Command,
        Despawn,
        RemoveComponents,
        Spawn,
        Update,
    )
    from perdure.runtime.app import App
    from perdure.runtime.readonly import ReadonlyStorage
    from perdure.runtime.session.agent import Agent
    from perdure.runtime.session.ports import CallRequest
    from perdure.runtime.session.tool_function import tool
    from perdure.runtime.session.toolbox import Toolbox
    from perdure.runtime.session.work import Happened, Said
    from perdure.runtime.storage import Storage

__all__ = [
    "AddComponents",
    "Agent",
    "App",
    "CallRequest",
    "Command",
    "Component",
    "Despawn",
    "Happened",
    "PerdureError",
    "Refused",
    "RemoveComponents",
    "Said",
    "Spawn",
    "Toolbox",
    "Unavailable",
    "Update",
    "open",
    "open_readonly",
    "tool",
]

_HOMES = {
    "Agent": "perdure.runtime.session.agent",
    "CallRequest": "perdure.runtime.session.ports",
    "Happened": "perdure.runtime.session.work",
    "Said": "perdure.runtime.session.work",
    "Toolbox": "perdure.runtime.session.toolbox",
    "tool": "perdure.runtime.session.tool_function",
    "App": "perdure.runtime.app",
    "Component": "perdure.kernel.component",
    "PerdureError": "perdure.kernel.errors",
    "Refused": "perdure.kernel.errors",
    "Unavailable": "perdure.kernel.errors",
}
_OPERATIONS = "perdure.kernel.operations"


def __getattr__(name: str) -> Any:
    # When first asked for: whoever wants one floor, or help, does not import all of them.
    if name not in __all__:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, _OPERATIONS)), name)


def open(
    uri: str, *, app: App, namespace: str = "default", table: str | None = None
) -> AbstractAsyncContextManager[Storage]:
    """Open a storage: ``async with perdure.open("file:///data/demo", app=app) as storage``.

    The authority of ``s3://bucket/prefix`` is the DynamoDB ``table``, or without one a file on
    this machine, and then of no other machine.
    Raises: InvalidValue, StoreUnavailable, NewerSchema.
    """
    # By name, so that whoever imports this package for its components pays for no Arrow.
    wiring = importlib.import_module("perdure.api.wiring_python")
    storage: AbstractAsyncContextManager[Storage] = wiring.opened(
        uri, app=app, namespace=namespace, table=table
    )
    return storage


def open_readonly(
    uri: str, *, namespace: str = "default", table: str | None = None
) -> AbstractAsyncContextManager[ReadonlyStorage]:
    """Open a storage that is there, to be looked at: no application is needed, nothing is made.

    Raises: InvalidValue, StoreUnavailable, NewerSchema.
    """
    wiring = importlib.import_module("perdure.api.wiring_lake_readonly")
    storage: AbstractAsyncContextManager[ReadonlyStorage] = wiring.opened(
        uri, namespace=namespace, table=table
    )
    return storage
