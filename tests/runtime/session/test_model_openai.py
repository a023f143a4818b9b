"""Chat completions over HTTP: what is sent, what is heard, and what every attempt is told as."""

from __future__ import annotations

import pytest
from tests.runtime.session.asking import ADD, asked, in_ms, measured, request_of
from tests.runtime.session.openai_words import FINE, GO, KEY, LONG, USED, end, model, part, text
from tests.runtime.session.provider import plain, serving, sse

from perdure.kernel.session.messages import (
    AssistantMessage,
    ToolAnswer,
    ToolAnswers,
    ToolCall,
    Usage,
    UserMessage,
)

pytestmark = pytest.mark.sessions


@pytest.fixture(scope="module")
def provider():
    with serving() as provider:
        yield provider


async def test_a_streamed_answer_is_told_in_pieces_and_returned_whole(provider):
    provider.will(FINE)
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert listener.pieces == ["he", "llo"]
    assert reply.message == AssistantMessage(text="hello")
    assert reply.usage == Usage(input_tokens=7, output_tokens=3)


async def test_an_attempt_is_told_with_what_went_over_the_wire(provider):
    provider.will(FINE)
    listener = in_ms(LONG)

    await asked(model(provider), GO, listener)

    (attempt,) = listener.attempts
    assert attempt.outcome == "completed"
    assert attempt.request == measured(provider.heard[0].body)
    assert attempt.response == measured(FINE.body)
    assert (attempt.http_status, attempt.content_type) == (200, "text/event-stream")


