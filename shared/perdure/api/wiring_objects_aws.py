"""Wiring of objects in S3."""

from __future__ import annotations

from typing import Final

import boto3
from botocore.config import Config

from perdure.api.settings import Settings
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.lake.s3 import S3Objects

ONE_TRY: Final = Config(retries={"mode": "standard", "total_max_attempts": 1})
"""A retry that nobody sees would make a lost reply look like a lost race."""


def objects(chosen: Settings) -> S3Objects:
    """Return the objects of a storage."""
    return of_bucket(chosen, *bucket_and_prefix(chosen))


def of_bucket(chosen: Settings, bucket: str, prefix: str = "") -> S3Objects:
    """Return the objects of any bucket, asked for where the storage's own are."""
    client = boto3.client("s3", endpoint_url=chosen.s3_endpoint, config=ONE_TRY)
    return S3Objects(client, bucket, prefix)
