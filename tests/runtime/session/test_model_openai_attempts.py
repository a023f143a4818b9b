"""Chat completions that fail, break off, come late or make no sense: what is tried again."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate

import pytest
from tests.runtime.session.asking import Pauses, asked, in_ms, means, measured, request_of
from tests.runtime.session.openai_words import FINE, GO, KEY, LONG, end, model, part, text
from tests.runtime.session.provider import NOTHING, Answer, plain, serving, sse

from perdure.authority import system
from perdure.kernel.session.messages import (
    Usage,
)
from perdure.runtime.session import model_openai
from perdure.runtime.session.model_openai import OpenAiModel, retry_after_ms
from perdure.runtime.session.ports import ModelRefused, ModelUnavailable

pytestmark = pytest.mark.sessions


@pytest.fixture(scope="module")
def provider():
    with serving() as provider:
        yield provider


@pytest.mark.parametrize(
    "first",
    [
        sse(text("he"), done=False),
        sse(text("he"), done=False, is_cut=True),
        sse(text("he"), done=True),
    ],
    ids=["ended", "connection lost", "done without a reason"],
)
async def test_an_answer_that_broke_off_is_no_message_and_is_asked_for_again(provider, first):
    provider.will(first, FINE)
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert reply.message.text == "hello"
    assert listener.pieces == ["he", "he", "llo"]
    assert listener.outcomes == [(1, "cut", 200), (2, "completed", 200)]
    assert listener.attempts[0].response == measured(first.body)


async def test_a_connection_lost_after_the_reason_to_stop_costs_nothing(provider):
    provider.will(sse(text("he"), end("stop"), done=False, is_cut=True))
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert reply.message.text == "he"
    assert listener.outcomes == [(1, "completed", 200)]


@pytest.mark.parametrize("first", [
    sse(text("he", finish_reason=""), done=False, is_cut=True),
    plain({"choices": [{"index": 0, "message": {"content": "he"}, "finish_reason": ""}]}),
])  # fmt: skip
async def test_an_empty_reason_to_stop_is_none(provider, first):
    provider.will(first, FINE)
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert reply.message.text == "hello"
    assert [each.outcome for each in listener.attempts][1:] == ["completed"]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_a_provider_that_cannot_now_is_asked_again(provider, status):
    provider.will(plain({"error": {"message": "later"}}, status=status), FINE)
    listener = in_ms(LONG)

    await asked(model(provider), GO, listener)

    assert listener.outcomes == [(1, "failed", status), (2, "completed", 200)]


async def test_no_answer_at_all_is_a_failed_attempt(provider):
    provider.will(NOTHING, FINE)
    listener = in_ms(LONG)

    await asked(model(provider), GO, listener)

    assert listener.outcomes == [(1, "failed", None), (2, "completed", 200)]
    assert listener.attempts[0].response is None


async def test_a_provider_is_asked_only_so_often(provider):
    provider.will(*[plain({}, status=503)] * 4, FINE)
    listener, pauses = in_ms(LONG), Pauses()

    with pytest.raises(ModelUnavailable) as caught:
        await asked(model(provider, pauses=pauses), GO, listener)

    assert [each.outcome for each in listener.attempts] == ["failed"] * 4
    assert pauses.seconds == [0.25, 0.5, 1.0]
    assert "status 503" in caught.value.found


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_request_that_is_not_taken_is_not_sent_again(provider, status):
    provider.will(plain({"error": {"message": f"bad key {KEY}"}}, status=status), FINE)
    listener = in_ms(LONG)

    with pytest.raises(ModelRefused) as caught:
        await asked(model(provider), GO, listener)

    assert listener.outcomes == [(1, "failed", status)]
    assert KEY not in str(caught.value)


async def test_a_redirect_is_never_followed(provider):
    elsewhere = {"Location": f"{provider.url}/v1/elsewhere"}
    provider.will(plain({}, status=307, headers=elsewhere), FINE)

    with pytest.raises(ModelRefused):
        await asked(model(provider), GO)

    assert len(provider.heard) == 1


async def test_a_provider_that_asks_for_time_gets_it(provider):
    provider.will(plain({}, status=429, headers={"Retry-After": "7"}), FINE)
    pauses = Pauses()

    await asked(model(provider, pauses=pauses), GO, in_ms(LONG))

    assert pauses.seconds == [7.25]


async def test_nobody_waits_beyond_the_deadline(provider):
    provider.will(plain({}, status=429, headers={"Retry-After": "3600"}), FINE)
    pauses, listener = Pauses(), in_ms(LONG)

    with pytest.raises(ModelUnavailable):
        await asked(model(provider, pauses=pauses), GO, listener)

    assert pauses.seconds == []
    assert listener.outcomes == [(1, "failed", 429)]


@pytest.mark.parametrize(
    ("said", "wait_ms"),
    [("2", 2_000), (formatdate(1_000_003, usegmt=True), 3_000), (formatdate(1), 0), ("nan", 0),
     ("-1", 0), ("soon", 0), ("", 0), ("9" * 30, 86_400_000)],
)  # fmt: skip
def test_a_wish_for_time_is_read_as_seconds_or_as_a_date(said, wait_ms):
    assert retry_after_ms(said, 1_000_000_000) == wait_ms


@pytest.mark.parametrize("answer", [
    sse(text("he"), done=False, hangs=True),
    Answer(hangs=True),
])  # fmt: skip
async def test_a_deadline_ends_an_answer_that_does_not_end(provider, answer):
    provider.will(answer)
    listener = in_ms(1_500)

    with pytest.raises(ModelUnavailable):
        await asked(model(provider), GO, listener)

    assert listener.outcomes == [(1, "cut", 200)]


async def test_no_request_is_sent_after_the_deadline(provider):
    provider.will(FINE)

    with pytest.raises(ModelUnavailable):
        await asked(model(provider), GO, in_ms(0))

    assert provider.heard == []


async def test_a_cancelled_step_is_told_of_and_over_at_once(provider):
    provider.will(sse(text("he"), done=False, hangs=True))
    listener = in_ms(LONG)
    step = asyncio.create_task(asked(model(provider), GO, listener))
    await listener.told(1)

    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step

    assert listener.outcomes == [(1, "cancelled", 200)]


@pytest.mark.parametrize(
    "answer",
    [
        plain(b'{"choices": NaN}'),
        plain(b"[" * 100_000),
        plain(b'{"choices": [{"index": 1e999}]}'),
        plain(b"<html>"),
        plain(b"\xff\xfe"),
        plain([]),
        plain({"choices": "x"}),
        plain({"choices": [{"message": {"content": {"a": 1}}}]}),
        plain({"choices": [{"message": {"tool_calls": [{"function": "x"}]}}]}),
        plain({"choices": [{"message": {"tool_calls": [{"id": {}, "function": {}}]}}]}),
        plain({"choices": [{"delta": {"content": 1}}], "usage": "x"}),
        plain({"choices": [{"message": {"tool_calls": [{"function": {"name": {"a": 1}}}]}}]}),
        sse(part(index=0, id="x", function={"name": ["add"]}), end("stop")),
        sse(b"{"),
        sse({"error": {"type": "server_error", "message": "x"}}),
    ],
    ids=range(15),
)
async def test_an_answer_that_makes_no_sense_is_a_failed_attempt(provider, answer):
    provider.will(answer, FINE)
    listener = in_ms(LONG)

    reply = await asked(model(provider), GO, listener)

    assert reply.message.text == "hello"
    assert listener.outcomes == [(1, "failed", 200), (2, "completed", 200)]


@pytest.mark.parametrize("count", [-1, 2**53, True, "7", 1.5, None])
async def test_tokens_that_are_no_count_are_none(provider, count):
    provider.will(sse(text("x"), end("stop"), {"choices": [], "usage": {"prompt_tokens": count}}))

    assert (await asked(model(provider), GO)).usage == Usage()


async def test_a_message_that_is_too_large_is_refused(provider):
    piece = "x" * 1_000_000
    provider.will(sse(*[text(piece)] * 5, end("stop")), FINE)
    listener = in_ms(LONG)

    with pytest.raises(ModelRefused):
        await asked(model(provider), GO, listener)

    assert listener.outcomes == [(1, "failed", 200)]
    assert len(listener.pieces) == 4


async def test_an_answer_is_read_only_so_far(provider, monkeypatch):
    monkeypatch.setattr(model_openai, "BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr(model_openai, "ERROR_BYTES_MAX", 1_000)
    comment = b": " + b"x" * 2_000 + b"\n"
    endless = Answer(parts=(comment, comment), content_type="text/event-stream", hangs=True)
    error = Answer(parts=(comment, comment), status=400, hangs=True)

    caps = []
    for answer in (endless, error):
        provider.will(answer)
        listener = in_ms(LONG)
        with pytest.raises(ModelRefused):
            await asked(model(provider), GO, listener)
        caps.append((listener.attempts[0].response_body_cap, listener.attempts[0].response.bytes))

    assert all(cap == read and cap > 1_000 for cap, read in caps)


async def test_an_option_that_nobody_knows_is_refused_before_anything_is_sent(provider):
    provider.will(FINE)

    for options in ({"temprature": 1}, {"temperature": True}, {"temperature": float("nan")}):
        with pytest.raises(ModelRefused):
            await asked(model(provider), request_of(**options))

    assert provider.heard == []


@pytest.mark.parametrize("key", ["sk-\nsecret", "sk-é-secret"])
async def test_a_key_that_no_header_holds_is_refused_and_not_repeated(provider, key):
    with pytest.raises(ModelRefused) as caught:
        await asked(model(provider, key=key), GO, in_ms(LONG))

    assert "secret" not in str(caught.value)


async def test_an_answer_that_is_compressed_unasked_is_refused(provider):
    provider.will(plain({}, headers={"Content-Encoding": "gzip"}))

    with pytest.raises(ModelRefused):
        await asked(model(provider), GO)


async def test_events_are_read_wherever_the_network_cuts_them(provider):
    body = (
        b": a comment\r\nevent: x\r\ndata: "
        + json.dumps(text("h\N{LATIN SMALL LETTER E WITH ACUTE}")).encode()
        + b"\r\n\r\ndata:"
        + json.dumps(end("stop")).encode()
        + b"\n\n"
    )
    answer = Answer(
        parts=tuple(body[index : index + 1] for index in range(len(body))),
        content_type="text/event-stream; charset=utf-8",
    )
    provider.will(answer)

    assert (await asked(model(provider), GO)).message.text == "hé"


async def test_a_server_that_is_not_there_is_unavailable(provider):
    nowhere = OpenAiModel(
        url="http://127.0.0.1:1/v1",
        model_name="x",
        key=model(provider).key,
        clients=model(provider).clients,
        means=means(),
    )
    listener = in_ms(LONG)

    with pytest.raises(ModelUnavailable):
        await asked(nowhere, GO, listener)

    assert listener.outcomes == [(number, "failed", None) for number in (1, 2, 3, 4)]
    assert all(each.ts_ms <= system.now() for each in listener.attempts)
