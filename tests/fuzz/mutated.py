"""Bytes as they were written, and what may have become of them since."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

import perdure.authority
import perdure.kernel
from perdure.authority.packing import Chunk
from perdure.kernel.canonical import canonical
from perdure.kernel.carry import Raw
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.records import Logged, Row
from perdure.kernel.errors import PerdureError
from perdure.kernel.log import EntryKind, LogEntry
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName
from perdure.kernel.record import Record
from perdure.kernel.session.frames import Entry, Frame

OPAQUE = {Chunk, Raw}
"""Records whose bytes are not read, only carried."""

NUMBERS = st.integers(0, 2**63 - 1)
WORDS = st.text(st.characters(exclude_characters="/"), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)

DEEP = b"[" * 60_000
BITS = (
    b"",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b"9" * 5_000,
    b"\x00",
    b"\xff\xfe",
    b'"\\ud800"',
    b'"newer":{"of":1},',
    b"[]",
    b"{}",
    DEEP,
    b'{"a":' * 60_000,
    b'"kind":"x","payload":',
)


def quiet(examples: int) -> Callable[[Any], Any]:
    """The same examples on every run, and no time limit but the suite's."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


def kinds() -> list[type[Record]]:
    """Every kind of record that a store may hold."""
    for package in (perdure.kernel, perdure.authority):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".testing" not in module.name:
                importlib.import_module(module.name)

    def below(of: type[Record]) -> Iterable[type[Record]]:
        for kind in of.__subclasses__():
            yield kind
            yield from below(kind)

    found = {kind for kind in below(Record) if "testing" not in kind.__module__}
    # A dataclass with slots is made twice; the first, without, is still a subclass.
    named = {
        kind.__name__: kind
        for kind in found
        if getattr(importlib.import_module(kind.__module__), kind.__name__, None) is kind
    }
    return [named[name] for name in sorted(named)]


PLAIN = {
    int: NUMBERS,
    str: WORDS,
    bool: st.booleans(),
    bytes: st.binary(max_size=9),
    type(None): st.none(),
    Any: JSON,
}


def values(hint: Any) -> st.SearchStrategy:
    """Values of a field, from its annotation."""
    if hasattr(hint, "__supertype__"):
        return values(hint.__supertype__)
    if dataclasses.is_dataclass(hint):
        return instances(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {None, typing.Literal}:
        return PLAIN[hint] if origin is None else st.sampled_from(arguments)
    return composed(origin, [values(each) for each in arguments if each is not ...], arguments)


def composed(origin: Any, parts: list[st.SearchStrategy], arguments: tuple[Any, ...]) -> Any:
    """Values of an annotation that has others in it."""
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(parts)
    if origin is typing.Annotated:
        return parts[0]
    if origin is dict:
        return st.dictionaries(*parts, max_size=3)
    if origin is tuple and ... not in arguments:
        return st.tuples(*parts)
    return st.lists(parts[0], max_size=3).map(origin)


def instances(kind: type) -> st.SearchStrategy:
    """Records of a kind, or parts of them, all fields filled."""
    if kind is Page:
        entries = st.lists(instances(PageEntry), max_size=4)
        return st.builds(Page.of, WORDS, instances(PageName), entries)
    hints = typing.get_type_hints(kind, include_extras=True)
    # What is not compared is the same thing spelled already: no record has another there.
    drawn = [each.name for each in dataclasses.fields(kind) if each.init and each.compare]
    filled = {name: values(hints[name]) for name in drawn}
    if kind is Row:
        part = (
            st.integers(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX) | st.text(max_size=20) | st.booleans()
        )
        filled["row_key"] = st.lists(part, max_size=3).map(tuple)
    if kind is PageName:
        filled["priority"] = st.integers(-1_000, 1_000)
    if kind is Entry:
        filled["frames"] = st.lists(instances(Frame), min_size=1, max_size=3).map(tuple)
    if kind is Frame:
        filled["digest"] = st.sampled_from(("", "ab" * 32))
        return st.builds(_one_payload, st.builds(kind, **filled))
    if kind is LogEntry:
        filled |= {
            "payload": JSON.map(canonical),
            "payload_digest": st.just(""),
            "previous": st.sampled_from(("", "ab" * 32)),
            "kind": st.sampled_from(typing.get_args(EntryKind)),
            "facts": st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        }
    if kind is Logged:
        filled |= {
            "writes": st.lists(JSON, max_size=3).map(canonical),
            "previous": st.sampled_from(("", "ab" * 32)),
        }
    return st.builds(kind, **filled)


def _one_payload(frame: Frame) -> Frame:
    """Return a frame whose payload lies here or in an object, and not in both."""
    return frame if frame.ref is None else dataclasses.replace(frame, payload=None)


@st.composite
def mutations(draw, originals: st.SearchStrategy, others: st.SearchStrategy) -> bytes:
    """Draw bytes as they were, with one to three things done to them."""
    data = draw(originals)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, len(data)))
        done = draw(st.sampled_from(("flip", "cut", "drop", "twice", "bit", "splice", "more")))
        if done == "flip" and at < len(data):
            flipped = data[at] ^ (1 << draw(st.integers(0, 7)))
            data = data[:at] + bytes([flipped]) + data[at + 1 :]
        elif done == "cut":
            data = data[:at]
        elif done == "drop":
            data = data[:at] + data[to:]
        elif done == "twice":
            data = data[:to] + data[at:]
        elif done == "bit":
            data = data[:at] + draw(st.sampled_from(BITS)) + data[to:]
        elif done == "splice":
            data = data[:at] + draw(others)[to:]
        else:
            data += draw(st.binary(max_size=20))
    return data


def read_or_refused(read: Callable[[], Any]) -> Any:
    """Return what is read, None if it is refused with a code; anything else that is raised is a fault."""
    try:
        return read()
    except PerdureError:
        return None
