"""Wiring of models in the cloud: the client of Bedrock, and keys that AWS keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from perdure.authority import system
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import Instant
from perdure.runtime.session.ports import ModelUnavailable

CONNECTIONS: Final = 64
"""Steps of one process that talk to Bedrock at once. Source: choice; more wait for each other."""

SILENCE_SECONDS: Final = 300
"""Without a byte of an answer. Source: choice; a model that reasons may be silent for minutes, and
the deadline of a step bounds it anyway."""

KEY_KEPT_MS: Final = 300_000
"""How long a key is believed that was read. Source: choice; a rotated key fails so long."""


@cache
def bedrock_client(endpoint: str | None) -> Any:
    """Return the client of this process. It never tries again by itself. Raises InvalidValue."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=SILENCE_SECONDS,
        max_pool_connections=CONNECTIONS,
    )
    try:
        return boto3.client("bedrock-runtime", endpoint_url=endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise InvalidValue(
            expected="a region and an endpoint of Bedrock", found=type(error).__name__
        ) from error


def kept_key(arn: str, now: Callable[[], Instant] = system.now) -> Callable[[], Awaitable[str]]:
    """Return who reads the key that a secret or a parameter holds, and again when it is old."""
    kept: tuple[Instant, str] | None = None

    async def key() -> str:
        nonlocal kept
        if kept is None or now() - kept[0] > KEY_KEPT_MS:
            kept = (now(), await asyncio.to_thread(_read, arn))
        return kept[1]

    return key


def _read(arn: str) -> str:
    """Read what ``arn`` holds. Raises ModelUnavailable, without a word of what it found."""
    _, _, service, region, *_ = arn.split(":")
    config = Config(connect_timeout=5, read_timeout=10)
    expected = "the key of the model's provider"
    try:
        if service == "ssm":
            parameters = boto3.client("ssm", region_name=region, config=config)
            found = parameters.get_parameter(Name=arn, WithDecryption=True)["Parameter"]["Value"]
        else:
            secrets = boto3.client("secretsmanager", region_name=region, config=config)
            found = secrets.get_secret_value(SecretId=arn)["SecretString"]
    except (BotoCoreError, ClientError, KeyError) as error:
        raise ModelUnavailable(expected=expected, found=type(error).__name__) from None
    return str(found).strip()
