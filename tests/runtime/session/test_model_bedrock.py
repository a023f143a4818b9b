"""Bedrock through a real client of boto3: Converse, ConverseStream, and every attempt told."""

from __future__ import annotations

import base64
import json

import pytest
from tests.runtime.session.asking import ADD, asked, in_ms, means, measured, request_of
from tests.runtime.session.bedrock_words import (
    FINE,
    GO,
    GO_WHOLE,
    LONG,
    MODEL,
    START,
    arguments,
    client_of,
    reasoning,
    stop,
    text,
    tool,
    whole,
)
from tests.runtime.session.provider import (
    events,
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
from perdure.runtime.session.model_bedrock import BedrockModel

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


CALLED = AssistantMessage(
    text=" ",
    calls=(
        ToolCall(tool_call_id="a", name="add", args={"a": 1}),
        ToolCall(tool_call_id="a#2", name="no such/tool", args={}, malformed="{"),
    ),
    stop="tool_calls",
)
ANSWERED = ToolAnswers(
    answers=(
        ToolAnswer(tool_call_id="a", name="add", output={"sum": 3}),
        ToolAnswer(tool_call_id="a#2", name="no such/tool", output="", is_error=True),
    )
)


async def test_messages_are_sent_as_turns_that_alternate_and_are_never_empty(provider, model):
    said = (UserMessage(text="go"), AssistantMessage(text=""), UserMessage(text="now"))
    provider.will(FINE)

    await asked(model, request_of(*said, CALLED, ANSWERED, UserMessage(text=" "), tools=(ADD,)))

    turns = provider.heard[0].json["messages"]
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


async def test_all_that_an_agent_says_of_its_model_is_sent(provider, model):
    options = {"temperature": 0.5, "max_tokens": 9, "top_p": 1, "stop": ["."]}
    request = request_of(
        UserMessage(text="go"),
        system="Be brief.",
        tools=(ADD,),
        additional={"top_k": 4},
        **options,
    )
    provider.will(FINE)

    await asked(model, request)

    sent = provider.heard[0].json
    assert sent["system"] == [{"text": "Be brief."}]
    assert [*sent["inferenceConfig"].items()] == [
        ("maxTokens", 9),
        ("temperature", 0.5),
        ("topP", 1),
        ("stopSequences", ["."]),
    ]
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
