"""What a request can hold that nobody meant it to hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.api.gateway import BODY_BYTES_MAX

DEEP = 50_000

PATHS = (
    b"..",
    b"%2e%2e",
    b"..%2f..%2fetc%2fpasswd",
    b"%2e%2e%5cwin.ini",
    b"a%00b",
    b"%00",
    b"%ff%fe",
    b"%ed%a0%80",
    b"%c0%af",
    b"%E2%80%AE",
    b"%",
    b"%zz",
    b"%2525",
    b"a%0d%0aSet-Cookie:%20x=1",
    b"a;b=c",
    b"*",
    b"%20",
    b"+",
    b"#",
    b"x" * 257,
    b"%F0%9F%9A%A2" * 64,
    b"head",
    b"key%2Fbatch%2Ffirst",
)
"""Segments of a path."""

QUERIES = (
    b"",
    b"%00",
    b"%ff",
    b"%ed%a0%80",
    b"%",
    b"-1",
    b"1e309",
    b"NaN",
    b"9" * 40,
    b"9" * 5_000,
    b"0x10",
    b"1_000",
    b"%D9%A1",
    b"%20" * 50,
    b"' OR 1=1 --",
    b"a,,b",
    b"((((((((((",
    b"(" * 3_000,
    b"not " * 1_000 + b"x > 1",
    b"position__x > " + b"9" * 4_000,
    b"[]",
    b"true",
    b"AAAA",
    b"Y29tbWFuZHMgZmxlZXQK",
)
"""Values of a query."""

HEADERS = (
    (b"content-type", b"application/xml"),
    (b"content-type", b"text/plain; charset=utf-7"),
    (b"content-type", b"multipart/form-data; boundary="),
    (b"content-type", b"application/json; charset=utf-16"),
    (b"content-type", b"\xff\xfe"),
    (b"content-type", b""),
    (b"accept", b"text/html"),
    (b"accept", b"application/vnd.apache.arrow.stream;q=0"),
    (b"accept", b",,,;;;=" * 500),
    (b"idempotency-key", b""),
    (b"idempotency-key", b"a/b"),
    (b"idempotency-key", b"\x00"),
    (b"idempotency-key", b"x" * 5_000),
    (b"idempotency-key", "key \u00e9".encode()),
    (b"x-correlation-id", b"\r\nforged: 1"),
    (b"x-correlation-id", b"x" * 4_000),
    (b"x-correlation-id", b"\xff"),
    (b"transfer-encoding", b"chunked"),
    (b"content-encoding", b"gzip"),
    (b"content-length", b"-1"),
    (b"expect", b"100-continue"),
    (b"upgrade", b"websocket"),
    (b"x-http-method-override", b"DELETE"),
    (b"cookie", b"a=" + b"b" * 4_000),
)

BODIES = (
    b"",
    b"{",
    b"\x00",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    '{"name":"x"}'.encode("utf-16"),
    b"null",
    b"[]",
    b'"text"',
    b"1e999",
    b'{"name":NaN}',
    b'{"name":"a","name":"b"}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"commands":' * 2_000 + b"1" + b"}" * 2_000,
    b'{"commands":[' + b"[" * DEEP,
    b'{"ticks":' + b"9" * 10_000 + b"}",
    b'{"name":"\\ud800"}',
    b'{"name":"\\u0000"}',
    b'{"name":"\xed\xa0\x80"}',
    b'{"__proto__":{},"constructor":1}',
    b"name=x&world_id=y",
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
    b"\x1f\x8b\x08\x00",
)

OVERSIZE = b'{"name":"' + b"x" * BODY_BYTES_MAX + b'"}'

VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "",
    "\x00",
    "\ud800",
    "a/b",
    "..",
    "x" * 300,
    "\u202e",
    -1,
    0.5,
    2**53 + 1,
    2**63 - 1,
    2**63,
    10**400,
    -(10**30),
    1e308,
    [[[[[[]]]]]],
    {"a": {"b": {"c": {}}}},
    ["x"] * 50,
)
"""Values in place of one that was good."""


KEYS = ("\ud800", "\x00", "", "x" * 10_000, "Cargo@", "\u202e", "__class__", "a/b")
"""Names of fields."""


def replaced(good: Any) -> Iterator[bytes]:
    """Yield a good body with each of its values replaced or left out, and with more in it."""
    for place in places(good):
        inside = found_at(good, place)
        if isinstance(inside, dict):
            for key in KEYS:
                yield json.dumps(changed(good, place, {**inside, key: 1})).encode()
        for value in VALUES:
            yield json.dumps(changed(good, place, value)).encode()
        if place:
            yield json.dumps(changed(good, place, ...)).encode()


def found_at(value: Any, place: tuple[Any, ...]) -> Any:
    """Return the value at a place."""
    for each in place:
        value = value[each]
    return value


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where values are, of lists the first two only."""
    yield at
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*at, name))
    elif isinstance(value, list):
        for index, each in enumerate(value[:2]):
            yield from places(each, (*at, index))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a place; ``...`` leaves it out."""
    if not place:
        return new
    first, *rest = place
    copy = value.copy()
    if not rest and new is ...:
        del copy[first]
    else:
        copy[first] = changed(copy[first], tuple(rest), new)
    return copy
