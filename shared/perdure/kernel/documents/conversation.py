"""Conversations, entries, tasks and submissions: the tables they lie in, and their writes as rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, cast

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.called import check_id
from perdure.kernel.documents.content import content_of
from perdure.kernel.documents.errors import IdTaken, NeedsBase, WrittenTwice
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import History, row_key
from perdure.kernel.documents.rows import InsertRow, PutRow, insert_row, row_of
from perdure.kernel.documents.step import StagedWrite, Step
from perdure.kernel.documents.tables import ColumnType, Table
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import DocumentId, Partition, Seq
from perdure.kernel.shown import shown
from perdure.kernel.view import Reads

RecordType = Literal["conversation", "entry", "task", "submission", "document"]

ROOT_CONVERSATION: Final = 1
"""Id of the conversation that every other one descends from or belongs to."""


@dataclass(frozen=True, slots=True)
class ConversationTables:
    """The tables of conversations of one owner."""

    record_ids: Table
    conversations: Table
    entries: Table
    entry_heads: Table
    tasks: Table
    submissions: Table

    @property
    def all(self) -> tuple[Table, ...]:
        return tuple(getattr(self, name) for name in _SHAPES)


_Shape = tuple[Mapping[str, ColumnType], tuple[str, ...], Mapping[str, tuple[str, ...]]]

_SHAPES: Final[Mapping[str, _Shape]] = {
    "record_ids": ({"id": "int", "type": "str", "place": "int"}, ("id",), {}),
    "conversations": (
        {"id": "int", "owner_conversation_id": "int", "owner_task_id": "int", "record": "json"},
        ("id",),
        {
            "by_owner_conversation": ("owner_conversation_id",),
            "by_owner_task": ("owner_task_id",),
        },
    ),
    "entries": (
        {"conversation_id": "int", "id": "int", "commit_seq": "int", "record": "json"},
        ("conversation_id", "id"),
        {},
    ),
    "entry_heads": ({"conversation_id": "int", "id": "int"}, ("conversation_id", "id"), {}),
    "tasks": (
        {
            "id": "int",
            "conversation_id": "int",
            "kind": "str",
            "status": "str",
            "abort_requested": "bool",
            "background": "bool",
            "record": "json",
        },
        ("id",),
        {
            "by_status": ("status",),
            "by_conversation": ("conversation_id",),
            "by_kind": ("kind",),
            "by_abort_requested": ("abort_requested",),
            "by_background": ("background",),
        },
    ),
    "submissions": (
        {
            "id": "int",
            "conversation_id": "int",
            "request_id": "str",
            "status": "str",
            "record": "json",
        },
        ("id",),
        {
            "by_request": ("conversation_id", "request_id"),
            "by_conversation": ("conversation_id",),
            "by_status": ("status",),
        },
    ),
}
"""Columns, key and indexes of each table."""


@lru_cache(maxsize=64)
def conversation_tables(owner: str) -> ConversationTables:
    """Declare the tables of conversations of an owner."""
    tables = {name: Table(owner, name, *shape).checked() for name, shape in _SHAPES.items()}
    return ConversationTables(**tables)


def encoded(text: str) -> str:
    """Spell a text of an indexed column: nothing is lost, and no text is the empty sentinel."""
    return canonical(text).decode("ascii")


def namespace_of(scope: Mapping[str, Any]) -> str:
    """Return the namespace of a document's scope. Raises InvalidValue."""
    match scope:
        case {"kind": "session"}:
            return "session"
        case {"kind": "conversation", "conversationId": int(owner)}:
            return f"conversation:{owner}"
        case {"kind": "task", "taskId": int(owner)}:
            return f"task:{owner}"
        case _:
            raise InvalidValue(
                expected="a scope of session, conversation or task", found=shown(scope)
            )


def scope_of(namespace: str) -> dict[str, Any]:
    """Return the scope that :func:`namespace_of` spelled."""
    kind, _, owner = namespace.partition(":")
    match kind:
        case "conversation":
            return {"kind": kind, "conversationId": int(owner)}
        case "task":
            return {"kind": kind, "taskId": int(owner)}
        case _:
            return {"kind": "session"}


