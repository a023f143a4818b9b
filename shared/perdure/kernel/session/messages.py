"""Messages: what a model is told and says, in one form whoever provides the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Effect = Literal["pure", "idempotent", "effectful"]
"""What doing a call again does: nothing; nothing if it bears the same call key; another effect."""

Outcome = Literal["completed", "unknown", "interrupted", "max_steps"]
"""How a planned call that was not refused ended."""

Stop = Literal["end", "tool_calls", "length", "refused"]
"""Why a model stopped: it was done, wants tools, had no room, or would not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model asks for. ``tool_call_id`` is unique in its message only."""

    tool_call_id: str
    name: str
    args: dict[str, Any]
    malformed: str | None = None
    """What came instead of a JSON object, cut to 2,000 characters; then ``args`` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What somebody sent."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What one step of a model came to, whole."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: Stop = "end"
    extra: dict[str, Any] = field(default_factory=dict)
    """What the model's provider wants to see again (signed reasoning), by the adapter's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a model is told of one of its calls."""

    tool_call_id: str
    name: str
    output: Any
    """JSON."""

    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswers:
    """The answers to all calls of the message before, in their order."""

    answers: tuple[ToolAnswer, ...]


Message = UserMessage | AssistantMessage | ToolAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a step cost, in tokens as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A body that is not kept: how long it was, and the SHA-256 of its bytes in hex."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request to a model's provider, however it ended."""

    attempt: int
    """From 1, in the order in which a step's attempts began."""

    outcome: str
    """``completed``, ``failed``, ``cut`` (an answer that broke off) or ``cancelled``."""

    request: Measured
    response: Measured | None = None
    http_status: int | None = None
    content_type: str | None = None
    response_body_cap: int | None = None
    """Bytes at which reading stopped, if it did."""

    ts_ms: int
