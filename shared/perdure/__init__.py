"""Durable worlds on serverless infrastructure."""

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
