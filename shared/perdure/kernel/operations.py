"""Operations: what a command may do to a world, and the options under which it is deferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.kernel import limits
from perdure.kernel.component import Component
from perdure.kernel.errors import DirectOnly, InvalidBatch, InvalidValue, UnknownOperation, fault
from perdure.kernel.shown import path_shown, shown

DIRECT_ONLY: Final = frozenset(
    {
        "abort_job",
        "acknowledge_consumer",
        "add_hook",
        "add_processor",
        "add_resource",
        "cancel_all_commands",
        "cancel_command",
        "cancel_run",
        "commit_to_store",
        "create_session",
        "create_store",
        "create_world",
        "declare_table",
        "describe_interface",
        "destroy_world",
        "discover_sessions",
        "discover_stores",
        "discover_worlds",
        "export_store",
        "fork_world",
        "get_audit_history",
        "get_command",
        "get_job",
        "get_session",
        "get_store",
        "get_world_info",
        "land",
        "list_commands",
        "list_consumers",
        "list_hooks",
        "list_jobs",
        "list_processors",
        "list_resources",
        "migrate_storage",
        "query",
        "query_components",
        "read_documents",
        "read_log",
        "read_rows",
        "read_store_log",
        "read_transcript",
        "remove_hook",
        "remove_processor",
        "remove_resource",
        "resolve_approval",
        "resume_world",
        "retract_send",
        "retry_job",
        "run",
        "run_ticks",
        "send_to_session",
        "set_consumer",
        "spawn_reserved",
        "start_job",
        "steer_run",
        "submit_commands",
        "tell_health",
        "tick",
        "trim",
        "verify_world",
    }
)
"""Operations that exist and cannot be deferred to a tick."""

Values = dict[str, Any]
Value = Annotated[Values | Component, Field(union_mode="left_to_right")]
"""Tried in turn: a mapping is never a component, and the other way round."""

Components = Annotated[dict[str, Value], Field(min_length=1)]
Entity = Annotated[int, Field(ge=1, le=limits.INTEGER_MAX)]


class Command(BaseModel):
    """Base of the operations: the options of deferral. Absent options enter no digest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    command_id: str | None = None
    tick: Annotated[int, Field(ge=0, le=limits.TICK_MAX)] | None = None
    priority: Annotated[int, Field(ge=-limits.PRIORITY_MAX, le=limits.PRIORITY_MAX)] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=limits.ATTEMPTS_MAX)] | None = None

    spawns: ClassVar[bool] = False

    def __init__(self, /, *components: Component, **fields: Any) -> None:
        """Take components by position or as ``components={name: values}``."""
        if components:
            fields["components"] = _by_name(components)
        super().__init__(**fields)

    # Mappings have no positions, so they need not be read by way of `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as RootModel does


class Spawn(Command):
    """Make an entity. Its id is reserved when the command is admitted."""

    operation: Literal["spawn"] = "spawn"
    components: Components

    spawns: ClassVar[bool] = True


class Despawn(Command):
    """End an entity."""

    operation: Literal["despawn"] = "despawn"
    entity_id: Entity


class Update(Command):
    """Replace the values of components that an entity has."""

    operation: Literal["update"] = "update"
    entity_id: Entity
    components: Components


class AddComponents(Command):
    """Give an entity components that it lacks."""

    operation: Literal["add_components"] = "add_components"
    entity_id: Entity
    components: Components


class RemoveComponents(Command):
    """Take components from an entity, by name."""

    operation: Literal["remove_components"] = "remove_components"
    entity_id: Entity
    components: Annotated[list[str], Field(min_length=1)]


AnyCommand = Annotated[
    Spawn | Despawn | Update | AddComponents | RemoveComponents,
    Field(discriminator="operation"),
]
OPERATIONS: Final[Mapping[str, type[Command]]] = {
    "spawn": Spawn,
    "despawn": Despawn,
    "update": Update,
    "add_components": AddComponents,
    "remove_components": RemoveComponents,
}
_BRANCHES: Final = frozenset({*OPERATIONS, "dict[str,any]"})
"""Parts of the place of a fault that pydantic adds: which branch of a union it was in."""

COMMANDS: Final[TypeAdapter[list[AnyCommand]]] = TypeAdapter(list[AnyCommand])


def parsed_commands(raw: Any) -> list[Command]:
    """Read the JSON form of a list of commands, each ``{"operation": …, …}``.

    Raises: InvalidBatch, UnknownOperation, DirectOnly, InvalidValue; each names the first
    command at fault.
    """
    try:
        return list(COMMANDS.validate_python(raw))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _translated(raw, first["loc"], first["type"], first["msg"], first["input"]) from None


def _translated(
    raw: Any, where: tuple[int | str, ...], kind: str, message: str, found: Any
) -> Exception:
    if not where:
        return InvalidBatch(expected="a list of commands", found=type(raw).__name__)
    place = path_shown(part for part in where if part not in _BRANCHES)
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        name = found.get("operation") if isinstance(found, Mapping) else None
        if isinstance(name, str) and name in DIRECT_ONLY:
            return DirectOnly(
                expected=f"commands.{place}: an operation that can wait for a tick",
                found=repr(name),
            )
        known = ", ".join(OPERATIONS)
        return UnknownOperation(
            expected=f"commands.{place}.operation: one of {known}", found=shown(name)
        )
    return fault(kind, f"commands.{place}", message, shown(found))


def _by_name(components: Iterable[Component]) -> dict[str, Component]:
    named: dict[str, Component] = {}
    for each in components:
        name = type(each).__name__
        if name in named:
            raise InvalidValue(expected="each component once", found=f"{name} twice")
        named[name] = each
    return named
