"""Loads and commits with bodies as the kernel knows them; stores see only packed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from perdure.authority import packing
from perdure.authority.store import Store
from perdure.kernel import limits
from perdure.kernel.commit import Action, Check, Commit, Put
from perdure.kernel.errors import Contended, Corrupt, TooLarge
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Reads, Stored, View

LOADS_MAX: Final = 8
"""Times that a load is taken again whose large bodies are superseded meanwhile. Source: choice."""

EMPTIED: Final = b""
"""What is in a chunk that nothing points at any more; there is no chunk of no bytes otherwise."""

Placed = dict[tuple[Key[Any], bytes], packing.Pointer]
"""Large bodies, each of one record, that lie in chunks already: deciding again need not put them again.

Two records never share chunks; so these are emptied when the one that points at them is superseded.
"""


_AS_IT_IS_BYTES: Final = min(limits.DEFLATE_ABOVE_BYTES, limits.BODY_INLINE_BYTES_MAX - 1)
"""Bodies of so many bytes are neither deflated nor put in chunks."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A commit ready for a store, and the large bodies that must be put before it."""

    commit: Commit
    placed: Placed
    unplaced: tuple[tuple[Key[Any], bytes], ...]


def packed(commit: Commit, placed: Placed, new_token: Callable[[], Token]) -> Packed:
    """Pack every body, with pointers in place of large ones. Raises TooLarge."""
    pointers = dict(placed)
    unplaced: list[tuple[Key[Any], bytes]] = []
    actions: list[Action] = []
    for action in commit.actions:
        if not isinstance(action, Put):
            actions.append(action)
            continue
        if len(action.body) <= _AS_IT_IS_BYTES:
            actions.append(Put(action.key, action.seen, packing.RAW + action.body))
            continue
        _check_length(action.key, action.body, "a", limits.BODY_BYTES_MAX)
        body = packing.packed(action.body)
        if len(body) > limits.BODY_INLINE_BYTES_MAX:
            place = (action.key, body)
            if place not in pointers:
                _check_length(action.key, body, "a packed", limits.BODY_PACKED_BYTES_MAX)
                pointers[place] = packing.Pointer.to(body, new_token())
                unplaced.append(place)
            body = pointers[place].spelled()
        actions.append(Put(action.key, action.seen, body))
    return Packed(Commit(commit.token, tuple(actions)), pointers, tuple(unplaced))


async def place(
    ready: Packed, commit: Callable[[Commit], Awaitable[None]], new_token: Callable[[], Token]
) -> None:
    """Put the large bodies of a commit, each chunk only where there is none.

    Raises: whatever ``commit`` raises; the chunks put until then are never pointed at.
    """
    sent = [
        commit(Commit(new_token(), (Put(key, None, chunk),)))
        for place in ready.unplaced
        for key, chunk in zip(ready.placed[place].keys, packing.chunks(place[1]), strict=True)
    ]
    for outcome in await asyncio.gather(*sent, return_exceptions=True):
        if outcome is not None:
            raise outcome


async def loaded(store: Store, reads: Reads) -> View:
    """Load ``reads`` and unpack what they find.

    A body whose chunks are empty was superseded after its record was read, so all is read again.
    If its record points at them still, it is damaged.
    Raises: Corrupt, Contended, StoreUnavailable, StoreRefused.
    """
    emptied: set[str] = set()
    for _ in range(LOADS_MAX):
        view = await store.load(reads)
        chunk = await _unpack(store, view)
        if chunk is None:
            return view
        if chunk.partition in emptied:
            raise Corrupt(expected=f"a chunk at {chunk.partition} {chunk.sort}", found="no bytes")
        emptied.add(chunk.partition)
    raise Contended(
        expected="large bodies that stay while they are read",
        found=f"others in each of {LOADS_MAX} loads",
    )


async def _unpack(store: Store, view: View) -> Key[Any] | None:
    """Put the bodies in the place of packed ones, or return a chunk that is empty."""
    large: dict[Key[Any], packing.Pointer] = {}
    for key, stored in view.stored.items():
        if stored is None:
            continue
        body = packing.unpacked(stored.body)
        if isinstance(body, packing.Pointer):
            large[key] = body
        else:
            view.stored[key] = Stored(stored.version, body)
    return await _fetch(store, view, large) if large else None


async def _fetch(
    store: Store, view: View, large: dict[Key[Any], packing.Pointer]
) -> Key[Any] | None:
    peeks = tuple(key for pointer in large.values() for key in pointer.keys)
    chunks = (await store.load(Reads(peeks=peeks))).stored
    for key, pointer in large.items():
        parts: list[tuple[Key[Any], Stored]] = []
        for part in pointer.keys:
            chunk = chunks.get(part)
            if chunk is None:
                raise Corrupt(expected=f"a chunk at {part.partition} {part.sort}", found="none")
            if chunk.body == EMPTIED:
                return part
            parts.append((part, chunk))
        body = packing.unpacked(pointer.joined([chunk.body for _, chunk in parts]))
        stored = view.stored[key]
        assert stored is not None, "a pointer was read from it"
        if isinstance(body, packing.Pointer):
            raise Corrupt(expected=f"a body behind {pointer.name}", found="another pointer")
        where = tuple((part, chunk.version) for part, chunk in parts)
        view.stored[key] = Stored(stored.version, body, where)
    return None


def superseded(commit: Commit, view: View) -> list[Put]:
    """Return what empties the chunks that no record points at once ``commit`` happened on ``view``."""
    changed = (each.key for each in commit.actions if not isinstance(each, Check))
    return [
        Put(part, version, EMPTIED)
        for stored in map(view.stored.get, changed)
        if stored is not None
        for part, version in stored.parts
    ]


async def empty(
    chunks: list[Put], commit: Callable[[Commit], Awaitable[None]], new_token: Callable[[], Token]
) -> None:
    """Empty chunks that nothing points at; those that stay full are in nobody's way.

    A commit leaves a record with its token, so what stays of each is that.
    Raises nothing: what has superseded them stands, whatever becomes of them.
    """
    sent = [commit(Commit(new_token(), (chunk,))) for chunk in chunks]
    for outcome in await asyncio.gather(*sent, return_exceptions=True):
        if outcome is not None and not isinstance(outcome, Exception):
            raise outcome  # the end of the process, or of the task


def _check_length(key: Key[Any], body: bytes, what: str, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise TooLarge(
            expected=f"{what} body of at most {bytes_max} bytes",
            found=f"{len(body)} bytes for {key.partition} {key.sort}",
        )
