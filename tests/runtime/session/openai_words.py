"""What a server of chat completions says, and a model that asks it."""

from __future__ import annotations

import httpx
from tests.runtime.session.asking import means, request_of
from tests.runtime.session.provider import sse

from perdure.kernel.session.messages import (
    UserMessage,
)
from perdure.runtime.session import model_openai
from perdure.runtime.session.model_openai import OpenAiModel

LONG = 60_000
KEY = "sk-secret-1234"
GO = request_of(UserMessage(text="go"))


def model(provider, *, pauses=None, key=KEY):
    async def told():
        return key

    return OpenAiModel(
        url=f"{provider.url}/v1",
        model_name="gpt-x",
        key=told,
        clients=lambda: httpx.AsyncClient(
            verify=False, trust_env=False, timeout=model_openai.TIMES_OUT
        ),
        means=means(pauses),
    )


def text(content, **more):
    return {"choices": [{"index": 0, "delta": {"content": content}, **more}]}


def part(**fields):
    return {"choices": [{"index": 0, "delta": {"tool_calls": [fields]}}]}


def end(reason):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


USED = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
FINE = sse(text("he"), text("llo"), end("stop"), USED)
