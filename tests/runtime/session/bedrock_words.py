"""What Bedrock says to a client of boto3, spelled for tests."""

from __future__ import annotations

import boto3
from botocore.config import Config
from tests.runtime.session.asking import request_of
from tests.runtime.session.provider import (
    events,
    plain,
)

from perdure.kernel.session.messages import (
    UserMessage,
)

LONG = 60_000
MODEL = "anthropic.claude-x-v1:0"
GO = request_of(UserMessage(text="go"))
GO_WHOLE = request_of(UserMessage(text="go"), stream=False)
ONCE = {"mode": "standard", "total_max_attempts": 1}


def client_of(url, **config):
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="access-key",
        aws_secret_access_key="secret-key",
        config=Config(**{"retries": ONCE, "read_timeout": 5, **config}),
    )


def text(content, at=0):
    return ("contentBlockDelta", {"contentBlockIndex": at, "delta": {"text": content}})


def tool(id, name, at=0):
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return ("contentBlockStart", {"contentBlockIndex": at, "start": start})


def arguments(spelled, at=0):
    return (
        "contentBlockDelta",
        {"contentBlockIndex": at, "delta": {"toolUse": {"input": spelled}}},
    )


def reasoning(at=0, **delta):
    return ("contentBlockDelta", {"contentBlockIndex": at, "delta": {"reasoningContent": delta}})


def stop(reason="end_turn"):
    return ("messageStop", {"stopReason": reason})


START = ("messageStart", {"role": "assistant"})
USED = ("metadata", {"usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}})
FINE = events(START, text("he"), text("llo"), ("contentBlockStop", {}), stop(), USED)


def whole(*content, reason="end_turn", **more):
    message = {"role": "assistant", "content": list(content)}
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
    said = {"output": {"message": message}, "stopReason": reason, "usage": usage}
    return plain(said, **more)


def failure(status, code, message="no"):
    headers = {"x-amzn-ErrorType": code}
    return plain({"message": message}, status=status, headers=headers)
