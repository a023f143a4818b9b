"""Lambda functions as tools, through boto3 and a server that speaks Invoke, or dies."""

from __future__ import annotations

import asyncio
import json
import socket

import boto3
import pytest
from botocore.config import Config
from tests.support.dying import Dying, answering, dying
from tests.support.tooling import KEY, Clock, request, spec

from perdure.api.wiring_tools_aws import lambda_client
from perdure.kernel.errors import Invalid
from perdure.runtime.session.ports import Completed, NotSent, OutcomeNotKnown
from perdure.runtime.session.resolve import resolve
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX
from perdure.runtime.session.tool_lambda import LambdaTool

pytestmark = pytest.mark.sessions

BODY = b'{"moved":true}'
OK = answering("200 OK", BODY)
DONE = Completed({"moved": True})
DEATHS = ("closes", "resets")
SECRETS = {
    "aws_access_key_id": "x",
    "aws_secret_access_key": "x",
    "region_name": "eu-central-1",
}


class Invoked:
    """A tool whose function lives at a server; its client keeps connections, as a warm one does."""

    def __init__(self, url, timeout_ms=60_000):
        self.attempts = []
        client = lambda_client(timeout_ms, endpoint_url=url, **SECRETS)
        client.meta.events.register(
            "request-created.lambda.Invoke", lambda **_: self.attempts.append(1)
        )
        self.tool = LambdaTool(spec(timeout_ms=timeout_ms), client, "mover")

    async def call(self):
        return await self.tool.call(request(to="north"))


async def said(answer, **more):
    async with dying(Dying(answer, **more)) as server:
        invoked = Invoked(server.url)
        outcome = await invoked.call()
    assert (len(server.seen), server.requests) == (1, 1)
    assert invoked.attempts == [1]
    return outcome


def refused(status, code):
    return answering(f"{status} No", b'{"Message":"no"}', f"x-amzn-ErrorType: {code}")


async def test_a_call_is_one_invoke_that_waits_and_bears_the_key():
    async with dying(Dying(OK)) as server:
        outcome = await Invoked(server.url).call()

    head, _, body = bytes(server.seen[0]).partition(b"\r\n\r\n")
    assert outcome == DONE
    assert head.startswith(b"POST /2015-03-31/functions/mover/invocations HTTP/1.1")
    assert b"x-amz-invocation-type: requestresponse" in head.lower()
    assert json.loads(body) == {"call_key": KEY, "name": "move", "args": {"to": "north"}}


async def test_a_client_that_repeats_by_itself_is_refused():
    for retries in ({}, {"max_attempts": 1}, {"total_max_attempts": 2}, {"mode": "standard"}):
        client = boto3.client("lambda", config=Config(retries=retries), **SECRETS)
        with pytest.raises(Invalid, match="one attempt"):
            LambdaTool(spec(), client, "mover")


