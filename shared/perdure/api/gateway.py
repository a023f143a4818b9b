"""Events as API Gateway shapes them (HTTP API, payload format 2.0), and what is in them."""

from __future__ import annotations

import base64
import binascii
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from perdure.api.access import Principal
from perdure.kernel.caller import Caller
from perdure.kernel.errors import InvalidJson, TooLarge

JSON: Final = "application/json"

_TIME: Final = "%d/%b/%Y:%H:%M:%S +0000"

BODY_BYTES_MAX: Final = 10_000_000
"""Bytes of a body. Source: API Gateway HTTP API, payload size, 10 MB."""

REPLY_BYTES_MAX: Final = 6_000_000
"""Bytes of a reply, base64 included. Source: Lambda, synchronous payload, 6 MB."""


class LambdaContext(Protocol):
    """The part of Lambda's context object that is used."""

    @property
    def aws_request_id(self) -> str: ...

    def get_remaining_time_in_millis(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What one event asks, apart from its path."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names are lower case."""
    body: bytes
    request_id: str
    remaining_ms: int
    principal: Principal

    @property
    def by(self) -> Caller:
        """Who asks, as requests to a world want to know it."""
        return self.principal.by

    @classmethod
    def of(cls, event: Mapping[str, Any], context: LambdaContext, principal: Principal) -> Request:
        """Read an event of ``principal``. Raises InvalidJson for a body that is not base64; TooLarge."""
        body = _body(event)
        if len(body) > BODY_BYTES_MAX:
            raise TooLarge(
                expected=f"a body of at most {BODY_BYTES_MAX} bytes", found=f"{len(body)} bytes"
            )
        return cls(
            method=event["requestContext"]["http"]["method"],
            query=event.get("queryStringParameters") or {},
            headers=event.get("headers") or {},
            body=body,
            request_id=context.aws_request_id,
            remaining_ms=context.get_remaining_time_in_millis(),
            principal=principal,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route answers: exact bytes."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    def event(self, *, bytes_max: int = REPLY_BYTES_MAX) -> dict[str, Any]:
        """Spell the answer as Lambda's reply to API Gateway. Raises TooLarge."""
        headers = {"content-type": self.content_type, **self.headers}
        textual = self.content_type.endswith("json") or self.content_type.startswith("text/")
        body = self.body.decode() if textual else base64.b64encode(self.body).decode()
        if textual and 2 * len(body) > bytes_max and len(json.dumps(body)) > bytes_max:
            # Lambda spells it once more: text full of quotes doubles, base64 adds a third.
            textual, body = False, base64.b64encode(self.body).decode()
        if len(body) > bytes_max:
            raise TooLarge(
                expected=f"a reply of at most {bytes_max} bytes; a smaller limit gives one",
                found=f"{len(body)} bytes",
            )
        return {
            "statusCode": int(self.status),
            "headers": headers,
            "body": body,
            "isBase64Encoded": not textual,
        }


def spelled_path(event: Mapping[str, Any]) -> str:
    """Return the event's path with every segment percent-encoded in one way.

    API Gateway decodes the path before a function sees it, function URLs and stand-ins do
    not; so an id that holds a literal ``%41`` cannot be addressed.
    """
    return "/".join(
        urllib.parse.quote(urllib.parse.unquote(segment), safe="")
        for segment in event["rawPath"].split("/")
    )


def http_event(  # noqa: PLR0913  # the parts of an HTTP request
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Mapping[str, str],
    body: bytes = b"",
    request_id: str,
    route_key: str = "$default",
    path_parameters: Mapping[str, str] | None = None,
    at_ms: int = 0,
    authorizer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Shape an HTTP request as API Gateway does.

    ``path`` and ``query`` are percent-encoded, as they came; names in ``headers`` are lower
    case; ``authorizer`` is what the route's authorizer found out. Source: "Working with AWS Lambda proxy integrations for HTTP APIs", format 2.0.
    """
    kept = {name: value for name, value in headers.items() if name != "cookie"}
    text = _text(body, headers.get("content-type", JSON))
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": urllib.parse.unquote(path),
        "rawQueryString": query,
        "headers": kept,
        "requestContext": {
            **_asked(method, path, headers),
            "requestId": request_id,
            "routeKey": route_key,
            "stage": "$default",
            "time": datetime.fromtimestamp(at_ms / 1_000, UTC).strftime(_TIME),
            "timeEpoch": at_ms,
        },
        "isBase64Encoded": text is None,
    }
    if authorizer is not None:
        event["requestContext"]["authorizer"] = dict(authorizer)
    if "cookie" in headers:
        event["cookies"] = [each.strip() for each in headers["cookie"].split(";")]
    if query:
        event["queryStringParameters"] = _joined(query)
    if path_parameters:
        event["pathParameters"] = dict(path_parameters)
    if body:
        event["body"] = base64.b64encode(body).decode() if text is None else text
    return event


def _asked(method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of an event's context that says who asked what of whom."""
    host = headers.get("host", "localhost")
    return {
        "accountId": "anonymous",
        "apiId": "local",
        "domainName": host,
        "domainPrefix": host.split(".")[0],
        "http": {
            "method": method,
            "path": urllib.parse.unquote(path),
            "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1",
            "userAgent": headers.get("user-agent", ""),
        },
    }


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(body).encode(errors="surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise InvalidJson(expected="a base64 body", found=str(error)) from error


def _text(body: bytes, content_type: str) -> str | None:
    """Return a body that API Gateway hands on as text; None if it makes base64 of it."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("text/") or kind in {JSON, "application/xml", "application/javascript"}:
        try:
            return body.decode()
        except UnicodeDecodeError:
            return None
    return None if body else ""


def _joined(query: str) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined
