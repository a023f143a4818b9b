"""The gateway: HTTP in, events to functions, their replies out again."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import click
from pydantic_core import to_json

from perdure.api.gateway import BODY_BYTES_MAX, Answer, http_event
from perdure.api.problems import internal, problem
from perdure.kernel.errors import (
    Contended,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    PerdureError,
    StoreUnavailable,
    TooLarge,
)
from perdure.kernel.shown import shown
from perdure_emulator import streams
from perdure_emulator.authorizer import Authorizer, Denied
from perdure_emulator.declared import Template
from perdure_emulator.front import Bucket, Pages
from perdure_emulator.issuer import Issuer
from perdure_emulator.replies import as_answer, header_lines, raw
from perdure_emulator.runtime_api import Died
from perdure_emulator.sandboxes import Runs, Throttled, TimedOut, request_id
from perdure_emulator.sqs import TARGET, Sqs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SECONDS_MAX: Final = 30.0
"""Longest an integration may take. Source: API Gateway HTTP API, integration timeout."""

WELL_KNOWN: Final = "/.well-known/"

_HOST: Final = r"(?:127(?:\.\d{1,3}){3}|localhost|\[::1\])(?::\d{1,5})?"
_LOOPBACK_HOST: Final = re.compile(_HOST, re.ASCII | re.IGNORECASE)
_LOOPBACK_ORIGIN: Final = re.compile(f"https?://{_HOST}", re.ASCII | re.IGNORECASE)


class Gateway:
    """An ASGI application that does what API Gateway does in front of a function."""

    def __init__(
        self,
        template: Template,
        sandboxes: Mapping[str, Runs],
        issuer: Issuer,
        sqs: Sqs | None = None,
    ) -> None:
        self._template = template
        self._sandboxes = sandboxes
        self._issuer = issuer
        self._sqs = sqs
        self._authorizer = Authorizer(issuer)
        self._pages = Pages(template.cors)
        self._bucket = Bucket(template.throttle)
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server speaks HTTP only"
        reply = await self._checked(scope, receive)
        headers = _headers(scope)
        if not (streams.wants(scope["method"], headers) and streams.is_one(reply)):
            await _send(send, reply)
            return

        async def again(last: bytes | None) -> dict[str, Any]:
            return await self._routed(scope, headers, b"", last)

        await streams.follow(reply, again, receive, send, self._stopping)

    def stop(self) -> None:
        """End the streams that are open: whoever follows one does not keep the server."""
        self._stopping.set()

    async def _checked(self, scope: Message, receive: Receive) -> dict[str, Any]:
        headers = _headers(scope)
        try:
            _check_local(headers, self._pages)
            body = await _received(receive)
        except PerdureError as error:
            return problem(error).event()
        target = headers.get("x-amz-target", "")
        if self._sqs is not None and scope["method"] == "POST" and target.startswith(TARGET):
            return (await self._sqs.answer(target, body)).event()
        preflight = self._pages.preflight(scope["method"], headers)
        if preflight is not None:
            return preflight
        return self._pages.told(await self._answered(scope, headers, body), headers)

    async def _answered(
        self, scope: Message, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        method, path = scope["method"], scope["raw_path"].decode("ascii")
        if method == "GET" and path.startswith(WELL_KNOWN):
            return self._issued(path.removeprefix(WELL_KNOWN), headers)
        if self._template.find(method, path) is None:
            asked = f"{method} {urllib.parse.unquote(path)}"
            return problem(NotFound(expected="a route of /openapi.json", found=asked)).event()
        refused = self._bucket.refused()
        return await self._routed(scope, headers, body) if refused is None else refused

    async def _routed(
        self, scope: Message, headers: Mapping[str, str], body: bytes, last: bytes | None = None
    ) -> dict[str, Any]:
        """Ask the function of a route, of a stream for what follows its event ``last``."""
        method, path = scope["method"], scope["raw_path"].decode("ascii")
        found = self._template.find(method, path)
        assert found is not None, "it was looked for"
        route, parameters = found
        query = scope["query_string"].decode("ascii")
        if streams.wants(method, headers):
            query, headers = streams.asking(query, headers, last)
        try:
            authorizer = self._authorizer.authorized(route.authorization, headers, route.scopes)
        except Denied as denied:
            return denied.reply
        sandbox = self._sandboxes[route.function]
        event = http_event(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            request_id=request_id(),
            route_key=route.key,
            path_parameters={
                name: urllib.parse.unquote(value) for name, value in parameters.items()
            },
            at_ms=time.time_ns() // 1_000_000,
            authorizer=authorizer,
        )
        return await self._invoked(sandbox, event, method)

    async def _invoked(
        self, sandbox: Runs, event: Mapping[str, Any], method: str
    ) -> dict[str, Any]:
        seconds_max = min(SECONDS_MAX, sandbox.function.timeout_seconds)
        try:
            return as_answer(await sandbox.invoke(event, seconds_max=seconds_max))
        except asyncio.CancelledError:
            # The server stops and waits for this request no longer; whoever asked is told.
            late = _late(method, "an answer before the server stopped")
            return problem(late, is_inside=True).event()
        except Exception as error:  # noqa: BLE001  # API Gateway answers for any failed function
            told = _told(error, sandbox, method, seconds_max)
            if told is not None:
                return problem(told, is_inside=True).event()
            click.echo(f"perdure: {sandbox.function.name} failed: {error!r}", err=True)
            return internal().event()

    def _issued(self, document: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Answer as the issuer of the tokens would, at its own address."""
        found: dict[str, Any]
        if document == "jwks.json":
            found = self._issuer.keys()
        elif document == "openid-configuration":
            found = self._issuer.discovery(f"http://{headers['host']}")
        else:
            known = "jwks.json or openid-configuration"
            return problem(NotFound(expected=known, found=document)).event()
        return Answer(200, to_json(found)).event()


