"""Events and replies have the shapes and sizes that Lambda and API Gateway take, in process or apart."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.emulator.test_front import asked

from perdure.kernel.errors import TooLarge
from perdure_emulator.declared import Function
from perdure_emulator.runtime_api import PAYLOAD_BYTES_MAX, FunctionFailed
from perdure_emulator.sandboxes import InLoop, InThread

pytestmark = pytest.mark.cloud


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ({"body": "{}"}, '{"body": "{}"}'),
        ([], "[]"),
        (None, "null"),
        ("text", "text"),
    ],
)
def test_reply_without_a_status_is_the_body_of_a_200(reply, body):
    told, _ = asked("GET", "/v1/worlds", replies=reply)

    assert (told.status_code, told.text) == (200, body)
    assert told.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "reply",
    [
        {"statusCode": "abc"},
        {"statusCode": None},
        {"statusCode": True},
        {"statusCode": 99},
        {"statusCode": 600},
        {"statusCode": 200, "body": {"a": 1}},
        {"statusCode": 200, "body": 7},
        {"statusCode": 200, "body": "a", "isBase64Encoded": True},
        {"statusCode": 200, "headers": ["a"]},
        {"statusCode": 200, "headers": {"x": "\u2603"}},
        {"statusCode": 200, "cookies": 7},
        {"statusCode": 200, "cookies": ["a=\u2603"]},
    ],
    ids=str,
)
def test_reply_that_does_not_answer_http_is_a_fault_of_the_function(reply, capsys):
    told, _ = asked("GET", "/v1/worlds", replies=reply)

    assert (told.status_code, told.json()["code"]) == (500, "internal")
    assert " failed: " in capsys.readouterr().err


def test_status_may_be_text_and_headers_and_body_may_be_missing():
    told, _ = asked("GET", "/v1/worlds", replies={"statusCode": "204", "headers": None})

    assert (told.status_code, told.content) == (204, b"")


def test_every_cookie_of_a_reply_is_a_header_of_its_own():
    told, _ = asked(
        "GET", "/v1/worlds", replies={"statusCode": 200, "cookies": ["a=1", "b=2; Path=/"]}
    )

    assert told.headers.get_list("set-cookie") == ["a=1", "b=2; Path=/"]


HANDLER = """
from types import SimpleNamespace

def handler(event, context):
    return event["says"] * event["times"]

async def answer(event, context):
    return handler(event, context)

async def nothing():
    pass

sandbox = SimpleNamespace(answer=answer, opened=nothing, close=lambda: None, aclose=nothing)
"""


@pytest.fixture(params=[InLoop, InThread])
def invoked(request, tmp_path):
    """What a function in this process replies to an event."""
    (tmp_path / "app.py").write_text(HANDLER)
    function = Function(
        name="Echo", file=tmp_path / "app.py", handler="handler", timeout_seconds=30
    )

    def invoke(**event):
        async def run():
            placed = request.param(function)
            try:
                return await placed.invoke(event, seconds_max=30)
            finally:
                await placed.close()

        return asyncio.run(run())

    return invoke


def test_event_above_the_limit_is_refused_before_the_function_has_it(invoked):
    with pytest.raises(TooLarge, match=f"an event of at most {PAYLOAD_BYTES_MAX} bytes"):
        invoked(says="", times=1, more="a" * PAYLOAD_BYTES_MAX)

    assert invoked(says="b", times=1, more="a" * (PAYLOAD_BYTES_MAX - 100)) == "b"


def test_reply_above_the_limit_is_a_fault_of_the_function(invoked):
    with pytest.raises(FunctionFailed, match="ResponseSizeTooLarge"):
        invoked(says="a", times=PAYLOAD_BYTES_MAX)

    assert len(invoked(says="a", times=PAYLOAD_BYTES_MAX - 2)) == PAYLOAD_BYTES_MAX - 2


@pytest.mark.parametrize("says", [[b"a"], [math.nan]], ids=str)
def test_reply_that_is_no_json_is_a_fault_of_the_function(invoked, says, monkeypatch):
    # What no event can carry: only a handler's own.
    monkeypatch.setattr("perdure_emulator.sandboxes.spelled", len)

    with pytest.raises(FunctionFailed, match=r"Runtime\.MarshalError"):
        invoked(says=says, times=1)
