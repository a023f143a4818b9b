"""The Runtime API as a process sees it that is not AWS's client, or does not behave."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import httpx
import pytest

from perdure_emulator.runtime_api import ROOT, Died, FunctionFailed, RuntimeApi, trace_id

pytestmark = pytest.mark.cloud

ARN = "arn:aws:lambda:us-east-1:000000000000:function:F"
NEXT = f"{ROOT}/invocation/next"


@asynccontextmanager
async def opened():
    api = RuntimeApi(ARN)
    address = await api.open()
    try:
        http = httpx.AsyncClient(base_url=f"http://{address}", timeout=60, trust_env=False)
        async with http:
            yield api, http
    finally:
        api.close()


async def in_parts(*parts):
    for part in parts:
        yield part


async def asked(api, http, event=b"{}"):
    """Hand an event over; return the task that waits for its reply, and what was handed over."""
    answer = asyncio.create_task(api.answer("an-id", event, seconds=60))
    return answer, await http.get(NEXT)


async def test_event_comes_with_its_id_its_deadline_and_its_function():
    async with opened() as (api, http):
        answer, given = await asked(api, http, b'{"a": "\xc3\xbc"}')
        taken = await http.post(f"{ROOT}/invocation/an-id/response", content=b"[1]")
        reply = await answer

    assert given.content == b'{"a": "\xc3\xbc"}'
    assert given.headers["lambda-runtime-aws-request-id"] == "an-id"
    assert given.headers["lambda-runtime-invoked-function-arn"] == ARN
    assert given.headers["lambda-runtime-deadline-ms"].isdecimal()
    assert (taken.status_code, reply) == (202, b"[1]")


def test_trace_header_is_one_of_x_ray():
    pattern = r"Root=1-6a0b1c2d-[0-9a-f]{24};Parent=[0-9a-f]{16};Sampled=0"

    assert re.fullmatch(pattern, trace_id(0x6A0B1C2D))


async def test_reply_may_come_in_chunks():
    async with opened() as (api, http):
        answer, _ = await asked(api, http)
        await http.post(
            f"{ROOT}/invocation/an-id/response", content=in_parts(b'{"te', b"", b'xt": 1}')
        )

        assert await answer == b'{"text": 1}'


async def test_error_tells_its_type_even_without_a_body_that_can_be_read():
    async with opened() as (api, http):
        answer, _ = await asked(api, http)
        headers = {"Lambda-Runtime-Function-Error-Type": "Runtime.Odd"}
        await http.post(f"{ROOT}/invocation/an-id/error", content=b"{", headers=headers)

        with pytest.raises(FunctionFailed, match=r"Runtime\.Odd"):
            await answer


async def test_only_the_event_in_hand_can_be_replied_to_and_once():
    async with opened() as (api, http):
        early = await http.post(f"{ROOT}/invocation/an-id/response", content=b"0")
        answer, _ = await asked(api, http)
        other = await http.post(f"{ROOT}/invocation/other/response", content=b"1")
        good = await http.post(f"{ROOT}/invocation/an-id/response", content=b"2")
        again = await http.post(f"{ROOT}/invocation/an-id/response", content=b"3")

        assert await answer == b"2"
    assert [each.status_code for each in (early, other, good, again)] == [400, 400, 202, 400]
    assert other.json()["errorType"] == "InvalidRequestID"


async def test_nobody_is_given_an_event_before_the_last_is_replied_to():
    async with opened() as (api, http):
        answer, _ = await asked(api, http)
        second = await http.get(NEXT)
        await http.post(f"{ROOT}/invocation/an-id/response", content=b"1")
        await answer

    assert (second.status_code, second.json()["errorType"]) == (403, "InvalidStateTransition")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "rebound.example.org"},
    ],
)
async def test_page_in_a_browser_gets_no_event(headers):
    async with opened() as (api, http):
        answer = asyncio.create_task(api.answer("an-id", b"{}", seconds=60))
        page = await http.get(NEXT, headers=headers)
        given = await http.get(NEXT)
        await http.post(f"{ROOT}/invocation/an-id/response", content=b"1")
        await answer

    assert page.status_code == 403
    assert given.status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("POST", NEXT),
        ("GET", f"{ROOT}/invocation/an-id/response"),
        ("POST", f"{ROOT}/invocation/an-id/forget"),
        ("GET", f"{ROOT}/restore/next"),
    ],
)
async def test_what_is_not_of_the_runtime_api_is_not_found(method, path):
    async with opened() as (_, http):
        assert (await http.request(method, path)).status_code == 404


async def test_who_hung_up_while_waiting_is_not_given_the_event():
    async with opened() as (api, http):
        waiting = asyncio.create_task(http.get(NEXT, timeout=None))
        while api._asking is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        waiting.cancel()
        while api._asking is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

        answer, given = await asked(api, http)
        await http.post(f"{ROOT}/invocation/an-id/response", content=b"1")

        assert given.status_code == 200
        assert await answer == b"1"


async def test_bytes_that_are_no_http_end_the_connection():
    async with opened() as (api, _):
        host, port = api.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16\x03\x01\x02\x00\r\n\r\n")

        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


@pytest.mark.parametrize("has_begun", [False, True])
async def test_who_waits_for_a_process_that_ended_is_told_whether_it_had_begun(has_begun):
    async with opened() as (api, http):
        answer = asyncio.create_task(api.answer("an-id", b"{}", seconds=60))
        await asyncio.sleep(0)
        if has_begun:
            await http.get(NEXT)
        api.died("it ended")

        with pytest.raises(Died, match="it ended") as died:
            await answer
        with pytest.raises(Died):
            await api.answer("another", b"{}", seconds=5)

    assert died.value.has_begun is has_begun
