"""Records of a document store, and where each one lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self, get_args

from perdure.kernel import spelling
from perdure.kernel.canonical import canonical, digest, strict
from perdure.kernel.documents import places
from perdure.kernel.documents.bodies import fields_in, json_in, object_in, typed
from perdure.kernel.documents.held import HeldOwner
from perdure.kernel.documents.places import Address, DocumentStoreRef, Part
from perdure.kernel.documents.underway import Importing, StoreStatus
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import (
    DocumentId,
    DocumentStoreId,
    Epoch,
    Instant,
    Lineage,
    Partition,
    Seq,
    StorageId,
    Token,
)
from perdure.kernel.kept import kept
from perdure.kernel.places import number
from perdure.kernel.record import Record
from perdure.kernel.view import Key

History = Literal["none", "latest", "rewindable"]
"""What is kept of a document: nothing of the past, that it was, or all that it ever said."""

HISTORIES: Final[tuple[History, ...]] = get_args(History)

ID_FIRST: Final = 2
"""First id that a store gives: 1 is the root conversation's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStore(Record):
    """Identity of a document store, in its catalog."""

    immutable: ClassVar[bool] = True

    storage: StorageId
    store: DocumentStoreId
    lineage: Lineage
    created_at: Instant
    app: str = ""

    @property
    def ref(self) -> DocumentStoreRef:
        return DocumentStoreRef(self.storage, self.store)

    @property
    def key(self) -> Key[DocumentStore]:
        return document_store_key(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHead(Record):
    """The one record that every commit to a document store writes."""

    later: ClassVar[Mapping[str, Any]] = {
        "held": (),
        "log_from": Seq(1),
        "diverged": None,
        "follows": False,
        "importing": None,
        "status": "open",
    }

    lineage: Lineage
    seq: Seq = Seq(0)
    digest: str = ""
    next_id: int = ID_FIRST
    epoch: Epoch = Epoch(0)
    """The last that was given to whoever took an owner in hand."""

    schema: int = 0
    """Times that a table was changed: who prepared its tables before must look again."""

    held: tuple[HeldOwner, ...] = ()
    log_from: Seq = Seq(1)
    """First entry that the log still has."""

    diverged: str | None = None
    """What a replica was told that does not fit what it has."""

    follows: bool = False
    """It is a replica: it takes the commits of its source, and none of its own."""

    importing: Importing | None = None
    status: StoreStatus = "open"

    def body(self) -> bytes:
        is_usual = self.diverged is None and self.importing is None and self.status == "open"
        if is_usual and all(each.holder.isascii() for each in self.held):
            return spelling.store_head(self)
        # Texts of anybody: one that could not be read again is refused.
        return Record.body(self)

    @property
    def key(self) -> Key[StoreHead]:
        return store_head_key(self.partition)

    def held_by(self, owner: str, now: Instant) -> HeldOwner | None:
        """Return who has ``owner`` in hand, if anybody has whose lease still runs."""
        return next(
            (each for each in self.held if each.owner == owner and each.is_running(now)), None
        )


@dataclass(frozen=True, kw_only=True)
class Document(Record):
    """One life of a document at an address: everything of it but its content."""

    id: DocumentId
    owner: str
    namespace: str
    kind: str
    member: str | None = None
    """Key within a family of documents of one kind; None for the only one."""

    history: History
    version: int
    """Version of its definition that the content was written with."""

    revision: int
    """Contents that were ever written."""

    base: Seq
    """Commit of the newest base: the content is that and every delta since."""

    last: Seq
    """Commit of the newest content."""

    deltas: int = 0
    """Deltas since the base."""

    meta: Any = None
    """What the owner keeps with it."""

    created_at: Seq
    retired_at: Seq | None = None

    @kept
    def key(self) -> Key[Document]:
        return document_key(self.partition, self.id)

    @property
    def address(self) -> Address:
        return Address(self.owner, self.namespace, self.kind, self.member)

    def is_alive(self, at: Seq | None) -> bool:
        """Say whether it lives at a commit, or now for None. Half-open: not at its retirement."""
        if at is None:
            return self.retired_at is None
        return self.created_at <= at and (self.retired_at is None or at < self.retired_at)

    def body(self) -> bytes:
        return spelling.document(self)

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        return cls(partition=partition, **fields_in(cls, partition, sort, body, _DOCUMENT_FIELDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(Record):
    """One content of a document: a base, or a delta on what was before."""

    immutable: ClassVar[bool] = True

    id: DocumentId
    seq: Seq
    content: bytes
    """Canonical JSON of `{"kind", "version", "value" | "ops"}`: the bytes that came in."""

    @property
    def key(self) -> Key[Revision]:
        return revision_key(self.partition, self.id, self.seq)

    def body(self) -> bytes:
        return self.content

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        parts = sort.split("/")
        try:
            _, id, seq = parts
            return cls(partition=partition, id=DocumentId(int(id)), seq=Seq(int(seq)), content=body)
        except ValueError as error:
            raise Corrupt(expected=f"a revision at {partition}", found=sort) from error

    def told(self) -> dict[str, Any]:
        """Read the content. Raises Corrupt."""
        return object_in(self.content, f"the content of document {self.id} at {self.seq}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life(Record):
    """That a document began to live at an address with a commit; its end is in the document."""

    immutable: ClassVar[bool] = True

    address: str
    created_at: Seq
    id: DocumentId

    @property
    def key(self) -> Key[Life]:
        sort = places.lives_prefix(self.address) + number(self.created_at)
        return Key(self.partition, sort, Life)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoped(Record):
    """That a document is one of a namespace's."""

    immutable: ClassVar[bool] = True

    scope: str
    id: DocumentId

    @property
    def key(self) -> Key[Scoped]:
        sort = places.scope_prefix(self.scope) + number(self.id)
        return Key(self.partition, sort, Scoped)


@dataclass(frozen=True, kw_only=True)
class Row(Record):
    """One row of a table."""

    table: str
    version: int
    """Version of the table that it was written with."""

    row_key: tuple[Part, ...]
    value: dict[str, Any]
    spelled: bytes = field(default=b"", compare=False, repr=False)
    """Canonical JSON of ``value``, if it was spelled already: the log has it too."""

    @kept
    def key(self) -> Key[Row]:
        return row_key(self.partition, self.table, self.row_key)

    def body(self) -> bytes:
        value = self.spelled or canonical(self.value)
        key = canonical(list(self.row_key))
        return b'{"key":%s,"value":%s,"version":%d}' % (key, value, self.version)

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        told = object_in(body, f"a row at {partition} {sort}")
        key, value, version = told.get("key"), told.get("value"), told.get("version")
        parts = sort.split("/", 2)
        if not (isinstance(key, list) and isinstance(value, dict) and isinstance(version, int)):
            raise Corrupt(expected=f"a row at {partition} {sort}", found=repr(body[:60]))
        return cls(
            partition=partition, table=parts[1], version=version, row_key=tuple(key), value=value
        )


@dataclass(frozen=True, kw_only=True)
class IndexRow(Record):
    """Where a row lies that has certain values."""

    sort: str
    row_key: tuple[Part, ...]

    @kept
    def key(self) -> Key[IndexRow]:
        return Key(self.partition, self.sort, IndexRow)

    def body(self) -> bytes:
        return canonical(list(self.row_key))

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        try:
            found = strict(body)
        except ValueError as error:
            raise Corrupt(expected=f"a key at {partition} {sort}", found=str(error)) from error
        if not isinstance(found, list):
            raise Corrupt(expected=f"a key at {partition} {sort}", found=repr(body[:60]))
        return cls(partition=partition, sort=sort, row_key=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Record):
    """One commit as it was applied: what follows the store reads nothing else.

    ``writes`` is a canonical JSON list in the order of application, with every value resolved.
    """

    immutable: ClassVar[bool] = True

    seq: Seq
    at: Instant
    attempt: Token
    """Which attempt of its writer this was: the same attempt is the same commit."""

    next_id: int
    previous: str
    writes: bytes

    @property
    def key(self) -> Key[Logged]:
        return logged_key(self.partition, self.seq)

    @property
    def digest(self) -> str:
        head = canonical([self.seq, self.at, self.attempt, self.next_id])
        return digest("perdure.store.v1", self.previous.encode(), head, self.writes)

    def told(self) -> list[dict[str, Any]]:
        """Read the writes. Raises Corrupt."""
        return list(json_in(self.writes, f"the writes of commit {self.seq}", list))

    def body(self) -> bytes:
        return b'{"at":%d,"attempt":%s,"next_id":%d,"previous":"%s","seq":%d,"writes":%s}' % (
            self.at,
            canonical(self.attempt),
            self.next_id,
            self.previous.encode(),
            self.seq,
            self.writes,
        )

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        told = object_in(body, f"a commit at {partition} {sort}")
        try:
            return cls(
                partition=partition,
                seq=Seq(typed(told["seq"], int)),
                at=Instant(typed(told["at"], int)),
                attempt=Token(typed(told["attempt"], str)),
                next_id=typed(told["next_id"], int),
                previous=typed(told["previous"], str),
                writes=canonical(typed(told["writes"], list)),
            )
        except (KeyError, TypeError) as error:
            raise Corrupt(expected=f"a commit at {partition} {sort}", found=str(error)) from error


_DOCUMENT_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "id": (int,),
    "owner": (str,),
    "namespace": (str,),
    "kind": (str,),
    "member": (str, type(None)),
    "history": (str,),
    "version": (int,),
    "revision": (int,),
    "base": (int,),
    "last": (int,),
    "deltas": (int,),
    "meta": (object,),
    "created_at": (int,),
    "retired_at": (int, type(None)),
}


def document_store_key(ref: DocumentStoreRef) -> Key[DocumentStore]:
    return Key(ref.catalog, f"documents/{ref.store}", DocumentStore)


def store_head_key(store: Partition) -> Key[StoreHead]:
    return Key(store, "head", StoreHead)


def document_key(store: Partition, id: DocumentId) -> Key[Document]:
    return Key(store, places.document_sort(id), Document)


def revision_key(store: Partition, id: DocumentId, seq: Seq) -> Key[Revision]:
    return Key(store, places.revision_sort(id, seq), Revision)


def row_key(store: Partition, table: str, key: tuple[Part, ...]) -> Key[Row]:
    return Key(store, places.row_sort(table, key), Row)


def logged_key(store: Partition, seq: Seq) -> Key[Logged]:
    return Key(store, places.log_sort(seq), Logged)
