"""Where objects lie, for whoever needs no Arrow: beside the data, or in a bucket."""

from __future__ import annotations

import importlib
import urllib.parse
from typing import Final

from perdure.api.settings import Settings
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.lake.objects import LocalObjects, ObjectStore
from perdure.runtime.claimed import ClaimedObjects

CLOUD: Final = "perdure.api.wiring_objects_aws"
"""Imported by name, and only in the cloud."""


def opened(chosen: Settings) -> ObjectStore:
    """Return the objects of a storage; nothing is asked of them yet."""
    if chosen.is_local:
        return LocalObjects(chosen.catalog.parent / "objects")
    found: ObjectStore = importlib.import_module(CLOUD).objects(chosen)
    return found


def owned(chosen: Settings, authority: Authority) -> ObjectStore:
    """Return the objects of a storage, to be written by its authority and by no other."""
    objects = opened(chosen)
    if chosen.is_local:  # the authority lies beside them
        return objects
    return ClaimedObjects(objects, authority, chosen.storage, system.new_token)


def bucket_and_prefix(chosen: Settings) -> tuple[str, str]:
    """Return where in S3 the objects of a storage lie."""
    parts = urllib.parse.urlsplit(chosen.uri)
    prefix = "/".join(part for part in (parts.path.strip("/"), chosen.namespace) if part)
    return parts.netloc, prefix
