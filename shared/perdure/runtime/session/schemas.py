"""JSON Schemas of tools: refused when they are not sound, and held against arguments.

Draft 2020-12 through ``jsonschema``, which only processes with sessions have: this module is
loaded by name. Nothing is ever fetched: a reference leads into the schema itself or is refused.
``format`` is a remark, as the draft says, so an unknown one is no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.exceptions import best_match
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Invalid
from perdure.kernel.shown import shown

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

SCHEMA_BYTES_MAX: Final = 65_536
"""Canonical bytes of one tool's schema: it is sent with every step."""

MISMATCHES_MAX: Final = 3
"""Places of a call's arguments that a model is told of at once."""

MISMATCH_CHARACTERS_MAX: Final = 300
"""Characters that each of them may take."""

_NOTHING_ELSE: Final[Registry[Any]] = Registry()
_REFERENCES: Final = ("$ref", "$dynamicRef")


def checked_schema(schema: Mapping[str, Any], what: str) -> None:
    """Check that arguments can be held against a schema. Raises Invalid."""
    expected = f"{what} with a JSON Schema of draft 2020-12 for an object"
    try:
        size = len(canonical(schema))
        if size > SCHEMA_BYTES_MAX:
            raise Invalid(expected=f"{expected}, at most {SCHEMA_BYTES_MAX} bytes", found=str(size))
        if schema.get("type") != "object" or schema.get("$schema", DRAFT) != DRAFT:
            found = {name: schema[name] for name in ("type", "$schema") if name in schema}
            raise Invalid(expected=expected, found=shown(found))
        Draft202012Validator.check_schema(dict(schema))
        _check_references(*_opened(schema))
    except SchemaError as error:
        raise Invalid(expected=expected, found=_spelled(error).rstrip(".")) from error
    except (Unresolvable, NoSuchResource) as error:
        raise Invalid(
            expected=f"{expected}, whose references lead into itself", found=shown(error.ref)
        ) from error
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Invalid(expected=expected, found=f"{type(error).__name__}: {error}"[:200]) from error


def mismatch(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Say where arguments differ from a sound schema, None if nowhere."""
    validator = Draft202012Validator(dict(schema), registry=_NOTHING_ELSE)
    try:
        found = list(islice(_leaves(validator.iter_errors(args)), MISMATCHES_MAX))
    except RecursionError:
        return "Expected arguments that the schema can be held against; found them nested too deep."
    except Exception as error:  # noqa: BLE001  # a reference into what is no schema, a number too large
        return (
            "Expected arguments that the schema can be held against; found that it can not"
            f" ({type(error).__name__})."
        )
    return " ".join(_spelled(error) for error in found) or None


def _leaves(errors: Iterator[ValidationError]) -> Iterator[ValidationError]:
    """Yield errors; of the alternatives of a choice, what the best fitting one lacks."""
    for error in errors:
        yield best_match([error]) or error


def _spelled(error: ValidationError | SchemaError) -> str:
    message = error.message.rstrip(".")
    room = MISMATCH_CHARACTERS_MAX // 2
    return f"At {_cut(error.json_path, room)}: {_cut(message, room)}."


def _cut(text: str, characters_max: int) -> str:
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def _opened(schema: Mapping[str, Any]) -> tuple[Any, Resource[Any]]:

    resource = DRAFT202012.create_resource(dict(schema))
    return _NOTHING_ELSE.resolver_with_root(resource), resource


def _check_references(resolver: Any, resource: Resource[Any]) -> None:
    contents = resource.contents
    if isinstance(contents, Mapping):
        for keyword in _REFERENCES:
            if isinstance(contents.get(keyword), str):
                resolver.lookup(contents[keyword])
    for inner in resource.subresources():
        _check_references(resolver.in_subresource(inner), inner)
