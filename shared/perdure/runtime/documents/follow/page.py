"""Following the document at an address a page at a time, for whoever holds no connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.commit import check_undivided, check_whole
from perdure.kernel.documents.errors import LogTrimmed
from perdure.kernel.documents.followed import AddressView
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.records import Logged
from perdure.kernel.ids import Lineage, Seq
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.reading import read_at_once
from perdure.runtime.documents.store import StoreMeans

PAGE_BYTES: Final = 1_000_000
"""Bytes at which a page ends behind the change that it is in. Source: choice, a sixth of a reply."""


@dataclass(frozen=True, slots=True)
class FollowPlace:
    """Up to which commit somebody follows an address, and which document lived there then."""

    lineage: Lineage
    seq: Seq
    document: int
    """Its id; 0 for none."""


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that is told of an address, and the place behind it."""

    kind: Literal["snapshot", "change", "retired"]
    data: dict[str, Any]
    place: FollowPlace


@dataclass(frozen=True, slots=True)
class FollowPage:
    """What is told of an address behind a place, and where to go on."""

    told: tuple[Told, ...]
    place: FollowPlace


async def followed_page(
    means: StoreMeans, ref: DocumentStoreRef, address: Address, place: FollowPlace | None
) -> FollowPage:
    """Return what follows a place, or what the address is if there is no place yet.

    A snapshot is `seq` and `document`: `id`, `version`, `value` and `meta`, or None. A change is
    `seq`, `at` and `ops` on that. The end of a document is a page by itself, and nothing follows
    it. A place that has left the log is answered with a snapshot.
    Raises: NotFound, LineageChanged, StaleCursor, StoreDiverged, StoreImporting, Contended,
    Corrupt.
    """
    if place is None:
        return await _snapshot(means, ref, address)
    behind = LogPlace(place.seq, None, place.lineage)
    try:
        page = await read_log(means.authority, ref, behind, pause=means.pause)
    except LogTrimmed:
        return await _snapshot(means, ref, address)
    check_whole(page.head, ref)
    check_undivided(page.head, ref)
    found = _told(address, place, page.entries)
    return await _snapshot(means, ref, address) if found is None else found


async def _snapshot(means: StoreMeans, ref: DocumentStoreRef, address: Address) -> FollowPage:
    view_of = AddressView(address)
    head, document = await read_at_once(
        means.authority,
        ref,
        lambda view: view_of.look(view, ref.partition),
        means.pause,
        means.whole,
    )
    check_undivided(head, ref)
    place = FollowPlace(head.lineage, head.seq, 0 if document is None else document["id"])
    data = {"seq": head.seq, "document": document}
    return FollowPage((Told("snapshot", data, place),), place)


def _told(address: Address, place: FollowPlace, entries: Sequence[Logged]) -> FollowPage | None:
    """Return what commits tell of an address; None if that takes a look at the store."""
    told: list[Told] = []
    size = 0
    for entry in entries:
        lives = place.document
        # Only the id is looked at: what the document says, its follower has.
        ops = AddressView(address, one_life=bool(lives)).ops(
            {"id": lives} if lives else None, entry.told()
        )
        if ops is None:
            return FollowPage(tuple(told), place) if told else None
        if ops == [["r", None]]:
            if not told:
                end = Told("retired", {"seq": entry.seq, "at": entry.at, "id": lives}, place)
                told.append(end)
            break
        place = FollowPlace(place.lineage, entry.seq, lives or _began(ops))
        if ops:
            told.append(Told("change", {"seq": entry.seq, "at": entry.at, "ops": ops}, place))
            size += len(canonical(ops))
        if size >= PAGE_BYTES:
            break
    return FollowPage(tuple(told), place)


def _began(ops: Sequence[Any]) -> int:
    """Return the id of the document that began to live by operations; 0 if none did."""
    return int(ops[0][1]["id"]) if ops else 0
