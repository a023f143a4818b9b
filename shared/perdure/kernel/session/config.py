"""How a run is done: frozen when it begins, so that the journal says it and not the code of today."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.kernel.session.messages import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Under whose authority a run was admitted: frozen with it."""

    owner: str
    ref: str
    scope_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTool:
    """What a run may call, as it was when the run began."""

    name: str
    schema_digest: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """How a run is done: what the journal says, not what the code says by now."""

    agent: str
    model: str
    system: str
    max_steps: int
    options: dict[str, Any] = field(default_factory=dict)
    tools: tuple[FrozenTool, ...] = ()

    def tool(self, name: str) -> FrozenTool | None:
        """Return what is frozen of a tool."""
        return next((each for each in self.tools if each.name == name), None)
