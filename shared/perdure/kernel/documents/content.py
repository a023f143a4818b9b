"""Content of documents: bases and deltas, spelled once, and what a document says at a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.errors import HistoryNotKept
from perdure.kernel.documents.ops import applied, check_ops
from perdure.kernel.documents.records import Document, Revision
from perdure.kernel.errors import Corrupt, InvalidValue, TooLarge
from perdure.kernel.ids import Partition, Seq
from perdure.kernel.places import after, number
from perdure.kernel.view import Range, View

CONTENT_BYTES_MAX: Final = 4_194_304
"""Canonical bytes of one content: 4 MiB, as a frame's payload."""


@dataclass(frozen=True, slots=True)
class Content:
    """A base or a delta, checked and spelled."""

    kind: Literal["base", "delta"]
    version: int
    spelled: bytes
    told: Any
    """The value of a base, or the operations of a delta."""


def base(version: int, value: Any) -> Content:
    """Return a base. Raises InvalidValue, TooLarge."""
    return _content("base", version, {"kind": "base", "value": value, "version": version}, value)


def delta(version: int, ops: Sequence[Any]) -> Content:
    """Return a delta. Raises InvalidDelta, InvalidValue, TooLarge."""
    check_ops(ops)
    return _content("delta", version, {"kind": "delta", "ops": ops, "version": version}, ops)


def content_of(told: Any) -> Content:
    """Return the content that a log or an export spells. Raises Invalid kinds."""
    if isinstance(told, dict):
        if told.get("kind") == "base" and told.keys() == {"kind", "version", "value"}:
            return base(told["version"], told["value"])
        if told.get("kind") == "delta" and told.keys() == {"kind", "version", "ops"}:
            return delta(told["version"], told["ops"])
    raise InvalidValue(expected="a base or a delta", found="neither")


def _content(kind: Literal["base", "delta"], version: Any, told: Any, held: Any) -> Content:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidValue(expected="a version of 1 or more", found=repr(version))
    try:
        spelled = canonical(told)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            expected="content of JSON that a store can hold", found=type(error).__name__
        ) from error
    if len(spelled) > CONTENT_BYTES_MAX:
        raise TooLarge(
            expected=f"content of at most {CONTENT_BYTES_MAX} bytes", found=f"{len(spelled)}"
        )
    return Content(kind, version, spelled, held)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a document said at one commit."""

    document: Document
    version: int
    value: Any
    deltas: int
    """Deltas since the base."""


def is_current_only(document: Document) -> bool:
    """Say whether nothing of its past can be read."""
    return document.history != "rewindable"


def check_history(document: Document, at: Seq | None) -> None:
    """Refuse to read the past of a document that keeps none. Raises HistoryNotKept."""
    if at is not None and is_current_only(document):
        raise HistoryNotKept(
            expected=f"document {document.id} to be rewindable",
            found=f"history {document.history!r}: it does not retain historical content",
        )


def tail_range(store: Partition, document: Document, at: Seq | None = None) -> Range[Revision]:
    """Return where the contents lie that a document's value at a commit is made of.

    For now, from its base on; for the past, down from the commit: the base is behind the deltas.
    """
    prefix = places.revisions_prefix(document.id)
    if at is None:
        first = prefix + number(document.base)
        return Range(store, first, after(prefix), Revision, limit=document.deltas + 1)
    last = prefix + number(at + 1)
    return Range(store, prefix, last, Revision, limit=_PAST_PAGE, descending=True)


_PAST_PAGE: Final = 200


def current(view: View, store: Partition, document: Document) -> Loaded:
    """Return what a living document says now. Raises Missing, Corrupt, DeltaDoesNotApply."""
    return _joined(document, view.find(tail_range(store, document)))


def past(view: View, store: Partition, document: Document, at: Seq) -> Loaded:
    """Return what a document that lived at a commit said then. Raises as :func:`current`."""
    found: list[Revision] = []
    upper = at
    while True:
        page = view.find(tail_range(store, document, upper))
        for each in page:
            found.append(each)
            if each.told().get("kind") == "base":
                return _joined(document, found[::-1])
        if len(page) < _PAST_PAGE:
            return _joined(document, found[::-1])
        upper = Seq(page[-1].seq - 1)


def _joined(document: Document, revisions: Sequence[Revision]) -> Loaded:
    first = revisions[0].told() if revisions else {}
    if first.get("kind") != "base":
        raise Corrupt(expected=f"a base of document {document.id}", found="none")
    version, batches = first["version"], []
    for each in revisions[1:]:
        told = each.told()
        if told.get("kind") != "delta" or told.get("version") != version:
            raise Corrupt(
                expected=f"deltas of version {version} behind the base of document {document.id}",
                found=f"another content at commit {each.seq}",
            )
        batches.append(told["ops"])
    return Loaded(document, version, applied(first["value"], batches), len(batches))
