"""The function `sessions`: what is sent is a message, what a message names is gone on with."""

from __future__ import annotations

import json
import os

import pytest
from tests.api.rig import SCHEDULED, Context
from tests.api.test_functions import Functions
from tests.support.queue import PaperQueue, record

from perdure.api import wiring_queue
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.sessions

NAME = "Sessions.fifo"
ARN = f"arn:aws:sqs:eu-central-1:123456789012:{NAME}"
TALK = "/v1/sessions/t"


@pytest.fixture
def talks(monkeypatch, tmp_path):
    """Functions with a queue of sessions, and a session ``t``."""
    for name in [name for name in os.environ if name.startswith(("PERDURE_", "AWS_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "default").mkdir()
    monkeypatch.setenv("PERDURE_APP", "tests.support.talking:app")
    monkeypatch.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    functions = Functions(PaperQueue(NAME))
    monkeypatch.setattr(wiring_queue, "opened", lambda _: PaperQueue())
    monkeypatch.setattr(wiring_queue, "opened_for_sessions", lambda _: functions.queue)
    functions.http("sessions", "POST", "/v1/sessions", {"agent": "pilot", "session_id": "t"})
    yield functions
    functions.close()


def handed_out(functions, **more):
    """Hand out what was sent, and return which messages are to come again."""
    taken, functions.queue.sent = functions.queue.sent, []
    records = [record(each.body, group=each.group, arn=ARN, **more) for each in taken]
    event, context = {"Records": records}, Context(remaining_ms=60_000)
    return functions.module("sessions").handler(event, context)["batchItemFailures"]


def state(functions):
    return functions.http("sessions", "GET", TALK)


def test_what_is_sent_becomes_a_message_by_which_it_is_gone_on_with(talks):
    talks.http("sessions", "POST", f"{TALK}/send", {"input": "hello", "send_id": "a"})
    (message,) = talks.queue.sent
    failed = handed_out(talks)
    again = talks.http("sessions", "POST", f"{TALK}/send", {"input": "hello", "send_id": "a"})

    assert json.loads(message.body) == {"session": "t"}
    assert message.group.startswith("s/")
    assert failed == []
    assert (again["state"], again["reason"]) == ("finished", "completed")
    assert state(talks)["fence_held_until"] is None
    assert talks.queue.sent == []


def test_message_that_was_lost_is_made_good_by_the_next_dispatch(talks):
    talks.queue.failure = StoreUnavailable(expected="a queue", found="none")
    sent = talks.http("sessions", "POST", f"{TALK}/send", {"input": "hello"})
    talks.queue.failure = None

    found = talks.module("dispatch").handler(SCHEDULED, Context(remaining_ms=60_000))
    failed = handed_out(talks)
    later = talks.module("dispatch").handler(SCHEDULED, Context(remaining_ms=60_000))

    assert sent["state"] == "active"
    assert (found["sessions"], later["sessions"]) == (1, 0)
    assert failed == []
    assert state(talks)["run_state"] == "idle"


def test_run_goes_on_where_it_waited_for_a_word(talks):
    talks.http("sessions", "POST", f"{TALK}/send", {"input": "launch"})
    handed_out(talks)
    (call,) = state(talks)["waiting_calls"]
    paused = talks.module("dispatch").handler(SCHEDULED, Context(remaining_ms=60_000))
    path = f"{TALK}/approvals/{call['call_key']}"
    talks.http("sessions", "POST", path, {"decision": "approved"})
    messages = len(talks.queue.sent)
    handed_out(talks)

    assert paused["sessions"] == 0
    assert messages == 1
    assert state(talks)["run_state"] == "idle"
    page = talks.http("sessions", "GET", f"{TALK}/transcript")
    assert [each["type"] for each in page["frames"]].count("tool_dispatch_intent") == 1


def test_message_that_makes_no_sense_comes_again_and_is_not_served(talks):
    records = [
        record(body, group=f"s/{body}", arn=ARN)
        for body in ("{", '{"world":"t"}', '{"session":"t","hint":"0001/x/y"}')
    ]
    handler = talks.module("sessions").handler
    reply = handler({"Records": records}, Context(remaining_ms=60_000))

    assert len(reply["batchItemFailures"]) == 3


def test_message_for_a_session_that_is_gone_is_done_with(talks):
    reply = talks.module("sessions").handler(
        {"Records": [record('{"session":"nowhere"}', arn=ARN)]}, Context(remaining_ms=60_000)
    )

    assert reply["batchItemFailures"] == []
