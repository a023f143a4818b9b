"""Replies: what API Gateway makes of what a function returns.

Source: API Gateway developer guide, "Create AWS Lambda proxy integrations for HTTP APIs",
response format 2.0.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

STATUS: Final = "statusCode"
JSON: Final = "application/json"

STATUS_MIN, STATUS_MAX = 200, 599
"""An answer; what is below only announces one."""


def as_answer(reply: Any) -> dict[str, Any]:
    """Return a reply as an answer with status, headers and body.

    Without a status the reply is the body of a 200, a text as it is, anything else as JSON.
    Raises: TypeError, ValueError for what API Gateway answers 500 to.
    """
    if not isinstance(reply, Mapping) or STATUS not in reply:
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        return {STATUS: 200, "headers": {"content-type": JSON}, "body": text}
    answer = {**reply, STATUS: _status(reply[STATUS]), "headers": reply.get("headers") or {}}
    header_lines(answer)
    raw(answer)
    return answer


def raw(reply: Mapping[str, Any]) -> bytes:
    """Return the bytes of a reply's body. Raises TypeError, ValueError."""
    body = reply.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise TypeError(f"expected a body that is text, found {type(body).__name__}")
    if not reply.get("isBase64Encoded"):
        return body.encode()
    try:
        return base64.b64decode(body)
    except binascii.Error as error:
        raise ValueError(f"expected a body in Base64: {error}") from error


def header_lines(reply: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return a reply's headers, each cookie in one of its own. Raises TypeError, ValueError."""
    headers: Any = reply.get("headers", {})
    if not isinstance(headers, Mapping):
        raise TypeError(f"expected headers by name, found {type(headers).__name__}")
    lines = [*headers.items(), *(("set-cookie", each) for each in reply.get("cookies") or ())]
    return [(name.encode("latin-1"), str(value).encode("latin-1")) for name, value in lines]


def _status(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(f"expected a number as {STATUS}, found {given!r}")
    status = int(given)
    if not STATUS_MIN <= status <= STATUS_MAX:
        raise ValueError(f"expected {STATUS} {STATUS_MIN} to {STATUS_MAX}, found {status}")
    return status
