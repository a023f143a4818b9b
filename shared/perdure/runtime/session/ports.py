"""Ports of a session: what the runner asks of a model and of tools, and how they may answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import Invalid, Refused, Unavailable
from perdure.kernel.ids import AgentRunId, CallKey, Instant, SessionId
from perdure.kernel.session.messages import AssistantMessage, Attempt, Effect, Message, Usage

SCHEMA_DOMAIN = "perdure.tool.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is offered, and what the runner must know of it before it sends a call."""

    name: str
    """1 to 64 of letters, digits, ``_`` and ``-``: what every provider takes."""

    description: str
    schema: Mapping[str, Any]
    """JSON Schema (draft 2020-12) of the arguments, an object."""

    effect: Effect = "effectful"
    needs_approval: bool = False
    timeout_ms: int = 30_000
    module: str = ""
    """What serves the tool, as the journal names it: `function`, `http:…`, `lambda:…`, `world`."""

    @property
    def schema_digest(self) -> str:
        return digest(SCHEMA_DOMAIN, canonical(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call on its way to its tool: durable as an intent before anybody sees this."""

    session: SessionId
    run: AgentRunId
    call_key: CallKey
    tool_call_id: str
    name: str
    args: Mapping[str, Any]
    deadline: Instant
    """By then there is an outcome; what is under way at that moment is unknown."""

    actor: str | None = None
    """Who owns the session; None for somebody trusted."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The tool answered: also that it failed, if it is the tool that says so."""

    output: Any
    """JSON."""

    is_error: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """The call provably never left: no byte of it was handed to anything that could deliver it."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class OutcomeNotKnown:
    """From the first byte on, any failure: it may have happened."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class ScopeDrained:
    """The scope that the call was made under ended beneath it."""

    reason: str
    """`scope_ended`, `scope_not_live`, `scope_parent_ended`, `scope_agent_changed` or
    `scope_unverifiable`."""

    sent: bool


CallOutcome = Completed | NotSent | OutcomeNotKnown | ScopeDrained


class Tool(Protocol):
    """Something that a model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, request: CallRequest) -> CallOutcome:
        """Do it, once. Whatever this raises counts as OutcomeNotKnown."""
        ...


class Askable(Protocol):
    """A tool that can be asked what became of a call, by its key."""

    async def ask(self, request: CallRequest) -> CallOutcome | None:
        """Return what became of the call, None if that cannot be told now.

        NotSent says that it never arrived, and never will by itself.
        """
        ...


class Tools(Protocol):
    """The tools of one agent, as they are now."""

    def specs(self) -> Sequence[ToolSpec]:
        """List what a model is offered, in a stable order."""
        ...

    def named(self, name: str) -> Tool | None: ...

    async def scope_ended(self, session: SessionId) -> str | None:
        """Return why the scope that calls are made under is gone, or None while it lives."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One step: everything the model is told."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the agent says of its model (temperature, tokens at most): the adapter knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The assembled message of one step, and what it cost."""

    message: AssistantMessage
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """How one step is asked for: until when, and who is told while it runs."""

    deadline: Instant
    said: Callable[[str], None]
    """Told pieces of text as they come. They are never kept."""

    attempted: Callable[[Attempt], None]
    """Told of every request to the provider when it has ended, also of a cancelled one."""


class Model(Protocol):
    """A model. Cancelling the coroutine abandons the step."""

    async def step(self, request: ModelRequest, call: ModelCall) -> ModelReply:
        """Return one whole message. Raises ModelRefused, ModelUnavailable."""
        ...


class UnknownModel(Invalid):
    """An agent names a model that nothing here knows."""


class ModelRefused(Refused):
    """The provider takes no such request: asking again changes nothing."""


class ModelUnavailable(Unavailable):
    """The provider did not answer, or not to the end, as often as it was asked."""


Pause = Callable[[float], Awaitable[None]]
"""Wait so many seconds."""
