"""Where the lake lies: objects and the Iceberg catalog, beside the data or in the cloud."""

from __future__ import annotations

import importlib
from typing import Final

from pyiceberg.catalog import Catalog

from perdure.api import wiring_objects
from perdure.api.settings import Settings
from perdure.api.wiring import catalog_path
from perdure.authority.engine import Authority
from perdure.lake.catalog import open_local
from perdure.lake.objects import ObjectStore
from perdure.runtime.claimed import ClaimedObjects

CLOUD: Final = "perdure.api.wiring_lake_aws"
"""Imported by name, and only in the cloud."""


def opened_objects(chosen: Settings) -> ObjectStore:
    """Return the objects of a storage; nothing is asked of them yet."""
    return wiring_objects.opened(chosen)


def owned_objects(chosen: Settings, authority: Authority) -> ObjectStore:
    """Return the objects of a storage, to be written by its authority and by no other."""
    return wiring_objects.owned(chosen, authority)


async def claim_of(objects: ObjectStore) -> None:
    """Claim the place of a storage's data before tables are written there. Raises Conflict."""
    if isinstance(objects, ClaimedObjects):
        await objects.claim()


def opened_catalog(chosen: Settings) -> Catalog:
    """Open the Iceberg catalog of a storage. Raises StoreUnavailable."""
    if chosen.is_local:
        return open_local(catalog_path(chosen).parent)
    found: Catalog = importlib.import_module(CLOUD).catalog(chosen)
    return found
