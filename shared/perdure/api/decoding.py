"""Decoding: strict JSON and typed requests, every fault a code with what was expected and found."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from perdure.kernel.errors import InvalidJson, InvalidValue, NotFinite, OutOfRange, fault
from perdure.kernel.shown import path_shown, shown

M = TypeVar("M", bound=BaseModel)

IDEMPOTENCY_KEY: Final = "idempotency-key"


def strict_json(text: bytes) -> Any:
    """Read JSON of which no two readers make different things.

    Raises: InvalidJson for what is no JSON, other encodings than UTF-8 (Python's reader guesses
    them), a key given twice in one object, and nesting beyond what the reader can follow;
    NotFinite for NaN and infinities, which Python's reader takes; OutOfRange.
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise InvalidJson(
            expected="JSON", found=f"{error.msg.lower()} at character {error.pos}"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidJson(expected="JSON in UTF-8", found=f"{error.reason}") from None
    except RecursionError:
        raise InvalidJson(expected="JSON of reasonable depth", found="deeper nesting") from None
    except ValueError:
        # The reader itself refuses integers of more than 4,300 digits.
        raise OutOfRange(
            expected="JSON with integers of 64 bits", found="an integer of thousands of digits"
        ) from None


def typed(model: type[M], raw: Any, *, where: str) -> M:
    """Return ``raw`` as a ``model``. Raises InvalidValue, which names the first fault."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = f"{where}.{path_shown(first['loc'])}" if first["loc"] else where
        raise fault(first["type"], place, first["msg"], shown(first["input"])) from None


def cursor(scope: str, after: str) -> str:
    """Spell "what follows ``after``" as opaque text that holds within ``scope`` only."""
    return base64.urlsafe_b64encode(f"{scope}\n{after}".encode()).decode().rstrip("=")


def resumed(text: str | None, *, scope: str) -> str | None:
    """Read what :func:`cursor` spelled. Raises InvalidValue."""
    if text is None:
        return None
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        decoded = ""
    found, mark, after = decoded.partition("\n")
    if not mark or found != scope:
        raise InvalidValue(
            expected="the `next` of an earlier reply to the same question", found=shown(text)
        )
    return after


def header(headers: Mapping[str, str], name: str) -> str | None:
    """Return the value of a header, stripped; None if it is absent.

    An empty one was meant to say something: it is handed on, to be refused.
    """
    value = headers.get(name)
    return None if value is None else value.strip()


def keyed(headers: Mapping[str, str], given: str | None, *, field: str) -> str | None:
    """Return the id by which something is done once: ``field`` of a body, or Idempotency-Key.

    Raises InvalidValue if both are there and differ.
    """
    key = header(headers, IDEMPOTENCY_KEY)
    if None not in (key, given) and key != given:
        raise InvalidValue(
            expected=f"`{field}` and Idempotency-Key to be the same, or one of them",
            found=f"{shown(given)} and {shown(key)}",
        )
    return key if given is None else given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidJson(expected="each key once in an object", found=f"{shown(twice)} twice")
    return read


def _constant(name: str) -> NoReturn:
    raise NotFinite(expected="finite numbers", found=name)
