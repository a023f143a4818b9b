"""Events as AWS sends them, to the very handler files: a request, a schedule, a batch of a real queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tests.api.rig import Context, spawn
from tests.api.test_functions import Functions, environment  # noqa: F401  # a fixture

from perdure.authority import system
from perdure.kernel.ids import Instant

pytestmark = pytest.mark.cloud

ACCOUNT, REGION = "123456789012", "eu-central-1"
ROLE = "cognito:groups"


@dataclass
class Deployed:
    """Handler files on a local storage, and a queue that moto keeps in this process."""

    functions: Functions
    sqs: Any
    url: str

    def asks(self, function: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        reply = self.functions.module(function).handler(
            request(method, path, body), Context(remaining_ms=15_000)
        )
        return reply["statusCode"], json.loads(reply["body"])

    def published(self) -> int | None:
        status, told = self.asks("api", "GET", "/v1/worlds/h")
        assert status == 200, told
        return told["published_tick"]

    def received(self) -> dict[str, Any] | None:
        """Take what the queue hands out, as an event; None if that is nothing."""
        taken = self.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        return {"Records": [as_record(each, self.url) for each in taken]} if taken else None

    def tick(self, event: Any) -> Any:
        return self.functions.module("tick").handler(event, Context(remaining_ms=60_000))


HOST = "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"
HEADERS = {
    "accept": "*/*",
    "authorization": "Bearer eyJraWQiOiJ0ZXN0In0.e30.c2lnbmF0dXJl",
    "content-type": "application/json",
    "host": HOST,
    "user-agent": "curl/8.5.0",
    "x-amzn-trace-id": "Root=1-6748f5c2-3c9e0f0a5f1e4d2b7a6c8d90",
    "x-forwarded-for": "192.0.2.1",
    "x-forwarded-port": "443",
    "x-forwarded-proto": "https",
}
CLAIMS = {
    "auth_time": "1732834754",
    "client_id": "4g2m5h0example",
    "cognito:groups": "[viewer admin]",
    "exp": "1732838354",
    "iat": "1732834754",
    "iss": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Example",
    "jti": "5b0f9d5e-0d5b-4c62-a0c5-d9a7d4f6f0d1",
    "sub": "e3a4d862-40b1-70d7-7fb1-3d1a1c0c1e22",
    "token_use": "access",
    "username": "ann",
}


def request(method: str, path: str, body: Any) -> dict[str, Any]:
    """Shape a request as an HTTP API with a JWT authorizer does.

    Source: API Gateway developer guide, "Create AWS Lambda proxy integrations for HTTP APIs",
    format 2.0, and "Control access to HTTP APIs with JWT authorizers": every claim is text, a
    list is "[a b]".
    """
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": HEADERS,
        "requestContext": context(method, path),
        "isBase64Encoded": False,
    }
    return event if body is None else {**event, "body": json.dumps(body)}


def context(method: str, path: str) -> dict[str, Any]:
    """Shape what API Gateway knows of a request."""
    return {
        "accountId": ACCOUNT,
        "apiId": "a1b2c3d4e5",
        "authorizer": {"jwt": {"claims": CLAIMS, "scopes": None}},
        "domainName": HOST,
        "domainPrefix": "a1b2c3d4e5",
        "http": {
            "method": method,
            "path": path,
            "protocol": "HTTP/1.1",
            "sourceIp": "192.0.2.1",
            "userAgent": "curl/8.5.0",
        },
        "requestId": "BvK4ohRAliAEJ9w=",
        "routeKey": f"{method} {path}",
        "stage": "$default",
        "time": "28/Nov/2024:22:59:14 +0000",
        "timeEpoch": 1732834754123,
    }


def as_record(message: dict[str, Any], url: str) -> dict[str, Any]:
    """Shape a received message as Lambda's event source does.

    Source: Lambda developer guide, "Using Lambda with Amazon SQS", FIFO queue message event.
    """
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rpartition('/')[2]}",
        "awsRegion": REGION,
    }


@pytest.fixture
def deployed(environment, tmp_path) -> Iterator[Deployed]:  # noqa: F811
    (tmp_path / "default").mkdir()
    variables = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "PERDURE_STORAGE": tmp_path.as_uri(),
        "PERDURE_ROLE_CLAIM": ROLE,
    }
    for name, value in variables.items():
        environment.setenv(name, value)
    with mock_aws():
        sqs = boto3.client("sqs")
        attributes = {"FifoQueue": "true", "VisibilityTimeout": "720"}
        url = sqs.create_queue(QueueName="stack-ticks.fifo", Attributes=attributes)["QueueUrl"]
        environment.setenv("PERDURE_TICKS", url)
        made = Deployed(Functions(), sqs, url)
        yield made
        made.functions.close()
        sqs.close()


class Clock:
    """Stands still until a minute passes."""

    def __init__(self) -> None:
        self.now = system.now()

    def minute(self) -> None:
        self.now = Instant(self.now + 60_000)


@pytest.fixture
def clock(environment) -> Clock:  # noqa: F811
    clock = Clock()
    environment.setattr(system, "now", lambda: clock.now)
    return clock


def test_a_due_world_goes_from_the_schedule_through_the_queue_to_a_landed_row(deployed, clock):
    world = {"name": "harbour", "world_id": "h", "every": "1m"}
    made, _ = deployed.asks("api", "POST", "/v1/worlds", world)
    sent, _ = deployed.asks("api", "POST", "/v1/worlds/h/commands", {"commands": [spawn()]})
    clock.minute()

    dispatched = [deployed.functions.scheduled("dispatch") for _ in range(2)]
    event = deployed.received()
    replies = [deployed.tick(event) for _ in range(2)]
    landed = deployed.functions.scheduled("land")

    assert (made, sent) == (201, 202)
    assert [each["due"] for each in dispatched] == [1, 1]
    assert len(event["Records"]) == 1
    assert replies == [{"batchItemFailures": []}] * 2
    assert deployed.published() == 0
    assert (landed["rows"], landed["files"]) == (1, 1)


def test_a_poison_message_is_reported_hidden_for_a_while_and_keeps_no_other_world(deployed, clock):
    deployed.asks("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h", "every": "1m"})
    clock.minute()
    deployed.sqs.send_message(
        QueueUrl=deployed.url,
        MessageBody="poison",
        MessageGroupId="nobody",
        MessageDeduplicationId="once",
    )
    deployed.functions.scheduled("dispatch")
    event = deployed.received()
    bodies = {each["body"]: each["messageId"] for each in event["Records"]}

    reply = deployed.tick(event)

    assert len(bodies) == 2
    assert reply == {"batchItemFailures": [{"itemIdentifier": bodies["poison"]}]}
    assert deployed.published() == 0
    assert deployed.received() is None


def test_a_message_that_comes_before_its_time_is_put_back_until_then(deployed, clock):
    deployed.asks("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h", "every": "2m"})
    deployed.sqs.send_message(
        QueueUrl=deployed.url,
        MessageBody=json.dumps({"world": "h", "serves": clock.now + 120_000}),
        MessageGroupId="h",
        MessageDeduplicationId="early",
    )
    event = deployed.received()

    early = deployed.tick(event)
    clock.minute()
    clock.minute()
    then = deployed.tick(event)

    (record,) = event["Records"]
    assert early == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    assert (then, deployed.published()) == ({"batchItemFailures": []}, 0)
