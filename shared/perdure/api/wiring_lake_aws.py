"""Wiring of the lake in the cloud: tables in the Glue catalog, or in an S3 table bucket."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

import boto3
from botocore.config import Config
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError
from requests import RequestException, Session

from perdure.api.settings import Settings
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.kernel.refusals import unanswered
from perdure.lake.catalog import Guarded, open_file

CONNECT_SECONDS: Final = 2
ANSWER_SECONDS: Final = 20
"""What an answer of a catalog is waited for; a commit that takes longer is looked for."""

ONE_TRY: Final = Config(
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=CONNECT_SECONDS,
    read_timeout=ANSWER_SECONDS,
)
"""A retry that nobody sees would make a lost reply look like a lost race."""


class CloudCatalog(Guarded, GlueCatalog):
    """pyiceberg's Glue catalog, guarded."""


class TableBucketCatalog(Guarded, RestCatalog):
    """pyiceberg's REST catalog on an S3 table bucket, guarded, and never waiting for ever."""

    keeps_house: ClassVar[bool] = True
    """S3 Tables compacts, expires snapshots and removes what nothing names; it lets nobody
    delete an object. Source: S3 Tables, maintenance and supported object operations."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        waiting = (CONNECT_SECONDS, ANSWER_SECONDS)
        session.request = partial(session.request, timeout=waiting)  # type: ignore[method-assign]
        return session


def catalog(chosen: Settings) -> Catalog:
    """Return the Iceberg catalog of a storage. Raises StoreUnavailable."""
    if chosen.is_in_table_bucket:
        return _table_bucket(chosen)
    bucket, prefix = bucket_and_prefix(chosen)
    properties = _of_files(chosen, boto3.Session().region_name)
    properties["warehouse"] = f"s3://{bucket}/{prefix}/warehouse"
    if chosen.backend == "sqlite":
        return open_file(chosen.catalog.with_suffix(".iceberg.db"), properties)
    glue = boto3.client("glue", endpoint_url=chosen.glue_endpoint, config=ONE_TRY)
    return CloudCatalog("perdure", client=glue, **properties)


def _table_bucket(chosen: Settings) -> Catalog:
    """Open the REST catalog of an S3 table bucket: it is asked for its settings at once."""
    region = chosen.tables.split(":")[3]
    service = boto3.client("s3tables", region, endpoint_url=chosen.s3tables_endpoint)
    properties = {
        **_of_files(chosen, region),
        "uri": f"{service.meta.endpoint_url.rstrip('/')}/iceberg",
        "warehouse": chosen.tables,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
        "rest.sigv4.max-retries": "0",
    }
    service.close()
    try:
        return TableBucketCatalog("perdure", **properties)
    except (RESTError, RequestException) as error:
        raise unanswered(f"the Iceberg catalog of {chosen.tables}", error) from error


def _of_files(chosen: Settings, region: str | None) -> dict[str, Any]:
    """Return how pyiceberg is to reach the files of tables."""
    properties = {"py-io-impl": "perdure.lake.remote.RemoteFileIO"}
    if region is not None:  # else pyiceberg asks the network for that of the bucket
        properties["s3.region"] = region
    if chosen.s3_endpoint is not None:
        # A stand-in: Arrow looks for credentials in the process alone, not where this function
        # has them. AWS's own expire, so there Arrow finds them by itself, again and again.
        properties |= {"s3.endpoint": chosen.s3_endpoint, **_credentials()}
    return properties


def _credentials() -> dict[str, str]:
    found = boto3.Session().get_credentials()
    if found is None:
        return {}
    held = found.get_frozen_credentials()
    spelled = {
        "s3.access-key-id": held.access_key,
        "s3.secret-access-key": held.secret_key,
        "s3.session-token": held.token,
    }
    return {name: value for name, value in spelled.items() if value}