async def test_what_the_environment_says_of_attempts_changes_nothing(monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")

    outcome = await said(refused(500, "ServiceException"))

    assert isinstance(outcome, OutcomeNotKnown)


async def dies_reading(counts, death):
    async with dying(Dying(OK, death=death)) as server:
        invoked = Invoked(server.url)
        for number, server.reads in enumerate(counts, start=1):
            outcome = await invoked.call()

            was_reset_at_once = server.reads == 0 and death == "resets"
            assert isinstance(outcome, OutcomeNotKnown) or was_reset_at_once, server.reads
            assert len(server.seen) == len(invoked.attempts) == number


async def dies_answering(answer, counts, death):
    async with dying(Dying(answer, death=death)) as server:
        invoked = Invoked(server.url)
        for number, server.says in enumerate(counts, start=1):
            outcome = await invoked.call()

            # urllib3 does not wait for the line breaks after the last chunk, "0".
            has_body = server.says >= len(answer) - (4 if b"chunked" in answer else 0)
            is_unknown = isinstance(outcome, OutcomeNotKnown)
            assert is_unknown or (has_body and outcome == DONE), (server.says, outcome)
            assert not is_unknown or server.says < len(answer) or death == "resets"
            assert len(server.seen) == server.requests == len(invoked.attempts) == number


@pytest.mark.parametrize("death", DEATHS)
async def test_who_dies_under_an_invoke_may_have_done_it(death):
    await dies_reading((0, 1, 200), death)
    await dies_answering(OK, (0, 15, len(OK) - len(BODY), len(OK) - 1, len(OK)), death)


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
async def test_who_dies_under_an_invoke_may_have_done_it_at_every_byte(death):
    await dies_reading(range(await length_of_an_invoke() + 1), death)
    for framing in ("length", "chunks"):
        answer = answering("200 OK", BODY, framing=framing)
        await dies_answering(answer, range(len(answer) + 1), death)


async def length_of_an_invoke():
    async with dying(Dying(OK)) as server:
        await Invoked(server.url).call()
    return len(server.seen[0])


async def test_an_error_that_breaks_off_after_its_status_and_hides_its_header_is_no_success():
    answer = answering("200 OK", BODY, "X-Amz-Function-Error: Unhandled")

    await dies_answering(answer, range(20, answer.index(b"\r\n\r\n"), 9), "closes")


async def test_a_refusal_that_breaks_off_before_its_code_is_no_refusal():
    answer = refused(429, "TooManyRequestsException")

    await dies_answering(answer, (20, answer.index(b"Exception")), "closes")


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (429, "TooManyRequestsException", "throttled"),
        (403, "AccessDeniedException", "access_denied"),
        (404, "ResourceNotFoundException", "request_refused"),
        (400, "InvalidParameterValueException", "request_refused"),
        (413, "RequestTooLargeException", "request_refused"),
        (403, "UnrecognizedClientException", "unauthenticated"),
        (409, "ResourceConflictException", "not_ready"),
    ],
)
async def test_what_lambda_refuses_before_a_handler_ran_was_not_sent(status, error, code):
    outcome = await said(refused(status, error))

    assert isinstance(outcome, NotSent)
    assert outcome.code == code


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, "ServiceException"),
        (502, "ResourceNotReadyException"),
        (503, "ServiceUnavailable"),
        (504, "GatewayTimeout"),
        (500, "TooManyRequestsException"),
        (408, "EFSMountTimeoutException"),
        (410, "EFSIOException"),
        (418, "Unheard"),
    ],
)
async def test_what_lambda_says_of_its_own_trouble_proves_nothing(status, error):
    assert isinstance(await said(refused(status, error)), OutcomeNotKnown)


async def test_a_function_that_threw_did_answer():
    told = b'{"errorMessage":"no","errorType":"ValueError"}'

    outcome = await said(answering("200 OK", told, "X-Amz-Function-Error: Unhandled"))

    assert outcome == Completed(json.loads(told), is_error=True)


async def test_an_answer_is_kept_only_if_it_is_json_and_not_too_large():
    other = await said(answering("200 OK", b"<html>"))
    large = await said(answering("200 OK", b" " * (OUTPUT_BYTES_MAX + 1)))

    assert other.output["error"] == "tool_output_invalid"
    assert large.output["error"] == "tool_output_too_large"
    assert await said(answering("200 OK", b"null")) == Completed(None)


async def test_an_answer_without_a_length_or_of_another_status_proves_nothing():
    unframed = answering("200 OK", b"1", framing="connection")
    for answer in (unframed, answering("202 Accepted", BODY), answering("200 OK")):
        assert isinstance(await said(answer), OutcomeNotKnown)


async def test_nobody_listens_and_nothing_was_sent():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    outcome = await Invoked(f"http://127.0.0.1:{port}").call()

    assert isinstance(outcome, NotSent)
    assert outcome.code == "endpoint_connection_error"


@pytest.mark.parametrize("death", DEATHS)
async def test_a_proxy_that_dies_with_the_request_may_have_passed_it_on(monkeypatch, death):
    clock = Clock()
    async with dying(Dying(b"", death=death)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        tool = Invoked("http://lambda.invalid").tool
        outcome = await resolve(tool, request(to="north"), now=clock.now, pause=asyncio.sleep)

    assert isinstance(outcome, OutcomeNotKnown)
    assert proxy.requests == 1


async def test_who_never_answers_may_have_done_it():
    for timeout_ms in (300, 3_000, 30_000):  # a busy machine may not come to ask in the first
        async with dying(Dying(b"", death="stays")) as server:
            outcome = await Invoked(server.url, timeout_ms=timeout_ms).call()
        if server.requests:
            break

    assert isinstance(outcome, OutcomeNotKnown)
    assert server.requests == 1


async def test_a_warm_connection_that_dies_under_a_call_is_not_tried_again():
    answers = iter([OK])

    async with dying(Dying(lambda _: next(answers, b""))) as server:
        invoked = Invoked(server.url)
        first = await invoked.call()
        await asyncio.sleep(0.05)
        second = await invoked.call()

    assert first == DONE
    assert isinstance(second, OutcomeNotKnown)
    assert server.requests == len(invoked.attempts) == 2
