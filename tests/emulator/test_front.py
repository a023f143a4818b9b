"""The gateway as the front of the functions: whom it lets in, and what it says for a late one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from tests.emulator.deployment import ROOT

from perdure_emulator.gateway import Gateway
from perdure_emulator.issuer import Issuer
from perdure_emulator.sandboxes import TimedOut
from perdure_emulator.template import read

TEMPLATE = read(ROOT / "template.yaml")


GOOD = {"statusCode": 200, "headers": {}, "body": "{}"}


class Function:
    """A function that answers 200, or does what it is told to; keeps what it was asked."""

    def __init__(self, function, *, raises=None, replies=GOOD):
        self.function = function
        self.raises, self.replies = raises, replies
        self.asked: list[Mapping[str, Any]] = []

    async def invoke(self, event, *, seconds_max):
        self.asked.append(event)
        if self.raises is not None:
            raise self.raises
        return self.replies


SMALL_TEMPLATE = """
Resources:
  ApiFunction:
    Type: AWS::Serverless::Function
    Properties: {{ CodeUri: functions/api }}
  Integration:
    Type: AWS::ApiGatewayV2::Integration
    Properties: {{ IntegrationUri: !GetAtt ApiFunction.Arn }}
  Route:
    Type: AWS::ApiGatewayV2::Route
    Properties: {{ RouteKey: GET /v1/worlds, Target: !Sub "integrations/${{Integration}}", {authorization} }}
"""

ISSUER = Issuer(generate_private_key(public_exponent=65_537, key_size=2_048))


def token(**changed):
    given = {"actor": "ann", "role": "player", "tenant": "default", "seconds": 60}
    return ISSUER.token(**{**given, "now_seconds": int(time.time()), **changed})


def asked(
    method, path, *, raises=None, replies=GOOD, authorization=None, template=TEMPLATE, **headers
):
    """The answer of a gateway, and the events that reached its functions."""
    if authorization is None:
        authorization = f"Bearer {token()}"
    if authorization:
        headers["authorization"] = authorization
    functions = {
        name: Function(each, raises=raises, replies=replies)
        for name, each in template.functions.items()
    }

    async def send():
        front = httpx.ASGITransport(Gateway(template, functions, ISSUER))
        async with httpx.AsyncClient(transport=front, base_url="http://127.0.0.1:8337") as http:
            return await http.request(method, path, headers=headers)

    reply = asyncio.run(send())
    return reply, [event for each in functions.values() for event in each.asked]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/worlds/harbour", "store_unavailable"),
        ("GET", "/v1/worlds/harbour/entities", "store_unavailable"),
        ("POST", "/v1/worlds/harbour/tick", "outcome_unknown"),
        ("POST", "/v1/worlds/harbour/commands", "outcome_unknown"),
        ("DELETE", "/v1/worlds/harbour/commands/b.0", "outcome_unknown"),
        ("POST", "/v1/land", "outcome_unknown"),
    ],
)
def test_what_is_not_answered_in_time_is_unknown_if_it_may_change_anything(method, path, code):
    reply, _ = asked(method, path, raises=TimedOut("late"))

    assert (reply.status_code, reply.json()["code"]) == (503, code)
    assert reply.headers["retry-after"] == "1"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8337"},
        {"host": "127.0.0.1.evil.example:8337"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1@evil.example"},
        {"host": "192.0.2.1:8337"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "http://localhost:3000.evil.example"},
        {"origin": "null"},
        {"origin": ""},
    ],
    ids=str,
)
def test_request_of_a_page_from_elsewhere_reaches_no_function(method, headers):
    reply, events = asked(method, "/v1/worlds", **headers)

    assert (reply.status_code, reply.json()["code"]) == (403, "not_permitted")
    assert reply.headers["content-type"] == "application/problem+json"
    assert events == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "127.0.0.1"},
        {"host": "127.1.2.3:80"},
        {"host": "LocalHost:8337"},
        {"host": "[::1]:8337"},
        {"origin": "http://localhost:3000"},
        {"origin": "https://127.0.0.1"},
        {"origin": "http://[::1]:8337"},
    ],
    ids=str,
)
def test_request_of_this_machine_reaches_its_function(headers):
    reply, events = asked("POST", "/v1/worlds", **headers)

    assert reply.status_code == 200
    assert len(events) == 1
