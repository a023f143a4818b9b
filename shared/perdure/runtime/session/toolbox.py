"""Toolboxes: the tools of an agent by name, and what is checked of a call before it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.ids import SessionId
from perdure.kernel.session.config import FrozenTool
from perdure.kernel.session.messages import ToolCall
from perdure.runtime.session.ports import Tool, ToolSpec


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not dispatched: a code, and what a model can make of it."""

    code: str
    detail: str


def checked_call(
    spec: ToolSpec | None, call: ToolCall, frozen: FrozenTool | None
) -> Refusal | None:
    """Return why a call must not be dispatched, None if it may."""
    if spec is None or frozen is None:
        return Refusal("tool_unavailable", f"There is no tool {call.name!r}.")
    if spec.schema_digest != frozen.schema_digest:
        return Refusal("tool_schema_changed", f"Tool {call.name!r} takes other arguments by now.")
    return None


class Toolbox:
    """Tools by name."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def specs(self) -> Sequence[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def named(self, name: str) -> Tool | None:
        return self._tools.get(name)

    async def scope_ended(self, session: SessionId) -> str | None:
        return None
