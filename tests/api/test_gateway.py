"""Events: shaped as API Gateway shapes them, and read as they come."""

from __future__ import annotations

import base64

import pytest
from tests.api.rig import Context

from perdure.api.access import TRUSTED
from perdure.api.gateway import REPLY_BYTES_MAX, Answer, Request, http_event, spelled_path
from perdure.kernel.errors import InvalidJson, TooLarge

# As printed in "AWS Lambda proxy integrations for HTTP APIs", payload format version 2.0.
RECORDED = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/my/path",
    "rawQueryString": "parameter1=value1&parameter1=value2&parameter2=value",
    "cookies": ["cookie1", "cookie2"],
    "headers": {"header1": "value1", "header2": "value1,value2"},
    "queryStringParameters": {"parameter1": "value1,value2", "parameter2": "value"},
    "requestContext": {
        "accountId": "123456789012",
        "apiId": "api-id",
        "authentication": None,
        "authorizer": {"jwt": {"claims": {"claim1": "value1"}, "scopes": ["scope1", "scope2"]}},
        "domainName": "id.execute-api.us-east-1.amazonaws.com",
        "domainPrefix": "id",
        "http": {
            "method": "POST",
            "path": "/my/path",
            "protocol": "HTTP/1.1",
            "sourceIp": "192.0.2.1",
            "userAgent": "agent",
        },
        "requestId": "id",
        "routeKey": "$default",
        "stage": "$default",
        "time": "12/Mar/2020:19:03:58 +0000",
        "timeEpoch": 1583348638390,
    },
    "body": "Hello from Lambda",
    "pathParameters": {"parameter1": "value1"},
    "isBase64Encoded": False,
    "stageVariables": {"stageVariable1": "value1", "stageVariable2": "value2"},
}
ONLY_THERE = {"stageVariables"}
ONLY_IN_ITS_CONTEXT = {"authentication"}


def test_recorded_event_is_read():
    request = Request.of(RECORDED, Context(remaining_ms=9_000), TRUSTED)

    assert request.method == "POST"
    assert request.query == {"parameter1": "value1,value2", "parameter2": "value"}
    assert request.body == b"Hello from Lambda"
    assert request.remaining_ms == 9_000


def test_shaped_event_has_the_parts_of_a_recorded_one():
    shaped = http_event(
        "POST",
        "/my/path",
        query="parameter1=value1&parameter1=value2&parameter2=value",
        headers={
            "header1": "value1",
            "header2": "value1,value2",
            "cookie": "cookie1; cookie2",
            "content-type": "text/plain",
            "host": "id.execute-api.us-east-1.amazonaws.com",
        },
        body=b"Hello from Lambda",
        request_id="id",
        path_parameters={"parameter1": "value1"},
        at_ms=1583348638390,
        authorizer=RECORDED["requestContext"]["authorizer"],
    )

    assert shaped.keys() == RECORDED.keys() - ONLY_THERE
    for part in (
        "version",
        "routeKey",
        "rawPath",
        "rawQueryString",
        "cookies",
        "queryStringParameters",
        "pathParameters",
        "body",
        "isBase64Encoded",
    ):
        assert shaped[part] == RECORDED[part], part
    there, here = RECORDED["requestContext"], shaped["requestContext"]
    assert here.keys() == there.keys() - ONLY_IN_ITS_CONTEXT
    assert here["http"].keys() == there["http"].keys()
    assert here["time"] == "04/Mar/2020:19:03:58 +0000"


@pytest.mark.parametrize(
    ("content_type", "body", "is_base64"),
    [
        ("application/json", b"{}", False),
        ("application/json; charset=utf-8", b"{}", False),
        ("text/plain", b"{}", False),
        ("application/json", b"\xff", True),
        ("application/octet-stream", b"{}", True),
        ("application/x-www-form-urlencoded", b"{}", True),
        ("application/octet-stream", b"", False),
    ],
)
def test_body_travels_as_text_or_as_base64(content_type, body, is_base64):
    event = http_event(
        "POST", "/", headers={"content-type": content_type}, body=body, request_id="r"
    )

    assert event["isBase64Encoded"] == is_base64
    assert Request.of(event, Context(), TRUSTED).body == body


def test_body_that_claims_to_be_base64_and_is_not_is_refused():
    event = {**RECORDED, "body": "%%%", "isBase64Encoded": True}

    with pytest.raises(InvalidJson):
        Request.of(event, Context(), TRUSTED)


@pytest.mark.parametrize(
    ("raw", "spelled"),
    [
        ("/v1/worlds", "/v1/worlds"),
        ("/v1/a b", "/v1/a%20b"),
        ("/v1/a%20b", "/v1/a%20b"),
        ("/v1/ü", "/v1/%C3%BC"),
        ('/v1/"<#', "/v1/%22%3C%23"),
        ("/v1/a%2Fb", "/v1/a%2Fb"),
    ],
)
def test_path_is_spelled_in_one_way_whether_it_came_decoded_or_not(raw, spelled):
    assert spelled_path({"rawPath": raw}) == spelled


def test_answer_in_bytes_travels_in_base64():
    reply = Answer(200, b"\x00\xff", content_type="application/vnd.apache.arrow.stream").event()

    assert reply["isBase64Encoded"]
    assert base64.b64decode(reply["body"]) == b"\x00\xff"


def test_answer_larger_than_lambda_takes_is_refused():
    with pytest.raises(TooLarge, match="smaller limit"):
        Answer(200, b"x" * (REPLY_BYTES_MAX + 1)).event()
