"""Payloads: what Lambda takes for an event, and for a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.kernel.errors import InvalidJson, TooLarge
from perdure_emulator.runtime_api import PAYLOAD_BYTES_MAX, FunctionFailed


def checked(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that Lambda takes. Raises FunctionFailed for any other, as apart."""
    try:
        size = len(_text(reply))
    except (TypeError, ValueError, RecursionError) as error:
        raise FunctionFailed("Runtime.MarshalError", f"a reply that is no JSON: {error}") from error
    if size > PAYLOAD_BYTES_MAX:
        what = f"{size} bytes, more than {PAYLOAD_BYTES_MAX}"
        raise FunctionFailed("Function.ResponseSizeTooLarge", what)
    return reply


def spelled(event: Mapping[str, Any]) -> bytes:
    """Spell an event for a process. Raises InvalidJson, TooLarge."""
    try:
        body = _text(event)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJson(expected="an event that JSON can spell", found=str(error)) from error
    if len(body) > PAYLOAD_BYTES_MAX:
        raise TooLarge(
            expected=f"an event of at most {PAYLOAD_BYTES_MAX} bytes", found=f"{len(body)} bytes"
        )
    return body


def _text(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
