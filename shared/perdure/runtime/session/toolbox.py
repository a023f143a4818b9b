"""Toolboxes: the tools of an agent by name, and what is checked of a call before it is planned."""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, get_args

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Invalid
from perdure.kernel.ids import SessionId
from perdure.kernel.session.config import FrozenTool
from perdure.kernel.session.messages import Effect, ToolCall
from perdure.kernel.shown import shown
from perdure.runtime.session.ports import Tool, ToolSpec

TOOLS_MAX: Final = 128
"""Tools of one agent: what OpenAI takes in one request; Bedrock's models take no more."""

DESCRIPTION_CHARACTERS_MAX: Final = 4_096
"""Characters of a tool's description: it is sent with every step."""

TIMEOUT_MS_MAX: Final = 900_000
"""Longest that a call may take: the life of a Lambda invocation."""

SCHEMAS: Final = "perdure.runtime.session.schemas"
LIBRARY: Final = "jsonschema"
"""Deployed only where there are sessions; an app with agents is loaded everywhere."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_EFFECTS: Final = get_args(Effect)

ScopeEnded = Callable[[SessionId], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not dispatched: a code, and what a model can make of it."""

    code: str
    detail: str


class Toolbox:
    """Tools by name, in the order in which they were given."""

    def __init__(self, *tools: Tool, scope_ended: ScopeEnded | None = None) -> None:
        """Take tools that differ in name. Raises Invalid.

        ``scope_ended`` says why the scope that calls are made under is gone, None while it lives.
        """
        if len(tools) > TOOLS_MAX:
            raise Invalid(expected=f"at most {TOOLS_MAX} tools", found=str(len(tools)))
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            spec = checked_spec(tool.spec)
            if spec.name in self._tools:
                raise Invalid(expected=f"one tool named {spec.name!r}", found="two")
            self._tools[spec.name] = tool
        self._scope_ended = scope_ended

    def specs(self) -> Sequence[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def named(self, name: str) -> Tool | None:
        return self._tools.get(name)

    async def scope_ended(self, session: SessionId) -> str | None:
        return None if self._scope_ended is None else await self._scope_ended(session)


def checked_spec(spec: ToolSpec) -> ToolSpec:
    """Return a spec that every provider takes and every call can be checked by. Raises Invalid."""
    what = f"tool {spec.name[:64]!r}"
    if not _NAME.match(spec.name):
        raise Invalid(
            expected="a tool's name of 1 to 64 letters, digits, '_' and '-'", found=shown(spec.name)
        )
    if spec.effect not in _EFFECTS:
        raise Invalid(
            expected=f"{what} with an effect of {', '.join(_EFFECTS)}", found=shown(spec.effect)
        )
    if not 1 <= spec.timeout_ms <= TIMEOUT_MS_MAX:
        raise Invalid(
            expected=f"{what} with a timeout of 1 to {TIMEOUT_MS_MAX} ms",
            found=str(spec.timeout_ms),
        )
    if len(spec.description) > DESCRIPTION_CHARACTERS_MAX:
        raise Invalid(
            expected=f"{what} with a description of at most {DESCRIPTION_CHARACTERS_MAX} characters",
            found=str(len(spec.description)),
        )
    if find_spec(LIBRARY) is not None:
        _schemas().checked_schema(spec.schema, what)
    return spec


def checked_call(
    spec: ToolSpec | None, call: ToolCall, frozen: FrozenTool | None
) -> Refusal | None:
    """Return why a call must not be dispatched, None if it may.

    ``frozen`` is the tool as the run began with it: of one that came later the model knows
    nothing, and one that has changed since is not what the model was told.
    """
    if spec is None or frozen is None:
        return Refusal("tool_unavailable", f"There is no tool {shown(call.name)}.")
    if spec.schema_digest != frozen.schema_digest:
        return Refusal("tool_schema_changed", f"Tool {spec.name!r} takes other arguments by now.")
    if spec.effect != frozen.effect:
        return Refusal(
            "tool_semantics_changed",
            f"Tool {spec.name!r} was {frozen.effect} when the run began and is {spec.effect} now.",
        )
    if call.malformed is not None:
        return Refusal(
            "schema_invalid", f"Expected a JSON object of arguments; found {shown(call.malformed)}."
        )
    return _checked_args(spec, call)


def _checked_args(spec: ToolSpec, call: ToolCall) -> Refusal | None:
    try:
        size = len(canonical(call.args))
    except (TypeError, ValueError, RecursionError) as error:
        return Refusal("schema_invalid", f"The arguments are no JSON: {type(error).__name__}.")
    if size > limits.CALL_ARGS_BYTES_MAX:
        return Refusal(
            "oversized",
            f"Expected arguments of at most {limits.CALL_ARGS_BYTES_MAX} bytes; found {size}.",
        )
    detail: str | None = _schemas().mismatch(spec.schema, call.args)
    return None if detail is None else Refusal("schema_invalid", detail)


def _schemas() -> Any:
    return importlib.import_module(SCHEMAS)
