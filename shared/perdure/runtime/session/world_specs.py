"""What a model is told of the tools that act on worlds: names, schemas, and effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perdure.kernel import limits
from perdure.kernel.operations import OPERATIONS
from perdure.kernel.session.messages import Effect
from perdure.runtime.session.ports import ToolSpec

MODULE: Final = "world"

COMMANDS_MAX: Final = 500
"""Commands of one call: their receipts must stay something that a model can read."""

ROWS_DEFAULT: Final = 50
ROWS_MAX: Final = 1_000
"""Rows of one answer; their size ends it sooner, see ROWS_BYTES_MAX."""

ROWS_BYTES_MAX: Final = 131_072
"""Bytes of the rows of one answer: about 40,000 tokens, which every later step pays for again."""

TICKS_MAX: Final = 1_000
"""Ticks of one call."""

RUN_TIMEOUT_MS: Final = 60_000
"""Time that a run of ticks has; one that needs more says so, and is asked for again."""

_WORLD: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.ID_BYTES_MAX,
    "description": "The id of the world.",
}
_ENTITY: Final = {"type": "integer", "minimum": 1, "maximum": limits.INTEGER_MAX}
_TICK: Final = {"type": "integer", "minimum": 0, "maximum": limits.TICK_MAX}

_COMMAND: Final = {
    "type": "object",
    "properties": {
        "operation": {"enum": sorted(OPERATIONS)},
        "entity_id": {**_ENTITY, "description": "Whom it is about; not for spawn."},
        "components": {
            "type": ["object", "array"],
            "description": 'Values by component and field, as {"Route": {"origin": "EWR"}}: all'
            " fields of each. For remove_components a list of names.",
        },
        "tick": {**_TICK, "description": "When it is due; without it, at the next tick."},
        "priority": {
            "type": "integer",
            "minimum": -limits.PRIORITY_MAX,
            "maximum": limits.PRIORITY_MAX,
            "description": "Smaller ones are applied first.",
        },
    },
    "required": ["operation"],
    "additionalProperties": False,
}

_ARGUMENTS: Final[Mapping[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "submit": (
        {
            "commands": {
                "type": "array",
                "items": _COMMAND,
                "minItems": 1,
                "maxItems": COMMANDS_MAX,
            }
        },
        ("commands",),
    ),
    "query": (
        {
            "components": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "minItems": 1,
                "maxItems": 32,
                "description": "Names of components that an entity must have, all of them.",
            },
            "where": {
                "type": "string",
                "description": "A condition on columns, as route__destination = 'EWR'.",
            },
            "entity_ids": {"type": "array", "items": _ENTITY, "minItems": 1, "maxItems": ROWS_MAX},
            "tick": {**_TICK, "description": "The state at this tick; without it, the latest."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": ROWS_MAX,
                "description": f"Rows at most; {ROWS_DEFAULT} if not said.",
            },
        },
        ("components",),
    ),
    "world_info": ({}, ()),
    "command_status": (
        {
            "command_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": limits.ID_BYTES_MAX,
                "description": "As the receipt of submit says.",
            }
        },
        ("command_id",),
    ),
    "run_ticks": (
        {"ticks": {"type": "integer", "minimum": 1, "maximum": TICKS_MAX}},
        ("ticks",),
    ),
}

_TOLD: Final[Mapping[str, str]] = {
    "submit": "Change a world: admit commands, all of them or none. They are applied when their"
    " tick is published; the receipt names each command and the entity that a spawn makes.",
    "query": "Read entities of a world: one row for each that has all of the components, with"
    " a column <component>__<field> in lower case. `more` says that rows were left out.",
    "world_info": "Tell how a world stands: its published tick, entities and open commands.",
    "command_status": "Tell what became of a command: pending, retryable, applied, rejected or"
    " dead_letter.",
    "run_ticks": "Publish so many ticks of a world. If `done` is false, time ran out first.",
}

_EFFECTS: Final[Mapping[str, Effect]] = {
    "submit": "idempotent",
    "query": "pure",
    "world_info": "pure",
    "command_status": "pure",
    "run_ticks": "idempotent",
}

NAMES: Final[tuple[str, ...]] = tuple(_ARGUMENTS)
"""Every tool there is, in the order in which a model is offered them."""


def spec_of(name: str, *, world: str | None, needs_approval: bool = False) -> ToolSpec:
    """Return what a model is told of a tool; of a tool for one world it names no world."""
    properties, required = _ARGUMENTS[name]
    if world is None:
        properties = {"world_id": _WORLD, **properties}
        required = ("world_id", *required)
    return ToolSpec(
        name=name,
        description=_TOLD[name],
        schema={
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
        effect=_EFFECTS[name],
        needs_approval=needs_approval,
        timeout_ms=RUN_TIMEOUT_MS if name == "run_ticks" else 30_000,
        module=MODULE,
    )
