"""Clients of AWS for tools; loaded by name, and only where a tool is a Lambda function."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import boto3
from botocore.config import Config

from perdure.runtime.session.ports import ToolSpec
from perdure.runtime.session.tool_lambda import LambdaTool

CONNECT_SECONDS: Final = 5.0


def lambda_client(timeout_ms: int, **more: Any) -> Any:
    """Return a client of Lambda that sends each request once."""
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=min(CONNECT_SECONDS, timeout_ms / 3_000),
        read_timeout=timeout_ms / 1_000,
        max_pool_connections=10,
        tcp_keepalive=True,
    )
    return _session().client("lambda", config=config, **more)


def lambda_tool(spec: ToolSpec, function: str) -> LambdaTool:
    """Make a tool of a Lambda function, by its name or ARN. Raises Invalid."""
    return LambdaTool(spec, lambda_client(spec.timeout_ms), function)


@lru_cache(maxsize=1)
def _session() -> boto3.session.Session:
    return boto3.session.Session()