def address_of(owner: str, address: Mapping[str, Any]) -> Address:
    """Return where a document of a scope lives. Kind and key are spelled as indexed texts."""
    key = address.get("key")
    return Address(
        owner,
        namespace_of(address["scope"]),
        encoded(address["kind"]),
        None if key is None else encoded(key),
    )


def history_of(record: Mapping[str, Any]) -> History:
    """Return what is kept of a document: the past of rewindable ones alone."""
    return cast("History", record.get("history") or "latest")


def meta_of(record: Mapping[str, Any]) -> Any:
    """Return what a document's owner keeps with it: how it is forked, and if it says a history."""
    return {name: record[name] for name in ("fork", "history") if name in record}


@dataclass(frozen=True, slots=True)
class ClaimId:
    """Have an id belong to one kind of record for ever; a record that is replaced has it already."""

    tables: ConversationTables
    id: int
    type: RecordType
    place: int = 0
    records: Table | None = None
    """Where the same kind may have it already; None if nothing may have it yet."""

    is_fresh: bool = False
    """Whoever asks has just been given the id: it is taken for free until that proves wrong."""

    @property
    def owner(self) -> str:
        return self.tables.record_ids.owner

    @property
    def names_id(self) -> int:
        return self.id

    def reads(self, store: Partition) -> Reads:
        key = row_key(store, self.tables.record_ids.full_name, (self.id,))
        if self.records is None:
            return Reads(keys=(key,), absent=frozenset((key,)))
        record = row_key(store, self.records.full_name, (self.id,))
        if self.is_fresh:
            return Reads(keys=(key, record), absent=frozenset((key, record)))
        return Reads(keys=(record,))

    def apply(self, step: Step) -> None:
        table = self.tables.record_ids
        # A record that is there has its id: nothing else need be looked at to replace it.
        if self.records is not None and self._replaces(step, self.records):
            return
        row = {"id": self.id, "type": self.type, "place": self.place}
        claim = row_of(step.store, table, row)
        found = step.read(claim.key)
        if found is not None:
            if self.records is None or found.value["type"] != self.type:
                raise IdTaken(
                    expected=f"a free id {self.id}",
                    found=f"ID {self.id} already belongs to {found.value['type']}",
                )
            return
        insert_row(step, table, claim)

    def _replaces(self, step: Step, records: Table) -> bool:
        return step.read(row_key(step.store, records.full_name, (self.id,))) is not None


def staged_of(
    tables: ConversationTables,
    writes: Sequence[Mapping[str, Any]],
    fresh: Collection[int] = (),
) -> tuple[StagedWrite, ...]:
    """Return storage writes as what a store stages: claims of ids, rows, documents.

    ``fresh`` are ids that nothing has had yet, as far as the caller knows: that spares a look.
    Raises: IdTaken, WrittenTwice, NeedsBase, InvalidValue kinds.
    """
    try:
        return _staged(tables, writes, fresh)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidValue(
            expected="storage writes, each with what its kind has", found=shown(error)
        ) from error


def _staged(
    tables: ConversationTables, writes: Sequence[Mapping[str, Any]], fresh: Collection[int]
) -> tuple[StagedWrite, ...]:
    _check_ids(writes)
    claims: list[StagedWrite] = []
    staged: list[StagedWrite] = []
    contents: dict[int, StagedWrite] = {}
    for write in writes:
        kind = write["type"]
        if kind.startswith("document."):
            each = _document(tables, write)
            _check_content(contents, each)
            if isinstance(each, CreateDocument | CopyDocument):
                claims.append(ClaimId(tables, cast("int", each.id), "document"))
            staged.append(each)
            continue
        value = write["value"]
        place = value["conversationId"] if kind == "entry" else 0
        records = {"task": tables.tasks, "submission": tables.submissions}.get(kind)
        is_fresh = value["id"] in fresh
        claims.append(ClaimId(tables, value["id"], kind, place, records, is_fresh))
        staged += _record(tables, kind, value)
    return (*_once(claims), *staged)


