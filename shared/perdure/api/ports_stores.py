"""Ports of document stores: what their routes ask of the runtime."""

from __future__ import annotations

from typing import Protocol

from perdure.runtime.documents.stores import DocumentStores


class StorePorts(Protocol):
    """What the routes of document stores need."""

    @property
    def stores(self) -> DocumentStores: ...
