"""Tools behind HTTP: what was not sent, what may have happened, and what did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import httpcore
import pytest
from tests.support.dying import Dying, answering, dying, is_whole
from tests.support.tooling import KEY, Clock, request, spec

from perdure.kernel.errors import Invalid
from perdure.runtime.session.ports import Completed, NotSent, OutcomeNotKnown
from perdure.runtime.session.resolve import resolve
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX
from perdure.runtime.session.tool_http import HttpTool

pytestmark = pytest.mark.sessions

BODY = b'{"moved":true}'
OK = answering("200 OK", BODY)
DONE = Completed({"moved": True})
FRAMINGS = ("length", "chunks", "connection")
DEATHS = ("closes", "resets")


async def called(url, *, timeout_ms=60_000, args=None, **more):
    tool = HttpTool(spec(timeout_ms=timeout_ms), f"{url}/tools/move", **more)
    return await tool.call(request(**(args or {"to": "north"})))


async def said(answer, **more):
    """Return the outcome of a call that is answered so."""
    async with dying(Dying(answer)) as server:
        outcome = await called(server.url, **more)
    assert server.requests == 1
    return outcome


async def a_request():
    """Return the bytes of one whole request."""
    async with dying(Dying(OK)) as server:
        await called(server.url)
    return bytes(server.seen[0])


def some(length, count=9):
    """Return boundaries: both ends and a few between."""
    return sorted({0, 1, 2, length - 1, *range(0, length, max(length // count, 1))})


async def test_a_call_is_one_post_that_bears_its_key():
    seen = await a_request()

    head, _, body = seen.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /tools/move HTTP/1.1"
    assert f"idempotency-key: {KEY}" in lines
    assert json.loads(body) == {"call_key": KEY, "name": "move", "args": {"to": "north"}}
    assert is_whole(seen)
    assert not is_whole(seen[:-1])


async def dies_reading(count, death):
    async with dying(Dying(OK, reads=count, death=death)) as server:
        outcome = await called(server.url)
        await asyncio.sleep(0)
    was_reset_at_once = count == 0 and death == "resets"
    assert isinstance(outcome, OutcomeNotKnown) or was_reset_at_once, (count, outcome)
    assert len(server.seen) == 1
    assert server.requests <= 1


@pytest.mark.parametrize("death", DEATHS)
async def test_who_dies_while_it_reads_may_have_done_it(death):
    length = len(await a_request())

    for count in [*some(length), length]:
        await dies_reading(count, death)


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
async def test_who_dies_while_it_reads_may_have_done_it_at_every_byte(death):
    length = len(await a_request())

    for count in range(length + 1):
        await dies_reading(count, death)


async def dies_answering(answer, count, death):
    async with dying(Dying(answer, says=count, death=death)) as server:
        outcome = await called(server.url)
    assert (len(server.seen), server.requests) == (1, 1)
    if count < len(answer) or death == "resets":
        is_unknown = isinstance(outcome, OutcomeNotKnown)
        assert is_unknown or (count == len(answer) and outcome == DONE), (count, outcome)
    else:
        assert outcome == DONE


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_who_dies_while_it_answers_may_have_done_it(framing, death):
    answer = answering("200 OK", BODY, framing=framing)

    for count in [*some(len(answer), 6), len(answer)]:
        await dies_answering(answer, count, death)


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_who_dies_while_it_answers_may_have_done_it_at_every_byte(framing, death):
    answer = answering("200 OK", BODY, framing=framing)

    for count in range(len(answer) + 1):
        await dies_answering(answer, count, death)


@pytest.mark.parametrize("status", ["401 Unauthorized", "429 Too Many", "404 Not Found"])
async def test_a_refusal_that_breaks_off_is_no_refusal(status):
    answer = answering(status, BODY)

    for count in [20, len(answer) - len(BODY), len(answer) - 1]:
        async with dying(Dying(answer, says=count)) as server:
            assert isinstance(await called(server.url), OutcomeNotKnown)


@pytest.mark.parametrize("body", [b"12", b"-1.5", b"", b'{"a"', b"tru"])
async def test_a_body_without_a_length_that_may_be_a_beginning_proves_nothing(body):
    outcome = await said(answering("200 OK", body, framing="connection"))

    assert outcome.code == "answer_broken"


@pytest.mark.parametrize("body", [b"true", b"null", b'"a"', b"[1]"])
async def test_a_body_without_a_length_that_is_whole_json_is_an_answer(body):
    outcome = await said(answering("200 OK", body, framing="connection"))

    assert outcome == Completed(json.loads(body))


async def test_nobody_listens_and_nothing_was_sent():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    outcome = await called(f"http://127.0.0.1:{port}")

    assert isinstance(outcome, NotSent)
    assert outcome.code == "connect_failed"


async def test_a_name_that_nobody_knows_was_sent_nothing(monkeypatch):
    async def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)

    outcome = await called("http://nowhere.example")

    assert isinstance(outcome, NotSent)


async def test_who_takes_no_connection_in_time_was_sent_nothing():
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003
            waiting.connect_ex(full.getsockname())

        outcome = await called(f"http://127.0.0.1:{full.getsockname()[1]}", timeout_ms=150)

    assert isinstance(outcome, NotSent)
    assert outcome.code == "connect_timeout"


async def test_who_never_answers_may_have_done_it():
    for timeout_ms in (100, 3_000, 30_000):  # a busy machine may not come to ask in the first
        async with dying(Dying(b"", death="stays")) as server:
            outcome = await called(server.url, timeout_ms=timeout_ms)
        if server.requests:
            break

    assert outcome.code == "timeout"
    assert isinstance(outcome, OutcomeNotKnown)
    assert server.requests == 1


async def test_a_header_that_is_none_is_never_sent():
    async with dying(Dying(OK)) as server:
        outcome = await called(server.url, headers={"x-secret": "a\r\nb: c"})

    assert isinstance(outcome, NotSent)
    assert [bytes(each) for each in server.seen] == [b""]


async def test_who_breaks_a_write_may_have_taken_a_part_of_it(monkeypatch):
    async def broken(*_arguments, **_more):
        raise httpcore.WriteError("half of it is gone")

    async with dying(Dying(b"")) as server:
        monkeypatch.setattr("httpcore._backends.anyio.AnyIOStream.write", broken)
        outcome = await called(server.url, timeout_ms=2_000)

    assert isinstance(outcome, OutcomeNotKnown)


@pytest.mark.parametrize("key", ["s3cret\n", "s3cret\0", "s3crét"])
async def test_a_key_that_no_header_holds_is_told_to_nobody(key):
    async with dying(Dying(OK)) as server:
        outcome = await called(server.url, headers={"authorization": f"Bearer {key}"})

    assert isinstance(outcome, NotSent)
    assert "s3cr" not in outcome.detail


def test_a_password_in_an_address_is_refused_and_told_to_nobody():
    for url in ("https://ann:s3cret@tools.invalid/", "https://ann:s3cret@[::1"):
        with pytest.raises(Invalid) as refused:
            HttpTool(spec(), url)
        assert "s3cret" not in str(refused.value)


async def test_each_call_has_a_connection_of_its_own():
    async with dying(Dying(OK, death="stays")) as server:
        outcomes = [await called(server.url) for _ in range(3)]

    assert outcomes == [DONE] * 3
    assert [bytes(each).count(b"POST ") for each in server.seen] == [1, 1, 1]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("401 Unauthorized", "unauthenticated"),
        ("403 Forbidden", "access_denied"),
        ("425 Too Early", "too_early"),
        ("429 Too Many Requests", "throttled"),
        ("307 Temporary Redirect", "redirected"),
        ("308 Permanent Redirect", "redirected"),
    ],
)
async def test_who_refuses_before_a_handler_ran_was_sent_nothing(status, code):
    outcome = await said(answering(status, BODY, "Location: http://127.0.0.1:9/"))

    assert isinstance(outcome, NotSent)
    assert outcome.code == code


@pytest.mark.parametrize("status", [400, 402, 404, 405, 409, 410, 412, 413, 415, 422, 451, 499])
async def test_a_tools_own_refusal_is_its_answer(status):
    own = await said(answering(f"{status} No", b'{"code":"no"}'))
    bare = await said(answering(f"{status} No", b"<html>"))

    assert own == Completed({"code": "no"}, is_error=True)
    assert bare.is_error
    assert bare.output["error"] == f"http_{status}"


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 408, 500, 501, 502, 503, 504, 599])
async def test_what_a_gateway_may_say_of_a_tool_at_work_proves_nothing(status):
    outcome = await said(answering(f"{status} Ah", BODY, "Location: http://127.0.0.1:9/"))

    assert isinstance(outcome, OutcomeNotKnown)
    assert outcome.code == f"http_{status}"


async def test_a_conflict_with_itself_is_still_at_work():
    outcome = await said(answering("409 Conflict", BODY, "Retry-After: 1"))

    assert isinstance(outcome, OutcomeNotKnown)


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "207 Multi"])
async def test_an_answer_in_json_is_the_tools(status):
    assert await said(answering(status, BODY)) == DONE
    assert await said(answering(status, b"")) == Completed(None)


async def test_no_content_is_an_answer():
    assert await said(b"HTTP/1.1 204 No Content\r\n\r\n") == Completed(None)


@pytest.mark.parametrize("body", [b"<html>", b"NaN", b"\xff", b"{} {}", b"[" * 3_000])
async def test_a_whole_answer_that_is_no_json_is_an_error_of_a_tool_that_did_answer(body):
    outcome = await said(answering("200 OK", body))

    assert outcome.is_error
    assert outcome.output["error"] == "tool_output_invalid"


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_whole_answer_that_is_too_large_is_an_error_with_its_size(framing):
    size = 3 * OUTPUT_BYTES_MAX

    outcome = await said(answering("200 OK", b"[%s]" % (b" " * (size - 2)), framing=framing))

    assert outcome.is_error
    assert outcome.output["error"] == "tool_output_too_large"
    assert str(size) in outcome.output["detail"]


async def test_an_answer_that_is_too_large_and_breaks_off_may_have_happened():
    answer = answering("200 OK", b" " * (2 * OUTPUT_BYTES_MAX))

    async with dying(Dying(answer, says=len(answer) - 1)) as server:
        assert isinstance(await called(server.url), OutcomeNotKnown)


async def test_what_was_refused_while_it_was_sent_is_refused_or_unknown_but_never_sent_twice():
    args = {"much": "x" * 250_000}

    async with dying(Dying(answering("413 No", BODY), reads=300, answers_early=True)) as server:
        outcome = await called(server.url, args=args)

    assert isinstance(outcome, Completed | OutcomeNotKnown)
    assert server.requests == 1


async def test_who_is_cancelled_says_nothing_of_the_outcome():
    async with dying(Dying(b"", death="stays")) as server:
        task = asyncio.ensure_future(called(server.url))
        await server.asked.wait()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_effectful_call_that_was_lost_is_sent_once_whoever_waits():
    async with dying(Dying(OK, says=10)) as server:
        tool, clock = HttpTool(spec(), server.url), Clock()
        outcome = await resolve(tool, request(), now=clock.now, pause=asyncio.sleep)

    assert isinstance(outcome, OutcomeNotKnown)
    assert server.requests == 1


@pytest.mark.parametrize(
    "url", ["", "ftp://a/", "//a", "http://", "http://u:p@a/", "http://a/#b", "http://ä/", "a b"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Invalid):
        HttpTool(spec(), url)


@pytest.mark.parametrize("name", ["Idempotency-Key", "content-length", "Host", "Expect"])
def test_headers_that_the_cut_depends_on_are_refused(name):
    with pytest.raises(Invalid, match=name.lower()):
        HttpTool(spec(), "http://a/", headers={name: "x"})


def test_the_journal_names_the_host_and_no_more_of_an_address():
    assert HttpTool(spec(), "https://a.example:8/x?key=secret").spec.module == "http:a.example"