def _once(claims: Sequence[StagedWrite]) -> list[StagedWrite]:
    return list({each.names_id: each for each in claims}.values())


def _check_ids(writes: Sequence[Mapping[str, Any]]) -> None:
    claimed: dict[int, str] = {}
    for write in writes:
        kind = write["type"]
        if kind in ("document.change", "document.retire"):
            check_id(write["id"])
            continue
        of = "document" if kind.startswith("document.") else kind
        id = write["record" if of == "document" else "value"]["id"]
        check_id(id)
        earlier = claimed.get(id)
        if earlier is not None and of in ("conversation", "entry", "document"):
            raise WrittenTwice(
                expected="each record once in a commit", found=f"ID {id} is written more than once"
            )
        if earlier is not None and earlier != of:
            raise IdTaken(
                expected="one kind of record under an id",
                found=f"ID {id} is written as two record types",
            )
        claimed[id] = of


def _check_content(contents: dict[int, StagedWrite], each: StagedWrite) -> None:
    if isinstance(each, RetireDocument):
        return
    assert isinstance(each, CreateDocument | CopyDocument | ChangeDocument)
    id = cast("int", each.id)
    if id in contents:
        raise NeedsBase(
            expected="one content of a document in one commit",
            found=f"Document {id} has more than one content command",
        )
    contents[id] = each


def _document(tables: ConversationTables, write: Mapping[str, Any]) -> StagedWrite:
    owner = tables.record_ids.owner
    match write["type"]:
        case "document.create":
            record = write["record"]
            return CreateDocument(
                address_of(owner, record),
                history_of(record),
                content_of(write["content"]),
                DocumentId(record["id"]),
                meta_of(record),
            ).checked()
        case "document.copy":
            record, source = write["record"], write["source"]
            at = source["at"]
            return CopyDocument(
                address_of(owner, record),
                history_of(record),
                DocumentId(source["id"]),
                None if at == "current" else Seq(at),
                DocumentId(record["id"]),
                meta_of(record),
                of=owner,
                within="conversation:",  # nothing else is forked
            ).checked()
        case "document.change":
            content = content_of(write["content"])
            return ChangeDocument(DocumentId(write["id"]), content, trusted=True, of=owner)
        case "document.retire":
            return RetireDocument(DocumentId(write["id"]), of=owner)
        case _:
            raise InvalidValue(expected="a storage write", found=shown(write["type"]))


def _record(tables: ConversationTables, kind: str, value: Mapping[str, Any]) -> list[StagedWrite]:
    match kind:
        case "conversation":
            owner = value.get("owner") or {}
            row = {
                "id": value["id"],
                "owner_conversation_id": owner.get("conversationId", 0),
                "owner_task_id": owner.get("taskId", 0),
                "record": value,
            }
            return [InsertRow(tables.conversations, row)]
        case "entry":
            place = {"conversation_id": value["conversationId"], "id": value["id"]}
            entry = InsertRow(tables.entries, {**place, "record": value}, stamps=("commit_seq",))
            return [entry, InsertRow(tables.entry_heads, place)] if "head" in value else [entry]
        case "task":
            row = {
                "id": value["id"],
                "conversation_id": value["conversationId"],
                "kind": encoded(value["kind"]),
                "status": value["state"]["status"],
                "abort_requested": value["abortRequested"],
                "background": value["background"],
                "record": value,
            }
            return [PutRow(tables.tasks, row)]
        case "submission":
            request = value.get("requestId")
            row = {
                "id": value["id"],
                "conversation_id": value["conversationId"],
                "request_id": "" if request is None else encoded(request),
                "status": value["status"],
                "record": value,
            }
            return [PutRow(tables.submissions, row)]
        case _:
            raise InvalidValue(expected="a storage write", found=shown(kind))
