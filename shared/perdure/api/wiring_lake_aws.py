"""Wiring of the lake in the cloud: tables in the Glue catalog."""

from __future__ import annotations

from typing import Any

import boto3
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.glue import GlueCatalog

from perdure.api.settings import Settings
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.lake.catalog import Guarded, open_file


class CloudCatalog(Guarded, GlueCatalog):
    """pyiceberg's Glue catalog, guarded."""


def catalog(chosen: Settings) -> Catalog:
    """Return the Iceberg catalog of a storage."""
    bucket, prefix = bucket_and_prefix(chosen)
    properties: dict[str, Any] = {"warehouse": f"s3://{bucket}/{prefix}/warehouse"}
    region = boto3.Session().region_name
    if region is not None:  # else pyiceberg asks the network for that of the bucket
        properties["s3.region"] = region
    if chosen.s3_endpoint is not None:
        properties["s3.endpoint"] = chosen.s3_endpoint
    if chosen.backend == "sqlite":
        return open_file(chosen.catalog.with_suffix(".iceberg.db"), properties)
    properties["glue.max-retries"] = 1
    if chosen.glue_endpoint is not None:
        properties["glue.endpoint"] = chosen.glue_endpoint
    return CloudCatalog("perdure", **properties)
