"""What every adapter of a model shares: attempts that are told of, messages that are whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import AssistantMessage, Attempt, Measured, ToolCall
from perdure.kernel.shown import shown
from perdure.runtime.session.ports import ModelCall, ModelRefused

MESSAGE_BYTES_MAX: Final = 4 * 1_024 * 1_024
"""Bytes of one message, spelled as canonical JSON. Source: choice; fifty times the longest that a
model of 32,000 tokens writes, and far below what one log entry can hold in objects."""

BODY_BYTES_MAX: Final = 8 * MESSAGE_BYTES_MAX
"""Bytes of an answer that are read. Source: choice; a stream wraps every few letters of a message
in some hundred bytes of its own."""

MALFORMED_CHARACTERS_MAX: Final = 2_000
"""Characters that are kept of arguments which are no JSON object. Source: `ToolCall.malformed`."""

DEPTH_MAX: Final = 64
"""Levels of a JSON value of a model's making. Source: choice; Python's own readers and writers
give up near a thousand, and nothing that a tool asks for comes near this."""


@dataclass(slots=True)
class Exchange:
    """One request to a provider and what came back of it, until it has ended."""

    attempt: int
    request: Measured
    http_status: int | None = None
    content_type: str | None = None
    cap: int | None = None
    ended: bool = False
    received: int = 0
    _state: Any = field(default_factory=hashlib.sha256)

    def take(self, body: bytes) -> None:
        """Count bytes of the answer. They are not kept."""
        self.received += len(body)
        self._state.update(body)

    @property
    def response(self) -> Measured | None:
        """What has come so far; None while there is not even a status."""
        if self.http_status is None and not self.received:
            return None
        return Measured(bytes=self.received, sha256=self._state.hexdigest())


@dataclass(slots=True)
class Attempts:
    """The requests of one step. Each is told of when it has ended, and once."""

    call: ModelCall
    now: Callable[[], Instant]
    begun: int = 0

    def begin(self, body: bytes) -> Exchange:
        self.begun += 1
        return Exchange(self.begun, measured(body))

    def end(self, exchange: Exchange, outcome: str) -> None:
        if exchange.ended:
            return
        exchange.ended = True
        self.call.attempted(
            Attempt(
                attempt=exchange.attempt,
                outcome=outcome,
                request=exchange.request,
                response=exchange.response,
                http_status=exchange.http_status,
                content_type=exchange.content_type,
                response_body_cap=exchange.cap,
                ts_ms=self.now(),
            )
        )


def measured(body: bytes) -> Measured:
    """Say how long a body is, and its SHA-256."""
    return Measured(bytes=len(body), sha256=hashlib.sha256(body).hexdigest())


def whole(message: AssistantMessage) -> AssistantMessage:
    """Return ``message`` as a session takes it: ids that are there and differ, text that is text.

    Raises: ModelRefused for one that is too large, or that no JSON can hold.
    """
    made = replace(message, text=mended(message.text), calls=distinct(message.calls))
    try:
        spelled = sum(len(canonical(part)) for part in _parts(made))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelRefused(
            expected="a message that JSON can hold", found=type(error).__name__
        ) from error
    if spelled > MESSAGE_BYTES_MAX:
        raise too_large(f"{spelled} bytes")
    return made


def too_large(found: str) -> ModelRefused:
    """Return the refusal of a message that is too large."""
    return ModelRefused(expected=f"a message of at most {MESSAGE_BYTES_MAX} bytes", found=found)


def _parts(message: AssistantMessage) -> Iterable[Any]:
    yield message.text
    yield message.extra
    for call in message.calls:
        yield [call.tool_call_id, call.name, call.args, call.malformed]


def distinct(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Give ids to calls that have none (``call_0``), and to those whose id is taken (``id#2``)."""
    asked = tuple(calls)
    taken = {call.tool_call_id for call in asked if call.tool_call_id}
    seen: set[str] = set()
    made = []
    for index, call in enumerate(asked):
        wanted = call.tool_call_id or f"call_{index}"
        id = wanted
        if id in seen or (not call.tool_call_id and id in taken):
            id = _free(wanted, taken | seen)
        seen.add(id)
        made.append(replace(call, tool_call_id=id))
    return tuple(made)


def _free(wanted: str, taken: set[str]) -> str:
    number = 2
    while f"{wanted}#{number}" in taken:
        number += 1
    return f"{wanted}#{number}"


def asked_call(tool_call_id: str, name: str, spelled: str) -> ToolCall:
    """Read a call whose arguments came as text. What is no JSON object is kept as it came.

    A call without arguments often comes with no text at all.
    """
    try:
        args = plain_object(strict((spelled.strip() or "{}").encode()))
    except ValueError:
        return ToolCall(
            tool_call_id=mended(tool_call_id),
            name=mended(name),
            args={},
            malformed=mended(spelled)[:MALFORMED_CHARACTERS_MAX],
        )
    return ToolCall(tool_call_id=mended(tool_call_id), name=mended(name), args=args)


def plain_object(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object that can be spelled anywhere. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is no object")
    if depth_of(value) > DEPTH_MAX:
        raise ValueError("nested too deep")
    # Half a surrogate pair can be spelled as an escape only; the rest of the world cannot say it.
    if "\\ud" in canonical(value).decode():
        for text in _texts(value):
            text.encode()
    return value


def depth_of(value: Any) -> int:
    """Return how many levels of lists and objects ``value`` has, up to one beyond the bound."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if depth > DEPTH_MAX:
            break
        level = [
            inner for each in level for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _texts(value: Any) -> Iterable[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as found:
                waiting += [*found.keys(), *found.values()]
            case list() as found:
                waiting += found


def mended(text: str) -> str:
    """Join surrogate halves that came apart, and replace those that stayed alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
