from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.ministack import account, ministack
from tests.support.stores import dynamodb_client


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a local stand-in for AWS."""
    with ministack(tmp_path_factory.mktemp("ministack") / "log") as address:
        yield address


@pytest.fixture(scope="session")
def dynamodb(aws: str) -> Iterator[Any]:
    """A client of a local DynamoDB, over HTTP."""
    client = dynamodb_client(aws, account(), threads=8)
    yield client
    client.close()
