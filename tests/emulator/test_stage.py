"""The stage in front of the routes: pages of other sites, too many requests, scopes, queues."""

from __future__ import annotations

import asyncio
import dataclasses
import time

import httpx
import pytest
from tests.emulator.deployment import ROOT
from tests.emulator.serving import ISSUER

from perdure_emulator.declared import Cors, Throttle
from perdure_emulator.front import Bucket
from perdure_emulator.gateway import Gateway
from perdure_emulator.template import read

pytestmark = pytest.mark.cloud

PAGE = "https://console.example"
CORS = Cors(
    origins=(PAGE,), methods=("GET", "POST"), headers=("authorization",), max_age_seconds=600
)
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}


class Fake:
    """A function that answers, with a header of its own for pages."""

    def __init__(self, function):
        self.function = function
        self.asked = 0

    async def invoke(self, event, *, seconds_max):
        self.asked += 1
        return {"statusCode": 200, "headers": {"access-control-allow-origin": "*"}, "body": "{}"}


def asked(method, headers, *, times=1, token=True, scopes=(), **changed):
    """The last answer of a gateway, and how often its functions were asked."""
    template = dataclasses.replace(read(ROOT / "template.yaml"), **changed)
    routes = tuple(dataclasses.replace(each, scopes=scopes) for each in template.routes)
    template = dataclasses.replace(template, routes=routes)
    functions = {name: Fake(each) for name, each in template.functions.items()}
    if token:
        given = ISSUER.token(
            actor="ann", role="viewer", tenant="default", now_seconds=int(time.time()), seconds=60
        )
        headers = {**headers, "authorization": f"Bearer {given}"}

    async def send():
        front = httpx.ASGITransport(Gateway(template, functions, ISSUER))
        async with httpx.AsyncClient(transport=front, base_url="http://127.0.0.1:8337") as http:
            for _ in range(times):
                reply = await http.request(method, "/v1/worlds", headers=headers)
            return reply

    reply = asyncio.run(send())
    return reply, sum(each.asked for each in functions.values())


def test_browser_that_asks_before_it_asks_is_answered_without_a_token_or_a_function():
    reply, calls = asked("OPTIONS", PREFLIGHT, token=False, cors=CORS)

    assert (reply.status_code, calls) == (204, 0)
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert reply.headers["access-control-allow-methods"] == "GET,POST"
    assert reply.headers["access-control-allow-headers"] == "authorization"
    assert reply.headers["access-control-max-age"] == "600"


def test_page_that_the_template_names_may_ask_and_is_told_so():
    reply, calls = asked("GET", {"origin": PAGE}, cors=CORS)

    assert (reply.status_code, calls) == (200, 1)
    assert reply.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("cors", [None, CORS, dataclasses.replace(CORS, origins=("*",))])
def test_other_page_reaches_no_function(cors):
    reply, calls = asked("GET", {"origin": "https://evil.example"}, cors=cors)

    assert (reply.status_code, calls) == (403, 0)


def test_function_does_not_say_which_pages_may_ask_where_the_template_does():
    reply, _ = asked("GET", {"origin": "http://localhost:3000"}, cors=CORS)

    assert reply.status_code == 200
    assert "access-control-allow-origin" not in reply.headers


def test_request_too_many_is_answered_by_the_stage():
    reply, calls = asked("GET", {}, times=3, throttle=Throttle(burst=2, rate=0.001))

    assert (reply.status_code, reply.json(), calls) == (429, {"message": "Too Many Requests"}, 2)


def test_bucket_fills_again_by_its_rate_and_no_higher_than_its_burst():
    seconds = [0.0]
    bucket = Bucket(Throttle(burst=2, rate=10), monotonic=lambda: seconds[0])

    def passed():
        return [bucket.refused() is None for _ in range(3)]

    assert passed() == [True, True, False]
    seconds[0] += 0.1
    assert passed() == [True, False, False]
    seconds[0] += 60
    assert passed() == [True, True, False]


def test_token_without_a_scope_that_the_route_asks_for_reaches_no_function():
    reply, calls = asked("GET", {}, scopes=("worlds.read",))

    assert (reply.status_code, calls) == (403, 0)


def test_request_for_a_queue_where_there_is_none_is_one_for_a_route():
    reply, calls = asked("POST", {"x-amz-target": "AmazonSQS.ListQueues"})

    assert (reply.status_code, calls) == (200, 1)
