"""Writes of a log as what a step applies: the store's own records say whether they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.kernel.documents.called import check_id
from perdure.kernel.documents.commit_keys import KEY_TOLD, keyed
from perdure.kernel.documents.content import content_of
from perdure.kernel.documents.declare import declare
from perdure.kernel.documents.errors import UnknownTable
from perdure.kernel.documents.export_parts import table_of
from perdure.kernel.documents.migrate import MOVES, replay_move
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import row_key
from perdure.kernel.documents.reserve import ReserveIds, reserve
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    RowWrite,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.step import StagedWrite, Step
from perdure.kernel.documents.tables import (
    StoredTable,
    Table,
    checked_name,
    declared_by,
    stored_table_key,
)
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import Conflict, NewerWriter, TooLarge
from perdure.kernel.ids import DocumentId, Partition
from perdure.kernel.limits import SORT_BYTES_MAX
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Reads


def replay(step: Step, told: Mapping[str, Any]) -> None:
    """Apply one write of a log entry.

    Raises: Refused kinds for what does not fit; NewerWriter for a kind that this version does not
    know; KeyError, TypeError, ValueError, AttributeError for what is not spelled as writes are.
    """
    kind = told["w"]
    if "table" in told:
        _table_key(step.store, told)
    if kind == "table.declare":
        table = table_of(told)
        if step.read(stored_table_key(step.store, table.full_name)) is not None:
            raise Conflict(expected=f"no table {table.full_name}", found="one")
        declare(step, table)
        return
    if kind in MOVES:
        replay_move(step, told)
        return
    if kind == "ids.reserve":
        check_id(told["first"])
        reserve(step, told["first"], ReserveIds(told["count"]).checked().count)
        return
    if kind == KEY_TOLD:
        keyed(told).apply(step)
        return
    staged = _document(told) if kind.startswith("document.") else _row(_table(step, told), told)
    staged.apply(step)


def reads_of(store: Partition, many: list[dict[str, Any]]) -> Reads:
    """Return what is sure to be looked at, before any table of the store is known."""
    tables: dict[Key[Any], None] = {}
    named: list[Reads] = []
    for told in many:
        kind = told["w"]
        if kind.startswith("document."):
            named.append(_document(told).reads(store))
        elif kind == KEY_TOLD:
            named.append(keyed(told).reads(store))
        elif "table" in told:
            tables[_table_key(store, told)] = None
    union = Reads.union(*named)
    return Reads(peeks=(*tables, *union.keys, *union.peeks), ranges=union.ranges)


def require_rows(step: Step, many: list[dict[str, Any]]) -> None:
    """Ask at once for the rows that writes of a log look at. Raises Missing, InvalidId, TooLarge."""
    keys: dict[Key[Any], None] = {}
    for told in many:
        if not told["w"].startswith("row."):
            continue
        stored = step.read(_table_key(step.store, told))
        if stored is not None:
            named = told["key"] if "key" in told else [told["row"][n] for n in stored.key_columns]
            key = row_key(step.store, stored.name, tuple(named))
            if len(key.sort) > SORT_BYTES_MAX:
                raise TooLarge(expected="a key that a store can hold", found=shown(named))
            keys[key] = None
    step.require(*keys)


def _table_key(store: Partition, told: Mapping[str, Any]) -> Key[StoredTable]:
    """Return where a table lies that a write names, in two parts. Raises InvalidId."""
    owner, _, name = told["table"].partition(":")
    checked_name(owner, what="an owner")
    checked_name(name, what="a table's name")
    return stored_table_key(store, told["table"])


def _table(step: Step, told: Mapping[str, Any]) -> Table:
    stored = step.read(_table_key(step.store, told))
    if stored is None:
        raise UnknownTable(expected="a table that was declared", found=repr(told["table"]))
    return declared_by(stored)


def _row(table: Table, told: Mapping[str, Any]) -> RowWrite:
    match told["w"]:
        case "row.insert":
            return InsertRow(table, told["row"])
        case "row.put":
            return PutRow(table, told["row"])
        case "row.update":
            return UpdateRow(table, tuple(told["key"]), told["changes"])
        case "row.delete":
            return DeleteRow(table, tuple(told["key"]))
        case "rows.update":
            return UpdateWhere(table, told["where"], told["changes"], told["count"])
        case "rows.delete":
            return DeleteWhere(table, told["where"], told["count"])
        case kind:
            raise newer(kind)


def _document(told: Mapping[str, Any]) -> StagedWrite:
    match told["w"]:
        case "document.create":
            address = Address(told["owner"], told["namespace"], told["kind"], told["key"])
            content = content_of(told["content"])
            id = DocumentId(told["id"])
            return CreateDocument(address, told["history"], content, id, told["meta"]).checked()
        case "document.change":
            check_id(told["id"])
            return ChangeDocument(DocumentId(told["id"]), content_of(told["content"]))
        case "document.retire":
            check_id(told["id"])
            return RetireDocument(DocumentId(told["id"]))
        case kind:
            raise newer(kind)


def newer(kind: object) -> NewerWriter:
    """Return the refusal of a write that a newer version has made."""
    return NewerWriter(expected="a write of a kind that is known here", found=repr(kind))
