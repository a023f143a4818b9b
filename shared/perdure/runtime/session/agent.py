"""Agents: what an application says of a model, its tools and how far a run may go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.kernel.errors import Invalid, OutOfRange, UnknownField, WrongType
from perdure.kernel.session.config import FrozenTool, RunConfig
from perdure.kernel.shown import shown
from perdure.runtime.session.ports import Tools

STEPS_DEFAULT: Final = 20
STEPS_MAX: Final = 1_000
"""Steps of one run: each is a call of a model, and somebody pays for it."""

OVERRIDES: Final = frozenset({"max_steps", "options", "system"})
"""What a send may say otherwise than the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A model with tools and an instruction, under a name."""

    name: str
    model: str
    """Where the model is: `bedrock:…`, `openai:…` or `scripted:module:name`."""

    tools: Tools
    system: str = ""
    max_steps: int = STEPS_DEFAULT
    options: Mapping[str, Any] = field(default_factory=dict)
    step_ms: int = 120_000
    """Longest time that one step of the model may take."""

    def config(self, overrides: Mapping[str, Any] | None = None) -> RunConfig:
        """Freeze how a run is done that begins now. Raises Invalid kinds."""
        chosen = checked_overrides(overrides or {})
        return RunConfig(
            agent=self.name,
            model=self.model,
            system=chosen.get("system", self.system),
            max_steps=chosen.get("max_steps", self.max_steps),
            options={**self.options, **chosen.get("options", {})},
            tools=tuple(
                FrozenTool(name=spec.name, schema_digest=spec.schema_digest, effect=spec.effect)
                for spec in self.tools.specs()
            ),
        )


def checked_overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides that a run may have. Raises UnknownField, WrongType, OutOfRange."""
    unknown = sorted(set(given) - OVERRIDES)
    if unknown:
        raise UnknownField(
            expected=f"overrides of {', '.join(sorted(OVERRIDES))}", found=shown(unknown[0])
        )
    system, steps, options = (given.get(name) for name in ("system", "max_steps", "options"))
    if system is not None and not isinstance(system, str):
        raise WrongType(expected="overrides.system to be text", found=shown(system))
    if options is not None and not isinstance(options, Mapping):
        raise WrongType(expected="overrides.options to be an object", found=shown(options))
    if steps is not None:
        if isinstance(steps, bool) or not isinstance(steps, int):
            raise WrongType(expected="overrides.max_steps to be an integer", found=shown(steps))
        if not 1 <= steps <= STEPS_MAX:
            raise OutOfRange(expected=f"overrides.max_steps of 1 to {STEPS_MAX}", found=str(steps))
    return {name: value for name, value in given.items() if value is not None}


def checked_agent(agent: Agent) -> Agent:
    """Return an agent that can run. Raises Invalid."""
    if not 1 <= agent.max_steps <= STEPS_MAX:
        raise Invalid(
            expected=f"agent {agent.name!r} with 1 to {STEPS_MAX} steps", found=str(agent.max_steps)
        )
    return agent
