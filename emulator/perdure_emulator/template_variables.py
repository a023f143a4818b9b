"""A function's variables, as its template declares them, and those of which nothing comes here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.api.settings import STORAGE, TABLE
from perdure_emulator.cloudformation import Document, Unresolved
from perdure_emulator.template_resources import BUCKET, FUNCTION
from perdure_emulator.template_resources import TABLE as DYNAMODB_TABLE

SAID_HERE: Final = frozenset({(STORAGE, BUCKET), (TABLE, DYNAMODB_TABLE)})
"""Variables that the emulator says itself, and what they refer to in a deployment."""


def variables(document: Document, own: Mapping[str, Any]) -> dict[str, str]:
    """Return a function's variables, but for those whose value only a deployment knows."""
    found: dict[str, str] = {}
    for name, value in {**_shared(document), **_declared(own)}.items():
        resolved = _resolved(document, name, value)
        if not isinstance(resolved, Unresolved):
            found |= resolved
    return found


def variables_left_out(document: Document) -> Iterator[str]:
    """Say which variables functions do without, a line each."""
    yield from _left_out(document, "Globals", _shared(document))
    for logical, resource in document.resources.items():
        if resource["Type"] == FUNCTION:
            yield from _left_out(document, logical, _declared(resource["Properties"]))


def _left_out(document: Document, where: str, declared: Mapping[str, Any]) -> Iterator[str]:
    for name, value in declared.items():
        resolved = _resolved(document, name, value)
        if not isinstance(resolved, Unresolved):
            continue
        what = str(resolved)
        if (name, document.kind(what)) not in SAID_HERE:
            yield f"{where}: its variable {name} is not set: only a deployment knows {what}"


def _resolved(document: Document, name: str, value: Any) -> dict[str, str] | Unresolved:
    try:
        resolved = document.resolve({name: value})
    except Unresolved as error:
        return error
    return {key: _text(each) for key, each in resolved.items()}


def _shared(document: Document) -> Mapping[str, Any]:
    return _declared(document.globals.get("Function", {}))


def _declared(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = properties.get("Environment", {}).get("Variables", {})
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
