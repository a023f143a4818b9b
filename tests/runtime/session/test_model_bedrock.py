"""Bedrock through a real client of boto3: Converse, ConverseStream, and every attempt told."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading

import boto3
import pytest
from botocore.config import Config
from tests.runtime.session.asking import ADD, Pauses, asked, in_ms, means, measured, request_of
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
    AssistantMessage,
    ToolAnswer,
    ToolAnswers,
    ToolCall,
    Usage,
    UserMessage,
)
from perdure.runtime.session import model_bedrock
from perdure.runtime.session.model_bedrock import BedrockModel
from perdure.runtime.session.ports import ModelRefused, ModelUnavailable

pytestmark = pytest.mark.sessions

LONG = 60_000
MODEL = "anthropic.claude-x-v1:0"
GO = request_of(UserMessage(text="go"))
GO_WHOLE = request_of(UserMessage(text="go"), stream=False)
ONCE = {"mode": "standard", "total_max_attempts": 1}


@pytest.fixture(scope="module")
def provider():
    with serving() as provider:
        yield provider


def client_of(url, **config):
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="access-key",
        aws_secret_access_key="secret-key",
        config=Config(**{"retries": ONCE, "read_timeout": 5, **config}),
    )


@pytest.fixture(scope="module")
def client(provider):
    client = client_of(provider.url)
    yield client
    client.close()


@pytest.fixture
def model(client):
    return BedrockModel(client, MODEL, means())


def text(content, at=0):
    return ("contentBlockDelta", {"contentBlockIndex": at, "delta": {"text": content}})


def tool(id, name, at=0):
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return ("contentBlockStart", {"contentBlockIndex": at, "start": start})


def arguments(spelled, at=0):
    return (
        "contentBlockDelta",
        {"contentBlockIndex": at, "delta": {"toolUse": {"input": spelled}}},
    )


def reasoning(at=0, **delta):
    return ("contentBlockDelta", {"contentBlockIndex": at, "delta": {"reasoningContent": delta}})


def stop(reason="end_turn"):
    return ("messageStop", {"stopReason": reason})


START = ("messageStart", {"role": "assistant"})
USED = ("metadata", {"usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}})
FINE = events(START, text("he"), text("llo"), ("contentBlockStop", {}), stop(), USED)


def whole(*content, reason="end_turn", **more):
    message = {"role": "assistant", "content": list(content)}
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
    said = {"output": {"message": message}, "stopReason": reason, "usage": usage}
    return plain(said, **more)


def failure(status, code, message="no"):
    headers = {"x-amzn-ErrorType": code}
    return plain({"message": message}, status=status, headers=headers)


async def test_a_streamed_answer_is_told_in_pieces_and_returned_whole(provider, model):
    provider.will(FINE)
    listener = in_ms(LONG)

    reply = await asked(model, GO, listener)

    assert listener.pieces == ["he", "llo"]
    assert reply.message == AssistantMessage(text="hello")
    assert reply.usage == Usage(input_tokens=7, output_tokens=3)


async def test_an_answer_in_one_piece_is_asked_for(provider, model):
    provider.will(
        whole(
            {"text": "hello"},
            {"toolUse": {"toolUseId": "x", "name": "add", "input": {"a": 1}}},
            reason="tool_use",
        )
    )
    listener = in_ms(LONG)

    reply = await asked(model, GO_WHOLE, listener)

    assert (reply.message.text, listener.pieces) == ("hello", ["hello"])
    assert reply.message.calls == (ToolCall(tool_call_id="x", name="add", args={"a": 1}),)
    assert reply.usage == Usage(input_tokens=7, output_tokens=3)
    assert provider.heard[0].path.endswith("/converse")


@pytest.mark.parametrize(("request_", "answer"), [(GO, FINE), (GO_WHOLE, whole({"text": "x"}))])
async def test_an_attempt_is_told_with_what_went_over_the_wire(provider, model, request_, answer):
    provider.will(answer)
    listener = in_ms(LONG)

    await asked(model, request_, listener)

    (attempt,) = listener.attempts
    assert attempt.outcome == "completed"
    assert attempt.request == measured(provider.heard[0].body)
    assert attempt.response == measured(answer.body)
    assert (attempt.http_status, attempt.content_type) == (200, answer.content_type)


async def test_everything_of_a_step_is_sent_as_converse_takes_it(provider, model):
    provider.will(FINE)
    spoken = AssistantMessage(
        text=" ",
        calls=(
            ToolCall(tool_call_id="a", name="add", args={"a": 1}),
            ToolCall(tool_call_id="a#2", name="no such/tool", args={}, malformed="{"),
        ),
        stop="tool_calls",
    )
    answers = ToolAnswers(
        answers=(
            ToolAnswer(tool_call_id="a", name="add", output={"sum": 3}),
            ToolAnswer(tool_call_id="a#2", name="no such/tool", output="", is_error=True),
        )
    )
    request = request_of(
        UserMessage(text="go"),
        AssistantMessage(text=""),
        UserMessage(text="now"),
        spoken,
        answers,
        UserMessage(text=" "),
        system="Be brief.",
        tools=(ADD,),
        temperature=0.5,
        max_tokens=9,
        top_p=1,
        stop=["."],
        additional={"top_k": 4},
    )

    await asked(model, request)

    sent = provider.heard[0].json
    turns = sent["messages"]
    assert [each["role"] for each in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == [{"text": "go"}, {"text": "now"}]
    first, second = (block["toolUse"] for block in turns[1]["content"])
    assert first == {"toolUseId": "a", "name": "add", "input": {"a": 1}}
    assert (second["name"], second["input"]) == ("no_such_tool", {})
    *results, steered = turns[2]["content"]
    assert [each["toolResult"]["toolUseId"] for each in results] == ["a", second["toolUseId"]]
    assert [each["toolResult"]["status"] for each in results] == ["success", "error"]
    assert [each["toolResult"]["content"] for each in results] == [
        [{"text": '{"sum":3}'}],
        [{"text": '""'}],
    ]
    assert steered == {"text": "(no text)"}
    assert sent["system"] == [{"text": "Be brief."}]
    assert sent["inferenceConfig"] == {
        "temperature": 0.5, "maxTokens": 9, "topP": 1, "stopSequences": ["."],
    }  # fmt: skip
    assert sent["additionalModelRequestFields"] == {"top_k": 4}
    (spec,) = (each["toolSpec"] for each in sent["toolConfig"]["tools"])
    assert spec["name"] == "add"
    assert spec["inputSchema"] == {"json": dict(ADD.schema)}


async def test_calls_of_tools_that_are_no_longer_offered_can_still_be_told(provider, model):
    call = ToolCall(tool_call_id="a", name="add", args={})
    spoken = AssistantMessage(calls=(call,), stop="tool_calls")
    answers = ToolAnswers(answers=(ToolAnswer(tool_call_id="a", name="add", output=3),))
    provider.will(FINE)

    await asked(model, request_of(UserMessage(text="go"), spoken, answers))

    (spec,) = provider.heard[0].json["toolConfig"]["tools"]
    assert spec["toolSpec"]["name"] == "add"


async def test_calls_are_put_together_from_their_parts(provider, model):
    provider.will(
        events(
            START,
            text("hm"),
            tool("x", "add", at=1),
            arguments('{"a"', at=1),
            tool("x", "novel", at=2),
            arguments(": 1}", at=1),
            stop("tool_use"),
        )
    )

    message = (await asked(model, GO)).message

    assert (message.text, message.stop) == ("hm", "tool_calls")
    assert message.calls == (
        ToolCall(tool_call_id="x", name="add", args={"a": 1}),
        ToolCall(tool_call_id="x#2", name="novel", args={}),
    )


async def test_arguments_that_are_no_json_object_are_kept_as_they_came(provider, model):
    provider.will(events(tool("x", "add"), arguments('{"a": NaN}'), stop("tool_use")))
    streamed = (await asked(model, GO)).message.calls[0]
    body = json.dumps({"toolUse": {"toolUseId": "x", "name": "add", "input": {"a": 0}}})
    answer = whole(json.loads(body), reason="tool_use")
    provider.will(plain(answer.body.replace(b'{"a": 0}', b'{"a": NaN}')))

    at_once = (await asked(model, GO_WHOLE)).message.calls[0]

    assert (streamed.args, streamed.malformed) == ({}, '{"a": NaN}')
    assert at_once.args == {}
    assert at_once.malformed is not None


async def test_a_call_that_broke_off_before_its_arguments_is_not_one_without_any(provider, model):
    provider.will(events(tool("x", "add"), stop("max_tokens")))

    message = (await asked(model, GO)).message

    assert (message.stop, message.calls[0].malformed) == ("length", "(cut off)")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "refused"),
        ("content_filtered", "refused"),
        ("tool_use", "end"),
        ("novel", "end"),
    ],
)
async def test_a_reason_to_stop_has_one_word(provider, model, reason, word):
    provider.will(events(text("x"), stop(reason)))

    assert (await asked(model, GO)).message.stop == word


async def test_reasoning_is_sent_back_as_it_came_to_the_model_that_signed_it(provider, model):
    secret = b"\x00\xffsecret"
    provider.will(
        events(
            reasoning(text="hm"),
            reasoning(text="m"),
            reasoning(signature="signed"),
            text("I add.", at=1),
            reasoning(at=2, redactedContent=base64.b64encode(secret).decode()),
            tool("x", "add", at=3),
            arguments("{}", at=3),
            stop("tool_use"),
        ),
        FINE,
        FINE,
    )
    spoken = (await asked(model, GO)).message
    kept = AssistantMessage(
        text=spoken.text, calls=spoken.calls, extra=json.loads(json.dumps(spoken.extra))
    )
    answers = ToolAnswers(answers=(ToolAnswer(tool_call_id="x", name="add", output=3),))
    told = request_of(UserMessage(text="go"), kept, answers, tools=(ADD,))

    await asked(model, told)
    await asked(BedrockModel(model.client, "another", means()), told)

    content, stranger = (heard.json["messages"][1]["content"] for heard in provider.heard[1:])
    assert content[0]["reasoningContent"]["reasoningText"] == {
        "text": "hmm",
        "signature": "signed",
    }
    assert content[1] == {"text": "I add."}
    assert base64.b64decode(content[2]["reasoningContent"]["redactedContent"]) == secret
    assert content[3]["toolUse"]["toolUseId"] == "x"
    assert [*map(list, stranger)] == [["text"], ["toolUse"]]


async def test_reasoning_of_a_message_that_was_changed_is_left_out(provider, model):
    blocks = [{"reasoning": {"text": "hm"}}, {"text": 3}, {"call": 0}]
    changed = AssistantMessage(text="hello", extra={"bedrock": {"model": MODEL, "blocks": blocks}})
    provider.will(FINE)

    await asked(model, request_of(UserMessage(text="go"), changed, UserMessage(text="on")))

    assert provider.heard[0].json["messages"][1]["content"] == [{"text": "hello"}]


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
