"""Every store keeps every promise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import stores
from tests.support.dynamodb_local import ABSENT, dynamodb_local, given

from perdure.authority.testing import CASES, Case

pytestmark = pytest.mark.contract

EVERY = [pytest.param(case, id=case.name) for case in CASES]
MOTO_LACKS = {"a_snapshot_may_name_as_many_records_as_allowed"}
"""moto 5.2 still has the limit of 25 that DynamoDB raised to 100 in 2022."""

SEQUENTIAL = [
    pytest.param(case, id=case.name)
    for case in CASES
    if not case.races and case.name not in MOTO_LACKS
]


@pytest.mark.parametrize("case", EVERY)
def test_memory_keeps_the_promise(case: Case) -> None:
    kept(case, stores.memory)


@pytest.mark.parametrize("case", EVERY)
def test_sqlite_keeps_the_promise(case: Case, tmp_path: Path) -> None:
    kept(case, lambda: stores.sqlite(tmp_path))


@pytest.mark.parametrize("case", EVERY)
def test_sqlite_reopened_after_every_commit_keeps_the_promise(case: Case, tmp_path: Path) -> None:
    kept(case, lambda: stores.sqlite_reopened(tmp_path))


@pytest.mark.parametrize("case", EVERY)
def test_sqlite_from_two_processes_keeps_the_promise(case: Case, tmp_path: Path) -> None:
    kept(case, lambda: stores.sqlite_elsewhere(tmp_path))


@pytest.mark.parametrize("case", SEQUENTIAL)
def test_dynamodb_in_process_keeps_the_promise(case: Case) -> None:
    kept(case, stores.dynamodb_moto)


@pytest.mark.cloud
@pytest.mark.parametrize("case", EVERY)
def test_dynamodb_over_http_keeps_the_promise(case: Case, aws: str) -> None:
    kept(case, lambda: stores.dynamodb_http(aws))


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a DynamoDB Local of whoever runs the tests."""
    jar = given()
    if jar is None:
        pytest.skip(ABSENT)
    with dynamodb_local(jar, tmp_path_factory.mktemp("dynamodb-local") / "log") as address:
        yield address


@pytest.mark.cloud
@pytest.mark.parametrize("case", EVERY)
def test_dynamodb_local_keeps_the_promise(case: Case, own: str) -> None:
    kept(case, lambda: stores.dynamodb_http(own))


def kept(case: Case, opener_of: stores.OpenerOf) -> None:
    async def run() -> None:
        async with opener_of() as open_store:
            await case.run(open_store)

    asyncio.run(run())
