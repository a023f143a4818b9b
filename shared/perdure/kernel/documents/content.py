"""Content of documents: bases and deltas, spelled once, and what a document says at a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents import places
from perdure.kernel.documents.errors import DeltaDoesNotApply, HistoryNotKept
from perdure.kernel.documents.ops import applied_to_own, check_ops, depth_of, reach_of
from perdure.kernel.documents.records import Document, Revision, document_key, revision_key
from perdure.kernel.errors import Corrupt, InvalidValue, TooLarge
from perdure.kernel.ids import Partition, Seq
from perdure.kernel.places import after, number
from perdure.kernel.seen import SeenInPart
from perdure.kernel.shown import shown
from perdure.kernel.view import Range, View

CONTENT_BYTES_MAX: Final = 4_194_304
"""Canonical bytes of one content: 4 MiB, as a frame's payload."""

LEVELS_MAX: Final = 128
"""Levels of lists and objects in what a store keeps of one thing: what a document says, its meta, a
row. Source: readers of JSON follow some hundred."""


@dataclass(frozen=True, slots=True)
class Content:
    """A base or a delta, checked and spelled. Whoever gave its value may change that as it likes."""

    kind: Literal["base", "delta"]
    version: int
    spelled: bytes

    @property
    def told(self) -> Any:
        """The value of a base, or the operations of a delta: the caller's own."""
        return strict(self.spelled)["value" if self.kind == "base" else "ops"]


def base(version: int, value: Any) -> Content:
    """Return a base. Raises InvalidValue, TooLarge."""
    content = _content("base", version, {"kind": "base", "value": value, "version": version})
    check_levels("content", content.spelled, value)
    return content


def delta(version: int, ops: Sequence[Any]) -> Content:
    """Return a delta. Raises InvalidDelta, InvalidValue, TooLarge."""
    check_ops(ops)
    content = _content("delta", version, {"kind": "delta", "ops": ops, "version": version})
    # If no operation reaches deeper, nothing does that any number of them have written.
    longest = max((len(op[1]) for op in ops if op[0] != "r"), default=0)
    if longest + _levels_most(content.spelled) > LEVELS_MAX:
        _check_depth("content", max(map(reach_of, ops), default=0))
    return content


def content_of(told: Any) -> Content:
    """Return the content that a log or an export spells. Raises Invalid kinds."""
    if isinstance(told, dict):
        if told.get("kind") == "base" and told.keys() == {"kind", "version", "value"}:
            return base(told["version"], told["value"])
        if told.get("kind") == "delta" and told.keys() == {"kind", "version", "ops"}:
            return delta(told["version"], told["ops"])
    raise InvalidValue(expected="a base or a delta", found="neither")


def _content(kind: Literal["base", "delta"], version: Any, told: Any) -> Content:
    if type(version) is not int or not 1 <= version <= places.SAFE_INTEGER_MAX:
        raise InvalidValue(
            expected=f"a version of 1 to {places.SAFE_INTEGER_MAX}", found=shown(version)
        )
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
    return Content(kind, version, spelled)


def check_levels(what: str, spelled: bytes, value: Any) -> None:
    """Refuse a spelled value that not every reader could follow. Raises TooLarge."""
    if _levels_most(spelled) > LEVELS_MAX:
        _check_depth(what, depth_of(value))


def _levels_most(spelled: bytes) -> int:
    """Return what no nesting of a value can exceed: counting brackets costs nothing."""
    return spelled.count(b"[") + spelled.count(b"{")


def _check_depth(what: str, levels: int) -> None:
    if levels > LEVELS_MAX:
        raise TooLarge(
            expected=f"{what} of at most {LEVELS_MAX} levels of lists and objects",
            found=f"{levels}",
        )


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

    Down from the commit: the base is behind the deltas. For now the range is the same after most
    commits, so that who reads again beside a busy writer knows what to load.
    """
    prefix = places.revisions_prefix(document.id)
    if at is None:
        last, limit = after(prefix), 1 << document.deltas.bit_length()
    else:
        last, limit = prefix + number(at + 1), _PAST_PAGE
    return Range(store, prefix, last, Revision, limit=limit, descending=True)


_PAST_PAGE: Final = 200


def current(view: View, store: Partition, document: Document) -> Loaded:
    """Return what a living document says now. Raises Missing, SeenInPart, Corrupt."""
    latest = view.find(tail_range(store, document))
    found = [each for each in reversed(latest) if each.seq >= document.base]
    _check_whole(store, document, found)
    return _joined(document, found)


def past(view: View, store: Partition, document: Document, at: Seq) -> Loaded:
    """Return what a document that lived at a commit said then.

    Raises: Missing, SeenInPart, Corrupt.
    """
    found: list[Revision] = []
    upper = at
    while True:
        page = view.find(tail_range(store, document, upper))
        for each in page:
            found.append(each)
            if _is_base(each):
                if at >= document.last:
                    _check_whole(store, document, found[::-1])
                return _joined(document, found[::-1])
        if len(page) < _PAST_PAGE:
            if at >= document.last:
                _check_whole(store, document, found[::-1])
            return _joined(document, found[::-1])
        upper = Seq(page[-1].seq - 1)


def _check_whole(store: Partition, document: Document, found: Sequence[Revision]) -> None:
    """Hold what lies there to what the document's record says.

    Raises: SeenInPart, at last Corrupt: the last commit to it may show its record or its contents.
    """
    is_whole = len(found) == document.deltas + 1
    if not is_whole or (found[0].seq, found[-1].seq) != (document.base, document.last):
        where = ", ".join(str(each.seq) for each in found[:3])
        lost = Corrupt(
            expected=f"{document.deltas + 1} contents of document {document.id}, of commits "
            f"{document.base} to {document.last}",
            found=f"{len(found)}, the first of them of commits {where}" if found else "none",
        )
        ends = dict.fromkeys((document.base, document.last))
        contents = (revision_key(store, document.id, seq) for seq in ends)
        raise SeenInPart((document_key(store, document.id), *contents), lost)


def _joined(document: Document, revisions: Sequence[Revision]) -> Loaded:
    if not revisions or not _is_base(revisions[0]):
        raise Corrupt(expected=f"a base of document {document.id}", found="none")
    first = _stored(revisions[0], "base", None)
    batches = [_stored(each, "delta", first["version"])["ops"] for each in revisions[1:]]
    try:
        value = applied_to_own(first["value"], batches)
    except DeltaDoesNotApply as error:
        raise Corrupt(
            expected=f"deltas that fit the base of document {document.id} at {revisions[0].seq}",
            found=f"one that does not: {error}",
        ) from error
    return Loaded(document, first["version"], value, len(batches))


def _is_base(revision: Revision) -> bool:
    return revision.content.startswith(b'{"kind":"base",')  # as canonical JSON spells it


_HELD: Final = {"base": "value", "delta": "ops"}


def _stored(
    revision: Revision, kind: Literal["base", "delta"], version: int | None
) -> dict[str, Any]:
    """Read a stored content of a kind, of one version if it is named. Raises Corrupt."""
    told = revision.told()
    is_one = told.keys() == {"kind", "version", _HELD[kind]} and told["kind"] == kind
    is_list = kind == "base" or isinstance(told.get("ops"), list)
    if not (is_one and is_list and type(told["version"]) is int):
        raise Corrupt(
            expected=f"a {kind} of document {revision.id} at commit {revision.seq}",
            found="another content",
        )
    if version not in (None, told["version"]):
        raise Corrupt(
            expected=f"a delta of version {version} behind its base of document {revision.id}",
            found=f"version {told['version']} at commit {revision.seq}",
        )
    return told
