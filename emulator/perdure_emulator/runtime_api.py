"""The Runtime API: what a function's process asks for events and tells replies to, on loopback.

Each process has an address of its own, as in Lambda, so who asks needs no telling.
Source: AWS Lambda developer guide, "Using the Lambda runtime API for custom runtimes", 2018-06-01.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import httptools

HOST: Final = "127.0.0.1"

ROOT: Final = "/2018-06-01/runtime"

PAYLOAD_BYTES_MAX: Final = 6 * 1024 * 1024 + 100
"""Bytes of an event, and of a reply. Source: aws-lambda-runtime-interface-emulator, MaxPayloadSize;
AWS Lambda quotas, invocation payload, 6 MB."""

ERROR_TYPE: Final = "lambda-runtime-function-error-type"

FROM_A_PAGE: Final = frozenset({"origin", "sec-fetch-site"})
"""Headers of a request that a browser makes for a page; no page may take a function's events."""

_OK: Final = b'{"status":"OK"}'


class FunctionFailed(Exception):
    """A function could not be loaded, raised, or replied what Lambda does not take.

    ``kind`` is Lambda's errorType.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Died(Exception):
    """A function's process ended before it replied; ``has_begun`` says whether it had the event."""

    def __init__(self, detail: str, *, has_begun: bool) -> None:
        super().__init__(detail)
        self.has_begun = has_begun


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the Runtime API."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    """Empty if it was larger than allowed."""
    size: int


class RuntimeApi:
    """Hands events to one process, one after another, and takes its replies."""

    def __init__(self, function_arn: str) -> None:
        self._function_arn = function_arn
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._asking: _Connection | None = None
        """Who waits for the next event."""
        self._event: tuple[str, bytes, float] | None = None
        """Id, body and seconds of an event that waits for somebody to ask."""
        self._given: str | None = None
        """Id of the event that is being worked on."""
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._reply: asyncio.Future[bytes] | None = None
        self._end: str | None = None
        """How the process ended, once it has."""

    async def open(self) -> str:
        """Listen on a free port of loopback and return the address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), HOST, 0)
        return self.address

    @property
    def address(self) -> str:
        assert self._server is not None, "open first"
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def is_alive(self) -> bool:
        """Whether the process has not been told dead."""
        return self._end is None

    async def ready(self) -> None:
        """Wait until the handler is loaded. Raises FunctionFailed if it cannot be; Died."""
        await asyncio.shield(self._ready)

    async def answer(self, request_id: str, event: bytes, *, seconds: float) -> bytes:
        """Return the reply to an event that may take so long. Raises FunctionFailed, Died."""
        assert self._reply is None, "one event at a time"
        if self._end is not None:
            raise Died(self._end, has_begun=False)
        self._reply = asyncio.get_running_loop().create_future()
        self._event = (request_id, event, seconds)
        self._hand_over()
        try:
            return await self._reply
        finally:
            self._reply = self._event = self._given = None

    def died(self, detail: str) -> None:
        """Tell whoever waits, or will, that the process has ended."""
        self._end = detail
        for waiting in (self._ready, self._reply):
            if waiting is not None and not waiting.done():
                waiting.set_exception(Died(detail, has_begun=self._given is not None))
        # Nobody need have waited.
        self._ready.exception()

    def close(self) -> None:
        """Stop listening, and hang up."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()

    # ------------------------------------------------------------ what connections tell

    def opened(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        if self._asking is connection:
            self._asking = None

    def called(self, connection: _Connection, call: Call) -> None:
        """Answer a request, now or when there is an event."""
        if call.headers.get("host") != self.address or FROM_A_PAGE & call.headers.keys():
            return connection.refuse(HTTPStatus.FORBIDDEN, "Forbidden", "not from a page")
        match call.method, call.path.removeprefix(ROOT).strip("/").split("/"):
            case "GET", ["invocation", "next"]:
                return self._asked(connection)
            case "POST", ["invocation", request_id, "response" | "error" as outcome]:
                return self._told(connection, request_id, outcome, call)
            case "POST", ["init", "error"]:
                self._fail(self._ready, call)
                return connection.reply(HTTPStatus.ACCEPTED, _OK)
            case _:
                what = f"{call.method} {call.path}"
                return connection.refuse(HTTPStatus.NOT_FOUND, "NotFound", what)

    def _asked(self, connection: _Connection) -> None:
        if self._asking is not None or self._given is not None:
            what = "an event is asked for or worked on already"
            return connection.refuse(HTTPStatus.FORBIDDEN, "InvalidStateTransition", what)
        self._asking = connection
        if not self._ready.done():
            self._ready.set_result(None)
        return self._hand_over()

    def _hand_over(self) -> None:
        """Give the event that waits to the process that asks, if there are both."""
        if self._asking is None or self._event is None:
            return
        connection, self._asking = self._asking, None
        (self._given, body, seconds), self._event = self._event, None
        now_ms = time.time_ns() // 1_000_000
        connection.reply(
            HTTPStatus.OK,
            body,
            {
                "Lambda-Runtime-Aws-Request-Id": self._given,
                "Lambda-Runtime-Deadline-Ms": str(now_ms + round(seconds * 1_000)),
                "Lambda-Runtime-Invoked-Function-Arn": self._function_arn,
                "Lambda-Runtime-Trace-Id": trace_id(now_ms // 1_000),
            },
        )

    def _told(self, connection: _Connection, request_id: str, outcome: str, call: Call) -> None:
        reply = self._reply
        if request_id != self._given or reply is None or reply.done():
            what = f"{request_id} is not worked on"
            return connection.refuse(HTTPStatus.BAD_REQUEST, "InvalidRequestID", what)
        self._given = None
        if outcome == "error":
            self._fail(reply, call)
        elif call.size > PAYLOAD_BYTES_MAX:
            kind = "Function.ResponseSizeTooLarge"
            what = f"{call.size} bytes, more than {PAYLOAD_BYTES_MAX}"
            reply.set_exception(FunctionFailed(kind, what))
            return connection.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, kind, what)
        else:
            reply.set_result(call.body)
        return connection.reply(HTTPStatus.ACCEPTED, _OK)

    def _fail(self, waiting: asyncio.Future[Any], call: Call) -> None:
        if not waiting.done():
            waiting.set_exception(failure(call))
            # Nobody need have waited.
            waiting.exception()


def failure(call: Call) -> FunctionFailed:
    """Return what a process tells of its failure."""
    try:
        told = json.loads(call.body)
        kind, detail = str(told["errorType"]), str(told["errorMessage"])
    except (ValueError, TypeError, KeyError):
        kind, detail = call.headers.get(ERROR_TYPE, "Unhandled"), "no reason was given"
    return FunctionFailed(kind, detail)


def trace_id(now_seconds: int) -> str:
    """Return a trace header of a request that is not sampled.

    Source: AWS X-Ray developer guide, "Tracing header".
    """
    root = f"1-{now_seconds:08x}-{secrets.token_hex(12)}"
    return f"Root={root};Parent={secrets.token_hex(8)};Sampled=0"


def new_request_id() -> str:
    """Return an id that nobody else on this machine can guess: it lets its bearer reply."""
    return str(uuid.uuid4())


class _Connection(asyncio.Protocol):
    """A connection of a process; bodies may come in chunks."""

    def __init__(self, api: RuntimeApi) -> None:
        self._api = api
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._start()

    def _start(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop has a class of its own.
        self._transport = cast("asyncio.Transport", transport)
        self._api.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._api.lost(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.close()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._start()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size <= PAYLOAD_BYTES_MAX:
            self._parts.append(body)
        else:
            self._parts.clear()

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method().decode("ascii"), self._url.decode("latin-1")
        self._api.called(self, Call(method, path, self._headers, b"".join(self._parts), self._size))

    def reply(
        self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer."""
        if self._transport is None or self._transport.is_closing():
            return
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def refuse(self, status: HTTPStatus, kind: str, what: str) -> None:
        """Send an error as the Runtime API spells it."""
        self.reply(status, json.dumps({"errorType": kind, "errorMessage": what}).encode())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
