"""Objects in a bucket: a put that never overwrites, whatever answer comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from perdure.kernel.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from perdure.lake.objects import checked_name, not_found

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

ATTEMPTS_MAX: Final = 5
"""Times a put is sent before its outcome is given up as unknown."""

_TAKEN: Final = {"PreconditionFailed", "412"}
_RIVAL: Final = {"ConditionalRequestConflict", "409"}
"""Another conditional put of the name was in flight. Source: S3 conditional writes."""

_ABSENT: Final = {"NoSuchKey", "404", "NotFound"}


class S3Objects:
    """Objects below a prefix of one bucket, put with ``If-None-Match: *``."""

    def __init__(self, client: S3Client, bucket: str, prefix: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    async def put(self, name: str, data: bytes | memoryview) -> None:
        await asyncio.to_thread(self._put, name, bytes(data))

    async def get(self, name: str) -> bytes:
        return await asyncio.to_thread(self._get, name)

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._delete, name)

    async def names(self, prefix: str) -> list[str]:
        return list(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        return await asyncio.to_thread(self._sizes, prefix)

    def _put(self, name: str, data: bytes) -> None:
        failed: Exception | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=self._key(name), Body=data, IfNoneMatch="*"
                )
            except (ClientError, BotoCoreError) as error:
                # Whatever it was, a put of ours may have arrived: what lies there decides.
                failed = error
                if self._holds(name, data):
                    return
                if isinstance(error, ClientError) and _is_refusal(error):
                    raise _unavailable(f"put {name}", error) from error
            else:
                return
        raise OutcomeUnknown(
            expected=f"an answer to the put of {name}", found=str(failed)
        ) from failed

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            held = self._get(name)
        except (NotFound, StoreUnavailable):
            return False
        if held != data:
            raise Conflict(expected=f"the same bytes as before under {name}", found="other bytes")
        return True

    def _get(self, name: str) -> bytes:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            return answer["Body"].read()
        except ClientError as error:
            if _code(error) in _ABSENT:
                raise not_found(name) from None
            raise _unavailable(f"get {name}", error) from error
        except BotoCoreError as error:
            raise _unavailable(f"get {name}", error) from error

    def _delete(self, name: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))
        except (ClientError, BotoCoreError) as error:
            raise _unavailable(f"delete {name}", error) from error

    def _sizes(self, prefix: str) -> dict[str, int]:
        pages = self._client.get_paginator("list_objects_v2")
        try:
            found = {
                found["Key"].removeprefix(self._prefix): found["Size"]
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix)
                for found in page.get("Contents", [])
            }
            return dict(sorted(found.items()))
        except (ClientError, BotoCoreError) as error:
            raise _unavailable(f"list {prefix}", error) from error

    def _key(self, name: str) -> str:
        return self._prefix + checked_name(name)


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _is_refusal(error: ClientError) -> bool:
    """Say whether sending the same again can only fail the same way."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    code = _code(error)
    if code in _TAKEN or code in _RIVAL or code in {"SlowDown", "RequestTimeout"}:
        return False
    return 400 <= status < 500


def _unavailable(what: str, error: Exception) -> StoreUnavailable:
    refuses = isinstance(error, ClientError) and _is_refusal(error)
    kind = StoreRefused if refuses else StoreUnavailable
    return kind(expected=f"to {what}", found=str(error))
