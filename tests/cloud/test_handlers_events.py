"""Events: one that is not what its source sends is refused by a code, and Lambda knows of it."""

from __future__ import annotations

import base64
import json

import pytest
from tests.api.rig import SCHEDULED, bearer, spawn

from perdure.api.watch import InvocationFailed

pytestmark = pytest.mark.cloud

SECRET = "hunter2"  # what must never be seen
HTTP = {
    "http": {"method": "GET", "path": "/healthz"},
    "stage": "$default",
    "authorizer": bearer("viewer"),
}


async def work(ports, remaining_ms):
    return {"ticks": 0}


def http(**parts):
    event = {"rawPath": "/healthz", "headers": {}, "requestContext": HTTP, **parts}
    return {name: value for name, value in event.items() if value is not ...}


@pytest.mark.parametrize(
    "event",
    [
        None,
        7,
        SECRET,
        [SECRET],
        {},
        {"hello": SECRET},
        {"source": f"aws.{SECRET}"},
        {"Records": []},
        {"Records": SECRET},
        {"Records": [{"eventSource": "aws:sqs", "body": SECRET}]},
    ],
)
def test_event_of_an_unknown_source_fails_the_invocation_by_a_code(looked_on, event):
    looked = looked_on(scheduled=work)

    with pytest.raises(InvocationFailed) as failed:
        looked.gets(event)

    assert str(failed.value) == "malformed_event"
    assert looked.line()["code"] == "malformed_event"
    assert SECRET not in looked.told()[2]


def test_schedule_event_for_a_function_without_a_schedule_fails_by_a_code(api):
    with pytest.raises(InvocationFailed, match="malformed_event"):
        api.gets(SCHEDULED)


@pytest.mark.parametrize(
    "event",
    [
        {"requestContext": None},
        {"requestContext": SECRET},
        {"requestContext": {}},
        http(requestContext={**HTTP, "http": SECRET}),
        http(requestContext={**HTTP, "http": {"method": 7}}),
        http(requestContext={**HTTP, "stage": None}),
        http(rawPath=...),
        http(rawPath=7),
        http(headers=[SECRET]),
        http(headers={"accept": 7}),
        http(queryStringParameters=SECRET),
        http(queryStringParameters={"limit": [SECRET]}),
        http(body={"name": SECRET}),
        http(body=7),
        http(requestContext={**HTTP, "authorizer": SECRET}),
        http(requestContext={**HTTP, "authorizer": {"jwt": SECRET}}),
        http(requestContext={**HTTP, "authorizer": {"jwt": {"claims": [SECRET]}}}),
        http(
            requestContext={**HTTP, "authorizer": {"jwt": {"claims": {"sub": 7, "role": "admin"}}}}
        ),
        http(requestContext={**HTTP, "authorizer": {"iam": SECRET}}),
    ],
)
def test_malformed_http_event_is_answered_by_a_code(api, event):
    reply = api.gets(event)

    body = json.loads(reply["body"])
    assert (reply["statusCode"], body["code"]) == (400, "malformed_event")
    assert body["expected"]
    assert body["found"]
    assert SECRET not in json.dumps(reply)
    assert SECRET not in api.told()[2]


def test_event_with_empty_parts_is_as_good_as_one_without_them(api):
    reply = api.gets(http(headers=None, queryStringParameters=None, body=None))

    assert reply["statusCode"] == 200


def changes(api, event):
    before = dict(api.store._records)
    reply = api.gets(event)
    assert api.store._records == before
    return reply["statusCode"], json.loads(reply["body"])["code"]


def test_body_that_is_no_base64_is_refused_without_a_trace(api):
    event = api.event("POST", "/v1/worlds", {"name": "harbour"})

    told = changes(api, {**event, "body": "%%%", "isBase64Encoded": True})

    assert told == (400, "invalid_json")


@pytest.mark.parametrize("in_base64", [True, False])
def test_body_over_ten_megabytes_is_refused_without_a_trace(api, in_base64):
    event = api.event("POST", "/v1/worlds")
    body = "x" * 10_000_001
    if in_base64:
        body = base64.b64encode(body.encode()).decode()

    told = changes(api, {**event, "body": body, "isBase64Encoded": in_base64})

    assert told == (413, "too_large")


@pytest.mark.parametrize("field", ["tenant", "namespace", "storage", "actor", "role", "principal"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/worlds", {"name": "quay"}),
        ("/v1/worlds/harbour/commands", {"commands": [spawn()]}),
    ],
)
def test_body_cannot_say_whose_request_it_is(api, field, path, body):
    api.asks("POST", "/v1/worlds", {"name": "harbour", "world_id": "harbour"})

    told = changes(api, api.event("POST", path, {**body, field: "other"}))

    assert told == (400, "unknown_field")


@pytest.mark.parametrize("header", ["x-tenant", "x-perdure-tenant", "x-role", "x-actor"])
def test_header_cannot_say_whose_request_it_is(api, in_lambda, header):
    in_lambda.setenv("PERDURE_TENANT", "acme")
    event = api.event("GET", "/v1/worlds", authorizer=bearer("viewer", tenant="other"))
    event["headers"][header] = "acme" if "tenant" in header else "admin"

    assert changes(api, event) == (403, "not_permitted")


def test_role_without_the_right_is_refused_without_a_trace(api):
    event = api.event("POST", "/v1/worlds", {"name": "harbour"}, authorizer=bearer("player"))

    assert changes(api, event) == (403, "not_permitted")
    assert api.line()["code"] == "not_permitted"
