"""Exports for tests: the bytes of a store, and lines that say something else."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from typing import Any

from tests.support.documents import REF, opened
from tests.support.histories import Past

from perdure.authority.memory import MemoryStore
from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.runtime.documents.export import Exported, collected
from perdure.runtime.documents.store import StoreMeans

STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**53,
    2**80,
    1.5,
    "",
    "\ud800",
    "x" * 2_000,
    [],
    {},
    [[]],
    {"w": {}},
    ["id"],
)
"""Values that are wrong nearly everywhere."""


class BytesSink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = b""
        self.is_finished = False

    async def write(self, data: bytes) -> None:
        self.data += data

    async def finish(self) -> None:
        self.is_finished = True


class BytesSource:
    """Gives bytes, a few at a time."""

    def __init__(self, data: bytes, step: int = 1_000) -> None:
        self._data = data
        self._step = step

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), self._step):
            yield self._data[at : at + self._step]


async def bytes_of(means: StoreMeans, ref: DocumentStoreRef) -> bytes:
    """Return the export of a store."""
    return (await export_of(means, ref))[0]


async def export_of(means: StoreMeans, ref: DocumentStoreRef) -> tuple[bytes, Exported]:
    """Return the export of a store, and what it says of itself."""
    sink = BytesSink()
    async with collected(means, ref) as ready:
        exported = await ready.write(sink)
    assert sink.is_finished
    return sink.data, exported


def parts_of(data: bytes) -> list[dict[str, Any]]:
    """Return the parts of an export."""
    return [strict(line) for line in data.splitlines()]


def export_made_of(parts: list[dict[str, Any]], *, digest: bool = True) -> bytes:
    """Spell parts as an export, with the counts and the digest that it then has."""
    *rest, end = parts
    lines = b"".join(canonical(part) + b"\n" for part in rest)
    if digest:
        names = [part.get("part") for part in rest]
        end = {
            **end,
            "commits": names.count("commit"),
            "tables": names.count("table"),
            "rows": names.count("row"),
            "documents": names.count("document.create"),
            "revisions": names.count("document.revision"),
            "sha256": hashlib.sha256(lines).hexdigest(),
        }
    return lines + canonical(end) + b"\n"


async def made(seed: int, commits: int = 60) -> bytes:
    """Return the export of a store with a past."""
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(commits)
        await past.end()
        return await bytes_of(source.means, REF)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Return every container within a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += places_in(value[key])
    return found


def changed_somewhere(value: Any, draw: random.Random) -> None:
    """Take away, or make another, one thing within a value."""
    places = places_in(value)
    if places:
        container, key = draw.choice(places)
        if draw.random() < 0.3:
            del container[key]
        else:
            container[key] = draw.choice(STRANGE)
