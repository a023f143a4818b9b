"""Durable worlds on serverless infrastructure."""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from perdure.runtime.storage import Storage

__all__ = [
    "AddComponents",
    "App",
    "Command",
    "Component",
    "Despawn",
    "PerdureError",
    "Refused",
    "RemoveComponents",
    "Spawn",
    "Unavailable",
    "Update",
    "open",
]


def open(
    uri: str, *, app: App, namespace: str = "default", table: str | None = None
) -> AbstractAsyncContextManager[Storage]:
    """Open a storage: ``async with perdure.open("file:///data/demo", app=app) as storage``.

    ``s3://bucket/prefix`` needs ``table``, the DynamoDB table of its authority.
    Raises: InvalidValue, StoreUnavailable, NewerSchema.
    """
    # By name, so that whoever imports this package for its components pays for no Arrow.
    wiring = importlib.import_module("perdure.api.wiring_python")
    storage: AbstractAsyncContextManager[Storage] = wiring.opened(
        uri, app=app, namespace=namespace, table=table
    )
    return storage
