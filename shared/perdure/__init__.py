"""Durable worlds on serverless infrastructure."""

from importlib import import_module
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
]

_HOMES = {
    "App": "perdure.runtime.app",
    "Component": "perdure.kernel.component",
    "PerdureError": "perdure.kernel.errors",
    "Refused": "perdure.kernel.errors",
    "Unavailable": "perdure.kernel.errors",
}
_OPERATIONS = "perdure.kernel.operations"


def __getattr__(name: str) -> Any:
    # When first asked for: whoever wants one floor does not import all of them.
    if name not in __all__:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, _OPERATIONS)), name)
