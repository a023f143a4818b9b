"""Where the lake lies: objects and the Iceberg catalog, beside the data or in the cloud."""

from __future__ import annotations

import importlib
from typing import Final

from pyiceberg.catalog import Catalog

from perdure.api import wiring_objects
from perdure.api.settings import Settings
from perdure.api.wiring import catalog_path
from perdure.lake.catalog import open_local
from perdure.lake.objects import ObjectStore

CLOUD: Final = "perdure.api.wiring_lake_aws"
"""Imported by name, and only in the cloud."""


def opened_objects(chosen: Settings) -> ObjectStore:
    """Return the objects of a storage; nothing is asked of them yet."""
    return wiring_objects.opened(chosen)


def opened_catalog(chosen: Settings) -> Catalog:
    """Open the Iceberg catalog of a storage. Raises StoreUnavailable."""
    if chosen.backend == "sqlite":
        return open_local(catalog_path(chosen).parent)
    found: Catalog = importlib.import_module(CLOUD).catalog(chosen)
    return found
