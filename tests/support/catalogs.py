"""Every Iceberg catalog that people use, each on data of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.loaders import Loader
from pyiceberg.catalog import Catalog
from tests.support.ministack import fresh_account
from tests.support.wire import Asked

from perdure.api.settings import Settings, settings
from perdure.api.wiring_lake_aws import catalog
from perdure.lake.catalog import open_local

LOCAL, FILE, GLUE, BUCKET = "local", "file", "glue", "table bucket"
EVERY = [LOCAL, FILE, GLUE, BUCKET]
"""SQL with files here, SQL with files in S3, Glue, and the REST catalog of an S3 table bucket."""

REGION = "us-east-1"

_MODELS = Loader()
"""What botocore reads of every service takes longer than most tests: it is read once."""


def in_aws(address: str, environment: pytest.MonkeyPatch) -> str:
    """Turn this process to an account of its own, and return a name that nobody has yet."""
    access = fresh_account()
    session = botocore.session.Session()
    session.register_component("data_loader", _MODELS)
    variables = {
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": address,
    }
    for variable, value in variables.items():
        environment.setenv(variable, value)
    # A session remembers the account of before.
    environment.setattr(boto3, "DEFAULT_SESSION", boto3.Session(botocore_session=session))
    return f"lake-{os.getpid()}-{access}"


def settings_in_aws(
    kind: str, address: str, environment: pytest.MonkeyPatch, *, by: str | None = None
) -> Settings:
    """Make what a storage needs in AWS and return its settings; nothing is in it yet.

    ``by`` is another address of the catalogs.
    """
    name = in_aws(address, environment)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=name)
    s3.close()
    variables = {
        "PERDURE_STORAGE": f"s3://{name}/worlds",
        "PERDURE_NAMESPACE": name.replace("-", "_"),
        "AWS_ENDPOINT_URL": address,
        "AWS_ENDPOINT_URL_GLUE": by or address,
        "AWS_ENDPOINT_URL_S3TABLES": by or address,
    }
    if kind != FILE:
        variables["PERDURE_TABLE"] = name
    if kind == BUCKET:
        s3tables = boto3.client("s3tables")
        variables["PERDURE_TABLES"] = s3tables.create_table_bucket(name=f"t-{name}")["arn"]
        s3tables.close()
    return settings(variables)


@contextmanager
def opened(
    kind: str,
    root: Path,
    address: str | None,
    environment: pytest.MonkeyPatch,
    by: str | None = None,
) -> Iterator[Catalog]:
    """Open a catalog with nothing in it."""
    if kind == LOCAL:
        found: Any = open_local(root)
    else:
        assert address is not None
        environment.setenv("PERDURE_CATALOG_DIR", str(root))
        found = catalog(settings_in_aws(kind, address, environment, by=by))
    try:
        yield found
    finally:
        found.close()


def is_commit(asked: Asked) -> bool:
    """Tell a request that commits to a table, to Glue or to the catalog of a table bucket."""
    if asked.target:
        return asked.target == "AWSGlue.UpdateTable"
    return asked.method == "POST" and "/tables/" in asked.path and "/iceberg/" in asked.path
