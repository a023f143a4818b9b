"""The load generator sends what it is told and reads answers however they are cut."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.bench.load import Load, parsed, percentile_99, put, spelled
from tests.bench.over_http import last_percent

LOAD = Load(
    port=1,
    path="/v1/worlds/{world}/commands",
    body='{"commands":[]}',
    worlds=["a", "b"],
    callers=2,
    count=3,
    first=0,
    headers={"idempotency-key": "b{number}"},
)


def test_request_is_filled_in_and_takes_worlds_in_turn():
    assert spelled(LOAD, 3) == (
        b"POST /v1/worlds/b/commands HTTP/1.1\r\n"
        b"host: 127.0.0.1:1\r\n"
        b"idempotency-key: b3\r\n"
        b"content-type: application/json\r\n"
        b"content-length: 15\r\n"
        b"\r\n"
        b'{"commands":[]}'
    )


@pytest.mark.parametrize(
    ("held", "answer"),
    [
        (b"HTTP/1.1 202 Acc", None),
        (b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{", None),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}", (202, b"{}")),
        (b"HTTP/1.1 204 None\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", None),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            (200, b"{}"),
        ),
    ],
)
def test_answer_is_read_when_all_of_it_is_there(held, answer):
    assert parsed(held) == answer


@pytest.mark.parametrize("requests", [1, 4, 100, 101, 1_000])
def test_a_percentile_that_is_the_slowest_request_is_called_that(requests):
    ordered = list(range(requests))

    assert last_percent(requests).startswith("slowest") is (percentile_99(ordered) == ordered[-1])


async def _served(status: bytes) -> tuple[asyncio.Server, list[bytes]]:
    """Serve one answer to every request, and keep what was asked for."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(len(LOAD.body))
                seen.append(head.splitlines()[0])
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")

    return await asyncio.start_server(answer, "127.0.0.1", 0), seen


@pytest.mark.parametrize(("status", "is_accepted"), [(b"202 Accepted", True), (b"500 No", False)])
def test_round_counts_what_was_accepted_and_fails_otherwise(status, is_accepted):
    async def round_() -> tuple[object, list[bytes]]:
        server, seen = await _served(status)
        async with server:
            port = server.sockets[0].getsockname()[1]
            told = await put(Load(**{**LOAD.__dict__, "port": port}))
            return told, seen

    if not is_accepted:
        with pytest.raises(ValueError, match="found 500"):
            asyncio.run(round_())
        return
    told, seen = asyncio.run(round_())

    assert told.statuses == {"202": 3}
    assert sorted(seen) == [
        b"POST /v1/worlds/a/commands HTTP/1.1",
        b"POST /v1/worlds/a/commands HTTP/1.1",
        b"POST /v1/worlds/b/commands HTTP/1.1",
    ]
