"""Bedrock that fails, breaks off, comes late or makes no sense: what is tried again."""

from __future__ import annotations

import asyncio
import struct
import threading

import pytest
from tests.runtime.session.asking import Pauses, asked, in_ms, means, measured, request_of
from tests.runtime.session.bedrock_words import (
    FINE,
    GO,
    GO_WHOLE,
    LONG,
    MODEL,
    START,
    client_of,
    failure,
    stop,
    text,
    whole,
)
from tests.runtime.session.provider import (
    EVENTS,
    NOTHING,
    Answer,
    events,
    framed,
    plain,
    serving,
)

from perdure.kernel.session.messages import (
    UserMessage,
)
from perdure.runtime.session import model_bedrock
from perdure.runtime.session.model_bedrock import BedrockModel
from perdure.runtime.session.ports import ModelRefused, ModelUnavailable

pytestmark = pytest.mark.sessions


@pytest.fixture(scope="module")
def provider():
    with serving() as provider:
        yield provider


@pytest.fixture(scope="module")
def client(provider):
    client = client_of(provider.url)
    yield client
    client.close()


@pytest.fixture
def model(client):
    return BedrockModel(client, MODEL, means())


@pytest.mark.parametrize(
    "first",
    [
        events(START, text("he")),
        events(START, text("he"), is_cut=True),
        Answer(parts=(*events(text("he")).parts, framed(*text("x"))[:-5]), content_type=EVENTS),
    ],
    ids=["ended", "connection lost", "within an event"],
)
async def test_an_answer_that_broke_off_is_no_message_and_is_asked_for_again(
    provider, model, first
):
    provider.will(first, FINE)
    listener = in_ms(LONG)

    reply = await asked(model, GO, listener)

    assert reply.message.text == "hello"
    assert listener.pieces == ["he", "he", "llo"]
    assert listener.outcomes == [(1, "cut", 200), (2, "completed", 200)]
    assert listener.attempts[0].response == measured(first.body)


async def test_half_of_an_answer_in_one_piece_is_no_message(provider, model):
    body = whole({"text": "hello"}).body
    provider.will(Answer(parts=(body[:-9],), length=len(body)), whole({"text": "hello"}))
    listener = in_ms(LONG)

    reply = await asked(model, GO_WHOLE, listener)

    assert reply.message.text == "hello"
    assert listener.outcomes == [(1, "cut", 200), (2, "completed", 200)]


async def test_a_connection_lost_after_the_reason_to_stop_costs_nothing(provider, model):
    provider.will(events(text("he"), stop(), is_cut=True))
    listener = in_ms(LONG)

    reply = await asked(model, GO, listener)

    assert reply.message.text == "he"
    assert listener.outcomes == [(1, "completed", 200)]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "ThrottlingException"),
        (429, "ModelNotReadyException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
@pytest.mark.parametrize("request_", [GO, GO_WHOLE], ids=["streamed", "whole"])
async def test_a_provider_that_cannot_now_is_asked_again(provider, model, request_, status, code):
    provider.will(failure(status, code), FINE if request_ is GO else whole({"text": "hello"}))
    listener = in_ms(LONG)

    await asked(model, request_, listener)

    assert listener.outcomes == [(1, "failed", status), (2, "completed", 200)]


@pytest.mark.parametrize(
    "code", ["throttlingException", "internalServerException", "modelStreamErrorException"]
)
async def test_an_answer_that_bedrock_ends_itself_is_asked_for_again(provider, model, code):
    ended = framed(code, {"message": "no"}, kind="exception")
    provider.will(Answer(parts=(framed(*text("he")), ended), content_type=EVENTS), FINE)
    listener = in_ms(LONG)

    reply = await asked(model, GO, listener)

    assert reply.message.text == "hello"
    assert listener.outcomes == [(1, "failed", 200), (2, "completed", 200)]


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
async def test_what_bedrock_calls_malformed_is_asked_for_again(provider, model, reason):
    provider.will(events(text("he"), stop(reason)), FINE)

    assert (await asked(model, GO)).message.text == "hello"


@pytest.mark.parametrize(
    "answer",
    [
        failure(400, "ValidationException", "user said secret-key"),
        failure(403, "AccessDeniedException", "arn:aws:sts::1:secret-key"),
        failure(404, "ResourceNotFoundException"),
        failure(307, "secret-key"),
        Answer(
            parts=(framed("validationException", {"message": "secret-key"}, kind="exception"),),
            content_type=EVENTS,
        ),
    ],
    ids=["validation", "access", "not found", "redirect", "in the stream"],
)
async def test_a_request_that_is_not_taken_is_not_sent_again(provider, model, answer):
    provider.will(answer, FINE)
    listener = in_ms(LONG)

    with pytest.raises(ModelRefused) as caught:
        await asked(model, GO, listener)

    assert listener.outcomes == [(1, "failed", answer.status)]
    assert "secret" not in str(caught.value)


async def test_a_request_that_converse_cannot_spell_is_never_sent(provider, model):
    provider.will(FINE)
    listener = in_ms(LONG)

    for request in (request_of(UserMessage(text="go"), stop=[1]), request_of(no_such=1)):
        with pytest.raises(ModelRefused):
            await asked(model, request, listener)

    assert (provider.heard, listener.attempts) == ([], [])


async def test_no_answer_at_all_is_a_failed_attempt_and_there_are_only_so_many(provider, client):
    provider.will(*[NOTHING] * 4)
    listener, pauses = in_ms(LONG), Pauses()

    with pytest.raises(ModelUnavailable):
        await asked(BedrockModel(client, MODEL, means(pauses)), GO, listener)

    assert listener.outcomes == [(number, "failed", None) for number in (1, 2, 3, 4)]
    assert pauses.seconds == [0.25, 0.5, 1.0]
    assert len(provider.heard) == 4


async def test_a_provider_that_falls_silent_is_asked_again(provider):
    impatient = client_of(provider.url, read_timeout=0.7)
    provider.will(events(text("he"), hangs=True), Answer(status=200, hangs=True), FINE)
    listener = in_ms(LONG)

    reply = await asked(BedrockModel(impatient, MODEL, means()), GO, listener)
    impatient.close()

    assert reply.message.text == "hello"
    assert listener.outcomes == [(1, "cut", 200), (2, "cut", 200), (3, "completed", 200)]


async def test_a_deadline_ends_an_answer_that_does_not_end(provider, model):
    provider.will(events(text("he"), hangs=True))
    listener = in_ms(1_500)

    with pytest.raises(ModelUnavailable):
        await asked(model, GO, listener)
    provider.over.set()

    assert listener.outcomes == [(1, "cut", 200)]


async def test_a_cancelled_step_is_told_of_and_says_nothing_more(provider, model):
    provider.will(events(text("he"), hangs=True))
    listener = in_ms(LONG)
    step = asyncio.create_task(asked(model, GO, listener))
    await listener.told(1)

    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    provider.over.set()
    await threads_over()

    assert listener.outcomes == [(1, "cancelled", 200)]
    assert listener.pieces == ["he"]


async def test_a_step_that_was_cancelled_before_its_request_left_sends_none(provider):
    slow = client_of(provider.url)
    reached, released = threading.Event(), threading.Event()
    slow.meta.events.register(
        "before-call.bedrock-runtime", lambda **_: (reached.set(), released.wait(10), None)[2]
    )
    provider.will(FINE)
    listener = in_ms(LONG)
    step = asyncio.create_task(asked(BedrockModel(slow, MODEL, means()), GO, listener))
    await asyncio.to_thread(reached.wait, 10)

    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    released.set()
    await threads_over()
    slow.close()

    assert (provider.heard, listener.attempts) == ([], [])


async def threads_over():
    """Wait for attempts that were given up."""
    for thread in threading.enumerate():
        if thread.name == "perdure-bedrock":
            await asyncio.to_thread(thread.join, 10)


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"[" * 100_000),
        plain(b"<html>"),
        plain(b"\xff\xfe"),
        plain({"output": {}}),
        plain({"output": {"message": {"content": [{"toolUse": "x"}]}}}),
        plain({"output": {"message": {"content": [{"text": 1}]}}, "stopReason": "end_turn"}),
        plain({"output": {"message": {"content": "x"}}, "stopReason": "end_turn"}),
        plain({"output": {"message": {"content": [{"text": "x"}]}}}),
    ],
    ids=range(8),
)
async def test_an_answer_that_makes_no_sense_is_a_failed_attempt(provider, model, answer):
    provider.will(answer, whole({"text": "hello"}))
    listener = in_ms(LONG)

    reply = await asked(model, GO_WHOLE, listener)

    assert reply.message.text == "hello"
    assert listener.outcomes == [(1, "failed", 200), (2, "completed", 200)]


