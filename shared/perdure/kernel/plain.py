"""Plain components: classes without rules of their own, whose values may be looked at by the column."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from perdure.kernel.component import Component

EXACT: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "str": str}


class PlainField(NamedTuple):
    """A field that may hold any value of its type, and None if it is nullable."""

    name: str
    kind: type
    is_nullable: bool


@cache
def plain_fields(model: type[Component]) -> tuple[PlainField, ...] | None:
    """Return the fields of a class that adds nothing to :class:`Component`, None of another.

    Judged from what pydantic compiled the class to. Whatever is not known to be without
    effect (a validator, a constraint, an alias, another configuration) makes a class not
    plain; then pydantic decides about each value.
    """
    compiled = model.__pydantic_core_schema__
    base = Component.__pydantic_core_schema__
    if not (_is_bare(compiled, "model") and _is_bare(base, "model")):
        return None
    if compiled["cls"] is not model or _config(compiled) != _config(base):
        return None
    if not _is_bare(compiled["schema"], "model-fields"):
        return None
    fields = []
    for name, field in compiled["schema"]["fields"].items():
        plain = _plain_field(name, field)
        if plain is None:
            return None
        fields.append(plain)
    return tuple(fields)


_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "model": frozenset(
        {"type", "cls", "schema", "custom_init", "root_model", "config", "ref", "metadata"}
    ),
    "model-fields": frozenset({"type", "fields", "model_name", "computed_fields"}),
    "model-field": frozenset({"type", "schema", "metadata"}),
    "default": frozenset({"type", "schema", "default"}),
    "nullable": frozenset({"type", "schema"}),
    **{each: frozenset({"type"}) for each in EXACT},
}


def _is_bare(schema: Mapping[str, Any], kind: str) -> bool:
    """Say whether a part is of this kind and has no key that could change what is accepted."""
    return (
        schema["type"] == kind
        and schema.keys() <= _KNOWN[kind]
        and not schema.get("custom_init")
        and not schema.get("root_model")
        and not schema.get("computed_fields")
    )


def _config(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: held for name, held in schema["config"].items() if name != "title"}


def _plain_field(name: str, field: Mapping[str, Any]) -> PlainField | None:
    if not _is_bare(field, "model-field"):
        return None
    schema, is_nullable = field["schema"], False
    # A default changes nothing: a stored value that leaves a field out is not canonical.
    for kind in ("default", "nullable"):
        if _is_bare(schema, kind):
            is_nullable = is_nullable or kind == "nullable"
            schema = schema["schema"]
    for kind, exact in EXACT.items():
        if _is_bare(schema, kind):
            return PlainField(name, exact, is_nullable)
    return None
