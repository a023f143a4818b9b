"""What can be followed of a document store: a value, and what each commit changes of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.content import current
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import PAGE_MAX, DocumentScan, find_document
from perdure.kernel.documents.records import Document, Row
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import TooLarge
from perdure.kernel.ids import Partition
from perdure.kernel.places import after as beyond
from perdure.kernel.view import Range, View

FOLLOWED_MAX: Final = 10_000
"""Rows or documents of one view: all of them are in memory. Source: choice."""

Op = list[Any]
Write = Mapping[str, Any]
"""A write as a log entry spells it."""

_KNOWN: Final = frozenset({"document.create", "document.change", "document.retire"})


class Followed(Protocol):
    """Something of a store that a value stands for."""

    def look(self, view: View, store: Partition) -> Any:
        """Return its value as the store is. Raises Missing, TooLarge."""
        ...

    def ops(self, value: Any, writes: Sequence[Write]) -> list[Op] | None:
        """Return what a commit changes of its value; None if one must look at the store for that."""
        ...

    def again(self, before: Any, found: Any) -> Any:
        """Return its value after a second look, when it was ``before``."""
        ...

    def is_over(self, value: Any) -> bool:
        """Say whether it will never change again."""
        ...


@dataclass(frozen=True, slots=True)
class AddressView:
    """The document at an address: `id`, `version`, `value` and `meta`, or None.

    It goes from one document to the next that lives there. ``one_life`` ends it with the first.
    """

    address: Address
    one_life: bool = False

    def look(self, view: View, store: Partition) -> Any:
        document = find_document(view, store, self.address)
        if document is None:
            return None
        loaded = current(view, store, document)
        return {
            "id": document.id,
            "version": loaded.version,
            "value": loaded.value,
            "meta": document.meta,
        }

    def ops(self, value: Any, writes: Sequence[Write]) -> list[Op] | None:
        lives = None if value is None else value["id"]
        ops: list[Op] = []
        for write in writes:
            kind = write["w"]
            if not _is_of_documents(kind):
                continue
            if kind not in _KNOWN:
                return None
            if kind == "document.create":
                if self._is_at(write) and not self.one_life:
                    lives, ops = write["id"], [["r", _created(write)]]
            elif write["id"] == lives and kind == "document.change":
                ops += _changed(write["content"])
            elif write["id"] == lives:
                lives, ops = None, [["r", None]]
        return [] if lives is None and value is None else ops

    def again(self, before: Any, found: Any) -> Any:
        is_other = before is not None and found is not None and before["id"] != found["id"]
        return None if self.one_life and is_other else found

    def is_over(self, value: Any) -> bool:
        return self.one_life and value is None

    def _is_at(self, write: Write) -> bool:
        address = Address(write["owner"], write["namespace"], write["kind"], write["key"])
        return address == self.address


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """The living documents of a namespace by id, without what they say.

    Of each `kind`, `key`, `version`, `revision` and `meta`.
    """

    owner: str
    namespace: str
    kind: str | None = None

    def look(self, view: View, store: Partition) -> Any:
        scan = DocumentScan(self.owner, self.namespace, kind=self.kind)
        found: dict[str, Any] = {}
        behind: int | None = None
        while True:
            documents, behind = scan.page(view, store, behind, PAGE_MAX)
            found |= {str(each.id): _listed(each) for each in documents}
            _check_size(found, f"namespace {self.namespace!r}")
            if behind is None:
                return found

    def ops(self, value: Any, writes: Sequence[Write]) -> list[Op] | None:
        changed: dict[str, Any] = {}
        for write in writes:
            kind = write["w"]
            if not _is_of_documents(kind):
                continue
            if kind not in _KNOWN:
                return None
            id = str(write["id"])
            listed = changed.get(id, value.get(id))
            if kind == "document.create":
                if self._is_in(write):
                    changed[id] = {
                        "kind": write["kind"],
                        "key": write["key"],
                        "version": write["content"]["version"],
                        "revision": 1,
                        "meta": write["meta"],
                    }
            elif listed is not None and kind == "document.change":
                version, revision = write["content"]["version"], listed["revision"] + 1
                changed[id] = {**listed, "version": version, "revision": revision}
            elif listed is not None:
                changed[id] = None
        return _edits(value, changed)

    def again(self, before: Any, found: Any) -> Any:
        return found

    def is_over(self, value: Any) -> bool:
        return False

    def _is_in(self, write: Write) -> bool:
        is_there = (write["owner"], write["namespace"]) == (self.owner, self.namespace)
        return is_there and self.kind in (None, write["kind"])


@dataclass(frozen=True, slots=True)
class TableView:
    """The rows of a table by their key as it is spelled, in the order of the keys.

    ``where`` leaves out the rows whose columns hold anything else.
    """

    table: Table
    where: Mapping[str, Any] = field(default_factory=dict)

    def look(self, view: View, store: Partition) -> Any:
        prefix = places.rows_prefix(self.table.full_name)
        found: dict[str, Any] = {}
        first = prefix
        while True:
            rows = view.find(Range(store, first, beyond(prefix), Row, limit=PAGE_MAX))
            for each in rows:
                if self._wants(each.value):
                    found[places.spelled_key(each.row_key)] = each.value
            _check_size(found, f"table {self.table.full_name!r}")
            if len(rows) < PAGE_MAX:
                return found
            # U+0000 sorts first of all that may follow a key, and no key has one.
            first = prefix + places.spelled_key(rows[-1].row_key) + "\0"

    def ops(self, value: Any, writes: Sequence[Write]) -> list[Op] | None:
        changed: dict[str, Any] = {}
        for write in writes:
            if write.get("table") != self.table.full_name:
                continue
            edits = self._edits(value, changed, write)
            if edits is None:
                return None
            changed |= edits
        return _edits(value, changed)

    def again(self, before: Any, found: Any) -> Any:
        return found

    def is_over(self, value: Any) -> bool:
        return False

    def _edits(
        self, value: Mapping[str, Any], changed: Mapping[str, Any], write: Write
    ) -> dict[str, Any] | None:
        """Return the rows that a write leaves other than they were; None if it takes a look.

        ``changed`` are those of its commit so far, None for one that is left out or gone.
        """
        kind = write["w"]
        if kind in ("rows.update", "rows.delete"):
            stands = {**value, **changed}
            return self._edits_by_condition(
                {key: row for key, row in stands.items() if row is not None}, write
            )
        if kind in ("table.declare", "table.alter", "table.moved"):
            # What a move does to rows it tells of each.
            key_columns = list(self.table.key)
            return {} if write.get("key", key_columns) == key_columns else None
        if kind in ("row.insert", "row.put", "row.move"):
            row = write["row"]
            return {places.spelled_key(self.table.key_of(row)): self._kept(row)}
        if kind not in ("row.update", "row.delete"):
            return None
        key = places.spelled_key(write["key"])
        before: dict[str, Any] | None = changed[key] if key in changed else value.get(key)
        if kind == "row.update" and before is None:
            return {} if self._stays_out(write["changes"]) else None
        after = None if kind == "row.delete" else {**(before or {}), **write["changes"]}
        return {key: None if after is None else self._kept(after)}

    def _edits_by_condition(self, value: Mapping[str, Any], write: Write) -> dict[str, Any] | None:
        hit = {key: row for key, row in value.items() if _holds(row, write["where"])}
        if write["w"] == "rows.delete":
            return dict.fromkeys(hit)
        if self.where and not self._stays_out(write["changes"]):
            return None
        return {key: self._kept({**row, **write["changes"]}) for key, row in hit.items()}

    def _stays_out(self, changes: Mapping[str, Any]) -> bool:
        """Say whether a row that was left out is so still; without ``where`` none is."""
        return bool(self.where) and not (self.where.keys() & changes.keys())

    def _kept(self, row: dict[str, Any]) -> dict[str, Any] | None:
        return row if self._wants(row) else None

    def _wants(self, row: Mapping[str, Any]) -> bool:
        return _holds(row, self.where)


def _is_of_documents(kind: str) -> bool:
    return kind.startswith("document.")


def _created(write: Write) -> dict[str, Any]:
    content = write["content"]
    return {
        "id": write["id"],
        "version": content["version"],
        "value": content["value"],
        "meta": write["meta"],
    }


def _changed(content: Mapping[str, Any]) -> list[Op]:
    """Return what a content does to a document's value, told from the root of its view."""
    if content["kind"] == "base":
        return [["s", ["value"], content["value"]], ["s", ["version"], content["version"]]]
    return [within(op) for op in content["ops"]]


def within(op: Sequence[Any]) -> Op:
    """Return an operation on a document's value as one on what holds it."""
    if op[0] == "r":
        return ["s", ["value"], op[1]]
    return [op[0], ["value", *op[1]], *op[2:]]


def _listed(document: Document) -> dict[str, Any]:
    return {
        "kind": document.kind,
        "key": document.member,
        "version": document.version,
        "revision": document.revision,
        "meta": document.meta,
    }


def _edits(value: Mapping[str, Any], changed: Mapping[str, Any]) -> list[Op]:
    ops: list[Op] = []
    for key, new in changed.items():
        if new is not None:
            ops.append(["s", [key], new])
        elif key in value:
            ops.append(["d", [key]])
    return ops


def _holds(row: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(canonical(row.get(name)) == canonical(each) for name, each in where.items())


def _check_size(found: Mapping[str, Any], what: str) -> None:
    if len(found) > FOLLOWED_MAX:
        raise TooLarge(expected=f"{what} with at most {FOLLOWED_MAX} to follow", found="more")
