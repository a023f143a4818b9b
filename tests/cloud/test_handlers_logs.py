"""Logs: one line an event says what happened to it, and none says what it held."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import traceback

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tests.api.rig import SCHEDULED, bearer, spawn

from perdure.api.invocation import correlation_of, correlation_of_message
from perdure.api.watch import InvocationFailed
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.cloud

SECRET = "hunter2hunter2"  # what must never be seen
HARBOUR = {"name": "harbour", "world_id": "harbour"}


def test_request_is_told_in_one_line_with_operation_status_world_and_who(api):
    api.asks("POST", "/v1/worlds", HARBOUR)
    api.told()

    api.asks("GET", "/v1/worlds/harbour", authorizer=bearer("viewer", "ann"))

    line = api.line()
    assert line["level"] == "INFO"
    assert line["service"] == "api"
    assert (line["operation"], line["status"], line["world_id"]) == (
        "get_world_info",
        200,
        "harbour",
    )
    assert (line["actor"], line["role"]) == ("ann", "viewer")
    assert (line["request"], line["correlation"]) == ("request-1", "gateway-1")
    assert line["ms"] > 0
    assert "code" not in line


def test_first_event_of_a_process_alone_is_told_as_a_cold_start(api):
    api.asks("GET", "/healthz")
    first = api.line()

    api.asks("GET", "/healthz")

    assert (first["cold_start"], api.line()["cold_start"]) == (True, False)


def test_refusal_is_told_with_its_code(api):
    api.asks("GET", "/v1/worlds/nowhere")

    line = api.line()
    assert (line["status"], line["code"], line["world_id"]) == (404, "not_found", "nowhere")


def test_outside_lambda_requests_are_not_told(api, in_lambda):
    in_lambda.delenv("AWS_LAMBDA_FUNCTION_NAME")

    api.asks("GET", "/healthz")

    assert api.told()[:2] == ([], [])


@pytest.mark.parametrize("variable", ["POWERTOOLS_LOG_LEVEL", "LOG_LEVEL"])
def test_level_of_the_log_is_that_of_the_environment(api, in_lambda, variable):
    in_lambda.setenv(variable, "ERROR")

    api.asks("GET", "/healthz")

    assert api.told()[0] == []


@pytest.mark.parametrize("variable", ["POWERTOOLS_LOG_LEVEL", "LOG_LEVEL"])
def test_level_that_is_none_makes_no_event_fail(api, in_lambda, variable):
    in_lambda.setenv(variable, "LOUD")

    reply = api.asks("GET", "/healthz")

    assert reply["statusCode"] == 200
    assert api.line()["level"] == "INFO"


def test_functions_of_one_process_tell_each_under_its_own_name(looked_on, in_lambda):
    api = looked_on()
    api.asks("GET", "/healthz")
    in_lambda.setenv("POWERTOOLS_SERVICE_NAME", "tick")
    tick = looked_on()
    tick.asks("GET", "/healthz")
    api.told()

    api.asks("GET", "/healthz")
    first = api.line()["service"]
    tick.asks("GET", "/healthz")

    assert (first, tick.line()["service"]) == ("api", "tick")


def test_debugging_may_be_told_of_a_sample_of_the_events(api, in_lambda):
    in_lambda.setenv("POWERTOOLS_LOGGER_SAMPLE_RATE", "1")

    api.asks("GET", "/healthz")
    logging.getLogger("perdure.runtime.tick").debug("seen")

    assert "seen" in [line["message"] for line in api.told()[0]]


def test_lines_of_the_floors_below_carry_the_correlation_id_of_what_they_were_done_for(looked_on):
    async def work(ports, remaining_ms):
        logging.getLogger("perdure.runtime.tick").warning("hook %s failed", "PreTick")
        return {"ticks": 0}

    looked = looked_on(scheduled=work)

    looked.gets(SCHEDULED)

    hook, done = looked.told()[0]
    assert hook["message"] == "hook PreTick failed"
    assert hook["correlation"] == done["correlation"] == SCHEDULED["id"]


def test_correlation_id_of_the_caller_goes_through_to_log_reply_and_problem(api):
    reply = api.asks("GET", "/v1/worlds/nowhere", x_correlation_id="day-17")

    assert api.line()["correlation"] == "day-17"
    assert reply["headers"]["x-correlation-id"] == "day-17"
    assert json.loads(reply["body"])["instance"] == "urn:perdure:correlation:day-17"


@pytest.mark.parametrize(
    "said", ["", "two words", "x" * 65, 'a"b', "a\nb", "ü", "<script>", "a/../b", "\x00"]
)
def test_correlation_id_of_another_shape_is_replaced_by_the_id_of_the_request(api, said):
    reply = api.asks("GET", "/healthz", x_correlation_id=said)

    assert reply["headers"]["x-correlation-id"] == "gateway-1"
    assert api.line()["correlation"] == "gateway-1"


MESSAGE = {"messageId": "m-1", "body": "{}", "messageAttributes": {}}
SENT = {"correlation": {"stringValue": "c-1", "dataType": "String"}}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({**MESSAGE, "messageAttributes": SENT}, "c-1"),
        (MESSAGE, "m-1"),
        ({**MESSAGE, "messageAttributes": {"correlation": {"stringValue": "no good"}}}, "m-1"),
        ({"messageAttributes": "none"}, "r-1"),
        ("garbage", "r-1"),
    ],
)
def test_message_has_the_correlation_id_of_what_sent_it_or_its_own(record, expected):
    assert correlation_of_message(record, "r-1") == expected
    assert correlation_of({"Records": [record]}, "r-1") == expected


@pytest.mark.parametrize(
    "event", [None, 7, [], {}, {"Records": 7}, {"Records": []}, {"requestContext": 7}, {"id": 7}]
)
def test_event_without_any_id_has_that_of_its_invocation(event):
    assert correlation_of(event, "r-1") == "r-1"


def planted():
    """Events with the secret in every place that a caller can fill."""
    commands = {
        "batch_id": f"batch-{SECRET}",
        "commands": [
            spawn(command_id=SECRET),
            {"operation": "spawn", "components": {"Crew": {"size": 1, "captain": SECRET}}},
        ],
    }
    claims = bearer("admin", "ann", email=SECRET, tenant="default", jti=SECRET)
    sent = ("POST", "/v1/worlds/harbour/commands")
    yield "values", (*sent, commands), {"authorizer": claims}
    yield "wrong values", (*sent, {"commands": [spawn(tick=SECRET)]}), {}
    yield "unknown fields", (*sent, {"commands": [], SECRET: SECRET}), {}
    yield "a name", ("POST", "/v1/worlds", {"name": SECRET, "kind": SECRET}), {}
    yield "a name of no shape", ("POST", "/v1/worlds", {"name": f"{SECRET}/"}), {}
    yield "a query", ("GET", "/v1/worlds"), {"query": f"next={SECRET}&{SECRET}=1"}
    yield "a path", ("GET", f"/v1/{SECRET}"), {}
    yield "a command id", ("GET", f"/v1/worlds/harbour/commands/{SECRET}"), {}
    yield (
        "headers",
        ("GET", "/healthz"),
        {
            "authorization": f"Bearer {SECRET}",
            "cookie": SECRET,
            "user_agent": SECRET,
            "x_correlation_id": f"{SECRET} {SECRET}",
            "idempotency_key": SECRET,
        },
    )
    yield "a role", ("GET", "/healthz"), {"authorizer": bearer(SECRET)}
    yield (
        "a subject of no shape",
        ("GET", "/healthz"),
        {"authorizer": bearer("admin", f"{SECRET}/")},
    )


@pytest.mark.parametrize(
    ("asked", "options"), [each[1:] for each in planted()], ids=[each[0] for each in planted()]
)
def test_nothing_that_a_caller_sent_is_told(api, in_lambda, asked, options):
    in_lambda.setenv("POWERTOOLS_LOG_LEVEL", "DEBUG")
    api.asks("POST", "/v1/worlds", HARBOUR)

    api.asks(*asked, **options)

    lines, _, printed = api.told()
    assert len(lines) >= 2
    assert SECRET not in printed
    assert base64.b64encode(SECRET.encode()).decode()[:12] not in printed


def broken(*_):
    raise ValueError(f"cannot read {SECRET}")


def test_error_that_nobody_foresaw_is_told_by_kind_and_place_without_its_text(api, in_lambda):
    api.asks("GET", "/healthz")
    in_lambda.setattr("perdure.runtime.worlds.Worlds.describe", broken)

    reply = api.asks("GET", "/v1/worlds/harbour")

    lines, _, printed = api.told()
    (error,) = [line for line in lines if line["level"] == "ERROR"]
    assert (reply["statusCode"], json.loads(reply["body"])["code"]) == (500, "internal")
    assert error["kind"] == "builtins.ValueError"
    assert error["where"][-1].endswith(" broken")
    assert error["correlation"] == "gateway-1"
    assert SECRET not in printed
    assert SECRET not in json.dumps(reply)


def test_error_logged_with_its_traceback_below_is_told_without_its_text(looked_on):
    async def work(ports, remaining_ms):
        try:
            broken()
        except ValueError:
            logging.getLogger("perdure.runtime.tick").exception("a tick failed")
        return {}

    looked = looked_on(scheduled=work)

    looked.gets(SCHEDULED)

    lines, _, printed = looked.told()
    assert lines[0]["message"] == "a tick failed"
    assert lines[0]["kind"] == "builtins.ValueError"
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError(SECRET), "internal"),
        (StoreUnavailable(expected="an answer", found=SECRET), "store_unavailable"),
    ],
)
def test_failure_of_what_nobody_waits_for_reaches_lambda_as_a_code_and_nothing_more(
    looked_on, error, code
):
    async def work(ports, remaining_ms):
        raise error

    looked = looked_on(scheduled=work)

    with pytest.raises(InvocationFailed) as failed:
        looked.gets({**SCHEDULED, "detail": SECRET})

    printed = "".join(traceback.format_exception(failed.value))
    assert str(failed.value) == code
    assert SECRET not in printed
    assert SECRET not in looked.told()[2]


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError(f"no room at {SECRET}")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


def denied():
    """Fail as a store does that AWS denies something."""
    said = {"Error": {"Code": "AccessDenied", "Message": SECRET}}
    error = ClientError(said, "PutObject")
    raise StoreUnavailable(expected="to put", found=str(error)) from error


def test_what_aws_has_refused_is_told_by_the_code_of_aws(looked_on):
    async def work(ports, remaining_ms):
        denied()

    looked = looked_on(scheduled=work)

    with pytest.raises(InvocationFailed):
        looked.gets(SCHEDULED)

    lines, _, printed = looked.told()
    assert (lines[-1]["code"], lines[-1]["cause"]) == ("store_unavailable", "AccessDenied")
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        (EndpointConnectionError(endpoint_url=SECRET), "EndpointConnectionError"),
        (full_disk(), "SQLITE_FULL"),
    ],
)
def test_what_kept_a_store_from_answering_is_told_by_its_name(looked_on, cause, named):
    async def work(ports, remaining_ms):
        raise StoreUnavailable(expected="an answer", found=str(cause)) from cause

    looked = looked_on(scheduled=work)

    with pytest.raises(InvocationFailed):
        looked.gets(SCHEDULED)

    lines, _, printed = looked.told()
    assert lines[-1]["cause"] == named
    assert SECRET not in printed


def test_refusal_that_is_not_of_a_store_has_no_cause(api):
    api.asks("GET", "/v1/worlds/nowhere")

    line = api.line()
    assert line["code"] == "not_found"
    assert "cause" not in line