async def test_everything_of_a_step_is_sent_as_chat_completions_take_it(provider):
    provider.will(FINE)
    spoken = AssistantMessage(
        text="hm",
        calls=(
            ToolCall(tool_call_id="a", name="add", args={"a": 1}),
            ToolCall(tool_call_id="a#2", name="no such/tool", args={}, malformed="{"),
        ),
        stop="tool_calls",
    )
    answers = ToolAnswers(
        answers=(
            ToolAnswer(tool_call_id="a", name="add", output={"sum": 3}),
            ToolAnswer(tool_call_id="a#2", name="no such/tool", output="none", is_error=True),
        )
    )
    request = request_of(
        UserMessage(text="go"),
        spoken,
        answers,
        system="Be brief.",
        tools=(ADD,),
        temperature=0.5,
        max_tokens=9,
        additional={"top_k": 4, "model": "another"},
    )

    await asked(model(provider), request)

    (heard,) = provider.heard
    sent = heard.json
    assert heard.path == "/v1/chat/completions"
    assert heard.headers["authorization"] == f"Bearer {KEY}"
    assert [each["role"] for each in sent["messages"]] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip
    first, second = sent["messages"][2]["tool_calls"]
    assert first["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert second["function"] == {"name": "no_such_tool", "arguments": "{}"}
    assert [each["tool_call_id"] for each in sent["messages"][3:]] == [first["id"], second["id"]]
    assert [each["content"] for each in sent["messages"][3:]] == ['{"sum":3}', '{"error":"none"}']
    assert sent["tools"][0]["function"]["parameters"] == dict(ADD.schema)
    assert (sent["temperature"], sent["max_tokens"], sent["top_k"]) == (0.5, 9, 4)
    assert (sent["model"], sent["stream_options"]) == ("gpt-x", {"include_usage": True})


async def test_calls_are_put_together_from_their_parts(provider):
    provider.will(
        sse(
            part(index=0, id="x", function={"name": "add", "arguments": ""}),
            part(index=0, function={"arguments": '{"a"'}),
            part(index=1, id="y", function={"name": "add", "arguments": '{"a": [2]}'}),
            part(index=0, function={"arguments": ": 1}"}),
            end("tool_calls"),
        )
    )

    message = (await asked(model(provider), GO)).message

    assert message.stop == "tool_calls"
    assert message.calls == (
        ToolCall(tool_call_id="x", name="add", args={"a": 1}),
        ToolCall(tool_call_id="y", name="add", args={"a": [2]}),
    )


@pytest.mark.parametrize(
    "parts",
    [
        [{"index": 0, "id": "x"}, {"index": 0, "id": "y"}],
        [{"id": "x"}, {"id": "y"}],
        [{"index": 0, "id": "x"}, {"index": 1, "id": "y"}],
    ],
    ids=["one index for all", "no index", "an index each"],
)
async def test_calls_are_told_apart_however_a_server_counts_them(provider, parts):
    function = {"name": "add", "arguments": "{}"}
    provider.will(sse(*(part(**each, function=function) for each in parts), end("stop")))

    message = (await asked(model(provider), GO)).message

    assert [each.tool_call_id for each in message.calls] == ["x", "y"]
    assert message.stop == "tool_calls"


async def test_calls_without_ids_or_with_the_same_are_given_some(provider):
    function = {"name": "add", "arguments": "{}"}
    calls = [{"id": each, "function": function} for each in ("same", "same", None)]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    provider.will(plain({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))

    reply = await asked(model(provider), request_of(UserMessage(text="go"), stream=False))

    assert [each.tool_call_id for each in reply.message.calls] == ["same", "same#2", "call_2"]


@pytest.mark.parametrize(
    "spelled",
    ['{"a": 1', "[1]", '{"a": NaN}', '{"a": 1e999}', '{"a":' * 99 + "1" + "}" * 99, '"\\ud800"',
     '{"a": "\\ud800"}', "9" * 5_000],
    ids=["cut", "list", "nan", "infinite", "deep", "text", "half a character", "digits"],
)  # fmt: skip
async def test_arguments_that_are_no_json_object_are_kept_as_they_came(provider, spelled):
    provider.will(
        sse(
            part(index=0, id="x", function={"name": "add", "arguments": spelled}), end("tool_calls")
        )
    )

    (call,) = (await asked(model(provider), GO)).message.calls

    assert (call.args, call.malformed) == ({}, spelled[:2_000])


async def test_a_call_that_broke_off_before_its_arguments_is_not_one_without_any(provider):
    nameless = part(index=0, id="x", function={"name": "add"})
    provider.will(sse(nameless, end("length")), sse(nameless, end("tool_calls")))

    cut = (await asked(model(provider), GO)).message
    whole = (await asked(model(provider), GO)).message

    assert (cut.stop, cut.calls[0].malformed) == ("length", "(cut off)")
    assert (whole.stop, whole.calls[0].malformed) == ("tool_calls", None)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refused"), ("novel", "end")],
)
async def test_a_reason_to_stop_has_one_word(provider, reason, stop):
    provider.will(sse(text("x"), end(reason)))

    assert (await asked(model(provider), GO)).message.stop == stop


async def test_a_refusal_is_text_of_a_message_that_is_refused(provider):
    refusal = {"choices": [{"delta": {"refusal": "I will not."}}]}
    provider.will(sse(refusal, end("stop")))

    message = (await asked(model(provider), GO)).message

    assert (message.text, message.stop) == ("I will not.", "refused")


async def test_characters_that_came_in_halves_are_joined(provider):
    provider.will(
        sse(
            b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
            b'{"choices":[{"delta":{"content":"\\ude00"}}]}',
            end("stop"),
        )
    )
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert reply.message.text == "\N{GRINNING FACE}"
    "".join(listener.pieces).encode()


async def test_an_answer_in_one_piece_is_asked_for(provider):
    message = {"content": "hello", "tool_calls": None}
    choices = [{"message": message, "finish_reason": "stop"}]
    provider.will(plain({"choices": choices, "usage": USED["usage"]}))
    listener = in_ms(LONG)

    reply = await asked(model(provider), request_of(UserMessage(text="go"), stream=False), listener)

    assert (reply.message.text, listener.pieces) == ("hello", ["hello"])
    assert (provider.heard[0].json["stream"], reply.usage.input_tokens) == (False, 7)
