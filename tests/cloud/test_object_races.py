"""Objects over HTTP: of all who put one name, one wins, whatever answer anybody gets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from tests.support.children import children, let_go
from tests.support.ministack import fresh_account
from tests.support.wire import Fault, Wire, wire_to

from perdure.api.wiring_objects_aws import ONE_TRY
from perdure.kernel.errors import Conflict, StoreUnavailable
from perdure.lake.s3 import ATTEMPTS_MAX, S3Objects

pytestmark = pytest.mark.cloud

RIVALS = 8
NAMES = [f"segment/{number}" for number in range(25)]
TAKEN = b"<Error><Code>PreconditionFailed</Code></Error>"
RIVAL = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
SLOW = b"<Error><Code>SlowDown</Code></Error>"


def client_of(address: str, access: str) -> Any:
    return boto3.client(
        "s3",
        "us-east-1",
        endpoint_url=address,
        aws_access_key_id=access,
        aws_secret_access_key="x",
        config=ONE_TRY,
    )


@pytest.fixture
def access() -> str:
    return fresh_account()


@pytest.fixture
def bucket(aws, access) -> Iterator[Any]:
    client = client_of(aws, access)
    client.create_bucket(Bucket=access)
    yield client
    client.close()


async def puts_of(objects: S3Objects, rival: int) -> list[str]:
    """Put every name with bytes of one's own, and return the names that were won."""
    won = []
    for name in NAMES:
        try:
            await objects.put(name, f"{rival}:{name}".encode())
        except Conflict:
            continue
        won.append(name)
    return won


def check_one_winner_each(objects: S3Objects, won: list[list[str]]) -> None:
    assert Counter(name for each in won for name in each) == Counter(NAMES)
    for rival, names in enumerate(won):
        for name in names:
            assert asyncio.run(objects.get(name)) == f"{rival}:{name}".encode()


def test_of_eight_threads_that_put_a_name_one_wins(bucket, access):
    objects = S3Objects(bucket, access)

    def race(rival: int) -> list[str]:
        return asyncio.run(puts_of(objects, rival))

    with ThreadPoolExecutor(RIVALS) as pool:
        won = list(pool.map(race, range(RIVALS)))

    check_one_winner_each(objects, won)


@pytest.mark.slow
def test_of_eight_processes_that_put_a_name_one_wins(aws, access, bucket):
    begun = (sys.executable, "-c", _CHILD.format(sys.path), aws, access)
    commands = [(*begun, number) for number in range(RIVALS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    with children(commands, **pipes) as rivals:
        let_go(rivals)
        won = [rival.communicate(timeout=120)[0].split() for rival in rivals]

    assert [rival.returncode for rival in rivals] == [0] * RIVALS
    check_one_winner_each(S3Objects(bucket, access), won)


_CHILD = """
import sys
sys.path[:] = {!r}
from tests.cloud.test_object_races import child
child()
"""


def child() -> None:
    """Be one of the processes."""
    address, access, rival = sys.argv[1:]
    client = client_of(address, access)
    client.list_objects_v2(Bucket=access)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    print(*asyncio.run(puts_of(S3Objects(client, access), int(rival))))  # noqa: T201


@pytest.fixture
def wire(aws) -> Iterator[Wire]:
    with wire_to(aws) as wire:
        wire.concerns = lambda asked: asked.method == "PUT"
        yield wire


@pytest.fixture
def wired(access, bucket, wire) -> Iterator[S3Objects]:
    client = client_of(wire.address, access)
    yield S3Objects(client, access)
    client.close()


@pytest.mark.parametrize(
    ("plan", "sent"),
    [
        ([Fault(409, RIVAL, arrives=False)], 2),
        ([Fault(409, RIVAL, arrives=False)] * (ATTEMPTS_MAX - 1), ATTEMPTS_MAX),
        ([Fault(409, RIVAL)], 1),
        ([Fault(412, TAKEN)], 1),
        ([Fault(412, TAKEN, arrives=False)], 2),
        ([Fault(500)], 1),
        ([Fault(503, SLOW, arrives=False), Fault(None)], 2),
        ([Fault(None, arrives=False), Fault(409, RIVAL), Fault(412, TAKEN)], 2),
    ],
)
def test_an_object_is_there_once_whatever_is_answered(wired, wire, plan, sent):
    wire.plan.extend(plan)

    asyncio.run(wired.put("a/b", b"mine"))

    assert asyncio.run(wired.get("a/b")) == b"mine"
    assert len(wire.seen) == sent, "no retry that nobody sees"


@pytest.mark.parametrize("answer", [(409, RIVAL), (412, TAKEN), (500, b""), (None, b"")])
def test_other_bytes_that_came_first_are_a_conflict_whatever_is_answered(
    wired, wire, bucket, access, answer
):
    bucket.put_object(Bucket=access, Key="a/b", Body=b"a rival's")
    wire.plan.append(Fault(*answer, arrives=False))

    with pytest.raises(Conflict):
        asyncio.run(wired.put("a/b", b"mine"))

    assert asyncio.run(wired.get("a/b")) == b"a rival's"


def test_a_lost_answer_and_then_412_over_my_own_bytes_is_done(wired, wire):
    """The look in between is lost, too: only the second answer can tell."""
    wire.concerns = lambda asked: True
    wire.plan.extend([Fault(None), Fault(503), None])

    asyncio.run(wired.put("a/b", b"mine"))

    assert [asked.method for asked in wire.seen] == ["PUT", "GET", "PUT", "GET"]


def test_a_refusal_is_told_at_once(wired, wire):
    wire.plan.append(Fault(403, b"<Error><Code>AccessDenied</Code></Error>", arrives=False))

    with pytest.raises(StoreUnavailable):
        asyncio.run(wired.put("a/b", b"mine"))

    assert len(wire.seen) == 1
