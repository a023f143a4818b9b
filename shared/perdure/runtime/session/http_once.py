"""One request over HTTP, once: on a connection of its own, and it is known whether it left.

The cut is made where it can be seen: every byte of a request passes one ``write`` of this module.
Until its first call nothing was sent, whatever failed; from then on the request may have arrived.

Why a connection for each request, of httpcore 1.0: a pool looks whether an idle connection was
closed and quietly opens another, which is safe; but a connection that closes while the request is
under way fails like one whose server died at work, and the caller would have to call that unknown.
A fresh connection is closed under a request only by a server that was reached. ``retries`` of
httpcore are of connecting alone; its pool asks a second time only where a connection refuses a
request before writing. An ``AsyncHTTPConnection`` has neither pool nor loop. It follows no
redirects, keeps no cookies and reads no environment. If a write fails it still reads an answer,
which then counts if it is whole.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import httpcore

from perdure.kernel.errors import Invalid, code_of
from perdure.kernel.shown import shown, text_of
from perdure.runtime.session.ports import NotSent, OutcomeNotKnown
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX

CONNECT_SECONDS: Final = 5.0
"""For the connection, and again for TLS: less than any call may take, so that it ends as not sent."""

_CODES: Final[Mapping[type[Exception], str]] = {
    httpcore.ConnectError: "connect_failed",
    httpcore.ConnectTimeout: "connect_timeout",
    httpcore.ReadTimeout: "timeout",
    httpcore.WriteTimeout: "timeout",
    httpcore.ReadError: "connection_broken",
    httpcore.WriteError: "connection_broken",
    httpcore.RemoteProtocolError: "answer_broken",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response, of which no more was kept than a tool may answer."""

    status: int
    body: bytes
    size: int
    """Bytes of the body as it came, kept or not."""

    is_framed: bool
    """The response said where it ends. Else the end of the connection was its end, or a death."""

    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a server."""

    method: str
    url: httpcore.URL
    headers: Mapping[str, str]
    content: bytes = b""
    timeout_seconds: float = 30.0
    ssl_context: ssl.SSLContext | None = None


def checked_url(url: str) -> httpcore.URL:
    """Return an address that a tool may have. Raises Invalid."""
    expected = "an address of a tool as http://… or https://…, without user and fragment"
    try:
        found = httpcore.URL(url)
    except (TypeError, ValueError) as error:
        raise Invalid(expected=expected, found=type(error).__name__) from error
    if "@" in url:  # what stands before it may be a secret
        raise Invalid(expected=expected, found="one with '@'")
    if found.scheme not in {b"http", b"https"} or not found.host or "#" in url:
        raise Invalid(expected=expected, found=shown(url))
    return found


async def once(ask: Ask) -> Answer | NotSent | OutcomeNotKnown:
    """Send a request and read the whole answer."""
    network = _Network()
    connection = httpcore.AsyncHTTPConnection(
        origin=ask.url.origin,
        ssl_context=ask.ssl_context or _default_ssl_context(),
        network_backend=network,
    )
    seconds = ask.timeout_seconds
    connect = min(CONNECT_SECONDS, seconds / 3)
    limits = {"connect": connect, "read": seconds, "write": seconds}
    headers = {"accept-encoding": "identity", "connection": "close", **ask.headers}
    try:
        async with (
            connection,
            connection.stream(
                ask.method,
                ask.url,
                headers=list(headers.items()),
                content=ask.content,
                extensions={"timeout": limits},
            ) as response,
        ):
            return await _read(response)
    except Exception as error:  # noqa: BLE001  # what it is does not matter, but when it came
        known = _CODES.get(type(error))
        code = known or code_of(type(error))
        # Anything else may repeat what was to be sent: a header, and with it a key.
        detail = (
            f"{type(error).__name__}: {text_of(error)}"[:500] if known else type(error).__name__
        )
        return OutcomeNotKnown(code, detail) if network.has_written else NotSent(code, detail)


async def _read(response: httpcore.Response) -> Answer:
    kept, size = bytearray(), 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        kept += chunk[: OUTPUT_BYTES_MAX + 1 - len(kept)]
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }
    is_framed = (
        "content-length" in headers
        or "transfer-encoding" in headers
        or response.status in {204, 304}
    )
    return Answer(response.status, bytes(kept), size, is_framed, headers)


@lru_cache(maxsize=1)
def _default_ssl_context() -> ssl.SSLContext:
    return httpcore.default_ssl_context()


class _Network(httpcore.AsyncNetworkBackend):
    """The network, and whether a byte of a request was handed to it."""

    def __init__(self) -> None:
        self._inner = httpcore.AnyIOBackend()
        self.has_written = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream, self)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection. The bytes of a TLS handshake do not pass ``write``: no request is in them."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, network: _Network) -> None:
        self._inner = inner
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._network.has_written = True
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(
            await self._inner.start_tls(ssl_context, server_hostname, timeout), self._network
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
