"""The words of document stores in the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from perdure.api.decoding import typed
from perdure.api.models import Body, Paging, Query, Reply
from perdure.kernel.documents.log import LOG_PAGE_ENTRIES, LOG_PAGE_ENTRIES_MAX
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.records import History
from perdure.kernel.documents.tables import ColumnType
from perdure.kernel.documents.wire import WRITES_MAX, WireWrite, parsed_writes

Commit = Annotated[int, Field(ge=0, le=SAFE_INTEGER_MAX)]


class CreateStore(Body):
    store_id: str | None = None


class Commits(Body):
    """One commit. ``commit_id`` may come as the header ``Idempotency-Key`` instead."""

    commit_id: str | None = None
    writes: Annotated[list[WireWrite], Field(min_length=1, max_length=WRITES_MAX)]

    @classmethod
    def read(cls, raw: Any) -> Commits:
        """Return parsed JSON as a commit; the kernel reads the writes, for their own codes."""
        fields = typed(_Commit, raw, where="body")
        writes: Any = parsed_writes(fields.writes)
        return cls.model_construct(commit_id=fields.commit_id, writes=writes)


class _Commit(Body):
    commit_id: str | None = None
    writes: Any


class DeclareTable(Body):
    """A table as its owner's code has it. The same version with another shape is refused."""

    columns: dict[str, ColumnType]
    key: list[str]
    """Columns of int, str and bool that name a row."""
    indexes: Annotated[dict[str, list[str]], Field(default_factory=dict)]
    """Columns by index; a row in which one of them is null, false, 0 or "" is not in it."""
    version: Annotated[int, Field(ge=1, le=SAFE_INTEGER_MAX)] = 1


class At(Query):
    at: Commit | None = None
    """As of the end of this commit; without it, now."""


class Lookup(At):
    owner: str
    namespace: str
    kind: str
    key: str | None = None


class ListDocuments(Paging):
    owner: str
    namespace: str
    kind: str | None = None
    at: Commit | None = None


class ListRows(Paging):
    index: str | None = None
    values: str = "[]"
    """A JSON list: what the key begins with, or a value for each column of the index."""
    order: Literal["ascending", "descending"] | None = None


class OneRow(Query):
    key: str
    """A JSON list of the key's values."""


class StoreLog(Query):
    after: Commit = 0
    limit: Annotated[int, Field(ge=1, le=LOG_PAGE_ENTRIES_MAX)] = LOG_PAGE_ENTRIES
    lineage: str | None = None
    """That of the history which was read before; of another it is refused."""


class Held(Reply):
    owner: str
    epoch: int
    until: int
    """End of the lease of whoever has the owner's documents and tables in hand."""


class Store(Reply):
    store_id: str
    lineage: str
    """Identity of its history."""
    created_at: int
    """Milliseconds since 1970."""
    seq: int
    """The last commit."""
    next_id: int
    log_from: int
    """First commit that the log still has."""
    held: list[Held]
    diverged: str | None
    """What a replica was told that does not fit what it has."""
    follows: bool
    """It is a replica: its commits are those of its source."""
    importing: bool
    """An import into it has not ended."""
    status: Literal["open", "moving", "moved"]
    """Whether it takes commits: not while it is being moved to another storage, nor once it was."""


class Stores(Reply):
    stores: list[Store]
    next: str | None = None


class Committed(Reply):
    commit_id: str
    """What to ask again with."""
    seq: int
    ids: list[int]
    """Those of the documents it created, in the order of its writes."""
    replayed: bool
    """It had happened before it was asked for again."""


class Table(Reply):
    table: str
    version: int
    columns: dict[str, str]
    key: list[str]
    indexes: dict[str, list[str]]
    moving_to: int | None = None
    """Version that its rows are being brought to; until then nobody else writes to it."""


class Tables(Reply):
    tables: list[Table]


class DocumentRecord(Reply):
    document_id: int
    owner: str
    namespace: str
    kind: str
    key: str | None
    history: History
    version: int
    """Version of its definition that the content was written with."""
    revision: int
    """Contents that were ever written."""
    meta: Any
    created_at: int
    """Commit with which it began."""
    changed_at: int
    """Commit of its newest content."""
    retired_at: int | None


class Documents(Reply):
    documents: list[DocumentRecord]
    next: str | None = None


class Document(Reply):
    document: DocumentRecord
    """As it is now, whatever commit was asked for."""
    version: int
    value: Any
    deltas: int
    """Deltas since its last whole content."""


class Row(Reply):
    key: list[int | str | bool]
    version: int
    """Version of the table that it was written with."""
    row: dict[str, Any]


class Rows(Reply):
    rows: list[Row]
    next: str | None = None


class LoggedCommit(Reply):
    seq: int
    at: int
    """Milliseconds since 1970."""
    attempt: str
    """What its writer called this attempt."""
    next_id: int
    """First id that was free behind it."""
    previous: str
    """Digest of the commit before."""
    digest: str
    writes: list[dict[str, Any]]
    """What was done, in the order of application, with every value resolved; `w` says what."""


class StoreLogPage(Reply):
    lineage: str
    seq: int
    """The last commit of the store."""
    log_from: int
    """First commit that the log still has."""
    entries: list[LoggedCommit]
    next: int
    """The ``after`` of the next call."""
