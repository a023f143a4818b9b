"""One storage that is opened again and again, on this machine or in the local stand-in for AWS."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import boto3
import pytest
from tests.support.ministack import account

import perdure
from perdure import App
from perdure.authority.dynamodb_wire import table_definition
from perdure.runtime.storage import Storage

_NUMBERS = count(1)


@dataclass(frozen=True)
class Anywhere:
    """Where a storage lies. Each opening shares nothing with another but what is stored."""

    uri: str
    table: str | None = None

    def opened(self, app: App) -> AbstractAsyncContextManager[Storage]:
        return perdure.open(self.uri, app=app, table=self.table)


def here(directory: Path) -> Anywhere:
    """Return a storage in a directory."""
    return Anywhere(directory.as_uri())


def in_the_cloud(address: str, environment: pytest.MonkeyPatch) -> Anywhere:
    """Return a storage in a table and a bucket of their own."""
    name = f"anywhere-{os.getpid()}-{next(_NUMBERS)}"
    variables = {
        "AWS_ACCESS_KEY_ID": account(900),
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
    }
    for variable, value in variables.items():
        environment.setenv(variable, value)
    dynamodb, s3 = boto3.client("dynamodb"), boto3.client("s3")
    dynamodb.create_table(**table_definition(name))
    s3.create_bucket(Bucket=name)
    dynamodb.close()
    s3.close()
    return Anywhere(f"s3://{name}/worlds", name)
