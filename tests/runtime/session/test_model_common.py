"""What adapters share: ids that differ, arguments that are JSON, drafts that survive anything."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.kernel.canonical import canonical
from perdure.kernel.session.messages import AssistantMessage, ToolCall, UserMessage
from perdure.runtime.session import model_bedrock_wire, model_openai_wire
from perdure.runtime.session.model_attempts import Again
from perdure.runtime.session.model_common import (
    DEPTH_MAX,
    MESSAGE_BYTES_MAX,
    asked_call,
    depth_of,
    distinct,
    sent_id,
    sent_name,
    whole,
)
from perdure.runtime.session.ports import ModelRefused, ModelRequest

pytestmark = pytest.mark.sessions

MODEL = "model"
FEW = settings(max_examples=30, deadline=None)

plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
any_text = st.text(st.characters(), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_text, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
arguments = st.dictionaries(plain_text, json_values, max_size=3)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
calls = st.lists(st.tuples(names, arguments), max_size=4).map(
    lambda each: tuple(
        ToolCall(tool_call_id=f"id{index}", name=name, args=args)
        for index, (name, args) in enumerate(each)
    )
)
seeds = st.randoms(use_true_random=False)


def cut_up(spelled, chance):
    """Cut ``spelled`` at a few places, which may leave nothing between them."""
    places = sorted(chance.randint(0, len(spelled)) for _ in range(3))
    return [spelled[begin:end] for begin, end in pairwise([0, *places, len(spelled)])]


def call_of(id):
    return ToolCall(tool_call_id=id, name="add", args={})


@FEW
@given(st.lists(st.sampled_from(["", "a", "a#2", "call_1", "call_0", "\n", "x" * 200]), max_size=9))
def test_ids_differ_and_those_that_could_stay_stay(ids):
    made = [call.tool_call_id for call in distinct(map(call_of, ids))]

    assert len({*made}) == len(ids)
    kept = {id for id in ids if id and id.isprintable() and len(id) <= 128}
    for id in kept:
        assert made[ids.index(id)] == id


@FEW
@given(any_text | json_values.map(json.dumps))
def test_whatever_comes_as_arguments_is_a_call(spelled):
    call = asked_call("x", "add", spelled, is_whole=True)

    canonical(call.args).decode().encode()
    assert (call.malformed is None) or call.args == {}


@FEW
@given(any_text)
def test_names_and_ids_are_sent_as_every_provider_takes_them(text):
    for sent in (sent_name(text), sent_id(text) if text.isprintable() else "x"):
        assert 1 <= len(sent) <= 64
        assert sent.replace("_", "a").replace("-", "a").isalnum()
        assert sent.isascii()


def test_depth_is_told_up_to_one_beyond_the_bound():
    deep = value = []
    for _ in range(10_000):
        value.append([])
        value = value[0]

    assert (depth_of(1), depth_of({"a": [1]}), depth_of(deep)) == (0, 2, DEPTH_MAX + 1)


def test_a_message_may_be_large_and_not_larger():
    fits = AssistantMessage(text="x" * (MESSAGE_BYTES_MAX - 10))

    assert whole(fits) == fits
    with pytest.raises(ModelRefused):
        whole(AssistantMessage(text="x" * MESSAGE_BYTES_MAX))


@pytest.mark.parametrize("value", [float("nan"), object(), b"x"])
def test_a_message_that_no_json_holds_is_refused(value):
    with pytest.raises(ModelRefused):
        whole(AssistantMessage(extra={"a": value}))


@FEW
@given(plain_text, calls, seeds)
def test_a_message_of_chat_completions_is_the_same_however_it_is_cut(text, asked, chance):
    draft = model_openai_wire.Draft()
    deltas = [{"content": piece} for piece in cut_up(text, chance)]
    for index, call in enumerate(asked):
        head = {"index": index, "id": call.tool_call_id, "function": {"name": call.name}}
        tail = [
            {"index": index, "function": {"arguments": piece}}
            for piece in cut_up(json.dumps(call.args), chance)
        ]
        deltas += [{"tool_calls": [part]} for part in (head, *tail)]
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"finish_reason": "stop"}]})
    stream = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    lines = model_openai_wire.Lines()

    pieces = [draft.hear(data) for part in cut_up(stream, chance) for data in [*lines.take(part)]]

    assert "".join(pieces) == text
    stop = "tool_calls" if asked else "end"
    assert draft.reply().message == AssistantMessage(text=text, calls=asked, stop=stop)


@FEW
@given(plain_text, plain_text, calls, seeds)
def test_a_message_of_bedrock_is_the_same_however_it_is_cut(thought, text, asked, chance):
    draft = model_bedrock_wire.Draft(MODEL)
    for piece in cut_up(thought, chance):
        draft.hear(delta(0, reasoningContent={"text": piece}))
    for piece in cut_up(text, chance):
        draft.hear(delta(1, text=piece))
    for index, call in enumerate(asked, start=2):
        tool = {"toolUse": {"toolUseId": call.tool_call_id, "name": call.name}}
        draft.hear({"contentBlockStart": {"contentBlockIndex": index, "start": tool}})
        for piece in cut_up(json.dumps(call.args), chance):
            draft.hear(delta(index, toolUse={"input": piece}))
    draft.hear({"messageStop": {"stopReason": "tool_use"}})

    message = draft.reply().message

    assert (message.text, message.calls) == (text, asked)
    assert bool(message.extra) == bool(thought)
    (_, *spoken) = sent(UserMessage(text="go"), message) or [None]
    blocks = [block for turn in spoken for block in turn["content"]]
    thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
    assert thoughts == [{"reasoningText": {"text": thought}}] * bool(thought)
    assert [block["text"] for block in blocks if "text" in block] == [text] * bool(text.strip())
    assert [block["toolUse"]["input"] for block in blocks if "toolUse" in block] == [
        call.args for call in asked
    ]


def delta(index, **fields):
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": fields}}


def sent(*messages):
    request = ModelRequest(system="", messages=messages, tools=())
    return model_bedrock_wire.parameters(MODEL, request)["messages"]


KEYS = st.sampled_from(
    ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id",
     "index", "finish_reason", "usage", "prompt_tokens", "error", "refusal"]
)  # fmt: skip
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(odd)
def test_no_chunk_breaks_a_draft(value):
    draft = model_openai_wire.Draft()
    chunk = {"choices": [{"delta": value, "finish_reason": "stop"}]}

    for said in (value, chunk, {"choices": [{"message": value}]}, {"usage": value}):
        try:
            draft.hear(json.dumps(said).encode())
        except (Again, ModelRefused):
            continue

    if draft.is_whole:
        canonical(draft.reply().message.text)