def _told(error: Exception, sandbox: Runs, method: str, seconds_max: float) -> PerdureError | None:
    """Return what a caller is told of a function that gave no reply; None if it is its own fault."""
    within = f"within {seconds_max:.0f} s"
    match error:
        case TimedOut():
            return _late(method, f"an answer {within}")
        case Throttled():
            expected = f"{sandbox.function.name} to have a process free {within}"
            return Contended(expected=expected, found="none")
        case Died(has_begun=True):
            return _late(method, "an answer", str(error))
        case Died():
            return StoreUnavailable(expected="an answer", found=str(error))
        case PerdureError():
            return error
        case _:
            return None


def _late(method: str, expected: str, found: str = "none") -> PerdureError:
    # The function may go on: what it was asked to change it may have changed, or still change.
    kind = StoreUnavailable if method == "GET" else OutcomeUnknown
    return kind(expected=expected, found=found)


def _check_local(headers: Mapping[str, str], pages: Pages) -> None:
    """Let only this machine's own programs and pages ask. Raises NotPermitted.

    A page of any site may send requests to loopback, by its address, which `Origin` tells, or
    by a name of the site that leads there, which `Host` tells. A page that the template names
    may ask, too.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _LOOPBACK_HOST.fullmatch(host):
        raise NotPermitted(expected="a loopback name or address as Host", found=shown(host))
    if origin is not None and not (_LOOPBACK_ORIGIN.fullmatch(origin) or pages.lets(origin)):
        raise NotPermitted(expected="a page of this machine as Origin", found=shown(origin))


async def _received(receive: Receive) -> bytes:
    """Return the body. Raises TooLarge if it is larger than API Gateway takes."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            raise TooLarge(
                expected=f"a body of at most {BODY_BYTES_MAX} bytes", found="a larger one"
            )
        more = message.get("more_body", False)
    return b"".join(parts)


def _headers(scope: Message) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


async def _send(send: Send, reply: Mapping[str, Any]) -> None:
    body = raw(reply)
    headers = [*header_lines(reply), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": reply["statusCode"], "headers": headers})
    await send({"type": "http.response.body", "body": body})
