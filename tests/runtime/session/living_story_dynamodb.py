"""One process at the story of the conformance suite, on DynamoDB.

python -m tests.runtime.session.living_story_dynamodb DIRECTORY POINT|- ADDRESS ACCOUNT
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import boto3
from tests.runtime.session.living_story import lived

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.dynamodb_wire import client_config

TABLE = "perdure"
THREADS = 4


async def opened(address, account):
    client = boto3.client(
        "dynamodb",
        "eu-west-1",
        endpoint_url=address,
        aws_access_key_id=account,
        aws_secret_access_key="x",
        config=client_config(THREADS),
    )
    return DynamoStore(client, TABLE, threads=THREADS, pause=asyncio.sleep)


if __name__ == "__main__":
    asyncio.run(lived(Path(sys.argv[1]), sys.argv[2], opened(*sys.argv[3:])))
