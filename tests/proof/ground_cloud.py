"""A ground in a stand-in for the cloud: records in DynamoDB, objects in S3, tables in files."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import boto3
from tests.runtime.harness import Clock
from tests.support.ministack import fresh_account
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.store import Store
from perdure.kernel.ids import StorageId
from perdure.lake.s3 import S3Objects

REGION = "eu-west-1"
THREADS = 4

_buckets = itertools.count(1)


@dataclass
class CloudGround:
    """A table and a bucket of an account of its own. What lies in them is not copied."""

    root: Path
    address: str
    clock: Clock = field(default_factory=Clock)
    storage: StorageId = field(default_factory=lambda: StorageId("storage"))
    is_bare: ClassVar[bool] = True
    account: str = field(default_factory=fresh_account)

    def __post_init__(self) -> None:
        self._records = dynamodb_client(self.address, self.account, threads=THREADS)
        # With a client that is patient: a busy stand-in takes its time to make a table.
        making = boto3.client("dynamodb", REGION, endpoint_url=self.address, **self._credentials)
        making.create_table(**table_definition(TABLE))
        making.close()
        self._files = boto3.client(
            "s3",
            REGION,
            endpoint_url=self.address,
            **self._credentials,
        )
        self._bucket = f"killed-{self.account}-{next(_buckets)}"
        self._files.create_bucket(
            Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    @property
    def _credentials(self) -> dict[str, str]:
        return {"aws_access_key_id": self.account, "aws_secret_access_key": "x"}

    @property
    def objects(self) -> S3Objects:
        return S3Objects(self._files, self._bucket)

    async def opened(self) -> Store:
        def pause(_: float) -> Any:
            return asyncio.sleep(0)

        return DynamoStore(self._records, TABLE, threads=THREADS, pause=pause)

    def copy(self, root: Path) -> CloudGround:
        """Return another one, on which nothing has happened yet."""
        root.mkdir()
        return CloudGround(root, self.address)
