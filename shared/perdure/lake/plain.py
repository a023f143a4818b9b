"""Plain components: classes without rules of their own, whose values are checked by the column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import isfinite
from operator import itemgetter
from types import NoneType
from typing import Any, Final, NamedTuple

from perdure.kernel import limits
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
    if _config(compiled) != _config(base) or not _is_bare(compiled["schema"], "model-fields"):
        return None
    fields = []
    for name, field in compiled["schema"]["fields"].items():
        plain = _plain_field(name, field)
        if plain is None:
            return None
        fields.append(plain)
    return tuple(fields)


def plain_columns(
    fields: Sequence[PlainField], stored: Sequence[Any]
) -> dict[str, list[Any]] | None:
    """Return values by field if they are what a plain class decodes, spelled as it encodes them."""
    if set(map(type, stored)) != {dict} or set(map(len, stored)) != {len(fields)}:
        return None
    columns: dict[str, list[Any]] = {}
    for field in fields:
        try:
            columns[field.name] = list(map(itemgetter(field.name), stored))
        except KeyError:
            return None
        if not _fits(field, columns[field.name]):
            return None
    return columns


def fit_column(kind: type, values: list[Any]) -> bool:
    """Say whether values of one type can be held by its column."""
    if kind is int:
        return not values or bool(
            min(values) >= limits.INTEGER_MIN and max(values) <= limits.INTEGER_MAX
        )
    return kind is not str or _encodes(values)


def _fits(field: PlainField, values: list[Any]) -> bool:
    kinds = set(map(type, values))
    if NoneType in kinds:
        if not field.is_nullable:
            return False
        kinds.discard(NoneType)
        values = [each for each in values if each is not None]
    if kinds - {field.kind}:
        return False
    if field.kind is float:
        # A sum is finite only if all of it is; that it is not may be an overflow.
        return isfinite(sum(values)) or all(map(isfinite, values))
    return fit_column(field.kind, values)


def _encodes(texts: list[str]) -> bool:
    """Say whether texts fit a column: a lone surrogate is JSON, but no UTF-8."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


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
