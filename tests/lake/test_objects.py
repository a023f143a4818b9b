"""Objects: put once, found whole, never replaced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from perdure.kernel.errors import (
    Conflict,
    InvalidId,
    NotFound,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from perdure.lake.objects import CACHED_BYTES_MAX, LocalObjects, ObjectStore
from perdure.lake.s3 import S3Objects


@pytest.fixture
def client(monkeypatch) -> Iterator:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="lake")
        yield s3


@pytest.fixture(params=["local", "s3"])
def objects(request, tmp_path) -> ObjectStore:
    if request.param == "local":
        return LocalObjects(tmp_path / "objects")
    return S3Objects(request.getfixturevalue("client"), "lake", "some/prefix/")


async def put_twice(objects: ObjectStore, first: bytes, second: bytes) -> bytes:
    await objects.put("segment/a/1.arrow", first)
    await objects.put("segment/a/1.arrow", second)
    return await objects.get("segment/a/1.arrow")


def test_a_put_again_of_equal_bytes_changes_nothing(objects):
    assert asyncio.run(put_twice(objects, b"\xffone", memoryview(b"\xffone"))) == b"\xffone"


def test_other_bytes_under_a_taken_name_are_refused_and_leave_it_alone(objects):
    with pytest.raises(Conflict):
        asyncio.run(put_twice(objects, b"one", b"two"))

    assert asyncio.run(objects.get("segment/a/1.arrow")) == b"one"


def test_names_are_those_of_whole_objects_below_a_prefix(objects):
    async def story() -> list[str]:
        for name in ("segment/b/1", "segment/a/2", "segment/a/1", "checkpoint/a/1"):
            await objects.put(name, b"x")
        await objects.delete("segment/a/2")
        await objects.delete("segment/a/2")
        return await objects.names("segment/")

    assert asyncio.run(story()) == ["segment/a/1", "segment/b/1"]


def test_what_is_not_there_is_not_found(objects):
    with pytest.raises(NotFound):
        asyncio.run(objects.get("segment/none"))

    assert asyncio.run(objects.names("segment/")) == []


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".put-x", "a\0", "é"]
)
def test_a_name_that_leaves_the_root_is_refused(objects, name):
    with pytest.raises(InvalidId):
        asyncio.run(objects.put(name, b"x"))


def test_rivals_that_put_one_name_leave_one_of_their_contents_and_no_litter(tmp_path):
    objects = LocalObjects(tmp_path)

    async def story() -> list[object]:
        puts = [objects.put("a/b", f"{n}".encode() * 1_000) for n in range(8)]
        return await asyncio.gather(*puts, return_exceptions=True)

    outcomes = asyncio.run(story())

    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(each, Conflict) for each in outcomes if each is not None)
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["b"]
    winner = outcomes.index(None)
    assert (tmp_path / "a/b").read_bytes() == f"{winner}".encode() * 1_000


def test_a_file_half_written_at_a_crash_is_no_object(tmp_path):
    objects = LocalObjects(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".put-dead").write_bytes(b"ha")

    asyncio.run(objects.put("a/b", b"whole"))

    assert asyncio.run(objects.names("")) == ["a/b"]


def test_a_put_syncs_its_file_and_its_directory_and_what_leads_there_once(tmp_path, monkeypatch):
    root, synced, sync = tmp_path / "objects", list[int](), os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), sync(handle))
    )
    objects = LocalObjects(root)

    for name in ("a/b/1", "a/b/2", "a/c/3"):
        asyncio.run(objects.put(name, b"x"))

    parts = ("..", "", "a", "a/b/1", "a/b", "a/b/2", "a/b", "a", "a/c/3", "a/c")
    assert synced == [(root / part).stat().st_ino for part in parts]


def test_a_place_that_cannot_be_written_is_unavailable(tmp_path):
    (tmp_path / "a").write_bytes(b"a file where a directory should be")

    with pytest.raises(StoreUnavailable):
        asyncio.run(LocalObjects(tmp_path).put("a/b", b"x"))


class Bucket:
    """A client whose answers to puts are scripted; what arrives goes to the real one."""

    def __init__(self, client, *script: tuple[bool, Exception]) -> None:
        self._client = client
        self._script = list(script)

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._client, name)

    def put_object(self, **arguments):
        if not self._script:
            return self._client.put_object(**arguments)
        arrives, error = self._script.pop(0)
        if arrives:
            self._client.put_object(**arguments)
        raise error


def refusal(code: str, status: int) -> ClientError:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PutObject")


class Busy:
    """Slows everybody down."""

    def get_object(self, **_: Any) -> Any:
        raise refusal("SlowDown", 503)


LOST = ReadTimeoutError(endpoint_url="s3")


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ([(True, LOST)], None),
        ([(False, LOST)], None),
        ([(False, refusal("ConditionalRequestConflict", 409))], None),
        ([(True, refusal("PreconditionFailed", 412))], None),
        ([(True, refusal("InternalError", 500))], None),
        ([(False, refusal("SlowDown", 503)), (True, LOST)], None),
        ([(False, refusal("AccessDenied", 403))], StoreRefused),
        ([(False, refusal("ExpiredToken", 400))], StoreRefused),
        ([(False, LOST)] * 5, OutcomeUnknown),
    ],
)
def test_whatever_answer_a_put_gets_what_lies_there_decides(client, script, verdict):
    objects = S3Objects(Bucket(client, *script), "lake")

    if verdict is None:
        asyncio.run(objects.put("a/b", b"x"))
        assert asyncio.run(objects.get("a/b")) == b"x"
    else:
        with pytest.raises(verdict):
            asyncio.run(objects.put("a/b", b"x"))


def test_bucket_that_is_gone_refuses_and_one_that_is_busy_does_not_answer(client):
    gone = S3Objects(client, "gone")

    for call in (gone.get("a/b"), gone.delete("a/b"), gone.sizes("a/"), gone.put("a/b", b"x")):
        with pytest.raises(StoreRefused):
            asyncio.run(call)
    with pytest.raises(StoreUnavailable) as busy:
        asyncio.run(S3Objects(Busy(), "lake").get("a/b"))
    assert type(busy.value) is StoreUnavailable


def test_a_precondition_failure_over_other_bytes_is_a_conflict(client):
    client.put_object(Bucket="lake", Key="a/b", Body=b"other")

    with pytest.raises(Conflict):
        asyncio.run(S3Objects(client, "lake").put("a/b", b"x"))


@pytest.mark.proof
def test_a_large_object_leaves_memory_only_after_the_disk_has_it(tmp_path, monkeypatch):
    done = list[str]()
    monkeypatch.setattr(os, "fsync", lambda _: done.append("sync"))
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: done.append("let go"), raising=False)
    objects = LocalObjects(tmp_path)
    large, small = b"x" * (CACHED_BYTES_MAX + 1), b"x" * CACHED_BYTES_MAX

    asyncio.run(objects.put("large", large))
    after_large = list(done)
    asyncio.run(objects.put("small", small))

    assert after_large[-3:] == ["sync", "let go", "sync"], "the file, then its directory"
    assert done.count("let go") == 1
    assert asyncio.run(objects.get("large")) == large
