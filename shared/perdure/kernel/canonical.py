"""Canonical bytes: the one spelling of a value, and the digests made of it."""

from __future__ import annotations

import hashlib
import json
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]  # the stubs lack them
from math import isfinite
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False
)
# What `_ENCODER.encode` makes anew for every value it spells; kept, small values cost half.
_CHUNKS: Final[Any] = c_make_encoder and c_make_encoder(
    None,
    _ENCODER.default,
    encode_basestring_ascii,
    None,
    ":",
    ",",
    *(True, False, False),  # sorted keys; no other keys than text; no NaN
)


def canonical(value: Any) -> bytes:
    """Spell ``value`` as JSON: sorted keys, no spaces, ASCII.

    Raises: ValueError for NaN and infinities, TypeError for what JSON cannot hold.
    """
    if _CHUNKS is None:
        return _ENCODER.encode(value).encode("ascii")
    return "".join(_CHUNKS(value, 0)).encode("ascii")


def strict(spelled: bytes) -> Any:
    """Read JSON that :func:`canonical` can spell again.

    Raises: ValueError for anything else: NaN, infinities, nesting beyond what can be followed.
    """
    try:
        return _DECODER.decode(spelled.decode())
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


# JSON has no constants for numbers; Python's reader knows three.
_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def digest(domain: str, *parts: bytes) -> str:
    """Return the SHA-256 of ``parts`` under ``domain``, as 64 hex digits.

    Each part is preceded by its length, so no two lists of parts read alike.
    """
    state = hashlib.sha256(domain.encode())
    for part in parts:
        state.update(b"\0%d\0" % len(part))
        state.update(part)
    return state.hexdigest()
