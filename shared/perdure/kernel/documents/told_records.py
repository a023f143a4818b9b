"""The records of a commit, as its log entry tells: who has seen each of them has seen it whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perdure.kernel.documents import places
from perdure.kernel.documents.commit_keys import KEY_TOLD, commit_key
from perdure.kernel.documents.migrate import written_as
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import (
    Life,
    Logged,
    Row,
    Scoped,
    document_key,
    revision_key,
    row_key,
)
from perdure.kernel.documents.rows import index_key
from perdure.kernel.documents.tables import stored_table_key
from perdure.kernel.ids import CommitId, DocumentId, Partition
from perdure.kernel.view import Key, View

BY_CONDITION: Final = frozenset({"rows.update", "rows.delete"})
"""Writes of which a log does not tell the rows."""


def told_records(view: View, store: Partition, entry: Logged) -> dict[Key[Any], None]:
    """Return the records that a commit has written, as far as its log entry tells, all looked at.

    It does not tell what was taken away: an index row that its row has left, the life of a document
    of no history. Nor does it name the rows of a write by condition.
    Raises: Missing; Corrupt, KeyError, TypeError, ValueError for what is not spelled as writes are.
    """
    many = entry.told()
    keys: dict[Key[Any], None] = {}
    for told in many:
        if told["w"].startswith("document."):
            keys |= dict.fromkeys(_of_document(store, entry, told))
        elif told["w"] == KEY_TOLD:
            keys[commit_key(store, CommitId(told["commit"]))] = None
        elif "table" in told:
            keys[stored_table_key(store, told["table"])] = None
    view.require(peeks=keys)
    rows = dict.fromkeys(key for told in many if (key := _row_key(view, store, told)) is not None)
    view.require(peeks=rows)
    stands = dict.fromkeys(key for row in rows for key in _index_keys(view, row))
    view.require(peeks=stands)
    return keys | rows | stands


def tells_rows(entry: Logged) -> bool:
    """Say whether a log entry names each row that its commit has written. Raises Corrupt."""
    return all(told["w"] not in BY_CONDITION for told in entry.told())


def _of_document(store: Partition, entry: Logged, told: Mapping[str, Any]) -> list[Key[Any]]:
    id = DocumentId(told["id"])
    keys: list[Key[Any]] = [document_key(store, id)]
    if told["w"] != "document.retire":
        keys.append(revision_key(store, id, entry.seq))
    if told["w"] == "document.create":
        at = Address(told["owner"], told["namespace"], told["kind"], told["key"])
        scope = places.scope_hash(at.owner, at.namespace)
        keys.append(Life(partition=store, address=at.hash, created_at=entry.seq, id=id).key)
        keys.append(Scoped(partition=store, scope=scope, id=id).key)
    return keys


def _row_key(view: View, store: Partition, told: Mapping[str, Any]) -> Key[Row] | None:
    if not told["w"].startswith("row."):
        return None
    stored = view.peek(stored_table_key(store, told["table"]))
    if stored is None:
        return None
    key = told["key"] if "key" in told else [told["row"][name] for name in stored.key_columns]
    return row_key(store, stored.name, tuple(key))


def _index_keys(view: View, key: Key[Row]) -> list[Key[Any]]:
    row = view.peek(key)
    if row is None:
        return []
    stored = view.peek(stored_table_key(key.partition, row.table))
    assert stored is not None, "its key columns told where the row lies"
    sorts = written_as(stored, row).index_sorts(row.value)
    return [index_key(key.partition, sort) for sort in sorts]
