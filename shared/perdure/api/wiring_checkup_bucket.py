"""Checks of the bucket: where it is, how it is protected, and what may be done to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from perdure.api.checkup import Finding, fail, ok, skip, warn
from perdure.api.settings import Settings
from perdure.api.wiring_checkup_clients import DENIED, Clients, code_of, status_of
from perdure.api.wiring_objects import bucket_and_prefix
from perdure.authority import system


def bucket_found(clients: Clients, chosen: Settings) -> Iterator[Finding]:
    bucket, prefix = bucket_and_prefix(chosen)
    client = clients.of("s3")
    headers = client.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
    region = headers.get("x-amz-bucket-region")
    if region is not None and region != clients.region:
        yield warn(
            f"{bucket} is in {region}, this caller asks from {clients.region}",
            f"set AWS_DEFAULT_REGION={region}: what crosses regions is slow and paid for",
        )
    client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    yield from _openness(client, bucket)
    yield from _encryption(client, bucket)
    yield ok(f"{bucket} can be listed; versioning: {_versioning(client, bucket)}")


def _openness(client: Any, bucket: str) -> Iterator[Finding]:
    try:
        answer = client.get_public_access_block(Bucket=bucket)
    except ClientError as error:
        if code_of(error) in DENIED:
            yield skip("public access: s3:GetBucketPublicAccessBlock is not permitted")
            return
        if code_of(error) != "NoSuchPublicAccessBlockConfiguration":
            raise
        answer = {"PublicAccessBlockConfiguration": {}}
    blocks = answer["PublicAccessBlockConfiguration"]
    names = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    lacking = [name for name in names if not blocks.get(name)]
    if lacking:
        yield warn(
            f"public access is not blocked by {', '.join(lacking)}",
            "block all public access, as the template does",
        )


def _encryption(client: Any, bucket: str) -> Iterator[Finding]:
    try:
        client.get_bucket_encryption(Bucket=bucket)
    except ClientError as error:
        if code_of(error) in DENIED:
            yield skip("encryption: s3:GetEncryptionConfiguration is not permitted")
        elif code_of(error) == "ServerSideEncryptionConfigurationNotFoundError":
            yield warn("no encryption by default", "set BucketEncryption, as the template does")
        else:
            raise


def _versioning(client: Any, bucket: str) -> str:
    try:
        return str(client.get_bucket_versioning(Bucket=bucket).get("Status", "off")).lower()
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
        return "not permitted to see"


def bucket_written(clients: Clients, chosen: Settings) -> Iterator[Finding]:
    """Put an object that was not there, fail to put it again, and take every version away."""
    bucket, prefix = bucket_and_prefix(chosen)
    client = clients.of("s3")
    name = f"{prefix}/doctor/{system.new_token()}"
    put = partial(client.put_object, Bucket=bucket, Key=name, Body=b"doctor", IfNoneMatch="*")
    try:
        versions = [put().get("VersionId")]
    except HTTPClientError:  # it may have arrived all the same
        client.delete_object(Bucket=bucket, Key=name)
        raise
    try:
        versions.append(put().get("VersionId"))
    except ClientError as error:
        kept_out = status_of(error) in {409, 412}
        if not kept_out:
            raise
    else:
        kept_out = False
    finally:
        for version in versions:
            which = {} if version is None else {"VersionId": version}
            client.delete_object(Bucket=bucket, Key=name, **which)
    if kept_out:
        yield ok("a put if absent holds, and was taken away again")
    else:
        yield fail("a put if absent overwrites", "use S3, or what knows If-None-Match on a put")