@pytest.mark.parametrize(
    "part",
    [
        b"no frame at all, and that for long enough",
        framed(*text("x"))[:-4] + b"\0\0\0\0",
        struct.pack("!II", 2**31, 0) + b"\0" * 40,
        framed("contentBlockDelta", b"{"),
        framed("messageStop", b"{"),
        framed("contentBlockDelta", b"[" * 50_000),
        framed("contentBlockDelta", {"delta": {"text": 5}}),
        framed("contentBlockStart", {"contentBlockIndex": "x", "start": {"toolUse": "y"}}),
    ],
    ids=range(8),
)
async def test_an_event_that_makes_no_sense_ends_an_attempt(provider, model, part):
    provider.will(Answer(parts=(framed(*text("he")), part), content_type=EVENTS), FINE)
    listener = in_ms(LONG)

    reply = await asked(model, GO, listener)

    assert reply.message.text == "hello"
    assert [each.outcome for each in listener.attempts][1:] == ["completed"]
    assert listener.attempts[0].outcome == "failed"


async def test_a_message_that_is_too_large_is_refused(provider, model):
    provider.will(events(*[text("x" * 1_000_000)] * 5, stop()), FINE)
    listener = in_ms(LONG)

    with pytest.raises(ModelRefused):
        await asked(model, GO, listener)

    assert listener.outcomes == [(1, "failed", 200)]


async def test_an_answer_is_read_only_so_far(provider, model, monkeypatch):
    monkeypatch.setattr(model_bedrock, "BODY_BYTES_MAX", 1_000)
    provider.will(events(*[text("x" * 500)] * 9, stop()))
    listener = in_ms(LONG)

    with pytest.raises(ModelRefused):
        await asked(model, GO, listener)

    (attempt,) = listener.attempts
    assert attempt.response_body_cap == attempt.response.bytes > 1_000


async def test_many_steps_at_once_are_told_apart(provider, client):
    provider.will(*[events(text("x"), stop())] * 8)
    listeners = [in_ms(LONG) for _ in range(8)]

    await asyncio.gather(
        *(
            asked(
                BedrockModel(client, f"model-{index}", means()),
                request_of(UserMessage(text="x" * index + "y")),
                listener,
            )
            for index, listener in enumerate(listeners)
        )
    )

    told = {listener.attempts[0].request for listener in listeners}
    assert told == {measured(heard.body) for heard in provider.heard}
    assert len(told) == 8


def test_a_client_that_tries_again_by_itself_is_not_taken():
    with pytest.raises(ValueError, match="does not try again"):
        BedrockModel(client_of("http://127.0.0.1:1", retries={}), MODEL, means())
